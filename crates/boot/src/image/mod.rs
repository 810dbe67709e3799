//! Boot images: a kernel taken apart, stored in one of several ways, on a disk that GRUB boots.

mod disk;
mod elf;
mod initramfs;
mod kernel;

use std::path::{Path, PathBuf};
use std::process::Command;

use config::Failure;

pub use elf::plain;
pub use kernel::unpack;

use crate::tool;

/// How the kernel is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// As the distribution ships it: it unpacks itself.
    Shipped,
    /// Not compressed; GRUB reads each part to where it runs.
    Plain,
    /// The plain one, unpacked by GRUB while it reads.
    Gzip,
    /// The same.
    Lzo,
    /// The same.
    Xz,
}

impl Variant {
    /// All of them.
    pub const ALL: [Variant; 5] =
        [Variant::Shipped, Variant::Plain, Variant::Gzip, Variant::Lzo, Variant::Xz];

    /// What users call it.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Shipped => "shipped",
            Variant::Plain => "plain",
            Variant::Gzip => "gzip",
            Variant::Lzo => "lzo",
            Variant::Xz => "xz",
        }
    }

    /// The variant called `name`.
    ///
    /// # Errors
    /// When there is none.
    pub fn named(name: &str) -> Result<Variant, Failure> {
        Variant::ALL.into_iter().find(|variant| variant.name() == name).ok_or_else(|| {
            let names = Variant::ALL.map(Variant::name).join(", ");
            Failure::input(format!("variant `{name}`")).expected(names)
        })
    }

    /// The program that compresses for GRUB's filter.
    fn compressor(self) -> Option<Command> {
        let (program, arguments): (&str, &[&str]) = match self {
            Variant::Shipped | Variant::Plain => return None,
            Variant::Gzip => ("gzip", &["-9n"]),
            Variant::Lzo => ("lzop", &["-9"]),
            // GRUB checks CRC32 without its cryptographic modules.
            Variant::Xz => ("xz", &["-6", "--check=crc32"]),
        };
        let mut command = Command::new(program);
        command.args(arguments);
        Some(command)
    }
}

/// A disk image that was made.
#[derive(Clone, Debug)]
pub struct Image {
    /// Where it is.
    pub path: PathBuf,
    /// The kernel's file name.
    pub kernel: String,
    /// How it is stored.
    pub variant: Variant,
    /// Size of the kernel's file on the disk.
    pub file_bytes: u64,
}

/// Make a disk image at `path` that boots `kernel` stored as `variant`.
///
/// # Errors
/// When `path` exists, the kernel is not one, or the machine lacks a program.
pub fn make(kernel: &Path, variant: Variant, path: &Path) -> Result<Image, Failure> {
    let file = std::fs::read(kernel).map_err(|why| {
        Failure::input(format!("kernel {}: {why}", kernel.display()))
            .expected("a vmlinuz, such as apt-get download and dpkg -x of linux-image-... give")
    })?;
    let told = |mut failure: Failure| {
        failure.message = format!("{}: {}", kernel.display(), failure.message);
        failure
    };
    let stored = match variant {
        Variant::Shipped => {
            kernel::payload(&file).map_err(told)?;
            file
        }
        _ => {
            let plain = plain(&unpack(&file).map_err(told)?).map_err(told)?;
            match variant.compressor() {
                None => plain,
                Some(mut compressor) => tool::run(&mut compressor, &plain)?,
            }
        }
    };
    disk::make(path, variant, &stored, &initramfs::smallest())?;
    let name = kernel.file_name().map_or("kernel".into(), |name| name.to_string_lossy().into());
    Ok(Image { path: path.into(), kernel: name, variant, file_bytes: stored.len() as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_have_names() {
        for variant in Variant::ALL {
            assert_eq!(Variant::named(variant.name()), Ok(variant));
        }
        let failure = Variant::named("brotli").unwrap_err();
        assert_eq!(failure.expected.unwrap(), "shipped, plain, gzip, lzo, xz");
    }
}
