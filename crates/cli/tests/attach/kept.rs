//! Data and the device's state between sessions.

use crate::control::ctl;
use crate::support::{Client, Folder, Small};

#[test]
fn data_and_state_last_from_one_session_to_the_next() {
    let folder = Folder::new();
    let args = ["slc2010-paper", "--data", "disk.img", "--socket", "s.sock"];
    let mut session = folder.serve(&args);
    let mut client = Client::new(&folder.path("s.sock"));
    assert_eq!(client.write(1 << 20, &[7; 65536]), 0);
    let (code, said) = ctl(&folder, &["status"]);
    assert!(code == 2 && said.contains("no session listens"), "{said}");
    // Two sessions never share a file.
    let second = folder.captive(&["slc2010-paper", "--data", "disk.img"], "true");
    assert!(second.code == Some(2) && second.stderr.contains("in use"), "{}", second.stderr);
    session.end();
    assert!(folder.path("disk.img.state").exists());
    let mut session = folder.serve(&args);
    let mut client = Client::new(&folder.path("s.sock"));
    assert_eq!(client.read(1 << 20, 65536).unwrap(), vec![7; 65536]);
    session.end();
    let other = folder.captive(&[&args[..3], &["--set", "ssd.gc=fifo"]].concat(), "true");
    assert_eq!(other.code, Some(2), "{}", other.stderr);
    assert!(other.stderr.contains("is the state of another device"), "{}", other.stderr);
    // A drive that is there does not begin anew.
    let filled = folder.captive(&[&args[..3], &["--fill"]].concat(), "true");
    assert_eq!(filled.code, Some(2), "{}", filled.stderr);
    assert!(filled.stderr.contains("--fill: disk.img.state says what is on the drive"));
    assert!(folder.path("disk.img.state").exists(), "nothing was overwritten");
}

#[test]
fn a_device_without_a_file_beside_one_with_a_file_is_told() {
    let folder = Folder::new();
    let args = ["a=part.toml", "b=part.toml", "--data", "a.img"];
    let told = "b has no file: its data goes with the session";
    let done = folder.captive(&args, "true").good();
    assert!(done.report["notes"].to_string().contains(told), "{}", done.report["notes"]);
    let both = folder.captive(&[&args[..], &["--data", "b.img"]].concat(), "true").good();
    assert!(!both.report["notes"].to_string().contains("has no file"));
    let none = folder.captive(&args[..2], "true").good();
    assert!(!none.report["notes"].to_string().contains("has no file"));
}

/// Its tables are read when they are needed, which is too late to tell anybody.
#[test]
fn a_damaged_state_is_told_before_the_session() {
    let folder = Folder::new();
    let aged = ["tlc-3d-128", "--data", "disk.img", "--fill"];
    folder.captive(&aged, "true").good();
    let path = folder.path("disk.img.state");
    let whole = std::fs::read(&path).unwrap();
    for place in [100, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[place] ^= 128;
        std::fs::write(&path, damaged).unwrap();
        let refused = folder.captive(&aged[..3], "echo it began");
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{}", refused.stderr);
        let said = "cannot restore the device from disk.img.state";
        assert!(refused.stderr.contains(said), "{place}: {}", refused.stderr);
        for left in ["disk.img.dirty", "disk.img.state.partial"] {
            assert!(!folder.path(left).exists(), "{left}");
        }
    }
    std::fs::write(&path, whole).unwrap();
    folder.captive(&aged[..3], "true").good();
    // Somebody writes to it while it is in use.
    let damage = "dd if=/dev/zero of=disk.img.state bs=1M seek=8 count=8 conv=notrunc status=none";
    let ended = folder.captive(&aged[..3], damage);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("error: a saved drive is damaged: "), "{}", ended.stderr);
}

#[test]
fn a_state_whose_data_is_gone_is_asked_about() {
    let folder = Folder::new();
    session_that_writes(&folder, 1, "TERM");
    std::fs::rename(folder.path("disk.img"), folder.path("elsewhere")).unwrap();
    let refused = folder.captive(&ARGS, "true");
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("disk.img is not there"), "{}", refused.stderr);
    assert!(!folder.path("disk.img").exists() && folder.path("disk.img.state").exists());
    // Nor is one that was cut to nothing the data of that state.
    std::fs::write(folder.path("disk.img"), "").unwrap();
    let refused = folder.captive(&ARGS, "true");
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("disk.img is empty"), "{}", refused.stderr);
    std::fs::remove_file(folder.path("disk.img")).unwrap();
    // So is the mark of a session that was killed; nobody is told to remove what is none.
    let [state, mark] = ["disk.img.state", "disk.img.dirty"].map(|name| folder.path(name));
    let saved = std::fs::read(&state).unwrap();
    std::fs::remove_file(&state).unwrap();
    for (text, said) in [("", "but disk.img.dirty is"), ("mine", "no session has written it")] {
        std::fs::write(&mark, text).unwrap();
        let refused = folder.captive(&ARGS, "true");
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
        assert!(!folder.path("disk.img").exists());
    }
    std::fs::remove_file(&mark).unwrap();
    std::fs::write(&state, saved).unwrap();
    // The way on that it names.
    std::fs::remove_file(folder.path("disk.img.state")).unwrap();
    folder.captive(&ARGS, "true").good();
}

const ARGS: [&str; 5] = ["slc2010-paper", "--data", "disk.img", "--socket", "s.sock"];

/// A session that writes one page and ends by this signal.
fn session_that_writes(folder: &Folder, value: u8, signal: &str) {
    let mut session = folder.serve(&ARGS);
    let mut client = Client::new(&folder.path("s.sock"));
    assert_eq!(client.write(1 << 20, &[value; 4096]), 0);
    session.signal(signal);
    session.ended();
}

#[test]
fn a_state_that_was_lost_is_asked_about() {
    let folder = Folder::new();
    session_that_writes(&folder, 1, "KILL");
    let refused = folder.captive(&ARGS, "true");
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    for said in [
        "was killed, or failed, before it saved",
        "there is no disk.img.state",
        "rm disk.img.dirty",
    ] {
        assert!(refused.stderr.contains(said), "{said:?} is not in {}", refused.stderr);
    }
    assert!(!folder.path("disk.img.state").exists());
    // The way on that it names.
    std::fs::remove_file(folder.path("disk.img.dirty")).unwrap();
    let fresh = folder.captive(&ARGS, "true").good();
    assert!(fresh.stderr.contains("to the device nothing was ever written"), "{}", fresh.stderr);
    assert!(fresh.report["notes"][0].as_str().unwrap().contains("--fill"), "{}", fresh.report);
    assert!(!folder.path("disk.img.dirty").exists());
}

#[test]
fn the_state_from_before_a_killed_session_is_not_taken_for_the_present_one() {
    let folder = Folder::new();
    session_that_writes(&folder, 1, "TERM");
    assert!(!folder.captive(&ARGS, "true").good().stderr.contains("disk.img"));
    session_that_writes(&folder, 2, "KILL");
    let refused = folder.captive(&ARGS, "true");
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    let said = "disk.img.state is from before that session";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
    std::fs::remove_file(folder.path("disk.img.dirty")).unwrap();
    let older = folder.captive(&ARGS, "true").good();
    assert!(older.stderr.contains("changed or copied after"), "{}", older.stderr);
}

#[test]
fn an_older_state_put_back_is_noticed() {
    let folder = Folder::new();
    session_that_writes(&folder, 1, "TERM");
    let (state, backup) = (folder.path("disk.img.state"), folder.path("backup"));
    std::fs::copy(&state, &backup).unwrap();
    session_that_writes(&folder, 2, "TERM");
    std::fs::copy(&backup, &state).unwrap();
    let older = folder.captive(&ARGS, "true").good();
    assert!(older.stderr.contains("changed or copied after"), "{}", older.stderr);
}

#[test]
fn a_session_that_did_not_begin_or_only_reads_leaves_no_mark() {
    let folder = Folder::new();
    let taken = [&ARGS[..3], &["--socket", "no/such/folder"]].concat();
    assert_eq!(folder.captive(&taken, "true").code, Some(2));
    assert!(!folder.path("disk.img.dirty").exists());
    let mut session = folder.serve(&[&ARGS[..], &["--read-only"]].concat());
    assert!(!folder.path("disk.img.dirty").exists());
    session.signal("KILL");
    session.ended();
    folder.captive(&ARGS, "true").good();
}

/// What stands under the names that the state needs is not ours to replace unless a session wrote
/// it, and that is known before the session begins.
#[test]
fn foreign_files_in_the_way_of_the_state_are_refused_and_kept() {
    let folder = Folder::new();
    for name in ["disk.img.state.partial", "disk.img.state", "disk.img.dirty"] {
        let foreign = folder.path(name);
        std::fs::write(&foreign, "my notes").unwrap();
        let refused = folder.captive(&ARGS, "touch started");
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains(name), "{}", refused.stderr);
        assert!(!folder.path("started").exists(), "{name}: the session had begun");
        assert_eq!(std::fs::read_to_string(&foreign).unwrap(), "my notes");
        std::fs::remove_file(&foreign).unwrap();
    }
    // Neither is one that comes while the session goes on.
    let partial = folder.path("disk.img.state.partial");
    let late = folder.captive(&ARGS, "echo my notes > disk.img.state.partial");
    assert_ne!(late.code, Some(0));
    assert!(late.stderr.contains("is in the way"), "{}", late.stderr);
    assert_eq!(std::fs::read_to_string(&partial).unwrap(), "my notes\n");
    std::fs::remove_file(&partial).unwrap();
    std::fs::remove_file(folder.path("disk.img.dirty")).unwrap();
}

#[test]
fn what_a_killed_session_left_of_its_state_is_replaced() {
    let folder = Folder::new();
    folder.captive(&ARGS, "true").good();
    let (state, partial) = (folder.path("disk.img.state"), folder.path("disk.img.state.partial"));
    let whole = std::fs::read(&state).unwrap();
    std::fs::write(&partial, &whole[..whole.len() / 2]).unwrap();
    folder.captive(&ARGS, "true").good();
    assert!(state.exists() && !partial.exists());
}

#[test]
fn a_file_under_the_name_of_a_socket_is_refused_and_kept() {
    let folder = Folder::new();
    let notes = folder.path("notes");
    std::fs::write(&notes, "my notes").unwrap();
    for option in ["--socket", "--control"] {
        let refused = folder.captive(&["slc2010-paper", option, "notes"], "true");
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains("cannot listen on notes"), "{}", refused.stderr);
        assert_eq!(std::fs::read_to_string(&notes).unwrap(), "my notes", "{option}");
    }
}

/// A recording that cannot be finished must not cost the device its state.
#[test]
fn the_state_is_saved_although_something_else_fails_at_the_end() {
    let folder = Folder::new();
    let mut session = folder.serve(&[&ARGS[..], &["--record", "/dev/full"]].concat());
    assert_eq!(Client::new(&folder.path("s.sock")).write(0, &[1; 512]), 0);
    session.signal("TERM");
    assert_ne!(session.ended(), Some(0));
    assert!(folder.path("disk.img.state").exists() && !folder.path("disk.img.dirty").exists());
}

/// Over data first, then over what has no room.
#[test]
fn zeroes_that_find_no_room_change_nothing() {
    let Some(small) = Small::new("4m") else { return };
    let folder = &small.0;
    let mut session = folder.serve(&["part.toml", "--data", "fs/disk.img", "--socket", "s.sock"]);
    let mut client = Client::new(&folder.path("s.sock"));
    assert_eq!(client.write(0, &[1; 1 << 20]), 0);
    let mut zero = |offset, bytes| {
        let mut request = Client::request(6, offset, bytes);
        request[5] = 2; // no hole
        std::io::Write::write_all(&mut client.stream, &request).unwrap();
        let answer = client.reply();
        (answer, client.read(0, 10 << 20).unwrap())
    };
    let (answer, all) = zero(512 << 10, 8 << 20);
    assert_eq!(answer, 28);
    let (ones, rest) = all.split_at(1 << 20);
    assert!(ones.iter().all(|&byte| byte == 1), "what was there is gone");
    assert!(rest.iter().all(|&byte| byte == 0));
    // There is room for less.
    let (answer, all) = zero(512 << 10, 1 << 20);
    let (ones, rest) = all.split_at(512 << 10);
    assert!(answer == 0 && ones.iter().all(|&byte| byte == 1));
    assert!(rest.iter().all(|&byte| byte == 0));
    session.end();
}

/// `ulimit -f`, or a service's `LimitFSIZE=`.
#[test]
fn a_limit_of_file_sizes_is_an_error_and_no_sudden_death() {
    let folder = Folder::new();
    for data in [&[][..], &["--data", "disk.img"]] {
        let words = [&["attach", "part.toml"], data, &["--run", "true"]].concat();
        let command = folder.command(&words);
        let mut limited = std::process::Command::new("sh");
        limited.args(["-c", "ulimit -f 100; exec \"$0\" \"$@\""]).arg(command.get_program());
        limited.args(command.get_args()).current_dir(command.get_current_dir().unwrap());
        for (name, value) in command.get_envs() {
            limited.env(name, value.unwrap_or_default());
        }
        let output = limited.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("File too large") && said.contains("ulimit -f"), "{said}");
        assert!(!folder.path("disk.img").exists(), "an empty file stays");
    }
}

#[test]
fn a_write_that_finds_no_room_changes_nothing() {
    let Some(small) = Small::new("4m") else { return };
    let folder = &small.0;
    let args = ["part.toml", "--data", "fs/disk.img", "--socket", "s.sock"];
    let mut session = folder.serve(&args);
    let mut client = Client::new(&folder.path("s.sock"));
    assert_eq!(client.write(0, &[1; 1 << 20]), 0);
    // Over data first, then over what has no room.
    assert_eq!(client.write(512 << 10, &[2; 8 << 20]), 28);
    let all = client.read(0, 10 << 20).unwrap();
    let (ones, rest) = all.split_at(1 << 20);
    assert!(ones.iter().all(|&byte| byte == 1) && rest.iter().all(|&byte| byte == 0));
    // There is room for less.
    assert_eq!(client.write(2 << 20, &[3; 1 << 20]), 0);
    session.end();
}
