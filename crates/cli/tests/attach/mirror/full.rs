//! Room: what was taken ahead is kept, and a full file system stops writes only.

use std::os::unix::fs::MetadataExt;

use super::*;
use crate::support::Small;

/// Room that the files of a leg take, in bytes.
fn taken(folder: &Folder, name: &str) -> u64 {
    File::open(folder.path(name)).unwrap().metadata().unwrap().blocks() * 512
}

#[test]
fn create_keeps_the_room_that_a_leg_has_and_takes_none_for_its_data() {
    let folder = Folder::new();
    blank(&folder, "slow");
    let whole = File::create(folder.path("fast")).unwrap();
    let data = vec![7; LEG_BYTES as usize];
    whole.write_all_at(&data, 0).unwrap();
    let before = taken(&folder, "fast");
    let output = run(&folder, "create", &[LEGS, &["--overwrite", "fast"]]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(taken(&folder, "fast") >= before, "room was given back");
    // Metadata alone: a log of 4 MiB and the maps.
    let thin = taken(&folder, "slow");
    assert!((4 << 20..6 << 20).contains(&thin), "{thin} bytes are taken");
    let mut session = serve(&folder, &[]);
    let client = &mut Client::new(&folder.path("s.sock"));
    assert!(client.read(0, 1 << 20).unwrap().iter().all(|&byte| byte == 0), "old data is there");
    session.end();
    // So does the leg that replaces another.
    std::fs::copy(folder.path("fast"), folder.path("whole")).unwrap();
    let whole = OpenOptions::new().write(true).open(folder.path("whole")).unwrap();
    whole.write_all_at(&data, 0).unwrap();
    let before = taken(&folder, "whole");
    let replace = ["slow", "--with", "whole", "--overwrite", "whole"];
    let output = run(&folder, "replace", &[&replace, LEGS]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(taken(&folder, "whole") >= before, "room was given back");
}

const SMALL: &[&str] = &["--fast", "fs/fast", "--slow", "fs/slow"];

/// Both legs lie on a file system that fills up: reads go on, a start works, and with room
/// everything does.
#[test]
fn legs_on_a_full_file_system_are_read_and_started() {
    let Some(small) = Small::new("44m") else { return };
    let folder = &small.0;
    blank(folder, "fs/fast");
    blank(folder, "fs/slow");
    let output = run(folder, "create", &[SMALL]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let serve = || folder.session(&[SERVE, SMALL].concat());
    let mut session = serve();
    let mut client = Client::new(&folder.path("s.sock"));
    let data: Vec<u8> = (0..4u32 << 20).map(|n| (n % 251) as u8).collect();
    assert_eq!(client.write(0, &data), 0);
    assert_eq!(client.flush(), 0);
    // More than there is room for: nobody waits for the answers.
    let mut writer = Client::new(&folder.path("s.sock"));
    let sending = std::thread::spawn(move || {
        for n in 4..40 {
            let request = Client::request(1, n << 20, 1 << 20);
            let sent = writer.stream.write_all(&request);
            if sent.and_then(|()| writer.stream.write_all(&vec![n as u8; 1 << 20])).is_err() {
                return;
            }
        }
    });
    let told = |live: &Value| live["changes"].to_string().contains("no space left for");
    until("a leg has no room", || told(&live(folder)));
    let mut reader = Client::new(&folder.path("s.sock"));
    assert!(reader.read(0, 4 << 20).unwrap() == data);
    session.signal("KILL");
    session.ended();
    sending.join().unwrap();

    // Still full: what was flushed is there.
    let mut session = serve();
    let mut reader = Client::new(&folder.path("s.sock"));
    assert!(reader.read(0, 4 << 20).unwrap() == data);
    session.signal("KILL");
    session.ended();

    assert!(small.mount("remount,size=400m"));
    let mut session = serve();
    let mut client = Client::new(&folder.path("s.sock"));
    assert!(client.read(0, 4 << 20).unwrap() == data);
    for n in 4..40u64 {
        assert_eq!(client.write(n << 20, &vec![n as u8; 1 << 20]), 0);
    }
    assert_eq!(client.flush(), 0);
    until("both are members", || live(folder)["states"].to_string().matches("member").count() == 2);
    session.end();
}

/// A write that found no room is done when there is some: its client only waited.
#[test]
fn a_write_waits_for_room() {
    let Some(small) = Small::new("44m") else { return };
    let folder = &small.0;
    blank(folder, "fs/fast");
    blank(folder, "fs/slow");
    assert!(run(folder, "create", &[SMALL]).status.success());
    let mut session = folder.session(&[SERVE, SMALL].concat());
    let mut client = Client::new(&folder.path("s.sock"));
    let socket = folder.path("s.sock");
    let writing = std::thread::spawn(move || {
        let mut errors: Vec<u32> =
            (0..24).map(|n| client.write(n << 20, &vec![n as u8 + 1; 1 << 20])).collect();
        errors.push(client.flush());
        errors
    });
    let told = |live: &Value| live["changes"].to_string().contains("no space left for");
    until("a leg has no room", || told(&live(folder)));
    assert!(small.mount("remount,size=400m"));
    assert!(writing.join().unwrap().iter().all(|&error| error == 0));
    let mut reader = Client::new(&socket);
    for n in 0..24 {
        assert!(reader.read(n << 20, 1 << 20).unwrap() == vec![n as u8 + 1; 1 << 20]);
    }
    session.end();
}
