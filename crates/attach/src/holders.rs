//! Who uses a block device, or a file.

use std::fs;
use std::path::Path;

use crate::loops;

/// One line for each that is found; without root some are not. Who uses the file that a loop
/// device is made of uses the device.
pub fn of(device: &Path) -> Vec<String> {
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

/// The same without what is below it, and without the loop device `own`.
fn of_with(device: &Path, blocks: &Path, own: Option<&str>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut add = |line: String| {
        if !found.contains(&line) {
            found.push(line);
        }
    };
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    if swaps.lines().any(|line| line.split_whitespace().next().map(Path::new) == Some(device)) {
        add("it is swapped on: swapoff".into());
    }
    let name = device.file_name().unwrap_or_default();
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
        mount_points(&mounts, device).for_each(|point| add(format!("it is mounted on {point}")));
        let open = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
        let mut targets = open.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
        if id != std::process::id() && targets.any(|target| target == device) {
            let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
            add(format!("{} (process {id}) has it open", name.trim()));
        }
    }
    found
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

    #[test]
    fn who_has_it_open_is_named() {
        let path = std::env::temp_dir().join(format!("blocklab-holders-{}", std::process::id()));
        fs::write(&path, "").unwrap();
        let file = fs::File::open(&path).unwrap();
        let mut holder = std::process::Command::new("sleep").arg("60").stdin(file).spawn().unwrap();
        let found = of(&path);
        holder.kill().unwrap();
        holder.wait().unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(found, [format!("sleep (process {}) has it open", holder.id())]);
    }
}
