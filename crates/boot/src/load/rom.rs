//! A program that a BIOS starts before it boots, and that stands before the firmware's driver of
//! the disk: each call of it has the clock before and after it in the trace.

use std::path::Path;
use std::process::Command;

use config::Failure;

/// Instructions of its own in each call.
pub(super) const INSTRUCTIONS: u64 = 62;
/// An option ROM's smallest size.
const BYTES: usize = 512;

/// The program, assembled:
///
/// ```text
///         .byte 0x55,0xaa,1                       # an option ROM of 512 bytes
/// init:   push %ax; push %ds; xor %ax,%ax; mov %ax,%ds
///         movl 0x4c,%eax; movl %eax,%cs:old       # INT 13h
///         movw $hook,0x4c; mov %cs,0x4e
///         pop %ds; pop %ax; lretw
/// hook:   push %eax; push %edx
///         mov $'S',%al; call mark
///         pop %edx; pop %eax
///         pushf; lcallw *%cs:old
///         push %eax; push %edx; push %bp; mov %sp,%bp
///         lahf; mov %ah,14(%bp)                   # the caller gets its flags
///         mov $'D',%al; call mark
///         pop %bp; pop %edx; pop %eax; iret
/// mark:   mov $0x3ff,%dx; out %al,%dx
///         rdtsc; push %edx; mov $0x3ff,%dx
///         out %al,%dx; shr $8,%eax                # four times, the last without shr
///         pop %eax
///         out %al,%dx; shr $8,%eax                # and again
///         ret
/// old:    .long 0
/// ```
#[rustfmt::skip]
const PROGRAM: [u8; 122] = [
    0x55, 0xaa, 0x01, 0x50, 0x1e, 0x31, 0xc0, 0x8e, 0xd8, 0x66, 0xa1, 0x4c, 0x00, 0x2e,
    0x66, 0xa3, 0x76, 0x00, 0xc7, 0x06, 0x4c, 0x00, 0x1f, 0x00, 0x8c, 0x0e, 0x4e, 0x00,
    0x1f, 0x58, 0xcb, 0x66, 0x50, 0x66, 0x52, 0xb0, 0x53, 0xe8, 0x20, 0x00, 0x66, 0x5a,
    0x66, 0x58, 0x9c, 0x2e, 0xff, 0x1e, 0x76, 0x00, 0x66, 0x50, 0x66, 0x52, 0x55, 0x89,
    0xe5, 0x9f, 0x88, 0x66, 0x0e, 0xb0, 0x44, 0xe8, 0x06, 0x00, 0x5d, 0x66, 0x5a, 0x66,
    0x58, 0xcf, 0xba, 0xff, 0x03, 0xee, 0x0f, 0x31, 0x66, 0x52, 0xba, 0xff, 0x03, 0xee,
    0x66, 0xc1, 0xe8, 0x08, 0xee, 0x66, 0xc1, 0xe8, 0x08, 0xee, 0x66, 0xc1, 0xe8, 0x08,
    0xee, 0x66, 0x58, 0xee, 0x66, 0xc1, 0xe8, 0x08, 0xee, 0x66, 0xc1, 0xe8, 0x08, 0xee,
    0x66, 0xc1, 0xe8, 0x08, 0xee, 0xc3, 0x00, 0x00, 0x00, 0x00,
];

/// QEMU's arguments, and the file that they name.
pub(super) fn add<'a>(qemu: &'a mut Command, folder: &Path) -> Result<&'a mut Command, Failure> {
    let file = folder.join("rom");
    std::fs::write(&file, rom())
        .map_err(|why| Failure::machine(format!("{}: {why}", file.display())))?;
    Ok(qemu.arg("-option-rom").arg(file))
}

/// The ROM: the sum of its bytes is 0.
fn rom() -> [u8; BYTES] {
    let mut rom = [0; BYTES];
    rom[..PROGRAM.len()].copy_from_slice(&PROGRAM);
    let sum = rom.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    rom[BYTES - 1] = sum.wrapping_neg();
    rom
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mark;

    #[test]
    fn a_bios_takes_it_and_it_writes_what_is_read() {
        let rom = rom();
        assert_eq!(rom[..3], [0x55, 0xaa, (BYTES / 512) as u8]);
        assert_eq!(rom.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)), 0);
        let has = |bytes: &[u8]| PROGRAM.windows(bytes.len()).filter(|at| *at == bytes).count();
        let [low, high] = mark::PORT.to_le_bytes();
        assert_eq!(has(&[0xba, low, high]), 2);
        assert_eq!((has(&[0xb0, mark::CALLED]), has(&[0xb0, mark::RETURNED])), (1, 1));
    }
}
