//! Who uses a block device, or a file.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::loops;

/// One line for each that is found; without root some are not. Who uses the file that a loop
/// device is made of, or all of the drive that a partition is on, uses the device.
pub fn of(device: &Path) -> Vec<String> {
    let mut found = of_itself(device);
    // A file may be called as a partition is.
    if device.metadata().is_ok_and(|found| found.file_type().is_block_device()) {
        found.extend(of_whole(device, Path::new(loops::BLOCKS)));
    }
    found
}

/// The same without who uses the drive that a partition is on.
pub fn of_itself(device: &Path) -> Vec<String> {
    let mut found = of_with(device, Path::new(loops::BLOCKS), None);
    let mut device = device.metadata().ok();
    while let Some((file, below)) = device.as_ref().and_then(loops::below) {
        let own = device.as_ref().and_then(loops::name);
        let users = of_with(&file, Path::new(loops::BLOCKS), own.as_deref());
        let of_file = |user| format!("{}, which it is made of: {user}", file.display());
        found.extend(users.into_iter().map(of_file));
        device = Some(below);
    }
    found
}

/// Who uses all of the drive that a partition is on.
fn of_whole(part: &Path, blocks: &Path) -> Vec<String> {
    let part = part.canonicalize().unwrap_or_else(|_| part.to_path_buf());
    // The folder of a partition lies in that of its drive.
    let folder = blocks.join(part.file_name().unwrap_or_default()).canonicalize().ok();
    let folder = folder.filter(|folder| folder.join("partition").exists());
    let drive = folder.as_ref().and_then(|folder| folder.parent()?.file_name());
    let Some(drive) = drive else { return Vec::new() };
    let drive = part.with_file_name(drive);
    let users = of_with(&drive, blocks, None).into_iter();
    users.map(|user| format!("{}, which it is a part of: {user}", drive.display())).collect()
}

/// The same without what is below it, and without the loop device `own`.
fn of_with(device: &Path, blocks: &Path, own: Option<&str>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut add = |line: String| {
        if !found.contains(&line) {
            found.push(line);
        }
    };
    let sought = Sought::new(device);
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let mut swaps = swaps.lines().filter_map(|line| line.split_whitespace().next());
    if swaps.any(|name| sought.is_called(Path::new(name))) {
        add("it is swapped on: swapoff".into());
    }
    let name = sought.names.last().and_then(|path| path.file_name()).unwrap_or_default();
    let above = blocks.join(name).join("holders");
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        add(format!("{} lies on it", entry.file_name().display()));
    }
    for name in loops::above(device, blocks).iter().filter(|name| Some(name.as_str()) != own) {
        add(format!("/dev/{name} is made of it: losetup -d"));
    }
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let folder = entry.path();
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // Mounts of other name spaces are seen through their processes.
        let mounts = fs::read_to_string(folder.join("mountinfo")).unwrap_or_default();
        let points = sought.names.iter().flat_map(|name| mount_points(&mounts, name));
        points.for_each(|point| add(format!("it is mounted on {point}")));
        if id != std::process::id() && sought.is_open_in(&folder) {
            let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
            add(format!("{} (process {id}) has it open", name.trim()));
        }
    }
    found
}

/// What is looked for in the files of processes.
struct Sought {
    /// As it was given and, last, without links.
    names: Vec<PathBuf>,
    found: Option<Metadata>,
}

impl Sought {
    fn new(device: &Path) -> Sought {
        let mut names = vec![device.to_path_buf()];
        names.extend(device.canonicalize().ok().filter(|real| real != device));
        Sought { names, found: device.metadata().ok() }
    }

    fn is_called(&self, name: &Path) -> bool {
        self.names.iter().any(|own| own == name)
    }

    /// Whether the process of a folder of /proc has it open.
    fn is_open_in(&self, process: &Path) -> bool {
        let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        open.into_iter().any(|descriptor| {
            let path = descriptor.path();
            let info = || fs::read_to_string(process.join("fdinfo").join(descriptor.file_name()));
            fs::read_link(&path).is_ok_and(|target| {
                self.is_called(&target)
                    || self.may_be(&target, || info().ok()) && self.is(path.metadata().ok())
            })
        })
    }

    /// Whether it is worth asking the file system what an open file is: one that a network or a
    /// program has no more may never answer. `info` is what the kernel itself says of the file.
    fn may_be(&self, target: &Path, info: impl FnOnce() -> Option<String>) -> bool {
        let Some(own) = &self.found else { return false };
        if own.file_type().is_block_device() {
            return target.starts_with("/dev");
        }
        // Sockets and pipes have no path.
        if !own.is_file() || !target.is_absolute() {
            return false;
        }
        let info = info().unwrap_or_default();
        // Kernels before 5.14 do not say it.
        let inode =
            info.lines().find_map(|line| line.strip_prefix("ino:")?.trim().parse::<u64>().ok());
        match inode {
            Some(inode) => own.ino() == inode,
            None => self.names.iter().any(|name| name.file_name() == target.file_name()),
        }
    }

    fn is(&self, other: Option<Metadata>) -> bool {
        let Some((own, other)) = self.found.as_ref().zip(other) else { return false };
        // A device may have several nodes.
        match own.file_type().is_block_device() {
            true => other.file_type().is_block_device() && own.rdev() == other.rdev(),
            false => (own.dev(), own.ino()) == (other.dev(), other.ino()),
        }
    }
}

/// Where `device` is mounted, of the lines of a process's `mountinfo`.
fn mount_points<'m>(mountinfo: &'m str, device: &Path) -> impl Iterator<Item = &'m str> {
    mountinfo.lines().filter_map(move |line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let source = file_system.split(' ').nth(1)?;
        (Path::new(source) == device).then(|| mount.split(' ').nth(4))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mounted_device_is_found_in_the_kernels_list() {
        let text = "22 1 0:21 / /proc rw,nosuid - proc proc rw\n\
                    90 1 7:3 / /mnt/a\\040b rw shared:7 - ext4 /dev/loop3 rw\n\
                    91 1 7:30 / /mnt/c rw - ext4 /dev/loop30 rw\n";
        let points: Vec<&str> = mount_points(text, Path::new("/dev/loop3")).collect();
        assert_eq!(points, ["/mnt/a\\040b"]);
    }

    #[test]
    fn a_loop_device_of_a_file_is_found() {
        let folder = crate::PrivateFolder::new().unwrap();
        let blocks = folder.path.join("block");
        fs::create_dir_all(blocks.join("loop7/loop")).unwrap();
        fs::create_dir_all(blocks.join("vda")).unwrap();
        fs::write(blocks.join("loop7/loop/backing_file"), "/a/disk of mine\n").unwrap();
        let found = |path, own| of_with(Path::new(path), &blocks, own);
        assert_eq!(found("/a/disk of mine", None), ["/dev/loop7 is made of it: losetup -d"]);
        assert!(found("/a/disk of mine", Some("loop7")).is_empty());
        assert!(found("/a/disk", None).is_empty());
    }

    /// What `look` finds while another process has `path` open, and how that is told.
    fn while_open<T>(path: &Path, look: impl FnOnce() -> T) -> (T, String) {
        let file = fs::File::open(path).unwrap();
        let mut holder = std::process::Command::new("sleep").arg("60").stdin(file).spawn().unwrap();
        let found = look();
        holder.kill().unwrap();
        holder.wait().unwrap();
        (found, format!("sleep (process {}) has it open", holder.id()))
    }

    #[test]
    fn who_has_it_open_is_named() {
        let path = std::env::temp_dir().join(format!("blocklab-holders-{}", std::process::id()));
        fs::write(&path, "").unwrap();
        let (found, told) = while_open(&path, || of(&path));
        fs::remove_file(&path).unwrap();
        assert_eq!(found, [told]);
    }

    #[test]
    fn who_has_it_open_by_another_name_is_named() {
        let folder = crate::PrivateFolder::new().unwrap();
        let at = |name: &str| folder.path.join(name);
        fs::write(at("disk"), "").unwrap();
        fs::hard_link(at("disk"), at("other")).unwrap();
        std::os::unix::fs::symlink("disk", at("link")).unwrap();
        fs::write(at("third"), "").unwrap();
        let (found, told) =
            while_open(&at("other"), || ["disk", "link", "third"].map(|name| of(&at(name))));
        assert_eq!(found, [vec![told.clone()], vec![told], vec![]]);
    }

    #[test]
    fn no_file_system_is_asked_for_what_can_be_told_without_it() {
        let info = |text: &str| Some(text.to_string());
        let file = crate::PrivateFolder::new().unwrap();
        let path = file.path.join("disk");
        fs::write(&path, "").unwrap();
        let sought = Sought::new(&path);
        let own = format!("pos:\t0\nmnt_id:\t24\nino:\t{}\n", path.metadata().unwrap().ino());
        assert!(sought.may_be(Path::new("/dead/x"), || info(&own)));
        assert!(!sought.may_be(Path::new("/dead/disk"), || info("ino:\t0\n")));
        // An older kernel.
        assert!(sought.may_be(Path::new("/other/disk"), || info("pos:\t0\n")));
        assert!(!sought.may_be(Path::new("/dead/x"), || info("pos:\t0\n")));
        assert!(!sought.may_be(Path::new("socket:[7]"), || info(&own)));
    }

    #[test]
    fn who_has_the_whole_drive_open_uses_its_partitions() {
        let folder = crate::PrivateFolder::new().unwrap();
        let at = |name: &str| folder.path.join(name);
        fs::create_dir_all(at("devices/sdx/sdx1")).unwrap();
        fs::create_dir_all(at("block")).unwrap();
        fs::write(at("devices/sdx/sdx1/partition"), "1\n").unwrap();
        for (name, folder) in [("sdx", "../devices/sdx"), ("sdx1", "../devices/sdx/sdx1")] {
            std::os::unix::fs::symlink(folder, at("block").join(name)).unwrap();
            fs::write(at(name), "").unwrap();
        }
        let (found, told) = while_open(&at("sdx"), || {
            ["sdx1", "sdx"].map(|name| of_whole(&at(name), &at("block")))
        });
        let whole = at("sdx").canonicalize().unwrap();
        let told = format!("{}, which it is a part of: {told}", whole.display());
        assert_eq!(found, [vec![told], vec![]]);
    }

    #[test]
    fn what_lies_on_a_partition_is_named() {
        let folder = crate::PrivateFolder::new().unwrap();
        let blocks = folder.path.join("block");
        fs::create_dir_all(blocks.join("sdx1/holders/dm-7")).unwrap();
        assert_eq!(of_with(Path::new("/dev/sdx1"), &blocks, None), ["dm-7 lies on it"]);
        // Partitions have folders of their own there.
        assert_eq!(loops::BLOCKS, "/sys/class/block");
    }
}
