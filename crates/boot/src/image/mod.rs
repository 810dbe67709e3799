//! Boot images: a kernel taken apart, stored in one of several ways, on a disk that GRUB boots.

mod archive;
mod disk;
mod elf;
mod initramfs;
mod kernel;
mod pack;
mod uki;

use std::path::{Path, PathBuf};

use config::Failure;

pub(crate) use disk::with_menu;
pub use elf::plain;
pub use initramfs::Initramfs;
pub(crate) use initramfs::{archive_of, smallest as smallest_initramfs};
pub use kernel::unpack;
pub(crate) use kernel::{payload as kernel_payload, version as kernel_version};
pub use pack::Packing;
pub(crate) use pack::unpack_any;

/// No kernel or initramfs is larger.
pub(crate) const IMAGE_BYTES_MAX: u64 = 1 << 30;

/// How the kernel is stored.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Variant {
    /// As the distribution ships it: it unpacks itself.
    Shipped,
    /// Not compressed; GRUB reads each part to where it runs.
    #[default]
    Plain,
    /// The plain one, unpacked by GRUB while it reads.
    Gzip,
    /// The same.
    Lzo,
    /// The same.
    Xz,
    /// The plain one, unpacked by a program of ours, which GRUB starts.
    Lz4,
    /// The same.
    Zstd,
    /// As it is shipped, in one file with the initramfs and the command line: a unified kernel
    /// image on the stub of systemd, which a UEFI firmware starts without a loader.
    Uki,
}

impl Variant {
    /// All of them.
    pub const ALL: [Variant; 8] = [
        Variant::Shipped,
        Variant::Plain,
        Variant::Gzip,
        Variant::Lzo,
        Variant::Xz,
        Variant::Lz4,
        Variant::Zstd,
        Variant::Uki,
    ];

    /// What users call it.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Shipped => "shipped",
            Variant::Plain => "plain",
            Variant::Gzip => "gzip",
            Variant::Lzo => "lzo",
            Variant::Xz => "xz",
            Variant::Lz4 => "lz4",
            Variant::Zstd => "zstd",
            Variant::Uki => "uki",
        }
    }

    /// The kernel's file on the disk, made of `file`, a bzImage.
    fn store(self, file: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let filtered = |packing: Packing| packing.pack(&plain(&unpack(&file)?)?);
        match self {
            Variant::Shipped | Variant::Uki => kernel::payload(&file).map(drop).map(|()| file),
            Variant::Plain => plain(&unpack(&file)?),
            Variant::Gzip => filtered(Packing::Gzip),
            Variant::Lzo => filtered(Packing::Lzo),
            Variant::Xz => filtered(Packing::Xz),
            Variant::Lz4 => elf::packed(&unpack(&file)?, Packing::Lz4),
            Variant::Zstd => elf::packed(&unpack(&file)?, Packing::Zstd),
        }
    }
}

/// The file system that the loader reads.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum FileSystem {
    /// Blocks in groups, found through lists of blocks.
    #[default]
    Ext2,
    /// The same with extents.
    Ext4,
    /// FAT32, as on a partition of UEFI.
    Fat,
}

impl FileSystem {
    /// All of them.
    pub const ALL: [FileSystem; 3] = [FileSystem::Ext2, FileSystem::Ext4, FileSystem::Fat];

    /// What users call it.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext2 => "ext2",
            FileSystem::Ext4 => "ext4",
            FileSystem::Fat => "fat",
        }
    }
}

/// What starts the loader.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Firmware {
    /// SeaBIOS, which reads GRUB from the disk's first sectors.
    #[default]
    Bios,
    /// OVMF, which reads a program from a FAT file system.
    Uefi,
}

impl Firmware {
    /// All of them.
    pub const ALL: [Firmware; 2] = [Firmware::Bios, Firmware::Uefi];

    /// What users call it.
    pub fn name(self) -> &'static str {
        match self {
            Firmware::Bios => "bios",
            Firmware::Uefi => "uefi",
        }
    }

    /// What is read where nothing else is named.
    pub fn usual_file_system(self) -> FileSystem {
        match self {
            Firmware::Bios => FileSystem::Ext2,
            Firmware::Uefi => FileSystem::Fat,
        }
    }
}

/// What is put on a disk, and how.
#[derive(Clone, Default, Debug)]
pub struct Recipe {
    /// What starts the loader.
    pub firmware: Firmware,
    /// How the kernel is stored.
    pub variant: Variant,
    /// What it lies on.
    pub file_system: FileSystem,
    /// What is unpacked before our init runs; nothing else by default.
    pub initramfs: Option<Initramfs>,
}

impl Recipe {
    /// The name of a recording: the variant, and what is not as by default.
    pub fn name(&self) -> String {
        let mut name = self.variant.name().to_string();
        // One file is a matter of UEFI anyway.
        if self.firmware == Firmware::Uefi && self.variant != Variant::Uki {
            name.push_str("-uefi");
        }
        if self.file_system != self.firmware.usual_file_system() {
            name.push_str(&format!("-{}", self.file_system.name()));
        }
        if let Some(initramfs) = &self.initramfs {
            name.push_str(&format!("-initramfs-{}", initramfs.packing_name()));
        }
        name
    }

    /// Why no disk can be made by it, if so.
    pub fn impossible(&self) -> Option<&'static str> {
        match (self.firmware, self.variant, self.file_system) {
            (Firmware::Bios, Variant::Uki, _) => Some("one file (`uki`) is started by UEFI only"),
            (Firmware::Uefi, _, FileSystem::Ext2 | FileSystem::Ext4) => Some("UEFI reads FAT only"),
            _ => None,
        }
    }
}

/// A disk image that was made.
#[derive(Clone, Debug)]
pub struct Image {
    /// Where it is.
    pub path: PathBuf,
    /// The kernel's file name.
    pub kernel: String,
    /// How it was made.
    pub recipe: Recipe,
    /// Size of the kernel's file on the disk, of the initramfs if there is one of the user's, and
    /// of the loader where a UEFI reads it.
    pub file_bytes: u64,
}

fn read(kernel: &Path) -> Result<Vec<u8>, Failure> {
    study::read_bytes(kernel, IMAGE_BYTES_MAX).map_err(|why| {
        Failure::input(format!("kernel {}: {why}", kernel.display()))
            .expected("a vmlinuz, such as apt-get download and dpkg -x of linux-image-... give")
    })
}

/// Refuse what is no kernel.
///
/// # Errors
/// When it is none, or the program that unpacks it is missing.
pub fn check(kernel: &Path) -> Result<(), Failure> {
    unpack(&read(kernel)?).map(drop).map_err(|why| why.of(kernel.display()))
}

/// Make a disk image at `path` that boots `kernel` as `recipe` says.
///
/// # Errors
/// When `path` exists, the recipe cannot be followed, the kernel is not one, the initramfs is of
/// another kernel, or the machine lacks a program.
pub fn make(kernel: &Path, recipe: &Recipe, path: &Path) -> Result<Image, Failure> {
    if let Some(why) = recipe.impossible() {
        return Err(Failure::input(why).expected("--firmware uefi, and --file-system fat for it"));
    }
    let file = read(kernel)?;
    let initramfs = match &recipe.initramfs {
        Some(initramfs) => initramfs.make(kernel::version(&file))?,
        None => initramfs::smallest(),
    };
    let stored = recipe.variant.store(file).map_err(|why| why.of(kernel.display()))?;
    let loader_bytes = disk::make(path, recipe, &stored, &initramfs)?;
    let name = kernel.file_name().map_or("kernel".into(), |name| name.to_string_lossy().into());
    let more = recipe.initramfs.as_ref().map_or(0, |_| initramfs.len());
    let file_bytes = (stored.len() + more + loader_bytes) as u64;
    Ok(Image { path: path.into(), kernel: name, recipe: recipe.clone(), file_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipe_is_named_by_what_is_not_usual() {
        assert_eq!(Recipe::default().name(), "plain");
        let file = PathBuf::from("initrd.img");
        let initramfs = Some(Initramfs { file, packing: Some(Packing::Zstd) });
        let (variant, file_system) = (Variant::Xz, FileSystem::Fat);
        let recipe = Recipe { variant, file_system, initramfs, ..Recipe::default() };
        assert_eq!(recipe.name(), "xz-fat-initramfs-zstd");
        let recipe = Recipe { firmware: Firmware::Uefi, ..recipe };
        assert_eq!(recipe.name(), "xz-uefi-initramfs-zstd");
        assert_eq!(Recipe { variant: Variant::Uki, ..recipe }.name(), "uki-initramfs-zstd");
    }

    #[test]
    fn what_no_firmware_reads_is_no_recipe() {
        let with = |firmware, variant, file_system| {
            let recipe = Recipe { firmware, variant, file_system, initramfs: None };
            recipe.impossible().is_none()
        };
        assert!(with(Firmware::Bios, Variant::Xz, FileSystem::Fat));
        assert!(with(Firmware::Uefi, Variant::Xz, FileSystem::Fat));
        assert!(with(Firmware::Uefi, Variant::Uki, FileSystem::Fat));
        assert!(!with(Firmware::Uefi, Variant::Xz, FileSystem::Ext2));
        let recipe = Recipe { variant: Variant::Uki, ..Recipe::default() };
        let failure = make(Path::new("none"), &recipe, Path::new("out")).unwrap_err();
        assert!(failure.message.contains("UEFI only"), "{}", failure.message);
    }
}
