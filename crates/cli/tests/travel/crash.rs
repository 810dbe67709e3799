//! `blocklab crash` finds what planted mistakes lose, and nothing where there is none.

use std::process::Command;

use serde_json::Value;

use crate::common::skip;
use crate::support::{Folder, can_travel};

/// A drive with a volatile write buffer.
const DRIVE: &str = "tlc-3d-128";
/// Every file that was promised is there, whole.
const FILES: &str = "while read f; do test \"$(cat $f)\" = data-$f || \
                     { echo \"$f is gone\"; exit 1; }; done < $BLOCKLAB_ACKS";

struct Sweep {
    code: Option<i32>,
    report: Value,
    stderr: String,
}

impl Folder {
    fn crash(&self, args: &[&str], program: &str) -> Sweep {
        let all = [&["crash", "--part", DRIVE], args, &["--", "sh", "-c", program]].concat();
        let output = self.blocklab(&all);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        Sweep { code: output.status.code(), report: self.report("out/crash/crash.json"), stderr }
    }
}

impl Sweep {
    fn count(&self, verdict: &str) -> u64 {
        self.report["counts"][verdict].as_u64().unwrap_or_else(|| panic!("{}", self.stderr))
    }
}

/// Three files, each promised after `durable`.
fn files(durable: &str) -> String {
    format!(
        "for f in a b c; do echo data-$f > t; {durable} mv t $f; [ -z \"$DIR\" ] || sync .; \
         blocklab-ack $f; done"
    )
}

/// As it should be: the file, and then the folder with its name.
fn right() -> String {
    format!("DIR=1; {}", files("sync t;"))
}

/// Linux sends such a drive no flush.
#[test]
fn a_drive_without_a_volatile_cache_has_no_flush_to_cut_at() {
    if !can_travel(&["mkfs.ext4", "e2fsck"]) {
        return;
    }
    let safe = ["--part", DRIVE, "--set", "ssd.buffer.power_loss_protection=true"];
    let program = ["--mkfs", "ext4", "--at-flush", "--", "sh", "-c", "echo x > a; sync"];
    let output = Folder::new().blocklab(&[&["crash"], &safe[..], &program].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("the drive was sent no flush"), "{stderr}");
}

#[test]
fn what_was_never_synced_is_lost_and_the_first_cut_can_be_repeated() {
    if !can_travel(&["mkfs.ext4", "e2fsck"]) {
        return;
    }
    let folder = Folder::new();
    let args = ["--mkfs", "ext4", "--cuts", "12", "--check", FILES];
    let sweep = folder.crash(&args, &files(""));
    assert_eq!(sweep.code, Some(1), "{}", sweep.stderr);
    assert!(sweep.count("lost") > 0 && sweep.stderr.contains(" is gone"), "{}", sweep.stderr);
    // The command it names finds the same in that one cut, and takes the place of the report.
    let again =
        sweep.stderr.lines().find_map(|line| line.strip_prefix("again: blocklab ")).unwrap();
    let line = format!("'{}' {again}", env!("CARGO_BIN_EXE_blocklab"));
    let shell = ["-c", &line];
    let mut command = Command::new("sh");
    let output = command.args(shell).current_dir(&folder.0).env("TMPDIR", &folder.0).output();
    assert_eq!(output.unwrap().status.code(), Some(1), "{again}");
    let once = folder.report("out/crash/crash.json");
    let lost = sweep.report["cuts"].as_array().unwrap();
    let first = lost.iter().find(|cut| cut["verdict"] == "lost").unwrap();
    assert_eq!(once["cuts"].as_array().unwrap().len(), 1);
    for key in ["at_ns", "verdict", "acks", "lost_writes", "said"] {
        assert_eq!(once["cuts"][0][key], first[key], "{key}");
    }
    assert!(folder.leftovers().is_empty());
}

#[test]
fn what_is_synced_with_its_folder_stays() {
    if !can_travel(&["mkfs.ext4", "e2fsck"]) {
        return;
    }
    let folder = Folder::new();
    let args = ["--mkfs", "ext4", "--cuts", "3", "--check", FILES];
    let sweep = folder.crash(&args, &right());
    assert_eq!(sweep.code, Some(0), "{}", sweep.stderr);
    assert_eq!((sweep.count("clean"), sweep.report["acks"].as_u64()), (3, Some(3)));
}

/// As `travel` has it; a loop that waits for time to pass comes to its end only so.
#[test]
fn code_is_charged_where_a_host_is_named() {
    if !can_travel(&[]) {
        return;
    }
    let folder = Folder::new();
    let program = "end=$(($(date +%s%N) + 2000000)); while [ $(date +%s%N) -lt $end ]; do :; done; \
                   echo x > /dev/vda; sync /dev/vda";
    let args = ["--cuts", "2", "--check", "true", "--host", "server-vm-2026"];
    let sweep = folder.crash(&args, program);
    assert_eq!(sweep.code, Some(0), "{}", sweep.stderr);
    let [began, ended] = [0, 1].map(|moment| sweep.report["moments_ns"][moment].as_u64().unwrap());
    assert!(ended - began > 2_000_000, "{began} to {ended}: {}", sweep.stderr);
    assert_eq!(sweep.report["host"], "server-vm-2026");
}

/// The time line shows why: the name was promised before the journal's commit.
#[test]
fn what_came_before_a_cut_is_told_in_its_order() {
    if !can_travel(&["mkfs.ext4", "e2fsck", "strace"]) {
        return;
    }
    let folder = Folder::new();
    let args = ["--mkfs", "ext4", "--cuts", "16", "--calls", "--check", FILES];
    let sweep = folder.crash(&args, &files("sync t;"));
    assert_eq!(sweep.code, Some(1), "{}", sweep.stderr);
    let events = sweep.report["timeline"].as_array().unwrap();
    let position = |kind: &str, words: &str| {
        let found = events.iter().position(|event| {
            event["kind"] == kind && event["text"].as_str().unwrap().contains(words)
        });
        found.unwrap_or_else(|| panic!("{kind} {words}: {}", sweep.stderr))
    };
    let synced = position("call", "fsync(3</mnt/t>) = 0");
    let (renamed, promised) = (position("call", "rename"), position("ack", "a"));
    let (commit, cut) = (position("asked", "jbd2 commit"), position("cut", "the power goes"));
    assert!(commit < synced && synced < renamed && renamed < promised, "{}", sweep.stderr);
    assert!(position("safe", "#") < synced && cut == events.len() - 1, "{}", sweep.stderr);
    assert!(sweep.stderr.contains("ms since the command began"), "{}", sweep.stderr);
}

#[test]
fn a_check_without_an_end_is_ended() {
    if !can_travel(&[]) {
        return;
    }
    let folder = Folder::new();
    // Virtual time goes on: only the wall says that it is too long.
    let args = ["--cuts", "2", "--wall-limit", "2s", "--check", "while :; do sleep 1; done"];
    let sweep = folder.crash(&args, "echo x > /dev/vda; sync /dev/vda");
    assert_eq!(sweep.code, Some(3), "{}", sweep.stderr);
    assert!(sweep.stderr.contains("more than 2s of this machine's time"), "{}", sweep.stderr);
    // In the middle of many, too, where the others are ended because of it.
    let program = "n=0; while [ $n -lt 30 ]; do n=$((n+1)); echo x$n | dd of=/dev/vda bs=4096 \
                   seek=$n conv=sync oflag=direct && blocklab-ack $n || exit 1; done";
    let check = "n=$(wc -l < $BLOCKLAB_ACKS); [ $n -lt 5 ] || [ $n -ge 30 ] || \
                 while :; do sleep 1; done";
    let args = ["--cuts", "40", "--panic", "--wall-limit", "2s", "--check", check];
    let sweep = folder.crash(&args, program);
    assert_eq!(sweep.code, Some(3), "{}", sweep.stderr);
    assert!(sweep.stderr.contains("more than 2s of this machine's time"), "{}", sweep.stderr);
    // What was looked at before is told.
    let (cuts, early) = (&sweep.report["cuts"], &sweep.report["ended_early"]);
    let looked_at = cuts.as_array().unwrap().len();
    assert!((1..40).contains(&looked_at) && early["all"] == 40, "{}", sweep.stderr);
    assert_eq!(sweep.count("clean"), looked_at as u64);
    let told = format!("ended early, {looked_at} of 40 looks done: a guest looked at a cut at ");
    assert!(sweep.stderr.contains(&told), "{}", sweep.stderr);
    assert!(folder.leftovers().is_empty());
}

/// The programs that users begin with: as they should be, and with their syncs left out.
#[test]
fn the_examples_keep_what_they_promise_and_without_syncs_they_do_not() {
    if !can_travel(&["mkfs.ext4", "e2fsck", "python3"]) {
        return;
    }
    let lmdb = Command::new("/usr/bin/python3").args(["-c", "import lmdb"]).output().unwrap();
    if !lmdb.status.success() {
        skip("python3-lmdb", "the system's Python has no module lmdb");
    }
    let folder = Folder::new();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/crash");
    for (program, right, wrong) in [
        ("files.py", "write", None),
        ("sqlite.py", "write wal full 5", Some("write delete off 5")),
        ("lmdb.py", "write", Some("write nosync")),
        ("block_log.py", "write", Some("write no-dsync")),
    ] {
        let check = format!("{examples}/{program} check");
        if program == "lmdb.py" && !lmdb.status.success() {
            continue;
        }
        let bare: &[&str] = if program == "block_log.py" { &[] } else { &["--mkfs", "ext4"] };
        for (how, code) in [(Some(right), 0), (wrong, 1)] {
            let Some(how) = how else { continue };
            let args = [bare, &["--cuts", "8", "--check", &check]].concat();
            let sweep = folder.crash(&args, &format!("exec {examples}/{program} {how}"));
            assert_eq!(sweep.code, Some(code), "{program} {how}: {}", sweep.stderr);
            assert!(sweep.report["acks"].as_u64() > Some(4), "{program} {how}: {}", sweep.stderr);
        }
    }
}

/// What loses what was promised is found; each is right but for one thing.
#[test]
fn a_missing_sync_of_the_folder_a_mount_without_barriers_and_a_lying_drive_are_found() {
    if !can_travel(&["mkfs.ext4", "e2fsck"]) {
        return;
    }
    let (folder, right, file) = (Folder::new(), right(), files("sync t;"));
    // It may lose all that mkfs wrote, and then repairing looks at the whole drive.
    let (lying, small) = ("ssd.buffer.ignore_flush=true", "ssd.geometry.pages_per_block=48");
    for (more, program) in [
        (&["--cuts", "16"][..], &file),
        (&["--cuts", "16", "--mount-options", "nobarrier"], &right),
        (&["--cuts", "16", "--set", lying, "--set", small], &right),
    ] {
        let sweep = folder.crash(&[more, &["--mkfs", "ext4", "--check", FILES]].concat(), program);
        assert_eq!(sweep.code, Some(1), "{more:?}: {}", sweep.stderr);
        assert!(sweep.count("lost") + sweep.count("refused") > 0, "{more:?}: {}", sweep.stderr);
    }
}

/// A kernel that dies loses what it had not written; what the drive had, stays.
#[test]
fn a_panic_keeps_what_the_drive_was_given() {
    if !can_travel(&["dd", "mkfs.ext4", "e2fsck"]) {
        return;
    }
    let folder = Folder::new();
    // Acknowledged without a flush: a power cut may lose it, the death of the kernel may not.
    let program = "for n in 1 2 3; do echo x$n | dd of=/dev/vda bs=4096 seek=$n conv=sync \
                   oflag=direct && blocklab-ack $n || exit 1; done";
    let check = "while read n; do dd if=/dev/vda bs=4096 skip=$n count=1 status=none | \
                 grep -q x$n || { echo $n is gone; exit 1; }; done < $BLOCKLAB_ACKS";
    let sweep = |more: &[&str], program: &str| {
        let all = [&["--cuts", "12", "--check", check], more].concat();
        folder.crash(&all, program)
    };
    let cut = sweep(&[], program);
    assert!(cut.count("lost") > 0, "{}", cut.stderr);
    let panic = sweep(&["--panic"], program);
    assert_eq!((panic.code, panic.count("clean") > 5), (Some(0), true), "{}", panic.stderr);
    let args = ["--mkfs", "ext4", "--cuts", "4", "--check", FILES, "--panic"];
    let cached = folder.crash(&args, &files(""));
    assert!(cached.count("lost") > 0, "{}", cached.stderr);
}

/// A log on the bare device: records of 4 KiB, each promised when it is durable.
fn log(sum: &str) -> String {
    format!(
        "cd /run; for n in 1 2 3 4; do yes $n | head -c 4000 > r; {sum} < r > s; \
         cat r s | dd of=/dev/vda bs=4096 seek=$n conv=sync iflag=fullblock oflag=direct && \
         sync /dev/vda && blocklab-ack $n || exit 1; done"
    )
}

/// Every promised record is there, and none is there that was not written whole.
const RECORDS: &str = r#"cd /run; for n in 1 2 3 4; do
    dd if=/dev/vda bs=4096 skip=$n count=1 of=b status=none
    head -c 4000 b > r; tail -c 96 b | tr -d '\0' > s; $SUM < r > t
    if cmp -s s t; then
        yes $n | head -c 4000 | cmp -s - r || { [ $n -gt "$(wc -l < $BLOCKLAB_ACKS)" ] &&
            cmp -s -n 4000 r /dev/zero; } || { echo "$n is torn"; exit 1; }
    else
        ! grep -qx $n $BLOCKLAB_ACKS || { echo "$n is gone"; exit 1; }
    fi
done"#;

#[test]
fn a_log_without_a_checksum_is_torn_by_some_subset_and_one_with_a_checksum_by_none() {
    if !can_travel(&["dd", "cksum"]) {
        return;
    }
    let folder = Folder::new();
    for (sum, torn) in [("true", true), ("cksum", false)] {
        let check = RECORDS.replace("$SUM", sum);
        let args = ["--cuts", "8", "--subsets", "4", "--check", &check];
        let sweep = folder.crash(&args, &log(sum));
        assert_eq!(sweep.code, Some(i32::from(torn)), "{sum}: {}", sweep.stderr);
        assert!(sweep.report["coverage"]["at_risk_max"].as_u64() > Some(0), "{}", sweep.stderr);
        if torn {
            assert!(sweep.stderr.contains("is torn"), "{}", sweep.stderr);
            assert!(sweep.stderr.contains("--subset="), "{}", sweep.stderr);
            assert_eq!(sweep.report["smallest"]["torn"], 1, "{}", sweep.stderr);
        }
    }
}

/// A kernel that is told of no cache flushes nothing: what the drive has answered must be there.
#[test]
fn what_a_drive_without_a_volatile_cache_answered_is_in_every_subset() {
    if !can_travel(&["dd", "cksum"]) {
        return;
    }
    let folder = Folder::new();
    let check = RECORDS.replace("$SUM", "cksum");
    let protected = "ssd.buffer.power_loss_protection=true";
    let args = ["--set", protected, "--cuts", "6", "--subsets", "4", "--check", &check];
    let sweep = folder.crash(&args, &log("cksum"));
    assert_eq!(sweep.code, Some(0), "{}", sweep.stderr);
    assert!(sweep.count("clean") > 6, "{}", sweep.stderr);
}

#[test]
fn a_file_system_without_a_journal_has_to_be_repaired() {
    if !can_travel(&["mkfs.ext2", "e2fsck"]) {
        return;
    }
    let folder = Folder::new();
    let program = "mkdir d; for f in 1 2 3 4 5 6; do echo $f > d/$f; sync d/$f; rm -f d/1; done";
    let sweep = folder.crash(&["--mkfs", "ext2", "--cuts", "4"], program);
    assert!(sweep.count("repaired") > 0, "{}", sweep.stderr);
}

#[test]
fn what_cannot_be_swept_is_refused_with_one_error() {
    let refused = |args: &[&str], words: &str| {
        let folder = Folder::new();
        let sweep = folder.crash(&[&["--kernel=/bin/true"], args].concat(), "true");
        assert_eq!(sweep.code, Some(2), "{args:?}: {}", sweep.stderr);
        assert!(sweep.stderr.contains(words), "{args:?}: {}", sweep.stderr);
        assert_eq!(sweep.stderr.matches("error:").count(), 1, "{}", sweep.stderr);
        assert!(folder.leftovers().is_empty());
    };
    refused(&[], "nothing to check");
    refused(&["--mkfs", "f2fs"], "no check of its own");
    refused(&["--mkfs", "ext4", "--every", "0s"], "--every 0");
    refused(&["--mkfs", "ext4", "--every", "5"], "--every 5");
    refused(&["--mkfs", "ext4", "--every", "1ms", "--at", "5s"], "cannot be used with");
    refused(&["--mkfs", "ext4", "--cuts", "0"], "--cuts");
    refused(&["--mkfs", "ext4", "--host", "severs"], "severs");
}

/// The helper's own options are none of the program's business.
#[test]
fn a_promise_may_look_like_an_option() {
    if !can_travel(&["mkfs.ext4", "e2fsck"]) {
        return;
    }
    let check = "while read -r f; do case $f in --help | -5) ;; *) exit 1 ;; esac; done \
                 < $BLOCKLAB_ACKS";
    let args = ["--mkfs", "ext4", "--cuts", "2", "--check", check];
    let sweep =
        Folder::new().crash(&args, "echo x > x; sync; blocklab-ack --help; blocklab-ack -5");
    assert_eq!(sweep.code, Some(0), "{}", sweep.stderr);
    assert_eq!(sweep.report["acks"], 2, "{}", sweep.report);
}

#[test]
fn a_check_that_fails_without_a_cut_and_a_command_that_fails_are_told() {
    if !can_travel(&["mkfs.ext4", "e2fsck"]) {
        return;
    }
    let folder = Folder::new();
    let args = ["--mkfs", "ext4", "--check", "echo never; false"];
    let sweep = folder.crash(&args, "echo x > x");
    assert_eq!(sweep.code, Some(2), "{}", sweep.stderr);
    assert!(sweep.stderr.contains("the check fails without any power cut: never"));
    let hangs = ["--mkfs", "ext4", "--limit", "5s", "--check", "sleep 100000"];
    let sweep = folder.crash(&hangs, "echo x > x");
    let told = "the check fails without any power cut: the command had not ended after 5s of \
                virtual time";
    assert!(sweep.stderr.contains(told) && sweep.stderr.contains("--limit"), "{}", sweep.stderr);
    let sweep = folder.crash(&args, "echo sorry; exit 7");
    assert_eq!(sweep.code, Some(2), "{}", sweep.stderr);
    assert!(sweep.stderr.contains("ended with code 7: sorry"), "{}", sweep.stderr);
    let sweep = folder.crash(&["--mkfs", "ext4", "--at", "1ns"], "echo x > x");
    assert!(sweep.stderr.contains("nothing runs then"), "{}", sweep.stderr);
    assert!(folder.leftovers().is_empty());
}
