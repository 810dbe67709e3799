//! The same on block devices, past the page cache.

use std::os::unix::fs::symlink;
use std::process::Command;

use super::*;

/// Loop devices, under the names of legs in a folder.
struct Loops {
    folder: Folder,
    devices: Vec<String>,
}

impl Loops {
    /// `None` where nobody may make them.
    fn new() -> Option<Loops> {
        if !have(&["losetup"]) {
            return None;
        }
        let mut loops = Loops { folder: Folder::new(), devices: Vec::new() };
        for name in ["fast", "slow"] {
            let file = format!("{name}.img");
            blank(&loops.folder, &file);
            let path = loops.folder.path(&file);
            let made = Command::new("losetup").args(["--find", "--show"]).arg(path).output();
            let device = made.ok().filter(|made| made.status.success());
            let Some(device) = device.and_then(|made| String::from_utf8(made.stdout).ok()) else {
                eprintln!("skipped: no loop device may be made");
                return None;
            };
            loops.devices.push(device.trim().into());
            symlink(device.trim(), loops.folder.path(name)).unwrap();
        }
        Some(loops)
    }

    fn made(args: &[&str]) -> Option<Loops> {
        let loops = Loops::new()?;
        let output = run(&loops.folder, "create", &[LEGS, args]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(loops)
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for device in &self.devices {
            // What cannot be undone here is seen by whoever looks for leftovers.
            let _ = Command::new("losetup").args(["--detach", device]).status();
        }
    }
}

#[test]
fn fio_verifies_what_it_wrote() {
    let Some(loops) = Loops::made(&[]) else { return };
    fio_verifies(&loops.folder);
}

#[test]
fn what_was_flushed_survives_kill_9() {
    for mode in ["log", "relaxed", "strict"] {
        let Some(loops) = Loops::made(&["--mode", mode]) else { return };
        survives_kill_9(&loops.folder, mode, 3);
    }
}

/// A leg that shrinks to almost nothing: an error of each request, not of the mirror.
#[test]
fn a_leg_that_shrinks_is_left_out() {
    let Some(loops) = Loops::made(&[]) else { return };
    let folder = &loops.folder;
    let mut session = serve(folder, &[]);
    let mut client = Client::new(&folder.path("s.sock"));
    let image = OpenOptions::new().write(true).open(folder.path("slow.img")).unwrap();
    let resized = |bytes: u64| {
        image.set_len(bytes).unwrap();
        let told = Command::new("losetup").args(["--set-capacity", &loops.devices[1]]).status();
        assert!(told.unwrap().success());
    };
    resized(1 << 20);
    assert_eq!(client.write(1 << 20, &[1; 65536]), 0);
    assert_eq!(client.flush(), 0);
    until("the leg is out", || live(folder)["states"][1] == "out");
    assert_eq!(client.read(1 << 20, 65536).unwrap(), [1; 65536]);
    session.end();
}
