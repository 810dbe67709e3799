//! A program that runs while the device is there.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Folder, signal, until};

#[test]
fn the_programs_exit_code_is_passed_on_and_nothing_stays() {
    let folder = Folder::new();
    for (script, code) in
        [("true", 0), ("exit 7", 7), ("no-such-program 2> /dev/null", 127), ("kill -KILL $$", 137)]
    {
        let done = folder.captive(&["part.toml"], script);
        assert_eq!(done.code, Some(code), "{script}: {}", done.stderr);
        assert_eq!(folder.leftovers(), [""; 0]);
    }
}

/// A terminal that was closed, a journal that was started again.
#[test]
fn where_nobody_listens_it_serves_to_its_end() {
    let folder = Folder::new();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut session = folder.command(&["attach", "part.toml", "--run", "exit 7"]);
    session.stdout(full.try_clone().unwrap()).stderr(full);
    assert_eq!(session.status().unwrap().code(), Some(7));
    assert!(folder.report("out/attach/attach.json").is_object());
}

#[test]
fn the_program_is_told_where_the_device_is() {
    let folder = Folder::new();
    let script = "test -S \"$socket\" && echo \"$uri $export $port\"";
    let args = ["disk=part.toml", "--socket", "x y.sock", "--tcp", "127.0.0.1:0"];
    let done = folder.captive(&args, script).good();
    let expected = "nbd+unix:///disk?socket=x%20y.sock disk ";
    let port = done.stdout.trim().strip_prefix(expected).expect(&done.stdout);
    assert!(port.parse::<u16>().unwrap() > 0);
}

#[test]
fn what_the_program_left_running_ends_with_it() {
    let folder = Folder::new();
    let done = folder.captive(&["part.toml"], "sleep 1000 & echo $!").good();
    let straggler = format!("/proc/{}/stat", done.stdout.trim());
    until("it is gone", || gone(&straggler));
}

/// True when there is no such process, or only what its parent has not looked at yet.
fn gone(stat: &str) -> bool {
    std::fs::read_to_string(stat).map_or(true, |text| text.contains(") Z "))
}

/// Start a session around a script, and wait until the first part of it is done.
fn running(folder: &Folder, first: &str, script: &str) -> (std::process::Child, u32) {
    let script = format!("{first}; echo $$ > child.partial; mv child.partial child; {script}");
    let child = Command::new(env!("CARGO_BIN_EXE_blocklab"))
        .args(["attach", "part.toml", "--run", &script])
        .current_dir(&folder.0)
        .env("TMPDIR", &folder.0)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("the program runs", || folder.path("child").exists());
    let id = std::fs::read_to_string(folder.path("child")).unwrap().trim().parse().unwrap();
    (child, id)
}

#[test]
fn ctrl_c_asks_the_program_to_end() {
    let folder = Folder::new();
    let (mut session, _) = running(&folder, "trap 'exit 5' TERM", "while :; do sleep 0.01; done");
    signal(session.id(), "INT");
    assert_eq!(session.wait().unwrap().code(), Some(5));
    assert_eq!(folder.leftovers(), [""; 0]);
}

#[test]
fn a_second_ctrl_c_makes_it_end() {
    let folder = Folder::new();
    let ignore = "trap ': > asked' TERM";
    let (mut session, child) = running(&folder, ignore, "while :; do sleep 0.01; done");
    signal(session.id(), "INT");
    // The first one must have been seen as one of its own.
    until("the program is asked to end", || folder.path("asked").exists());
    signal(session.id(), "INT");
    assert_eq!(session.wait().unwrap().code(), Some(137));
    assert!(gone(&format!("/proc/{child}/stat")));
    assert_eq!(folder.leftovers(), [""; 0]);
}

#[test]
fn a_program_does_not_outlive_a_session_that_is_killed() {
    let folder = Folder::new();
    let (mut session, child) = running(&folder, ":", "exec sleep 1000");
    session.kill().unwrap();
    session.wait().unwrap();
    until("it is gone", || gone(&format!("/proc/{child}/stat")));
}

#[test]
fn what_a_killed_session_left_is_named_by_doctor_and_deleted_by_the_next() {
    let folder = Folder::new();
    let mut session = folder.serve(&["part.toml"]);
    let doctor = || String::from_utf8(folder.blocklab(&["doctor"]).stdout).unwrap();
    let left = folder.path(&format!("blocklab-{}-0", session.id()));
    let name = left.display().to_string();
    assert!(left.is_dir() && !doctor().contains(&name), "a session that lives is left alone");
    folder.captive(&["part.toml"], "true").good();
    assert!(left.is_dir());
    session.signal("KILL");
    assert_eq!(session.ended(), None);
    // Sessions of other tests may have left something beside it.
    let said = doctor();
    let mut commands = said.lines().filter(|line| line.contains("rm -r "));
    assert!(commands.any(|line| line.split_whitespace().any(|word| word == name)), "{said}");
    folder.captive(&["part.toml"], "true").good();
    assert!(folder.leftovers().is_empty(), "{:?}", folder.leftovers());
}

#[test]
fn bad_options_are_refused_before_anything_happens() {
    let folder = Folder::new();
    for (args, said) in [
        (vec!["mqsim-g"], "did you mean `mqsim-f`?"),
        (vec!["part.toml", "part.toml"], "`part.toml` has no name, and there are several"),
        (vec!["a=part.toml", "part.toml"], "`part.toml` has no name, and there are several"),
        (vec!["=part.toml", "b=part.toml"], "`=part.toml` has no name, and there are several"),
        (vec!["a=part.toml", "a=part.toml"], "two devices are called `a`"),
        (vec!["part.toml", "--tcp", "8.8.8.8:1"], "can be reached from elsewhere"),
        (vec!["part.toml", "--compensate", "soon"], "auto, off, or a time"),
        (vec!["part.toml", "--data", "a", "--data", "b"], "more --data files than parts"),
        (vec!["part.toml", "--socket", "no/such/folder"], "cannot listen on no/such/folder"),
        (vec!["part.toml", "--record", "no/such/folder"], "cannot write the trace"),
        (vec!["part.toml", "--scheduler", "bfq"], "--scheduler is nothing to --as nbd"),
        (vec!["part.toml", "--late-max", "0"], "a percentage above 0"),
    ] {
        let done = folder.captive(&args, "touch ran");
        assert_eq!(done.code, Some(2), "{args:?}: {}", done.stderr);
        assert!(done.stderr.contains(said), "{said:?} is not in {}", done.stderr);
        assert!(!Path::new(&folder.path("ran")).exists());
        assert!(!Path::new(&folder.path("out")).exists(), "{args:?}");
        assert_eq!(folder.leftovers(), [""; 0]);
    }
}
