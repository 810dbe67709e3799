//! A disk that a BIOS boots: GRUB in the first MiB, then a file system, made without root and
//! without a loop device.

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use attach::PrivateFolder;
use config::Failure;

use super::initramfs::NAME;
use super::{FileSystem, Recipe, Variant};
use crate::tool;

/// Where the partition begins, in bytes.
const PARTITION_AT: u64 = 1 << 20;
/// Room beside the files.
const SPARE_BYTES: u64 = 16 << 20;
/// The file system's identity, the same in each image.
const IDENTITY: &str = "626c6f63-6b6c-6162-0000-626f6f740000";
/// Code of a boot sector, without the partition table.
const BOOT_CODE_BYTES: usize = 440;
/// What GRUB's image needs beside the file system: the disk, the loaders, its filters, and ports.
const MODULES: [&str; 9] =
    ["biosdisk", "part_msdos", "linux", "multiboot", "gzio", "xzio", "lzopio", "iorw", "boot"];
/// The kernel says only what is wrong, and ends when it panics.
const COMMAND_LINE: &str = "console=ttyS0 quiet loglevel=4 panic=-1";

/// GRUB's commands. Writes to QEMU's panic device stop the guest where tracing begins and ends:
/// one before the first read of the load, one after the last. The PM timer is read after each.
fn commands(variant: Variant) -> String {
    let (load, more) = match variant {
        Variant::Shipped => ("linux", "initrd"),
        // The kernel unpacks it, not GRUB.
        _ => ("multiboot", "module --nounzip"),
    };
    let arguments = format!("{COMMAND_LINE} rdinit=/{NAME}");
    format!(
        "outb 0x505 1\ninl 0x608\n{load} /boot/kernel {arguments}\n{more} /boot/initramfs\n\
         inl 0x608\noutb 0x505 1\nboot\n"
    )
}

/// An image that is removed again unless all went well.
struct Unfinished {
    path: PathBuf,
    keep: bool,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.keep {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Make the disk at `path`.
///
/// # Errors
/// When `path` exists or cannot be written, or the machine lacks GRUB or mke2fs.
pub(super) fn make(
    path: &Path,
    recipe: &Recipe,
    kernel: &[u8],
    initramfs: &[u8],
) -> Result<(), Failure> {
    let shown = path.display();
    let opened = OpenOptions::new().write(true).create_new(true).open(path);
    let mut disk = opened.map_err(|why| {
        Failure::input(format!("image {shown}: {why}")).expected("a name that is free")
    })?;
    let mut unfinished = Unfinished { path: path.into(), keep: false };
    let folder = PrivateFolder::new()?;
    let files = folder.path.join("files");
    let wrong = |why: std::io::Error| Failure::machine(format!("image {shown}: {why}"));
    let grub = files.join("boot/grub");
    std::fs::create_dir_all(&grub).map_err(wrong)?;
    let boot = files.join("boot");
    std::fs::write(boot.join("kernel"), kernel).map_err(wrong)?;
    std::fs::write(boot.join("initramfs"), initramfs).map_err(wrong)?;
    std::fs::write(grub.join("grub.cfg"), commands(recipe.variant)).map_err(wrong)?;

    let bytes = (kernel.len() + initramfs.len()) as u64;
    lay_out(&mut disk, path, recipe.file_system, &folder, bytes, &[])?;
    unfinished.keep = true;
    Ok(())
}

/// A disk at `path`, which is free, that boots what `grub.cfg` says; `files` lie in its `/boot`.
/// GRUB has `modules` beside its usual ones.
///
/// # Errors
/// When it cannot be written, or the machine lacks GRUB or mke2fs.
pub(crate) fn with_menu(
    path: &Path,
    menu: &str,
    files: &[(&str, &[u8])],
    modules: &[&str],
) -> Result<(), Failure> {
    let wrong = |why: std::io::Error| Failure::machine(format!("image {}: {why}", path.display()));
    let mut disk = std::fs::File::create_new(path).map_err(wrong)?;
    let folder = PrivateFolder::new()?;
    let boot = folder.path.join("files/boot");
    std::fs::create_dir_all(boot.join("grub")).map_err(wrong)?;
    std::fs::write(boot.join("grub/grub.cfg"), menu).map_err(wrong)?;
    for (name, bytes) in files {
        std::fs::write(boot.join(name), bytes).map_err(wrong)?;
    }
    let bytes = files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    lay_out(&mut disk, path, FileSystem::Ext2, &folder, bytes, modules)
}

/// Fill the disk with GRUB and a file system with the folder's `files`, which have so many bytes.
fn lay_out(
    disk: &mut std::fs::File,
    path: &Path,
    kind: FileSystem,
    folder: &PrivateFolder,
    bytes: u64,
    modules: &[&str],
) -> Result<(), Failure> {
    let wrong = |why: std::io::Error| Failure::machine(format!("image {}: {why}", path.display()));
    // An eighth for the file system's tables.
    let partition = (bytes + bytes / 8 + SPARE_BYTES).next_multiple_of(1 << 20);
    disk.set_len(PARTITION_AT + partition).map_err(wrong)?;
    fill(kind, &folder.path.join("files"), path, partition)?;

    let core = core_image(kind, modules, &folder.path.join("core.img"))?;
    let code = boot_code()?;
    let begin = [code, partition_table(kind, partition), core].concat();
    if begin.len() as u64 > PARTITION_AT {
        return Err(Failure::machine(format!(
            "GRUB's image has {} bytes, more than the {PARTITION_AT} before the partition",
            begin.len()
        )));
    }
    disk.seek(SeekFrom::Start(0)).and_then(|_| disk.write_all(&begin)).map_err(wrong)
}

/// Make the file system with what is in `files`, the same each time: no random identity, no time of
/// this machine.
fn fill(kind: FileSystem, files: &Path, disk: &Path, bytes: u64) -> Result<(), Failure> {
    if kind == FileSystem::Fat {
        let place = format!("{}@@{PARTITION_AT}", disk.display());
        let mut format = Command::new("mformat");
        format.args(["-i", &place, "-F", "-T", &(bytes / 512).to_string(), "-N", "626c6f63", "::"]);
        tool::run(&mut format, b"")?;
        let mut copy = Command::new("mcopy");
        copy.args(["-i", &place, "-s"]).arg(files.join("boot")).arg("::boot");
        return tool::run(&mut copy, b"").map(drop);
    }
    let mut mke2fs = Command::new("mke2fs");
    mke2fs.env("E2FSPROGS_FAKE_TIME", "1000000000");
    mke2fs.args(["-q", "-F", "-t", kind.name(), "-U", IDENTITY, "-d"]).arg(files);
    let layout = format!("offset={PARTITION_AT},root_owner=0:0,hash_seed={IDENTITY}");
    mke2fs.args(["-E", &layout]).arg(disk).arg(format!("{}k", bytes >> 10));
    tool::run(&mut mke2fs, b"").map(drop)
}

fn core_image(kind: FileSystem, modules: &[&str], path: &Path) -> Result<Vec<u8>, Failure> {
    let mut grub = Command::new("grub-mkimage");
    // It writes to files only: it fails to synchronise a pipe.
    grub.arg("-o").arg(path);
    grub.args(["-O", "i386-pc", "-p", "(hd0,msdos1)/boot/grub"]).args(MODULES).args(modules);
    grub.arg(match kind {
        FileSystem::Ext2 | FileSystem::Ext4 => "ext2",
        FileSystem::Fat => "fat",
    });
    tool::run(&mut grub, b"")?;
    std::fs::read(path).map_err(|why| Failure::machine(format!("{}: {why}", path.display())))
}

fn boot_code() -> Result<Vec<u8>, Failure> {
    let name = tool::GRUB_BOOT_CODE;
    let code = std::fs::read(name).map_err(|why| {
        Failure::machine(format!("{name}: {why}")).help("sudo apt-get install grub-pc-bin")
    })?;
    match code.get(..BOOT_CODE_BYTES) {
        Some(code) => Ok(code.to_vec()),
        None => Err(Failure::machine(format!("{name}: shorter than {BOOT_CODE_BYTES} bytes"))),
    }
}

/// The rest of the first sector: one partition, of Linux or FAT32.
fn partition_table(kind: FileSystem, bytes: u64) -> Vec<u8> {
    let mut out = vec![0; 6];
    let kind = if kind == FileSystem::Fat { 0x0c } else { 0x83 };
    out.extend([0, 0, 0, 0, kind, 0, 0, 0]);
    out.extend(((PARTITION_AT / 512) as u32).to_le_bytes());
    out.extend(((bytes / 512) as u32).to_le_bytes());
    out.resize(512 - BOOT_CODE_BYTES - 2, 0);
    out.extend([0x55, 0xaa]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_fills_the_sector() {
        let table = partition_table(FileSystem::Ext4, 8 << 20);
        assert_eq!(table.len(), 72);
        assert_eq!(table[6..22], [0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 64, 0, 0]);
    }

    #[test]
    fn a_file_that_is_there_is_left_alone() {
        let path = std::env::temp_dir().join(format!("blocklab-disk-{}", std::process::id()));
        std::fs::write(&path, "mine").unwrap();
        let failure = make(&path, &Recipe::default(), b"", b"").unwrap_err();
        let kept = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((kept.as_str(), failure.exit_code()), ("mine", 2));
    }

    #[test]
    fn what_was_begun_is_removed() {
        let path = std::env::temp_dir().join(format!("blocklab-begun-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        drop(Unfinished { path: path.clone(), keep: false });
        assert!(!path.exists());
    }
}
