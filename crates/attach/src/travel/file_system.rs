//! Which file systems the guest can make, and where programs are.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use study::Failure;

use super::inside::PATH;
use super::plan::Mkfs;

/// Name, options of its mkfs that make it silent and unasking, and the package it comes in.
const ALL: [(&str, &[&str], &str); 8] = [
    ("ext2", &["-q", "-F"], "e2fsprogs"),
    ("ext3", &["-q", "-F"], "e2fsprogs"),
    ("ext4", &["-q", "-F"], "e2fsprogs"),
    ("xfs", &["-q", "-f"], "xfsprogs"),
    ("btrfs", &["-q", "-f"], "btrfs-progs"),
    ("reiserfs", &["-q", "-ff"], "reiserfsprogs"),
    ("jfs", &["-q"], "jfsutils"),
    ("f2fs", &["-q", "-f"], "f2fs-tools"),
];

/// The file systems' names.
pub const NAMES: [&str; 8] = {
    let mut names = [""; 8];
    let mut index = 0;
    while index < ALL.len() {
        names[index] = ALL[index].0;
        index += 1;
    }
    names
};

/// How `name` is made on the first disk, with these further options.
///
/// # Errors
/// When it is unknown, or its program is not installed.
pub(super) fn command(name: &str, more: &[String], discards: bool) -> Result<Mkfs, Failure> {
    let Some((_, options, package)) = ALL.iter().find(|(known, ..)| *known == name) else {
        let nearest = study::nearest(name, NAMES).map(|near| format!(" (nearest: {near})"));
        return Err(Failure::input(format!("--mkfs {name}: no such file system"))
            .expected(format!("{}{}", NAMES.join(", "), nearest.unwrap_or_default())));
    };
    let program = find_program(&format!("mkfs.{name}"), Path::new("/")).ok_or_else(|| {
        Failure::machine(format!(
            "mkfs.{name} is not installed; the guest has this machine's files"
        ))
        .help(format!("sudo apt-get install {package}"))
    })?;
    let options = options.iter().map(|o| o.to_string()).chain(more.iter().cloned());
    let arguments = options.chain(["/dev/vda".into()]).collect();
    Ok(Mkfs { program: program.display().to_string(), arguments, discards })
}

/// Fails when `name` cannot be made on this machine, as [`command`] says.
pub(crate) fn check(name: &str) -> Result<(), Failure> {
    command(name, &[], true).map(drop)
}

/// Where the guest finds `name`, which may be a path seen from `here`.
pub(crate) fn find_program(name: &str, here: &Path) -> Option<PathBuf> {
    let runs = |path: &PathBuf| {
        let meta = std::fs::metadata(path).ok();
        meta.is_some_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        Some(here.join(name)).filter(runs)
    } else {
        PATH.split(':').map(|folder| Path::new(folder).join(name)).find(runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_file_system_gets_its_nearest() {
        let failure = command("ext33", &[], true).unwrap_err();
        assert!(failure.expected.unwrap().contains("nearest: ext3"));
        assert_eq!(failure.kind, study::Kind::Input);
    }

    #[test]
    fn programs_are_found_where_the_guest_looks() {
        assert!(find_program("sh", Path::new("/")).is_some());
        assert!(find_program("no-such-program", Path::new("/")).is_none());
        assert_eq!(find_program("./sh", Path::new("/bin")), Some("/bin/./sh".into()));
        assert!(find_program("/bin", Path::new("/")).is_none());
    }
}
