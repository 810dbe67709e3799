//! A guest with a UEFI firmware that counts instructions.
//!
//! OVMF looks for a TPM at one address. In a guest of QEMU without one nothing lies there, which
//! reads as 0 and not as the ones of a machine: the firmware takes that for a TPM and asks its
//! clock for 1.5 s of counted instructions, a minute of this machine's time. So before the guest
//! runs, memory full of ones is put there; the firmware moves it away when it sorts its devices.

use std::path::Path;
use std::process::Command;

use config::Failure;
use serde_json::{Value, json};

use crate::tool;

const TPM_AT: u32 = 0xfed4_0000;
const PAGE_BYTES: usize = 4096;
/// The device of that memory on PCI's bus 0.
const DEVICE: u32 = 0x1e;
/// Its registers: where its second part of memory lies, in two halves, and the command that
/// switches it on.
const REGISTERS: [(u32, u32); 3] = [(0x18, TPM_AT), (0x1c, 0), (0x04, 2)];

/// QEMU's arguments. It waits for [`orders`].
pub(super) fn add<'a>(qemu: &'a mut Command, folder: &Path) -> Result<&'a mut Command, Failure> {
    let ones = folder.join("ones");
    std::fs::write(&ones, [0xff; PAGE_BYTES])
        .map_err(|why| Failure::machine(format!("{}: {why}", ones.display())))?;
    qemu.arg("-S").arg("-bios").arg(tool::uefi_firmware()?);
    let backend = format!("memory-backend-file,id=ones,size={PAGE_BYTES},share=off,mem-path=");
    qemu.arg("-object").arg(format!("{backend}{}", tool::qemu_name(&ones)));
    Ok(qemu.args(["-device", &format!("ivshmem-plain,memdev=ones,addr={DEVICE:#x}")]))
}

/// What QEMU is told before the guest runs, and that it may run.
pub(super) fn orders() -> Vec<(&'static str, Value)> {
    let write = |port: u32, value: u32| {
        let line = format!("o /w {port:#x} {value:#x}");
        ("human-monitor-command", json!({ "command-line": line }))
    };
    let set = |(register, value): (u32, u32)| {
        [write(0xcf8, 1 << 31 | DEVICE << 11 | register), write(0xcfc, value)]
    };
    let mut orders: Vec<_> = REGISTERS.into_iter().flat_map(set).collect();
    orders.push(("cont", json!({})));
    orders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_placed_before_the_guest_runs() {
        let orders = orders();
        let lines: Vec<&str> =
            orders.iter().filter_map(|(_, order)| order["command-line"].as_str()).collect();
        assert_eq!(lines[..2], ["o /w 0xcf8 0x8000f018", "o /w 0xcfc 0xfed40000"]);
        assert_eq!(lines.last(), Some(&"o /w 0xcfc 0x2"));
        assert_eq!(orders.last().unwrap().0, "cont");
    }
}
