//! The kernel's source, and where it comes from.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use sim::Digest;
use study::Failure;

/// Debian 12's package.
pub(super) const PACKAGE: &str = "linux-source-6.1";

/// What to do about a full disk.
pub(super) const ROOM: &str =
    "2 GiB of room are needed there; set XDG_CACHE_HOME to a folder that has it";

/// A kernel's source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// An unpacked tree.
    Tree(PathBuf),
    /// A packed one.
    Archive(PathBuf),
}

impl Source {
    /// The distribution's, which is installed when we may.
    pub(super) fn of_distribution() -> Result<Source, Failure> {
        if let Some(archive) = installed() {
            return Ok(Source::Archive(archive));
        }
        if rustix::process::geteuid().is_root() && which("apt-get") {
            install()?;
        }
        installed().map(Source::Archive).ok_or_else(|| {
            Failure::machine("there is no kernel source in /usr/src").help(format!(
                "sudo apt-get install {PACKAGE}, or --source DIR for a tree of Linux 5.10 or newer"
            ))
        })
    }

    /// The user's own.
    pub(super) fn check(path: &Path) -> Result<Source, Failure> {
        let is_tree = path.join("Makefile").is_file() && path.join("arch/um").is_dir();
        match (is_tree, path.is_file()) {
            (true, _) => Ok(Source::Tree(path.to_path_buf())),
            (false, true) => Ok(Source::Archive(path.to_path_buf())),
            (false, false) => {
                Err(Failure::input(format!("--source {}: no Linux there", path.display()))
                    .expected(
                        "the top folder of a kernel's source (with arch/um), or its tar file",
                    ))
            }
        }
    }

    /// The version, as far as it can be told without unpacking.
    pub(super) fn version(&self) -> Option<String> {
        match self {
            Source::Tree(path) => tree_version(path),
            Source::Archive(path) => {
                let package = path.file_name()?.to_str()?.split(".tar").next()?;
                let mut ask = Command::new("dpkg-query");
                let out = ask.args(["-W", "-f", "${Version}", package]).output().ok();
                let version = out
                    .filter(|out| out.status.success())
                    .map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
                let version = version.unwrap_or_else(|| package.replace("linux-", ""));
                Some(version.replace(['+', '/', ' '], "-"))
            }
        }
    }

    /// Tells it from what stood at its place before: a digest of the names, lengths and times of
    /// its files, by which `make`, too, knows what was changed.
    pub(super) fn fingerprint(&self) -> Result<String, Failure> {
        let (Source::Archive(path) | Source::Tree(path)) = self;
        let mut digest = Digest::default();
        add_files(&mut digest, path).map_err(|why| {
            Failure::input(format!("--source {}: {why}", path.display()))
                .expected("a kernel's source that can be read")
        })?;
        Ok(digest.to_string())
    }

    /// Put a tree of our own at `to`; the source stays as it is.
    pub(super) fn unpack(&self, to: &Path) -> Result<(), Failure> {
        std::fs::create_dir(to).map_err(|why| self.unmade(to, &why.to_string()))?;
        let mut command = match self {
            Source::Archive(path) => {
                let mut tar = Command::new("tar");
                tar.arg("-xf").arg(path).arg("--strip-components=1").arg("-C").arg(to);
                tar
            }
            Source::Tree(path) => {
                let mut copy = Command::new("cp");
                copy.arg("-a").arg("--reflink=auto").arg(path.join(".")).arg(to);
                copy
            }
        };
        let out = command.output().map_err(|why| self.unmade(to, &why.to_string()))?;
        if out.status.success() {
            Ok(())
        } else {
            Err(self.unmade(to, String::from_utf8_lossy(&out.stderr).trim()))
        }
    }

    fn unmade(&self, to: &Path, why: &str) -> Failure {
        let (Source::Archive(from) | Source::Tree(from)) = self;
        let what = format!("cannot unpack {} to {}: {why}", from.display(), to.display());
        if to.parent().is_some_and(crate::has_no_room) {
            return Failure::machine(what).help(ROOM);
        }
        Failure::input(what).expected("Linux's source, as a folder or a tar file")
    }
}

/// A file, or all files of a folder in a fixed order; git's own are no source.
fn add_files(digest: &mut Digest, path: &Path) -> std::io::Result<()> {
    let about = path.symlink_metadata()?;
    if !about.is_dir() {
        path.as_os_str().as_encoded_bytes().iter().for_each(|&byte| digest.add(u64::from(byte)));
        [about.len(), about.mtime() as u64, about.mtime_nsec() as u64]
            .into_iter()
            .for_each(|number| digest.add(number));
        return Ok(());
    }
    let entries = std::fs::read_dir(path)?.collect::<std::io::Result<Vec<_>>>()?;
    let mut below: Vec<PathBuf> = entries.iter().map(std::fs::DirEntry::path).collect();
    below.retain(|path| !path.ends_with(".git"));
    below.sort();
    below.iter().try_for_each(|path| add_files(digest, path))
}

/// `VERSION.PATCHLEVEL.SUBLEVEL` and `EXTRAVERSION` of a tree's Makefile.
pub(super) fn tree_version(tree: &Path) -> Option<String> {
    let text = std::fs::read_to_string(tree.join("Makefile")).ok()?;
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_prefix('='));
        line.map(|value| value.trim().to_string())
    };
    let extra = of("EXTRAVERSION").unwrap_or_default();
    Some(format!("{}.{}.{}{extra}", of("VERSION")?, of("PATCHLEVEL")?, of("SUBLEVEL")?))
}

/// The newest of the distribution's archives.
pub(super) fn installed() -> Option<PathBuf> {
    let entries = std::fs::read_dir("/usr/src").ok()?;
    let archives = entries.flatten().map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("linux-source-") && name.contains(".tar")
    });
    archives.max()
}

/// Whether the distribution has the package.
pub(super) fn is_offered() -> bool {
    let asked = Command::new("apt-cache").args(["show", PACKAGE]).output();
    asked.is_ok_and(|out| out.status.success() && !out.stdout.is_empty())
}

fn install() -> Result<(), Failure> {
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments);
        command.output().is_ok_and(|out| out.status.success())
    };
    // An old list of packages may still do.
    apt(&["update", "-qq"]);
    if apt(&["install", "-y", "-qq", "--no-install-recommends", PACKAGE]) {
        Ok(())
    } else {
        Err(Failure::machine(format!("apt-get cannot install {PACKAGE}"))
            .help("blocklab kernel build --source DIR takes any tree of Linux 5.10 or newer"))
    }
}

/// True when a program is there.
pub(super) fn which(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_known_by_its_makefile() {
        let tree = std::env::temp_dir().join(format!("blocklab-tree-{}", std::process::id()));
        std::fs::create_dir_all(tree.join("arch/um")).unwrap();
        let makefile = "# SPDX\nVERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 192\nEXTRAVERSION =\n";
        std::fs::write(tree.join("Makefile"), makefile).unwrap();
        let version = Source::check(&tree).unwrap().version();
        let fingerprint = || Source::check(&tree).unwrap().fingerprint().unwrap();
        let (before, again) = (fingerprint(), fingerprint());
        std::fs::write(tree.join("arch/um/a.c"), "int a;\n").unwrap();
        let changed = fingerprint();
        std::fs::write(tree.join("Makefile"), makefile.replace("ON =\n", "ON = -rc1\n")).unwrap();
        let candidate = Source::check(&tree).unwrap().version();
        std::fs::remove_dir_all(&tree).unwrap();
        assert_eq!(version.as_deref(), Some("6.1.192"));
        assert_eq!(candidate.as_deref(), Some("6.1.192-rc1"));
        assert!(before == again && before != changed);
    }

    #[test]
    fn a_source_that_is_none_is_refused() {
        let failure = Source::check(Path::new("/proc")).unwrap_err();
        assert!(failure.message.contains("no Linux there") && failure.exit_code() == 2);
    }
}
