//! Who uses a block device, or a file.

use std::fs;
use std::path::Path;

/// One line for each that is found; without root some are not.
pub fn of(device: &Path) -> Vec<String> {
    of_with(device, Path::new("/sys/block"))
}

fn of_with(device: &Path, blocks: &Path) -> Vec<String> {
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
    for entry in fs::read_dir(blocks).into_iter().flatten().flatten() {
        let backed = fs::read_to_string(entry.path().join("loop/backing_file"));
        if backed.is_ok_and(|path| Path::new(path.trim_end_matches('\n')) == device) {
            add(format!("/dev/{} is made of it: losetup -d", entry.file_name().display()));
        }
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
        let found = |path| of_with(Path::new(path), &blocks);
        assert_eq!(found("/a/disk of mine"), ["/dev/loop7 is made of it: losetup -d"]);
        assert!(found("/a/disk").is_empty());
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
