//! The root file system of a small Debian, kept in the cache folder as a tar file.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use attach::travel::COVERED;
use attach::{PrivateFolder, ends_with_us};
use config::Failure;

use crate::tool;

const MMDEBSTRAP: &str = "mmdebstrap";
/// What is in it beside what every Debian has.
const PACKAGES: &str = "systemd,systemd-sysv,udev,dbus,cron,rsyslog,openssh-server";
const SUITE: &str = "bookworm";

/// What it is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A guest with a kernel from elsewhere.
    Plain,
    /// A machine: it has Debian's kernel and its modules, too.
    WithKernel,
}

impl Kind {
    fn file_name(self) -> String {
        let kernel = if self == Kind::WithKernel { "-kernel" } else { "" };
        format!("debian-{SUITE}{kernel}.tar")
    }

    fn packages(self) -> String {
        let kernel = if self == Kind::WithKernel { ",linux-image-amd64" } else { "" };
        format!("{PACKAGES}{kernel}")
    }
}

/// Where `make` puts it.
///
/// # Errors
/// When there is no cache folder.
pub fn cached(kind: Kind) -> Result<PathBuf, Failure> {
    let kernels = attach::travel::kernel::cache()?;
    let base = kernels.parent().unwrap_or(&kernels);
    Ok(base.join("root").join(kind.file_name()))
}

/// Make it with mmdebstrap, unless it is there.
///
/// # Errors
/// When mmdebstrap is missing or fails.
pub fn make(kind: Kind) -> Result<PathBuf, Failure> {
    let path = cached(kind)?;
    if path.is_file() {
        return Ok(path);
    }
    let unusable =
        |why: std::io::Error| Failure::machine(format!("cannot use {}: {why}", path.display()));
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder).map_err(unusable)?;
    // It goes with us, or when the next one is made.
    let work = PrivateFolder::below(folder)?;
    let unfinished = work.path.join("root.tar");
    tool::run(Command::new(MMDEBSTRAP).arg("--version"), &[])?;
    let mut command = ends_with_us(MMDEBSTRAP);
    command.args([
        "--variant=essential",
        "--quiet",
        &format!("--include={}", kind.packages()),
        SUITE,
    ]);
    tool::run_as(MMDEBSTRAP, command.arg(&unfinished), &[])?;
    // Half a root never has the name of a whole one.
    std::fs::rename(&unfinished, &path).map_err(unusable)?;
    Ok(path)
}

/// The root to boot: `wanted`, or the cached one; where a guest sees it, too.
///
/// # Errors
/// When it is not there, or where guests do not see it.
pub fn find(wanted: Option<&Path>) -> Result<PathBuf, Failure> {
    let Some(wanted) = wanted else {
        let path = cached(Kind::Plain)?;
        let there = path.is_file();
        return there.then_some(path).ok_or_else(|| {
            Failure::machine("there is no root file system to boot").help("blocklab boot root")
        });
    };
    let shown = wanted.display();
    let path = there(wanted)?;
    match COVERED.iter().find(|folder| path.starts_with(folder)) {
        None => Ok(path),
        Some(folder) => Err(Failure::input(format!("--root {shown}: a guest does not see it"))
            .expected(format!("a file outside of {folder}, which guests have of their own"))
            .help("move it to your home folder")),
    }
}

/// The tar file that a user names, with its whole path.
///
/// # Errors
/// When it is not there.
pub fn there(wanted: &Path) -> Result<PathBuf, Failure> {
    let wrong = |why: &str| {
        Failure::input(format!("--root {}: {why}", wanted.display()))
            .expected("a tar file of a root file system with systemd")
            .help("blocklab boot root makes one; leave --root out to take it")
    };
    let path = std::fs::canonicalize(wanted).map_err(|why| wrong(&why.to_string()))?;
    let mut file = std::fs::File::open(&path).map_err(|why| wrong(&why.to_string()))?;
    let mut begin = [0; 512];
    match file.read_exact(&mut begin) {
        Err(_) if path.is_dir() => Err(wrong("it is a folder")),
        Err(_) => Err(wrong("it is shorter than a tar file")),
        Ok(()) if is_tar(&begin) => Ok(path),
        Ok(()) => Err(wrong("it is no tar file")),
    }
}

/// Does a file that may be compressed, in one of the ways that tar knows by itself, begin so?
fn is_tar(begin: &[u8; 512]) -> bool {
    const COMPRESSED: [&[u8]; 5] =
        [b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"\x89LZO"];
    &begin[257..262] == b"ustar" || COMPRESSED.iter().any(|magic| begin.starts_with(magic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_must_be_where_guests_see_it() {
        let told = |path: &str| find(Some(Path::new(path))).unwrap_err();
        assert!(told("no-such-root.tar").message.contains("no-such-root.tar"));
        let file = std::env::temp_dir().join(format!("blocklab-root-{}", std::process::id()));
        let told_of = |content: &[u8]| {
            std::fs::write(&file, content).unwrap();
            there(&file).unwrap_err().message
        };
        assert!(told_of(b"").contains("shorter than a tar file"));
        assert!(told_of(&[b'x'; 600]).contains("it is no tar file"));
        assert!(told("/").message.contains("it is a folder"));
        let mut tar = [0; 1024];
        tar[257..262].copy_from_slice(b"ustar");
        std::fs::write(&file, tar).unwrap();
        let found = find(Some(&file));
        std::fs::remove_file(&file).unwrap();
        let covered = COVERED.iter().any(|folder| file.starts_with(folder));
        assert_eq!(found.is_err(), covered);
    }
}
