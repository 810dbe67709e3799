//! A root file system on a disk image, made of a tar file without root and without a loop device.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use attach::PrivateFolder;
use config::Failure;

use crate::{tool, version};

/// A machine without a number would be set up at its first boot.
const MACHINE_ID: &str = "0123456789abcdef0123456789abcdef\n";
/// The file system's identity, the same in each image.
const IDENTITY: &str = "626c6f63-6b6c-6162-0000-726f6f740000";
/// Below the private folder.
const ROOT: &str = "root";
/// Room beside the files.
const SPARE_BYTES: u64 = 128 << 20;
const BLOCK_BYTES: u64 = 4096;

/// A root that is unpacked into a folder of ours.
pub(super) struct Tree {
    /// Nobody else may look into it: what has the root's own rights lies a folder deeper.
    folder: PrivateFolder,
    /// Whose the files are, where we could not give them away: commands for debugfs.
    owners: String,
    files: u64,
    bytes: u64,
}

impl Tree {
    /// Unpack the tar file.
    ///
    /// # Errors
    /// When it is none, or there is no room.
    pub(super) fn unpack(tar: &Path) -> Result<Tree, Failure> {
        let folder = PrivateFolder::for_large_files()?;
        let root = folder.path.join(ROOT);
        fs::create_dir(&root)
            .map_err(|why| Failure::machine(format!("{}: {why}", root.display())))?;
        let told =
            |why: Failure| without_room(&folder, why.of(format_args!("root {}", tar.display())));
        let mut unpack = Command::new("tar");
        unpack.args(["--numeric-owner", "--anchored", "--wildcards"]);
        // What a kernel puts there by itself, and only root can make.
        unpack.args(["--exclude=./dev/*", "--exclude=dev/*", "-xpf"]).arg(tar);
        tool::run(unpack.arg("-C").arg(&root), b"").map_err(told)?;
        let owners = if is_root() { String::new() } else { owners(&listing(tar)?) };
        number(&root)?;
        let mut tree = Tree { folder, owners, files: 0, bytes: 0 };
        tree.count(&root);
        Ok(tree)
    }

    /// Where it is.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.path.join(ROOT)
    }

    fn count(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            self.files += 1;
            self.bytes += found.len().next_multiple_of(BLOCK_BYTES);
            if found.is_dir() {
                self.count(&entry.path());
            }
        }
    }

    /// The newest kernel in it.
    pub(super) fn kernel(&self) -> Option<PathBuf> {
        newest_kernel(&self.path().join("boot"))
    }

    /// An ext4 with all of it, as a sparse file of `capacity` at most.
    ///
    /// # Errors
    /// When it does not fit, or the machine lacks mke2fs.
    pub(super) fn image(&self, path: &Path, capacity: u64) -> Result<(), Failure> {
        let bytes = (self.bytes + self.bytes / 4 + SPARE_BYTES).next_multiple_of(1 << 20);
        if bytes > capacity {
            return Err(Failure::input(format!("the device has {} MiB", capacity >> 20))
                .expected(format!("{} MiB for the root's file system", bytes >> 20))
                .help("name a larger part"));
        }
        let mut mke2fs = Command::new("mke2fs");
        mke2fs.env("E2FSPROGS_FAKE_TIME", "1000000000");
        mke2fs.args([
            "-q",
            "-F",
            "-t",
            "ext4",
            "-U",
            IDENTITY,
            "-N",
            &(2 * self.files).to_string(),
        ]);
        // Otherwise the kernel goes on making the file system while the root boots.
        let extended =
            format!("lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0,hash_seed={IDENTITY}");
        mke2fs.args(["-E", &extended, "-d"]).arg(self.path()).arg(path);
        tool::run(mke2fs.arg(format!("{}k", bytes >> 10)), b"")
            .map_err(|why| without_room(&self.folder, why))?;
        if !self.owners.is_empty() {
            let mut debugfs = Command::new("debugfs");
            debugfs.args(["-w", "-f", "-"]).arg(path);
            tool::run(&mut debugfs, self.owners.as_bytes())?;
        }
        Ok(())
    }
}

/// Give the machine a number. A name in a root may be a link to anywhere on this machine: nothing
/// is followed.
fn number(root: &Path) -> Result<(), Failure> {
    let folder = root.join("etc");
    if !fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir()) {
        return Ok(());
    }
    let id = folder.join("machine-id");
    let wrong = |why: io::Error| Failure::machine(format!("{}: {why}", id.display()));
    match fs::remove_file(&id) {
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(wrong(why)),
        _ => {}
    }
    fs::File::create_new(&id)
        .and_then(|mut file| file.write_all(MACHINE_ID.as_bytes()))
        .map_err(wrong)
}

/// `why`, or that it is for want of room.
fn without_room(folder: &PrivateFolder, why: Failure) -> Failure {
    let Some(place) = folder.path.parent().filter(|_| attach::has_no_room(&folder.path)) else {
        return why;
    };
    let message = format!("no room is left in {} for a root's files and disk", place.display());
    Failure::machine(message).help("make room there, or set TMPDIR to a folder that has it")
}

fn is_root() -> bool {
    // A folder of our own is the effective user's.
    fs::metadata("/proc/self").is_ok_and(|found| found.uid() == 0)
}

/// The kernel with the highest version in a folder.
pub(super) fn newest_kernel(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_kernel = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
    };
    entries.filter(is_kernel).max_by(|a, b| {
        version::compare(&a.to_string_lossy(), &b.to_string_lossy()).then_with(|| a.cmp(b))
    })
}

fn listing(tar: &Path) -> Result<String, Failure> {
    let mut list = Command::new("tar");
    list.args(["--numeric-owner", "--quoting-style=literal", "-tvf"]).arg(tar);
    tool::run(&mut list, b"").map(|text| String::from_utf8_lossy(&text).into_owned())
}

/// Commands that give files to whom a listing of tar says they belong: root, mostly.
fn owners(listing: &str) -> String {
    let mut out = String::new();
    for line in listing.lines() {
        // -rw-r--r-- 0/42 1024 2026-07-02 19:05 ./etc/shadow
        let mut words = line.split_whitespace();
        let (Some(mode), Some(owner)) = (words.next(), words.next()) else { continue };
        let Some((user, group)) = owner.split_once('/') else { continue };
        // Behind the size, the day and the minute.
        let Some(name) = nth_rest(line, 5) else { continue };
        let name = match mode.as_bytes().first() {
            Some(b'l') => name.split(" -> ").next().unwrap_or(name),
            // Another name of what has an owner already.
            Some(b'h' | b'c' | b'b') => continue,
            _ => name,
        };
        let path = name.trim_start_matches('.').trim_end_matches('/');
        if path.is_empty() || path.starts_with("/dev/") {
            continue;
        }
        let quoted = path.replace('"', "\"\"");
        for (field, value) in [("uid", user), ("gid", group)] {
            out.push_str(&format!("sif \"{quoted}\" {field} {value}\n"));
        }
    }
    out
}

/// What is behind the first `count` words of a line and the blanks that end them.
fn nth_rest(line: &str, count: usize) -> Option<&str> {
    let mut rest = line;
    for _ in 0..count {
        rest = rest.trim_start();
        rest = &rest[rest.find(' ')?..];
    }
    rest.strip_prefix(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_has_the_highest_version() {
        let folder = PrivateFolder::new().unwrap();
        let name = |version: &str| folder.path.join(format!("vmlinuz-{version}-amd64"));
        for version in ["6.1.0-9", "6.1.0-10"] {
            fs::write(name(version), "").unwrap();
        }
        fs::write(folder.path.join("zzz"), "").unwrap();
        assert_eq!(newest_kernel(&folder.path), Some(name("6.1.0-10")));
    }

    #[test]
    fn files_get_the_owners_of_the_listing() {
        let listing = "\
drwxr-xr-x 0/0               0 2026-07-02 19:05 ./
-rw-r----- 0/42            604 2026-07-02 19:05 ./etc/shadow
-rw-r--r-- 7/8               1 2026-07-02 19:05 ./srv/a \"b\"  c
lrwxrwxrwx 0/0               0 2026-07-02 19:05 ./bin -> usr/bin
hrw-r--r-- 0/0               0 2026-07-02 19:05 ./x link to ./y
crw-rw-rw- 0/0             1,3 2026-07-02 19:05 ./dev/null
";
        let expected = "sif \"/etc/shadow\" uid 0\nsif \"/etc/shadow\" gid 42\n\
                        sif \"/srv/a \"\"b\"\"  c\" uid 7\nsif \"/srv/a \"\"b\"\"  c\" gid 8\n\
                        sif \"/bin\" uid 0\nsif \"/bin\" gid 0\n";
        assert_eq!(owners(listing), expected);
        assert_eq!(owners("tar: nothing\n\n"), "");
    }

    #[test]
    fn what_is_no_tar_file_is_told() {
        let folder = PrivateFolder::new().unwrap();
        let path = folder.path.join("root.tar");
        fs::write(&path, "my notes").unwrap();
        let Err(failure) = Tree::unpack(&path) else { panic!("it was unpacked") };
        assert!(failure.message.contains("root.tar: `tar` failed"), "{failure}");
    }

    /// What links lead to is this machine's.
    #[test]
    fn nothing_outside_of_a_root_is_written() {
        let folder = PrivateFolder::new().unwrap();
        let [root, file, etc] = ["root", "file", "etc"].map(|name| folder.path.join(name));
        fs::write(&file, "the host's own").unwrap();
        fs::create_dir(&etc).unwrap();
        fs::create_dir_all(root.join("etc")).unwrap();
        std::os::unix::fs::symlink(&file, root.join("etc/machine-id")).unwrap();
        number(&root).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "the host's own");
        assert_eq!(fs::read_to_string(root.join("etc/machine-id")).unwrap(), MACHINE_ID);
        fs::remove_dir_all(root.join("etc")).unwrap();
        std::os::unix::fs::symlink(&etc, root.join("etc")).unwrap();
        number(&root).unwrap();
        assert_eq!(fs::read_dir(&etc).unwrap().count(), 0);
    }

    #[test]
    fn an_image_has_the_files_and_their_owners_whoever_makes_it() {
        if !["mke2fs", "debugfs"].iter().all(|program| tool::have(program)) {
            return;
        }
        let folder = PrivateFolder::new().unwrap();
        fs::create_dir_all(folder.path.join("root/etc")).unwrap();
        fs::write(folder.path.join("root/etc/shadow"), "secret").unwrap();
        let tar = folder.path.join("root.tar");
        let mut pack = Command::new("tar");
        pack.arg("-cf").arg(&tar).arg("-C").arg(folder.path.join("root")).arg(".");
        tool::run(&mut pack, b"").unwrap();
        let mut tree = Tree::unpack(&tar).unwrap();
        let mode = fs::metadata(&tree.folder.path).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700, "as if the tar file had no mode of its own");
        tree.owners = owners("-rw-r----- 1/42 6 2026-07-02 19:05 ./etc/shadow\n");
        let image = folder.path.join("image");
        tree.image(&image, 1 << 30).unwrap();
        let ask = |order: &str| {
            let mut debugfs = Command::new("debugfs");
            debugfs.args(["-R", order]).arg(&image);
            String::from_utf8(tool::run(&mut debugfs, b"").unwrap()).unwrap()
        };
        assert_eq!(ask("cat /etc/shadow"), "secret");
        let told = ask("stat /etc/shadow");
        assert!(told.contains("User:     1   Group:    42"), "{told}");
        assert_eq!(ask("cat /etc/machine-id"), MACHINE_ID);
    }

    #[test]
    fn a_root_that_is_too_large_for_a_device_is_told() {
        let folder = PrivateFolder::new().unwrap();
        let tree = Tree { folder, owners: String::new(), files: 1, bytes: 1 << 30 };
        let failure = tree.image(Path::new("none"), 1 << 30).unwrap_err();
        assert!(failure.message.contains("has 1024 MiB"), "{failure}");
    }
}
