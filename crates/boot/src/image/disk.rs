//! A disk that a firmware boots, made without root and without a loop device. For a BIOS: GRUB in
//! the first MiB, then a file system. For UEFI: a FAT file system with our starter, and with GRUB
//! or a kernel in one file, which the starter loads.

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;

use attach::{PrivateFolder, Unfinished};
use config::Failure;

use super::initramfs::NAME;
use super::{FileSystem, Firmware, Recipe, Variant, uki};
use crate::guest_program::STARTER_EFI;
use crate::mark;
use crate::tool;

/// Where the partition begins, in bytes.
const PARTITION_AT: u64 = 1 << 20;
/// Room beside the files.
const SPARE_BYTES: u64 = 16 << 20;
/// The least of a FAT32 that `mformat` makes.
const FAT_BYTES_MIN: u64 = 64 << 20;
/// The file system's identity, the same in each image.
const IDENTITY: &str = "626c6f63-6b6c-6162-0000-626f6f740000";
/// Code of a boot sector, without the partition table.
const BOOT_CODE_BYTES: usize = 440;
/// What GRUB's image needs of each firmware: the loaders, its filters, ports and what marks use.
const MODULES: [&str; 9] =
    ["part_msdos", "linux", "multiboot", "gzio", "xzio", "lzopio", "iorw", "cmp", "boot"];
/// And of a BIOS: the disk.
const MODULES_BIOS: [&str; 1] = ["biosdisk"];
/// And of UEFI, which is the disk's driver.
const MODULES_EFI: [&str; 2] = ["normal", "fat"];
/// Sectors before the partition, behind GRUB, each in a part of its own of what GRUB remembers.
const FREE_SECTORS: [u32; 2] = [1920, 1984];
/// The program that a UEFI firmware starts from a disk, and the one that ours loads.
const FIRST: &str = "EFI/BOOT/BOOTX64.EFI";
const NEXT: &str = "EFI/blocklab/next.efi";

/// The kernel says only what is wrong, and ends when it panics.
fn command_line() -> String {
    format!("console=ttyS0 quiet loglevel=4 panic=-1 rdinit=/{NAME}")
}

/// A command of GRUB that has the firmware read this sector of the disk, which nothing else reads.
/// The clock is known where it does.
fn mark(letter: u8, sector: u32) -> String {
    let port = mark::PORT;
    format!("outb {port:#x} {letter}\ncmp (hd0){sector}+1 (hd0){sector}+1\n")
}

/// GRUB's commands. Under UEFI the load began with GRUB itself.
fn commands(recipe: &Recipe) -> String {
    let (load, more) = match recipe.variant {
        Variant::Shipped => ("linux", "initrd"),
        // The kernel unpacks it, not GRUB.
        _ => ("multiboot", "module --nounzip"),
    };
    let begin = match recipe.firmware {
        Firmware::Bios => mark(mark::BEGIN, FREE_SECTORS[0]),
        Firmware::Uefi => String::new(),
    };
    let end = mark(mark::END, FREE_SECTORS[1]);
    let line = command_line();
    format!("{begin}{load} /boot/kernel {line}\n{more} /boot/initramfs\n{end}boot\n")
}

/// What lies in the file system: names, and what is in each.
type Files = Vec<(&'static str, Vec<u8>)>;

/// The files, and the size of the loader among them.
fn files(
    recipe: &Recipe,
    kernel: &[u8],
    initramfs: &[u8],
    core: &Path,
) -> Result<(Files, usize), Failure> {
    let first = (FIRST, STARTER_EFI.to_vec());
    if recipe.variant == Variant::Uki {
        let image = uki::make(kernel, initramfs, &command_line())?;
        let more = image.len() - kernel.len() - initramfs.len();
        return Ok((vec![first, (NEXT, image)], more));
    }
    let mut files = vec![
        ("boot/kernel", kernel.to_vec()),
        ("boot/initramfs", initramfs.to_vec()),
        ("boot/grub/grub.cfg", commands(recipe).into_bytes()),
    ];
    if recipe.firmware == Firmware::Bios {
        return Ok((files, 0));
    }
    let grub = efi_image(core)?;
    let bytes = grub.len();
    files.extend([first, (NEXT, grub)]);
    Ok((files, bytes))
}

/// Make the disk at `path`. Returns the size of the loader, where that is a file.
///
/// # Errors
/// When `path` exists or cannot be written, or the machine lacks GRUB, the stub or mke2fs.
pub(super) fn make(
    path: &Path,
    recipe: &Recipe,
    kernel: &[u8],
    initramfs: &[u8],
) -> Result<usize, Failure> {
    let shown = path.display();
    let opened = OpenOptions::new().write(true).create_new(true).open(path);
    let mut disk = opened.map_err(|why| {
        Failure::input(format!("image {shown}: {why}")).expected("a name that is free")
    })?;
    let unfinished = Unfinished::new(path);
    let folder = PrivateFolder::new()?;
    let root = folder.path.join("files");
    let wrong = |why: std::io::Error| {
        Failure::machine(format!("files of image {shown} in {}: {why}", folder.path.display()))
            .help("make room there, or set TMPDIR to a folder that has it")
    };
    let core = folder.path.join("core.img");
    let (files, loader_bytes) = files(recipe, kernel, initramfs, &core)?;
    let mut bytes = 0;
    for (name, content) in &files {
        let file = root.join(name);
        std::fs::create_dir_all(file.parent().expect("all lie in folders")).map_err(wrong)?;
        std::fs::write(file, content).map_err(wrong)?;
        bytes += content.len() as u64;
    }

    let kind = recipe.file_system;
    lay_out(&mut disk, path, &root, kind, bytes, |partition| {
        let table = partition_table(recipe, partition);
        Ok(match recipe.firmware {
            Firmware::Bios => [boot_code()?, table, core_image(kind, &[], &core)?].concat(),
            Firmware::Uefi => [vec![0; BOOT_CODE_BYTES], table].concat(),
        })
    })
    .map_err(|why| {
        if !path.parent().is_some_and(attach::has_no_room) {
            return why;
        }
        Failure::machine(format!("image {shown}: no room is left there")).help("make room there")
    })?;
    unfinished.finished();
    Ok(loader_bytes)
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
    let root = folder.path.join("files");
    let boot = root.join("boot");
    std::fs::create_dir_all(boot.join("grub")).map_err(wrong)?;
    std::fs::write(boot.join("grub/grub.cfg"), menu).map_err(wrong)?;
    for (name, bytes) in files {
        std::fs::write(boot.join(name), bytes).map_err(wrong)?;
    }
    let bytes = files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    let recipe = Recipe::default();
    let kind = recipe.file_system;
    lay_out(&mut disk, path, &root, kind, bytes, |partition| {
        let core = core_image(kind, modules, &folder.path.join("core.img"))?;
        Ok([boot_code()?, partition_table(&recipe, partition), core].concat())
    })
}

/// Fill the disk with a file system with the folder `files`, which have so many bytes, and with
/// what `begin` puts before it, given its size.
fn lay_out(
    disk: &mut std::fs::File,
    path: &Path,
    files: &Path,
    kind: FileSystem,
    bytes: u64,
    begin: impl FnOnce(u64) -> Result<Vec<u8>, Failure>,
) -> Result<(), Failure> {
    let wrong = |why: std::io::Error| Failure::machine(format!("image {}: {why}", path.display()));
    // An eighth for the file system's tables.
    let mut partition = (bytes + bytes / 8 + SPARE_BYTES).next_multiple_of(1 << 20);
    if kind == FileSystem::Fat {
        partition = partition.max(FAT_BYTES_MIN);
    }
    disk.set_len(PARTITION_AT + partition).map_err(wrong)?;
    fill(kind, files, path, partition)?;

    let begin = begin(partition)?;
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
        copy.args(["-i", &place, "-s"]);
        copy.args(["boot", "EFI"].map(|name| files.join(name)).iter().filter(|name| name.exists()));
        copy.arg("::");
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
    let kind = match kind {
        FileSystem::Ext2 | FileSystem::Ext4 => "ext2",
        FileSystem::Fat => "fat",
    };
    grub_image("i386-pc", &[&MODULES_BIOS[..], &MODULES, modules, &[kind]].concat(), path)
}

/// GRUB as a program for UEFI.
fn efi_image(path: &Path) -> Result<Vec<u8>, Failure> {
    tool::uefi_file(tool::GRUB_EFI)?;
    grub_image("x86_64-efi", &[&MODULES_EFI[..], &MODULES].concat(), path)
}

fn grub_image(platform: &str, modules: &[&str], path: &Path) -> Result<Vec<u8>, Failure> {
    let mut grub = Command::new("grub-mkimage");
    // It writes to files only: it fails to synchronise a pipe.
    grub.arg("-o").arg(path);
    grub.args(["-O", platform, "-p", "(hd0,msdos1)/boot/grub"]).args(modules);
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

/// The rest of the first sector: one partition, of Linux, FAT32 or UEFI.
fn partition_table(recipe: &Recipe, bytes: u64) -> Vec<u8> {
    let mut out = vec![0; 6];
    let kind = match (recipe.firmware, recipe.file_system) {
        (Firmware::Uefi, _) => 0xef,
        (_, FileSystem::Fat) => 0x0c,
        _ => 0x83,
    };
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
        let table = partition_table(&Recipe::default(), 8 << 20);
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
}
