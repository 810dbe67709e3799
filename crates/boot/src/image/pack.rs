//! Packing and unpacking by the programs that people use for it.

use std::process::Command;

use config::Failure;

use crate::tool;

/// How a file is packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    /// gzip.
    Gzip,
    /// LZO, as lzop writes it.
    Lzo,
    /// xz, with the checksum that kernels and loaders know.
    Xz,
    /// LZ4 in its first frame format, the only one that kernels read.
    Lz4,
    /// Zstandard.
    Zstd,
}

/// The first bytes of a packed file, and the program that unpacks it.
const PACKERS: [(&[u8], &str); 7] = [
    (&[0x1f, 0x8b], "gzip"),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], "xz"),
    (&[0x89, b'L', b'Z', b'O'], "lzop"),
    (&[0x02, 0x21, 0x4c, 0x18], "lz4"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd"),
    (b"BZh", "bzip2"),
    // The usual properties, and a dictionary of 64 KiB or more.
    (&[0x5d, 0, 0], LZMA),
];
/// What xz unpacks, too, if it is told so.
const LZMA: &str = "lzma";
/// Zeros at its end that may be a packed file's own: numbers of four or eight bytes.
const OWN_ZEROS_MAX: usize = 8;

impl Packing {
    /// All of them.
    pub const ALL: [Packing; 5] =
        [Packing::Gzip, Packing::Lzo, Packing::Xz, Packing::Lz4, Packing::Zstd];

    /// What users call it.
    pub fn name(self) -> &'static str {
        match self {
            Packing::Gzip => "gzip",
            Packing::Lzo => "lzo",
            Packing::Xz => "xz",
            Packing::Lz4 => "lz4",
            Packing::Zstd => "zstd",
        }
    }

    /// `bytes`, packed.
    ///
    /// # Errors
    /// When the program that does it is missing.
    pub(super) fn pack(self, bytes: &[u8]) -> Result<Vec<u8>, Failure> {
        let (program, arguments): (&str, &[&str]) = match self {
            Packing::Gzip => ("gzip", &["-9n"]),
            Packing::Lzo => ("lzop", &["-9"]),
            Packing::Xz => ("xz", &["-6", "--check=crc32"]),
            Packing::Lz4 => ("lz4", &["-l", "-9", "-c"]),
            Packing::Zstd => ("zstd", &["-19", "-q", "-c"]),
        };
        tool::run(Command::new(program).args(arguments), bytes)
    }
}

/// The program that unpacks what begins like `bytes`.
pub(super) fn unpacker(bytes: &[u8]) -> Option<&'static str> {
    PACKERS.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, program)| *program)
}

/// What `program` finds in `bytes`.
///
/// # Errors
/// When it is missing, or `bytes` is damaged.
pub(super) fn unpack_by(program: &str, bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    let (program, format): (&str, &[&str]) =
        if program == LZMA { ("xz", &["--format=lzma"]) } else { (program, &[]) };
    tool::run(Command::new(program).args(format).arg("-dc"), bytes)
}

/// The same, where zeros may follow, as kernels allow it.
///
/// # Errors
/// Those of [`unpack_by`].
pub(super) fn unpack_padded(program: &str, bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    let damaged = match unpack_by(program, bytes) {
        Err(why) if why.exit_code() == 2 => why,
        done => return done,
    };
    let zeros = bytes.iter().rev().take_while(|byte| **byte == 0).count();
    // Some of them may be its own.
    let ends = (0..zeros.min(OWN_ZEROS_MAX + 1)).map(|own| bytes.len() - zeros + own);
    ends.map(|end| unpack_by(program, &bytes[..end])).find_map(Result::ok).ok_or(damaged)
}

/// What is in `bytes`, packed or not.
///
/// # Errors
/// Those of [`unpack_by`].
pub(crate) fn unpack_any(bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
    match unpacker(&bytes) {
        Some(program) => unpack_by(program, &bytes),
        None => Ok(bytes),
    }
}

/// The ways of packing that are known, for errors.
pub(super) fn known() -> String {
    PACKERS.map(|(_, program)| program).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_recognised_and_unpacked() {
        let text = b"the same words, the same words, the same words".repeat(20);
        let lacks = crate::missing_packages();
        for packing in Packing::ALL {
            let Ok(packed) = packing.pack(&text) else {
                assert!(!lacks.is_empty(), "{} is there and fails", packing.name());
                continue;
            };
            let program = unpacker(&packed).unwrap();
            assert!(packed.len() < text.len(), "{}", packing.name());
            assert_eq!(unpack_by(program, &packed).unwrap(), text, "{}", packing.name());
        }
        assert_eq!(unpacker(b"070701"), None);
    }

    #[test]
    fn what_lzma_packed_is_unpacked_by_xz() {
        let text = b"the same words, the same words, the same words".repeat(20);
        if !tool::have("xz") {
            return;
        }
        let mut command = Command::new("xz");
        let packed = tool::run(command.args(["--format=lzma", "-c"]), &text).unwrap();
        assert_eq!(unpack_any(packed.clone()).unwrap(), text);
        let padded = [packed.as_slice(), &[0; 3]].concat();
        assert_eq!(unpack_padded(unpacker(&padded).unwrap(), &padded).unwrap(), text);
    }
}
