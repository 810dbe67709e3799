//! Boot images: a kernel taken apart, stored in one of several ways, on a disk that GRUB boots.

mod archive;
mod disk;
mod elf;
mod initramfs;
mod kernel;
mod pack;

use std::path::{Path, PathBuf};

use config::Failure;

pub(crate) use disk::with_menu;
pub use elf::plain;
pub use initramfs::Initramfs;
pub(crate) use initramfs::{archive_of, smallest as smallest_initramfs};
pub use kernel::unpack;
pub(crate) use kernel::version as kernel_version;
pub use pack::Packing;
pub(crate) use pack::unpack_any;

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

    /// How the kernel's file is packed for GRUB's filter.
    fn packing(self) -> Option<Packing> {
        match self {
            Variant::Shipped | Variant::Plain => None,
            Variant::Gzip => Some(Packing::Gzip),
            Variant::Lzo => Some(Packing::Lzo),
            Variant::Xz => Some(Packing::Xz),
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

/// What is put on a disk, and how.
#[derive(Clone, Default, Debug)]
pub struct Recipe {
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
        if self.file_system != FileSystem::default() {
            name.push_str(&format!("-{}", self.file_system.name()));
        }
        if let Some(initramfs) = &self.initramfs {
            name.push_str(&format!("-initramfs-{}", initramfs.packing_name()));
        }
        name
    }
}

/// A disk image that was made.
#[derive(Clone, Debug)]
pub struct Image {
    /// Where it is.
    pub path: PathBuf,
    /// The kernel's file name.
    pub kernel: String,
    /// The name of its recipe.
    pub recipe: String,
    /// Size of the kernel's file on the disk, and of the initramfs if there is one of the user's.
    pub file_bytes: u64,
}

/// Make a disk image at `path` that boots `kernel` as `recipe` says.
///
/// # Errors
/// When `path` exists, the kernel is not one, the initramfs is of another kernel, or the machine
/// lacks a program.
pub fn make(kernel: &Path, recipe: &Recipe, path: &Path) -> Result<Image, Failure> {
    let file = std::fs::read(kernel).map_err(|why| {
        Failure::input(format!("kernel {}: {why}", kernel.display()))
            .expected("a vmlinuz, such as apt-get download and dpkg -x of linux-image-... give")
    })?;
    let told = |mut failure: Failure| {
        failure.message = format!("{}: {}", kernel.display(), failure.message);
        failure
    };
    let initramfs = match &recipe.initramfs {
        Some(initramfs) => initramfs.make(kernel::version(&file))?,
        None => initramfs::smallest(),
    };
    let stored = match recipe.variant {
        Variant::Shipped => {
            kernel::payload(&file).map_err(told)?;
            file
        }
        _ => {
            let plain = plain(&unpack(&file).map_err(told)?).map_err(told)?;
            recipe.variant.packing().map_or(Ok(plain.clone()), |packing| packing.pack(&plain))?
        }
    };
    disk::make(path, recipe, &stored, &initramfs)?;
    let name = kernel.file_name().map_or("kernel".into(), |name| name.to_string_lossy().into());
    let more = recipe.initramfs.as_ref().map_or(0, |_| initramfs.len());
    let file_bytes = (stored.len() + more) as u64;
    Ok(Image { path: path.into(), kernel: name, recipe: recipe.name(), file_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recipe_is_named_by_what_is_not_usual() {
        assert_eq!(Recipe::default().name(), "plain");
        let file = PathBuf::from("initrd.img");
        let initramfs = Some(Initramfs { file, packing: Some(Packing::Zstd) });
        let recipe = Recipe { variant: Variant::Xz, file_system: FileSystem::Fat, initramfs };
        assert_eq!(recipe.name(), "xz-fat-initramfs-zstd");
    }
}
