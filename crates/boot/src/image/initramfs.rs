//! The smallest initramfs: an init that says when it began, and ends the guest.

/// Where the init's file is loaded.
const AT: u64 = 0x40_0000;

/// The init, assembled; position independent:
///
/// ```text
///     rdtsc; shl $32,%rdx; or %rax,%rdx; mov %rdx,%rbx
///     mov $172,%eax; mov $3,%edi; syscall        # iopl(3)
///     mov $0xe9,%dx; mov $'U',%al; out %al,%dx    # QEMU's debug console
///     mov $8,%ecx
/// 1:  mov %bl,%al; out %al,%dx; shr $8,%rbx; loop 1b
///     mov $0xf4,%dx; mov $0x10,%al; out %al,%dx   # QEMU's exit device
/// 2:  jmp 2b
/// ```
#[rustfmt::skip]
const INIT: [u8; 54] = [
    0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xc2, 0x48, 0x89, 0xd3, 0xb8, 0xac,
    0x00, 0x00, 0x00, 0xbf, 0x03, 0x00, 0x00, 0x00, 0x0f, 0x05, 0x66, 0xba, 0xe9, 0x00,
    0xb0, 0x55, 0xee, 0xb9, 0x08, 0x00, 0x00, 0x00, 0x88, 0xd8, 0xee, 0x48, 0xc1, 0xeb,
    0x08, 0xe2, 0xf7, 0x66, 0xba, 0xf4, 0x00, 0xb0, 0x10, 0xee, 0xeb, 0xfe,
];

/// A cpio archive with the init.
pub(super) fn smallest() -> Vec<u8> {
    let mut out = Vec::new();
    entry(&mut out, "init", 0o100_755, &program());
    entry(&mut out, "TRAILER!!!", 0, &[]);
    out
}

/// The init as an ELF file of one segment.
fn program() -> Vec<u8> {
    let headers = 64 + 56;
    let bytes = headers + INIT.len() as u64;
    let mut out = b"\x7fELF\x02\x01\x01".to_vec();
    out.resize(16, 0);
    // An executable for x86-64.
    out.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    for value in [AT + headers, 64, 0] {
        out.extend(u64::to_le_bytes(value));
    }
    out.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    // One segment to load, which may be read and run.
    out.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    for value in [0, AT, AT, bytes, bytes, 4096] {
        out.extend(u64::to_le_bytes(value));
    }
    out.extend(INIT);
    out
}

/// Append a file in the format `newc`, which has all numbers in hexadecimal.
fn entry(out: &mut Vec<u8>, name: &str, mode: u32, data: &[u8]) {
    out.extend(b"070701");
    let name_bytes = name.len() as u32 + 1;
    let bytes = data.len() as u32;
    for value in [1, mode, 0, 0, 1, 0, bytes, 0, 0, 0, 0, name_bytes, 0] {
        out.extend(format!("{value:08x}").bytes());
    }
    for part in [[name.as_bytes(), &[0]].concat().as_slice(), data] {
        out.extend(part);
        out.resize(out.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_has_the_init_where_its_headers_say() {
        let archive = smallest();
        let number = |at: usize| {
            let digits = std::str::from_utf8(&archive[at..at + 8]).unwrap();
            usize::from_str_radix(digits, 16).unwrap()
        };
        let bytes = number(6 + 6 * 8);
        assert_eq!((bytes, number(6 + 11 * 8)), (program().len(), 5));
        let start = (110usize + 5).next_multiple_of(4);
        assert_eq!(&archive[start..start + bytes], program());
        assert_eq!(archive.len() % 4, 0);
        assert_eq!(&program()[120..], INIT);
    }
}
