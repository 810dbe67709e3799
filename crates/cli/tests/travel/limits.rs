//! What a guest may not do for ever, or without end: each is one clear error, and of a study one
//! failed row.

use std::process::Command;

use crate::support::{Folder, can_travel};

/// A session that fails at a limit with these words.
fn ended(args: &[&str], words: &[&str]) {
    let folder = Folder::new();
    let journey = folder.travel(args);
    assert_eq!(journey.code, Some(3), "{args:?}: {}", journey.stderr);
    assert_eq!(journey.stderr.matches("error:").count(), 1, "{}", journey.stderr);
    words.iter().for_each(|word| assert!(journey.stderr.contains(word), "{}", journey.stderr));
    assert!(folder.leftovers().is_empty());
}

#[test]
fn data_beyond_its_limit_ends_the_guest() {
    if !can_travel(&[]) {
        return;
    }
    let write = "dd if=/dev/zero of=/dev/vda bs=1M count=9 2> /dev/null; sync; sleep 5";
    let limited = |limit| ["part.toml", "--data-limit", limit, "--", "sh", "-c", write];
    ended(&limited("4MiB"), &["the guest's data takes more than 4 MiB", "travel.data_limit"]);
    Folder::new().travel(&limited("16MiB")).good();
    // What is kept of the requests has the limit, too.
    let folder = Folder::new();
    let crash = ["crash", "--part", "part.toml", "--mkfs", "ext4", "--data-limit", "1MiB"];
    let write = "head -c 2M /dev/urandom > t; sync";
    let out = folder.blocklab(&[&crash[..], &["--cuts", "1", "--", "sh", "-c", write]].concat());
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(3) && said.contains("more than 1 MiB"), "{said}");
}

#[test]
fn data_that_its_file_system_has_no_room_for_ends_the_guest() {
    if !can_travel(&[]) {
        return;
    }
    let folder = Folder::new();
    std::fs::create_dir(folder.path("small")).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=4M none small && export TMPDIR=$PWD/small && \
         {} travel part.toml -- sh -c 'dd if=/dev/zero of=/dev/vda bs=1M count=9; sync'; \
         echo code $?; ls -A small",
        env!("CARGO_BIN_EXE_blocklab")
    );
    for flags in ["-m", "-rm"] {
        let mut command = Command::new("unshare");
        let command = command.args([flags, "sh", "-c", &script]).current_dir(&folder.0);
        let Ok(output) = command.output() else { continue };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if let Ok(text) = std::str::from_utf8(&output.stdout)
            && text.contains("code")
        {
            assert_eq!(text, "code 3\n", "{said}");
            assert!(said.contains("error: no room is left at"), "{said}");
            assert!(said.contains("TMPDIR"), "{said}");
            return;
        }
    }
    crate::common::skip("mount", "this machine lets nobody mount a small file system");
}

#[test]
fn a_guest_that_computes_while_its_time_stands_still_is_ended() {
    if !can_travel(&[]) {
        return;
    }
    let spin = |more: &[&'static str]| {
        let limit = ["part.toml", "--compute-limit", "1s"];
        [&limit, more, &["--", "sh", "-c", "while :; do :; done"]].concat()
    };
    let stood = "computed for 1s of this machine's processor time while virtual time stood";
    ended(&spin(&[]), &[stood, "--host PROFILE", "--compute-limit"]);
    ended(&spin(&["--host", "server-vm-2026"]), &[stood, "--compute-limit 1h"]);
}

/// Time passes by what its system calls cost, and no device and no sleep tells of it.
#[test]
fn a_guest_whose_time_passes_is_not_ended() {
    if !can_travel(&[]) {
        return;
    }
    // Some 0.6 ms of its time each, and ten times as long on this machine.
    let start = "i=0; while [ $i -lt 600 ]; do /bin/true; i=$((i+1)); done";
    let args = ["part.toml", "--host", "server-vm-2026", "--compute-limit", "1s", "--"];
    Folder::new().travel(&[&args[..], &["sh", "-c", start]].concat()).good();
}

#[test]
fn a_point_at_a_limit_is_a_failed_row() {
    if !can_travel(&[]) {
        return;
    }
    let folder = Folder::new();
    let study = "[device.null]\nlatency = '20us'\ncapacity = '64MiB'\n\
                 [travel]\ncommand = 'true'\ndata_limit = '1MiB'\ncompute_limit = '1s'\n\
                 [sweep]\n'travel.command' = ['true', 'while :; do :; done', \
                 'dd if=/dev/zero of=/dev/vda bs=1M count=9']\n";
    std::fs::write(folder.path("study.toml"), study).unwrap();
    let output = folder.blocklab(&["run", "study.toml", "--no-report", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let failed = |run: usize| result["runs"][run]["failed"].as_str().unwrap_or("").to_string();
    assert_eq!(failed(0), "");
    assert!(failed(1).contains("while virtual time stood still"), "{}", failed(1));
    assert!(failed(2).contains("more than 1 MiB"), "{}", failed(2));
    assert!(folder.leftovers().is_empty());
}
