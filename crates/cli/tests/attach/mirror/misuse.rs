//! Devices that are not what they are said to be: a clear refusal, never a guess.

use super::*;

#[test]
fn one_device_under_two_names_is_seen() {
    let folder = Folder::new();
    blank(&folder, "fast");
    std::os::unix::fs::symlink(folder.path("fast"), folder.path("link")).unwrap();
    std::fs::hard_link(folder.path("fast"), folder.path("hard")).unwrap();
    for slow in ["fast", "./fast", "link", "hard"] {
        let output = run(&folder, "create", &[&["--fast", "fast", "--slow", slow]]);
        refused(&output, &["--fast and --slow are both", "fail independently"]);
    }
    blank(&folder, "slow");
    let output = run(&folder, "create", &[LEGS, &["--witness", "hard"]]);
    refused(&output, &["--fast and --witness are both hard"]);
}

#[test]
fn sizes_that_make_no_mirror_are_refused() {
    let folder = Folder::new();
    ["fast", "slow", "third"].iter().for_each(|name| blank(&folder, name));
    let create = |more: &[&str]| run(&folder, "create", &[LEGS, more]);
    refused(&create(&["--log", "1MiB"]), &["--log 1048576", "from 4 MiB to 16 GiB"]);
    refused(&create(&["--extent", "3MiB"]), &["--extent 3145728", "power of two"]);
    refused(&create(&["--extent", "4KiB"]), &["--extent 4096", "from 64 KiB"]);
    let many = ["--size", "300TiB", "--extent", "64KiB"];
    let said = ["--extent 65536 makes 5033164800 extents", "4294967296", "--extent 131072"];
    refused(&create(&many), &said);
    refused(&create(&["--size", "1000"]), &["--size 1000"]);
    refused(&create(&["--log", "64MiB"]), &["fast has 67108864 bytes", "at least"]);
    let third = ["--witness", "third", "--log", "64MiB"];
    refused(
        &create(&third),
        &["third has 67108864 bytes", "at least 67125248 bytes for a witness"],
    );
    let good = create(&["--log", "8MiB", "--extent", "4MiB", "--json"]);
    let created: Value = serde_json::from_slice(&good.stdout).unwrap();
    assert_eq!(created["log_bytes"], 8 << 20);
    serve(&folder, &[]).end();
}

#[test]
fn what_only_a_served_mirror_can_do_is_refused_at_rest() {
    let folder = made(&[]);
    blank(&folder, "new");
    let said = ["is nothing to a mirror at rest", "--control PATH"];
    refused(&run(&folder, "status", &[LEGS, &["--prometheus"]]), &said);
    refused(&run(&folder, "set-mode", &[&["strict"], LEGS, &["--wait"]]), &said);
    refused(&run(&folder, "replace", &[&["slow", "--with", "new"], LEGS, &["--wait"]]), &said);
}

#[test]
fn a_third_device_that_is_none_of_the_mirror_is_refused() {
    let folder = made(&[]);
    ["third", "a", "b"].iter().for_each(|name| blank(&folder, name));
    let serve = |third: &str| run(&folder, "serve", &[LEGS, &["--witness", third]]);
    refused(&serve("third"), &["third is no device of a mirror", "--without witness"]);
    let other = ["--fast", "a", "--slow", "b", "--witness", "third"];
    assert!(run(&folder, "create", &[&other]).status.success());
    refused(&serve("third"), &["third belongs to mirror", "but fast to"]);
    std::fs::copy(folder.path("slow"), folder.path("copy")).unwrap();
    refused(&serve("copy"), &["slow and copy both claim to be the slow"]);
    // None of it was touched.
    assert_eq!(offline(&folder)["starts"], 0);
}

#[test]
fn a_leg_without_any_superblock_is_named_and_may_be_left_out() {
    let folder = made(&[]);
    serve(&folder, &[]).end();
    let last = LEG_BYTES / 4096 - 1;
    let slow = OpenOptions::new().write(true).open(folder.path("slow")).unwrap();
    for page in [0, 1, last - 1, last] {
        slow.write_all_at(&[0xa5; 100], page * 4096 + 50).unwrap();
    }
    let output = run(&folder, "serve", &[LEGS]);
    refused(&output, &["slow is no device of a mirror", "checksum", "--without slow"]);
    serve(&folder, &["--without", "slow"]).end();
}

#[test]
fn a_truncated_device_is_refused() {
    let folder = Folder::new();
    ["fast", "slow", "third"].iter().for_each(|name| blank(&folder, name));
    let witness = ["--witness", "third"];
    assert!(run(&folder, "create", &[LEGS, &witness]).status.success());
    let mut session = serve(&folder, &witness);
    session.signal("KILL");
    session.ended();
    // In the middle of its log: the head still says what it was.
    let third = OpenOptions::new().write(true).open(folder.path("third")).unwrap();
    third.set_len(1 << 20).unwrap();
    let output = run(&folder, "serve", &[LEGS, &witness]);
    refused(&output, &["third has 1048576 bytes, but its", "needs"]);
    let slow = OpenOptions::new().write(true).open(folder.path("slow")).unwrap();
    slow.set_len(2 << 20).unwrap();
    let output = run(&folder, "serve", &[LEGS, &["--without", "witness"]]);
    refused(&output, &["slow has 2097152 bytes, but its leg needs"]);
    slow.set_len(0).unwrap();
    let output = run(&folder, "serve", &[LEGS, &["--without", "witness"]]);
    refused(&output, &["slow is no device of a mirror"]);
}

/// It is not needed to start, but flushes wait without it.
#[test]
fn a_witness_that_is_not_named_is_asked_about() {
    let folder = Folder::new();
    ["fast", "slow", "third"].iter().for_each(|name| blank(&folder, name));
    assert!(run(&folder, "create", &[LEGS, &["--witness", "third"]]).status.success());
    let told = |more: &[&str]| {
        let done = run(&folder, "serve", &[LEGS, more, &["--run", "true"]]);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{said}");
        said.contains("the mirror has a witness, which is not named")
    };
    assert!(!told(&["--witness", "third"]));
    assert!(told(&[]) && told(&[]) && !told(&["--without", "witness"]));
}

/// Each leg went on without the other and was left out by it.
#[test]
fn two_legs_of_which_neither_follows_the_other_are_refused() {
    let folder = made(&[]);
    serve(&folder, &["--without", "slow"]).end();
    serve(&folder, &["--without", "fast"]).end();
    for verb in ["serve", "set-mode", "replace"] {
        let args: &[&str] = match verb {
            "serve" => &[],
            "set-mode" => &["strict"],
            _ => &["slow", "--with", "new"],
        };
        blank(&folder, "new");
        let output = run(&folder, verb, &[args, LEGS]);
        refused(&output, &["split brain", "went on without the other"]);
    }
}

/// A leg that was left out, alone.
#[test]
fn a_stale_leg_alone_is_refused() {
    let folder = Folder::new();
    ["fast", "slow", "third"].iter().for_each(|name| blank(&folder, name));
    let witness = ["--witness", "third"];
    assert!(run(&folder, "create", &[LEGS, &witness]).status.success());
    serve(&folder, &[&witness[..], &["--without", "slow"]].concat()).end();
    // The witness knows that the fast one went on, whatever the operator says.
    let output = run(&folder, "serve", &[LEGS, &witness, &["--without", "fast"]]);
    refused(&output, &["was left out earlier, and the leg that went on is missing"]);
}

/// Both legs were put back from copies. The witness was not.
#[test]
fn legs_older_than_the_witness_are_refused() {
    let folder = Folder::new();
    ["fast", "slow", "third"].iter().for_each(|name| blank(&folder, name));
    let witness = ["--witness", "third"];
    assert!(run(&folder, "create", &[LEGS, &witness]).status.success());
    serve(&folder, &witness).end();
    let copy = |from: &str, to: &str| {
        std::fs::copy(folder.path(from), folder.path(to)).unwrap();
    };
    ["fast", "slow"].iter().for_each(|leg| copy(leg, &format!("{leg}.old")));
    serve(&folder, &witness).end();
    ["fast", "slow"].iter().for_each(|leg| copy(&format!("{leg}.old"), leg));
    let output = run(&folder, "serve", &[LEGS, &witness]);
    refused(&output, &["fast is an older copy of the fast", "the witness has seen a newer one"]);
}

#[test]
fn a_start_that_nobody_could_reach_changes_nothing() {
    let folder = made(&[]);
    serve(&folder, &[]).end();
    let legs = || ["fast", "slow"].map(|leg| std::fs::read(folder.path(leg)).unwrap());
    let before = legs();
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = busy.local_addr().unwrap().to_string();
    for (address, code) in [
        (&["--socket", "none/s"][..], 2),
        (&["--socket", "s2", "--control", "none/c"], 2),
        (&["--as", "vhost-user", "--socket", "none/s"], 2),
        (&["--tcp", &busy], 3),
    ] {
        for without in [&[][..], &["--without", "fast"], &["--without", "slow"]] {
            let output = run(&folder, "serve", &[LEGS, address, without, &["--run", "true"]]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{address:?}: {said}");
            assert!(said.contains("cannot listen on"), "{said}");
        }
        assert!(legs() == before, "{address:?}");
        assert!(!folder.path("s2").exists(), "{address:?}: a socket was left");
    }
    serve(&folder, &[]).end();
}

#[test]
fn what_is_no_request_is_said_and_does_no_harm() {
    use std::io::{BufRead, BufReader};
    let folder = made(&[]);
    let mut session = serve(&folder, &[]);
    for line in ["", "status", "{\"replace\":{}}", "{\"status\":{\"x\":1}}", "[1,", "\u{7f}"] {
        let mut stream = UnixStream::connect(folder.path("c.sock")).unwrap();
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        assert!(answer.contains("refused"), "{line:?}: {answer}");
    }
    // One that says nothing, and one that says too much.
    let _silent = UnixStream::connect(folder.path("c.sock")).unwrap();
    let mut loud = UnixStream::connect(folder.path("c.sock")).unwrap();
    let _ = loud.write_all(&[b'x'; 100_000]);
    assert_eq!(live(&folder)["states"][0], "member");
    session.end();
}
