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
                skip("loop", "no loop device may be made");
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

/// The file of a loop device and another loop device of it are the same device.
#[test]
fn a_file_is_served_once_under_whichever_loop_device() {
    let Some(loops) = Loops::made(&[]) else { return };
    let folder = &loops.folder;
    let file = folder.path("fast.img");
    let again = Command::new("losetup").args(["--find", "--show"]).arg(file).output().unwrap();
    assert!(again.status.success());
    let again = String::from_utf8(again.stdout).unwrap().trim().to_string();
    let _detach = Loops { folder: Folder::new(), devices: vec![again.clone()] };
    let session = serve(folder, &[]);
    for (fast, words) in [("fast.img", "is in use"), (&again[..], "fast.img, which it is made of")]
    {
        let other = ["--fast", fast, "--slow", "slow.img", "--run", "true"];
        refused(&run(folder, "serve", &[&other]), &[words, "stop that one first"]);
        let other = ["--fast", fast, "--slow", "slow", "--overwrite", fast];
        refused(&run(folder, "create", &[&other]), &["is in use"]);
    }
    drop(session);
    // Nor may one mirror have it twice.
    for slow in ["fast.img", &again] {
        let twice = ["--fast", "fast", "--slow", slow];
        refused(&run(folder, "serve", &[&twice]), &["--fast and --slow are both"]);
    }
    let mut files =
        folder.session(&[SERVE, &["--fast", "fast.img", "--slow", "slow.img"]].concat());
    refused(&run(folder, "serve", &[LEGS]), &["is in use", "fast.img, which it is made of"]);
    files.end();
}
