//! Faults at chosen moments: what the program sees of them, and what it loses.

use crate::support::{Folder, can_travel};

/// Two reads of 4 KiB past the page cache, a second apart; each says whether it failed.
const READS: &str = "ask() { dd if=/dev/vda of=/dev/null bs=4k count=1 iflag=direct skip=$1 \
                     2> /dev/null && echo good || echo failed; }; ask 1; sleep 1; ask 2";

fn travel(folder: &Folder, faults: &[&str], program: &str) -> (String, f64, String) {
    let options = faults.iter().flat_map(|fault| ["--fault", fault]);
    let args: Vec<&str> =
        ["part.toml"].into_iter().chain(options).chain(["--", "sh", "-c", program]).collect();
    let journey = folder.travel(&args).good();
    let seconds = journey.number("/command_s");
    (journey.stdout, seconds, journey.stderr)
}

#[test]
fn a_fault_strikes_from_its_moment_and_until_it_is_over() {
    if !can_travel(&["dd"]) {
        return;
    }
    let folder = Folder::new();
    let ask = |faults: &[&str]| travel(&folder, faults, READS);
    let (said, plain, _) = ask(&[]);
    assert_eq!(said, "good\ngood\n");
    assert_eq!(ask(&["error"]).0, "failed\nfailed\n");
    assert_eq!(ask(&["error at=500ms"]).0, "good\nfailed\n");
    assert_eq!(ask(&["error for=500ms"]).0, "failed\ngood\n");
    assert_eq!(ask(&["error range=8KiB+4KiB"]).0, "good\nfailed\n");
    let (said, _, stderr) = ask(&["error op=write"]);
    assert_eq!(said, "good\ngood\n");
    assert!(stderr.contains("fault error op=write: it struck nothing"), "{stderr}");
    let (said, slow, stderr) = ask(&["slow by=100ms count=1 op=read"]);
    assert_eq!((said.as_str(), ((slow - plain) * 10.0).round()), ("good\ngood\n", 1.0));
    assert!(stderr.contains("count=1: it struck once"), "{stderr}");
    // What hangs goes on when the fault is over: 3 s after the program began.
    let (said, hung, _) = ask(&["hang at=500ms for=2500ms"]);
    assert_eq!(said, "good\ngood\n");
    assert!((3.0..3.1).contains(&hung), "{hung}");
}

#[test]
fn the_same_faults_strike_the_same_requests() {
    if !can_travel(&["dd"]) {
        return;
    }
    let folder = Folder::new();
    let program = "for i in 1 2 3 4 5 6 7 8 9; do dd if=/dev/vda of=/dev/null bs=4k count=1 \
                   skip=$i iflag=direct 2> /dev/null || echo $i; done";
    let once = || {
        let (said, ..) = travel(&folder, &["error op=read one-in=3"], program);
        (said, folder.report("out/travel/travel.json"))
    };
    let [(first, one), (second, other)] = [once(), once()];
    assert!(!first.is_empty() && first.lines().count() < 9, "{first}");
    assert_eq!(first, second);
    assert_eq!(one["digest"], other["digest"]);
    assert_eq!(one["disks"][0]["faults"][0]["hits"], first.lines().count());
}

/// What cannot be written is no success, and a promise of what was lost is found out.
#[test]
fn a_file_system_and_the_crash_lab_meet_faults() {
    if !can_travel(&["mkfs.ext4", "e2fsck", "dd"]) {
        return;
    }
    let folder = Folder::new();
    let program = "echo x > f; sync f 2> /dev/null || echo not kept";
    let args =
        ["part.toml", "--mkfs", "ext4", "--fault", "error op=write", "--", "sh", "-c", program];
    let journey = folder.travel(&args);
    assert_eq!(
        (journey.code, journey.stdout.as_str()),
        (Some(0), "not kept\n"),
        "{}",
        journey.stderr
    );

    let log = "for n in 1 2 3; do echo x$n | dd of=/dev/vda bs=4096 seek=$n conv=sync \
               oflag=direct,dsync && blocklab-ack $n || exit 1; done";
    let check = "while read n; do dd if=/dev/vda bs=4096 skip=$n count=1 status=none | \
                 grep -q x$n || { echo $n is gone; exit 1; }; done < $BLOCKLAB_ACKS";
    for (fault, code) in [
        ("slow by=1ms", 0),
        ("lost op=write after=1 count=1", 1),
        ("misdirected by=64KiB op=write after=1 count=1", 1),
    ] {
        let args =
            ["crash", "--part", "tlc-3d-128", "--cuts", "6", "--check", check, "--fault", fault];
        let output = folder.blocklab(&[&args[..], &["--", "sh", "-c", log]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{fault}: {said}");
        assert_eq!(said.contains("2 is gone"), code == 1, "{fault}: {said}");
    }
}
