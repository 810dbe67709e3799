//! What the kernel unpacks before its init: at least an init that says when it began, and ends the
//! guest.

use std::path::PathBuf;

use config::Failure;

use super::archive::{self, Archive};
use super::pack::{self, Packing};

/// The init's file: not `init`, which is the user's.
pub(super) const NAME: &str = "blocklab-init";
/// Where it is loaded.
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

/// An initramfs of the user's: what is in it is unpacked, then our init runs instead of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Initramfs {
    /// An archive, packed or not, perhaps behind others that are not.
    pub file: PathBuf,
    /// How it is stored, whatever it was; `None` for not packed.
    pub packing: Option<Packing>,
}

impl Initramfs {
    pub(super) fn packing_name(&self) -> &'static str {
        self.packing.map_or("plain", Packing::name)
    }

    /// What is stored for a kernel of `version`.
    pub(super) fn make(&self, version: Option<&str>) -> Result<Vec<u8>, Failure> {
        let shown = self.file.display();
        let wrong = |why: String| Failure::input(format!("initramfs {shown}: {why}"));
        let file = study::read_bytes(&self.file, super::IMAGE_BYTES_MAX)
            .map_err(|why| wrong(why.to_string()))?;
        let (early, last) = take_apart(&file).map_err(|why| match why.exit_code() {
            2 => wrong(why.message).expected(
                "an archive as mkinitramfs, dracut or cpio -H newc make; if it is packed, the last \
                 one, with nothing but zeros behind it",
            ),
            _ => why,
        })?;
        let Archive { names, .. } = archive::read(&last).map_err(wrong)?;
        if let (Some(version), Some(modules)) = (version, archive::modules_for(&names))
            && version != modules
        {
            return Err(wrong(format!("its modules are for Linux {modules}"))
                .expected(format!("those of the kernel, {version}")));
        }
        let last = self.packing.map_or(Ok(last.clone()), |packing| packing.pack(&last))?;
        // Ours comes first: LZ4's old format says nowhere that it ends.
        Ok([&smallest(), early, &last].concat())
    }
}

/// The archives of an initramfs: those that are not packed but the last one, as they are, and the
/// last one, unpacked.
fn take_apart(file: &[u8]) -> Result<(&[u8], Vec<u8>), Failure> {
    let mut at = 0;
    loop {
        let rest = &file[at..];
        if let Some(program) = pack::unpacker(rest) {
            let last = pack::unpack_padded(program, rest).map_err(|why| {
                let next = archive::first_in(rest).filter(|_| why.exit_code() == 2);
                next.map_or(why, |next| followed(program, at + next))
            })?;
            return Ok((&file[..at], last));
        }
        let archive = archive::read(rest).map_err(Failure::input)?;
        if archive.end == rest.len() {
            return Ok((&file[..at], rest.to_vec()));
        }
        at += archive.end;
    }
}

/// What is said of an archive that is not packed, at byte `at`, behind one that is.
fn followed(program: &str, at: usize) -> Failure {
    Failure::input(format!(
        "at byte {at}, an archive that is not packed follows the one packed by {program}"
    ))
}

/// A cpio archive of programs and other files, with the folders that they are in.
pub(crate) fn archive_of(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    entry(&mut out, "dev", 0o40_755, &[]);
    let mut folders: Vec<&str> =
        files.iter().filter_map(|(name, _)| Some(name.rsplit_once('/')?.0)).collect();
    folders.dedup();
    folders.iter().for_each(|folder| entry(&mut out, folder, 0o40_755, &[]));
    files.iter().for_each(|(name, bytes)| entry(&mut out, name, 0o100_755, bytes));
    entry(&mut out, "TRAILER!!!", 0, &[]);
    out
}

/// A cpio archive with the init.
pub(crate) fn smallest() -> Vec<u8> {
    let mut out = Vec::new();
    entry(&mut out, NAME, 0o100_755, &program());
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
pub(super) fn entry(out: &mut Vec<u8>, name: &str, mode: u32, data: &[u8]) {
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
    fn an_early_archive_stays_before_the_packed_one() {
        let (early, main) = (smallest(), smallest());
        let packed = Packing::Gzip.pack(&main).unwrap();
        let pad = vec![0; 512];
        let file = [early.as_slice(), &pad, &packed].concat();
        let (kept, last) = take_apart(&file).unwrap();
        assert_eq!((kept.len(), last), (early.len() + 512, main.clone()));
        assert_eq!(take_apart(&main).unwrap(), (&main[..0], main.clone()));
        assert!(take_apart(&file[..early.len() + 100]).is_ok(), "zeros may follow");
        assert!(take_apart(b"no archive").is_err() && take_apart(b"").is_err());
    }

    #[test]
    fn zeros_may_follow_a_packed_archive_and_nothing_else() {
        let plain = smallest();
        let lacks = crate::missing_packages();
        for packing in Packing::ALL {
            let Ok(packed) = packing.pack(&plain) else {
                assert!(!lacks.is_empty(), "{} is there and fails", packing.name());
                continue;
            };
            let end = packed.len();
            for zeros in [0, 3, 1000] {
                let padded = [packed.as_slice(), &vec![0; zeros]].concat();
                let (_, last) = take_apart(&padded).unwrap_or_else(|why| {
                    panic!("{} and {zeros} zeros: {}", packing.name(), why.message)
                });
                assert_eq!(last, plain, "{} and {zeros} zeros", packing.name());
            }
            let why = take_apart(&[packed, smallest()].concat()).unwrap_err();
            assert_eq!(why.exit_code(), 2);
            let told = format!("at byte {end}, an archive that is not packed follows the one");
            assert!(why.message.starts_with(&told), "{}: {}", packing.name(), why.message);
        }
    }

    #[test]
    fn modules_of_another_kernel_are_refused() {
        let file = std::env::temp_dir().join(format!("blocklab-modules-{}", std::process::id()));
        let mut archive = Vec::new();
        entry(&mut archive, "lib/modules/6.1.0-1/a.ko", 0o100_644, b"abc");
        entry(&mut archive, "TRAILER!!!", 0, &[]);
        std::fs::write(&file, Packing::Gzip.pack(&archive).unwrap()).unwrap();
        let initramfs = Initramfs { file: file.clone(), packing: None };
        let (right, wrong) = (initramfs.make(Some("6.1.0-1")), initramfs.make(Some("6.12.0")));
        std::fs::write(&file, "text").unwrap();
        let text = initramfs.make(None);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(right.unwrap(), [smallest(), archive].concat());
        assert!(wrong.unwrap_err().message.ends_with("its modules are for Linux 6.1.0-1"));
        assert!(text.unwrap_err().message.ends_with("no entry at byte 0"));
    }

    #[test]
    fn the_archive_has_the_init_where_its_headers_say() {
        let archive = smallest();
        let number = |at: usize| {
            let digits = std::str::from_utf8(&archive[at..at + 8]).unwrap();
            usize::from_str_radix(digits, 16).unwrap()
        };
        let bytes = number(6 + 6 * 8);
        assert_eq!((bytes, number(6 + 11 * 8)), (program().len(), NAME.len() + 1));
        let start = (110usize + NAME.len() + 1).next_multiple_of(4);
        assert_eq!(&archive[start..start + bytes], program());
        assert_eq!(archive.len() % 4, 0);
        assert_eq!(&program()[120..], INIT);
    }
}
