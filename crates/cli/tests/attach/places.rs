//! Where a session writes: what is in the way is refused before it begins, and kept.

use crate::support::{Client, Folder, Small};

/// The session is refused in these words, its program never ran, and nothing new is there.
fn refused(folder: &Folder, args: &[&str], words: &str) {
    let names = || {
        let entries = std::fs::read_dir(&folder.0).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    std::fs::create_dir_all(folder.path("out")).unwrap();
    let before = names();
    let done = folder.captive(&[&["part.toml"], args].concat(), "touch ran");
    assert_eq!(done.code, Some(2), "{args:?}: {}", done.stderr);
    assert!(done.stderr.contains(words), "{args:?}: no {words:?} in {}", done.stderr);
    assert_eq!(done.stderr.matches("error:").count(), 1, "{}", done.stderr);
    assert_eq!(names(), before, "{args:?}");
}

#[test]
fn what_somebody_else_wrote_is_kept() {
    let folder = Folder::new();
    let write = |name: &str, text: &str| {
        std::fs::create_dir_all(folder.path(name).parent().unwrap()).unwrap();
        std::fs::write(folder.path(name), text).unwrap();
    };
    let kept = |name: &str, text: &str| {
        assert_eq!(std::fs::read_to_string(folder.path(name)).unwrap(), text);
    };
    write("dear.txt", "dear");
    let record = ["--record", "dear.txt", "--data", "disk.img"];
    refused(&folder, &record, "dear.txt exists already");
    kept("dear.txt", "dear");
    // A report of something else has devices, too.
    for theirs in ["dear", r#"{ "devices": ["phone"] }"#, r#"{ "frontend": "x", "devices": [] }"#] {
        write("mine/attach.json", theirs);
        refused(&folder, &["--out", "mine"], "mine/attach.json exists already");
        kept("mine/attach.json", theirs);
    }
    refused(&folder, &["--out", "dear.txt"], "cannot make the folder dear.txt");
}

/// The data's file would be as large as the drive.
#[test]
fn a_state_of_somebody_else_is_kept_and_no_data_made_beside_it() {
    let folder = Folder::new();
    std::fs::write(folder.path("disk.img.state"), "dear").unwrap();
    refused(&folder, &["--data", "disk.img"], "disk.img.state is in the way");
    assert_eq!(std::fs::read_to_string(folder.path("disk.img.state")).unwrap(), "dear");
}

#[test]
fn a_report_of_ours_is_replaced() {
    let folder = Folder::new();
    for code in [0, 7] {
        let done = folder.captive(&["part.toml"], &format!("exit {code}"));
        assert_eq!(done.code, Some(code), "{}", done.stderr);
    }
}

#[test]
fn what_cannot_be_written_is_found_out_before_the_session() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("mine/attach.json")).unwrap();
    refused(&folder, &["--out", "mine"], "mine/attach.json is a folder");
    refused(&folder, &["--out", "/proc"], "cannot write /proc/attach.json");
    refused(&folder, &["--record", "mine"], "mine is a folder");
    refused(&folder, &["--record", "no/such/folder"], "cannot write the trace no/such/folder");
}

#[test]
fn one_file_is_not_written_twice() {
    let folder = Folder::new();
    let report = ["--record", "out/attach/attach.json"];
    refused(&folder, &report, "out/attach/attach.json is both the report and --record");
    let data = ["--record", "./disk.img", "--data", "disk.img"];
    refused(&folder, &data, "disk.img is both --");
}

#[test]
fn a_recording_without_room_is_cut_off_and_says_so() {
    let Some(small) = Small::new("1m") else { return };
    let folder = &small.0;
    std::fs::write(folder.path("fs/full"), vec![1; (1 << 20) - 4096]).unwrap();
    let record = ["part.toml", "--record", "fs/trace", "--socket", "s.sock"];
    let mut session = folder.serve(&record);
    let mut client = Client::new(&folder.path("s.sock"));
    (0..200).for_each(|at| assert_eq!(client.write(at * 4096, &[1; 4096]), 0));
    session.signal("INT");
    assert_eq!(session.ended(), Some(3));
}

#[test]
fn a_report_without_room_leaves_the_older_one_and_no_half() {
    let Some(small) = Small::new("64k") else { return };
    let folder = &small.0;
    let out = ["part.toml", "--out", "fs"];
    assert_eq!(folder.captive(&out, "true").code, Some(0));
    let report = std::fs::read(folder.path("fs/attach.json")).unwrap();
    let pages = report.len().next_multiple_of(4096);
    std::fs::write(folder.path("fs/full"), vec![1; (64 << 10) - pages]).unwrap();
    let done = folder.captive(&out, "true");
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    assert!(done.stderr.contains("cannot write fs/attach.json"), "{}", done.stderr);
    assert_eq!(std::fs::read(folder.path("fs/attach.json")).unwrap(), report);
    assert_eq!(std::fs::read_dir(folder.path("fs")).unwrap().count(), 2);
}
