//! What runs a guest's instructions: KVM only where a guest has been seen to boot with it. On some
//! machines it opens and runs the firmware, and a Linux kernel then hangs at its first change of
//! mode.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use attach::{PrivateFolder, dies_with_us};
use config::Failure;
use serde_json::{Value, json};

use crate::image::smallest_initramfs;
use crate::tool;

const DEVICE: &str = "/dev/kvm";
/// By KVM a kernel takes one second to its init, or two; on a busy machine more.
const WALL: Duration = Duration::from_secs(20);
/// How often QEMU is asked whether it has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What runs a guest's instructions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Accelerator {
    /// The processor itself.
    Kvm,
    /// QEMU's translation, and why it is not KVM.
    Tcg(String),
}

impl Accelerator {
    /// That of this machine: `kernel` is booted by KVM, unless an earlier try is remembered.
    /// Without a kernel only what is remembered counts.
    ///
    /// # Errors
    /// When QEMU is missing, or there is no temporary folder.
    pub fn of_this_machine(kernel: Option<&Path>) -> Result<Accelerator, Failure> {
        if let Err(why) = OpenOptions::new().read(true).write(true).open(DEVICE) {
            return Ok(Accelerator::Tcg(format!("{DEVICE}: {why}")));
        }
        let memory = attach::travel::kernel::cache()?.with_file_name("kvm.json");
        let machine = this_machine();
        if let Some(known) = recall(&memory, &machine) {
            return Ok(known);
        }
        let Some(kernel) = kernel else {
            return Ok(Accelerator::Tcg("KVM was not tried here yet".into()));
        };
        let found = match boots(probe(kernel, &PrivateFolder::new()?)?, WALL)? {
            Ok(()) => Accelerator::Kvm,
            Err(why) => Accelerator::Tcg(format!("with KVM a guest {why}")),
        };
        // Where it cannot be remembered it is tried each time.
        let _ = remember(&memory, &machine, &found);
        Ok(found)
    }

    /// As QEMU calls it.
    pub fn name(&self) -> &'static str {
        match self {
            Accelerator::Kvm => "kvm",
            Accelerator::Tcg(_) => "tcg",
        }
    }
}

impl std::fmt::Display for Accelerator {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Accelerator::Kvm => out.write_str("KVM"),
            Accelerator::Tcg(why) => write!(out, "TCG ({why})"),
        }
    }
}

/// Its kernel and its processor: another of either may do better, or worse.
fn this_machine() -> String {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let processors = text("/proc/cpuinfo");
    let model = processors.lines().find(|line| line.starts_with("model name"));
    format!("{} {}", text("/proc/version").trim(), model.unwrap_or_default())
}

fn recall(memory: &Path, machine: &str) -> Option<Accelerator> {
    let known: Value = serde_json::from_slice(&fs::read(memory).ok()?).ok()?;
    (known["machine"] == machine).then_some(())?;
    match &known["not"] {
        Value::Null => Some(Accelerator::Kvm),
        why => Some(Accelerator::Tcg(why.as_str()?.to_string())),
    }
}

fn remember(memory: &Path, machine: &str, found: &Accelerator) -> std::io::Result<()> {
    let not = match found {
        Accelerator::Kvm => None,
        Accelerator::Tcg(why) => Some(why),
    };
    memory.parent().map_or(Ok(()), fs::create_dir_all)?;
    study::replace(memory, json!({ "machine": machine, "not": not }).to_string().as_bytes())
}

/// QEMU with KVM and the smallest guest, whose init ends it.
fn probe(kernel: &Path, folder: &PrivateFolder) -> Result<Command, Failure> {
    let initramfs = folder.path.join("initramfs");
    fs::write(&initramfs, smallest_initramfs())
        .map_err(|why| Failure::machine(format!("{}: {why}", initramfs.display())))?;
    let mut qemu = Command::new(tool::QEMU);
    qemu.args(["-accel", "kvm", "-machine", "pc", "-cpu", "qemu64", "-m", "256", "-nodefaults"]);
    qemu.args(["-display", "none", "-vga", "none", "-nic", "none", "-no-reboot"]);
    qemu.args(tool::EXIT_DEVICE).arg("-kernel").arg(kernel).arg("-initrd").arg(initramfs);
    qemu.args(["-append", "quiet panic=-1 rdinit=/blocklab-init"]);
    Ok(qemu)
}

/// Does the guest come to its init in time, and if not, what does it do?
fn boots(mut qemu: Command, wall: Duration) -> Result<Result<(), String>, Failure> {
    let end = Instant::now() + wall;
    let mut child = dies_with_us(&mut qemu)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|why| tool::missing(tool::QEMU, &why))?;
    let wrong = |why| Failure::machine(format!("QEMU: {why}"));
    while Instant::now() < end {
        if let Some(status) = child.try_wait().map_err(wrong)? {
            let reached = status.code() == Some(tool::INIT_REACHED);
            return Ok(reached.then_some(()).ok_or_else(|| "ended before its init".into()));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    // It may have ended by itself just now.
    let _ = child.kill();
    child.wait().map_err(wrong)?;
    Ok(Err(format!("did not come to its init within {} s", wall.as_secs())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_remembered_for_this_machine() {
        let folder = PrivateFolder::new().unwrap();
        let memory = folder.path.join("blocklab/kvm.json");
        for found in [Accelerator::Kvm, Accelerator::Tcg("with KVM a guest hung".into())] {
            remember(&memory, "6.1 EPYC", &found).unwrap();
            assert_eq!(recall(&memory, "6.1 EPYC"), Some(found));
            assert_eq!(recall(&memory, "6.12 EPYC"), None, "another kernel may do better");
        }
        fs::write(&memory, "{").unwrap();
        assert_eq!(recall(&memory, "6.1 EPYC"), None);
    }

    #[test]
    fn a_guest_that_hangs_or_ends_early_is_none() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let within = |script: &str, ms| boots(shell(script), Duration::from_millis(ms)).unwrap();
        assert_eq!(within(&format!("exit {}", tool::INIT_REACHED), 60_000), Ok(()));
        assert_eq!(within("exit 1", 60_000), Err("ended before its init".into()));
        let began = Instant::now();
        assert!(within("exec sleep 600", 100).unwrap_err().contains("within 0 s"));
        assert!(began.elapsed() < Duration::from_secs(300));
    }
}
