//! Programs of the machine that are run to their end.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use attach::dies_with_us;
use config::Failure;

/// So many lines of what a program said are told.
const LAST_LINES: usize = 3;

pub(crate) const QEMU: &str = "qemu-system-x86_64";
/// The device by which a guest ends QEMU.
pub(crate) const EXIT_DEVICE: [&str; 2] = ["-device", "isa-debug-exit,iobase=0xf4,iosize=1"];
/// What a write of our init to it makes of QEMU's exit code.
pub(crate) const INIT_REACHED: i32 = 33;

/// Where GRUB keeps the first sector of a disk that a BIOS boots.
pub(crate) const GRUB_BOOT_CODE: &str = "/usr/lib/grub/i386-pc/boot.img";

/// A file that a package brings.
pub(crate) struct Brought {
    pub(crate) path: &'static str,
    package: &'static str,
}

/// GRUB's parts for UEFI; one of them stands for all.
pub(crate) const GRUB_EFI: &Brought =
    &Brought { path: "/usr/lib/grub/x86_64-efi/linux.mod", package: "grub-efi-amd64-bin" };
/// The stub that a kernel in one file stands on.
pub(crate) const STUB: &Brought =
    &Brought { path: "/usr/lib/systemd/boot/efi/linuxx64.efi.stub", package: "systemd-boot-efi" };

/// Where firmwares for virtual machines lie.
const UEFI_FIRMWARES: [&str; 4] = [
    "/usr/share/ovmf/OVMF.fd",
    "/usr/share/OVMF/OVMF.fd",
    "/usr/share/edk2/ovmf/OVMF.fd",
    "/usr/share/edk2-ovmf/OVMF.fd",
];

/// A UEFI firmware for virtual machines.
///
/// # Errors
/// When there is none.
pub(crate) fn uefi_firmware() -> Result<&'static str, Failure> {
    UEFI_FIRMWARES.into_iter().find(|place| Path::new(place).is_file()).ok_or_else(|| {
        Failure::machine("there is no UEFI firmware for virtual machines")
            .expected(format!("one of {}", UEFI_FIRMWARES.join(", ")))
            .help("apt-get install ovmf")
    })
}

/// The place of what a package brings.
///
/// # Errors
/// When it is not there.
pub(crate) fn uefi_file(brought: &Brought) -> Result<&'static Path, Failure> {
    let path = Path::new(brought.path);
    path.is_file().then_some(path).ok_or_else(|| {
        Failure::machine(format!("{} is not there", brought.path))
            .help(format!("sudo apt-get install {}", brought.package))
    })
}

/// The programs that are used, and the Debian package that has each.
const PACKAGES: [(&str, &str); 12] = [
    (QEMU, "qemu-system-x86"),
    ("grub-mkimage", "grub-common"),
    ("mke2fs", "e2fsprogs"),
    ("gzip", "gzip"),
    ("xz", "xz-utils"),
    ("lzop", "lzop"),
    ("zstd", "zstd"),
    ("lz4", "lz4"),
    ("mformat", "mtools"),
    ("mcopy", "mtools"),
    ("bzip2", "bzip2"),
    ("mmdebstrap", "mmdebstrap"),
];

/// The Debian packages of what images of all variants, and booting them, lack on this machine.
pub fn missing_packages() -> Vec<&'static str> {
    // The last two unpack kernels that are packed in a rare way, and make a root file system.
    let needed = PACKAGES.iter().take(PACKAGES.len() - 2);
    let there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let mut missing: Vec<&str> =
        needed.filter(|(program, _)| !there(program)).map(|(_, package)| *package).collect();
    missing.dedup();
    if !Path::new(GRUB_BOOT_CODE).exists() {
        missing.push("grub-pc-bin");
    }
    missing
}

/// The Debian packages that booting by UEFI lacks beside those.
pub fn missing_uefi_packages() -> Vec<&'static str> {
    let files = [GRUB_EFI, STUB].into_iter().filter(|file| uefi_file(file).is_err());
    let mut missing: Vec<&str> = files.map(|file| file.package).collect();
    if uefi_firmware().is_err() {
        missing.push("ovmf");
    }
    missing
}

/// A path in an option of QEMU's, where a comma is written twice.
pub(crate) fn qemu_name(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// A program that could not be started.
pub(crate) fn missing(program: &str, why: &std::io::Error) -> Failure {
    let package = PACKAGES.iter().find(|(name, _)| *name == program).map(|(_, package)| package);
    Failure::machine(format!("`{program}` cannot be started: {why}"))
        .help(format!("sudo apt-get install {}", package.unwrap_or(&program)))
}

/// Run `command`, give it `input`, and return what it wrote.
///
/// # Errors
/// When it cannot be started, or fails: the last lines it said.
pub(crate) fn run(command: &mut Command, input: &[u8]) -> Result<Vec<u8>, Failure> {
    let program = command.get_program().to_string_lossy().into_owned();
    run_as(&program, command, input)
}

/// The same, of a command that runs `program`.
pub(crate) fn run_as(
    program: &str,
    command: &mut Command,
    input: &[u8],
) -> Result<Vec<u8>, Failure> {
    let (stdin, stdout, stderr) = (Stdio::piped(), Stdio::piped(), Stdio::piped());
    let spawned = dies_with_us(command).stdin(stdin).stdout(stdout).stderr(stderr).spawn();
    let mut child = spawned.map_err(|why| missing(program, &why))?;
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    let done = std::thread::scope(|scope| {
        // A program that has enough closes its end; what it answers says whether that is right.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output()
    });
    let done = done.map_err(|why| Failure::machine(format!("`{program}`: {why}")))?;
    if done.status.success() {
        return Ok(done.stdout);
    }
    // The last of several lines may be that there was something before.
    let said = String::from_utf8_lossy(&done.stderr);
    let said: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let told = match &said[said.len().saturating_sub(LAST_LINES)..] {
        [] => "it said nothing".into(),
        last => last.join("; "),
    };
    Err(Failure::input(format!("`{program}` failed: {told}")))
}

/// True when a program is there; otherwise says why the test is skipped.
#[cfg(test)]
pub(crate) fn have(program: &str) -> bool {
    let there = Command::new(program).arg("-V").output().is_ok();
    if !there {
        crate::skip::skip("boot", &format!("no {program}"));
    }
    there
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_goes_in_and_output_comes_out() {
        let long = vec![b'x'; 1 << 20];
        assert_eq!(run(&mut Command::new("cat"), &long).unwrap(), long);
    }

    #[test]
    fn what_is_missing_or_fails_is_named() {
        let absent = std::io::Error::from(std::io::ErrorKind::NotFound);
        let failure = missing("grub-mkimage", &absent);
        assert_eq!(failure.exit_code(), 3);
        assert_eq!(failure.help.unwrap(), "sudo apt-get install grub-common");
        let failure = run(Command::new("sh").args(["-c", "echo no >&2; exit 1"]), b"").unwrap_err();
        assert_eq!(failure.message, "`sh` failed: no");
        let many = "for n in 1 2 3 4; do echo $n >&2; done; exit 1";
        let failure = run(Command::new("sh").args(["-c", many]), b"").unwrap_err();
        assert_eq!(failure.message, "`sh` failed: 2; 3; 4");
    }
}
