//! A mirror over real files: made, served, killed, degraded, refused.

mod block_devices;
mod full;
mod killed;
mod misuse;
mod operate;
mod paused;
mod service;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::Value;

use crate::support::{Client, Folder, Session, have, skip, until};

const LEG_BYTES: u64 = 64 << 20;
/// Where the data of a leg of this size begins.
const DATA: u64 = 16 << 20;
const SERVE: &[&str] = &["mirror", "serve", "--socket", "s.sock", "--control", "c.sock"];
const LEGS: &[&str] = &["--fast", "fast", "--slow", "slow"];

fn blank(folder: &Folder, name: &str) {
    File::create(folder.path(name)).unwrap().set_len(LEG_BYTES).unwrap();
}

fn run(folder: &Folder, verb: &str, args: &[&[&str]]) -> Output {
    folder.blocklab(&[&["mirror", verb], args.concat().as_slice()].concat())
}

/// It must be refused as bad input, in these words.
fn refused(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    words.iter().for_each(|word| assert!(said.contains(word), "no `{word}` in: {said}"));
}

fn made(args: &[&str]) -> Folder {
    let folder = Folder::new();
    blank(&folder, "fast");
    blank(&folder, "slow");
    let output = run(&folder, "create", &[LEGS, args]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    folder
}

fn serve(folder: &Folder, args: &[&str]) -> Session {
    folder.session(&[SERVE, LEGS, args].concat())
}

fn live(folder: &Folder) -> Value {
    let output = folder.blocklab(&["mirror", "status", "--json", "--control", "c.sock"]);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn offline(folder: &Folder) -> Value {
    serde_json::from_slice(&run(folder, "status", &[LEGS, &["--json"]]).stdout).unwrap()
}

/// Both legs hold the same.
fn alike(folder: &Folder) {
    let bytes = offline(folder)["bytes"].as_u64().unwrap();
    let read = |name: &str| {
        let mut data = vec![0; bytes as usize];
        File::open(folder.path(name)).unwrap().read_exact_at(&mut data, DATA).unwrap();
        data
    };
    let (fast, slow) = (read("fast"), read("slow"));
    let differs = fast.iter().zip(&slow).position(|(a, b)| a != b);
    assert_eq!(differs, None, "the legs differ at this byte");
    assert!(fast.iter().any(|&byte| byte != 0), "there is nothing to compare");
}

#[test]
fn what_holds_something_is_overwritten_only_by_name() {
    let folder = Folder::new();
    blank(&folder, "fast");
    blank(&folder, "slow");
    let slow = OpenOptions::new().write(true).open(folder.path("slow")).unwrap();
    slow.write_all_at(&[0x53, 0xef], 1080).unwrap();
    let output = run(&folder, "create", &[LEGS]);
    refused(&output, &["slow holds an ext2, ext3 or ext4 file system", "--overwrite slow"]);
    refused(&run(&folder, "create", &[LEGS, &["--overwrite", "fast"]]), &["slow holds"]);
    slow.write_all_at(&[0, 0], 1080).unwrap();
    slow.write_all_at(&[7], LEG_BYTES - 5).unwrap();
    let output = run(&folder, "create", &[LEGS]);
    refused(&output, &["slow holds data: byte 67108859 is not zero"]);
    refused(&run(&folder, "serve", &[LEGS]), &["fast is no device of a mirror", "magic"]);

    let output = run(&folder, "create", &[LEGS, &["--overwrite", "slow", "--size", "1GiB"]]);
    refused(&output, &["fast has 67108864 bytes", "at least"]);
    let output = run(&folder, "create", &[LEGS, &["--overwrite", "slow", "--json"]]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let created: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(created["bytes"], LEG_BYTES - DATA - 2 * 4096);
    refused(&run(&folder, "create", &[LEGS]), &["fast holds the fast of mirror"]);
    let status = offline(&folder);
    assert_eq!((&status["clean"], &status["mode"]), (&true.into(), &"log".into()));
    assert_eq!(status["array"], created["array"]);

    // As if `create` had been killed before its last step.
    let fast = OpenOptions::new().write(true).open(folder.path("fast")).unwrap();
    fast.write_all_at(&[0; 8192], 0).unwrap();
    fast.write_all_at(&[0; 8192], LEG_BYTES - 8192).unwrap();
    refused(&run(&folder, "serve", &[LEGS]), &["fast is no device of a mirror"]);
    let output = run(&folder, "create", &[LEGS, &["--overwrite", "slow"]]);
    assert!(output.status.success());
    serve(&folder, &[]).end();
}

#[test]
fn one_rotten_superblock_copy_matters_to_nobody() {
    let folder = made(&[]);
    let last = LEG_BYTES / 4096 - 1;
    for (value, leg) in [(1, "fast"), (11, "slow")] {
        for (value, page) in (value..).zip([0, 1, last - 1, last]) {
            // Not stopped in order: the next start has to recover with what is left.
            let mut session = serve(&folder, &[]);
            let mut client = Client::new(&folder.path("s.sock"));
            assert_eq!(client.write(page * 4096 % (8 << 20), &[value; 4096]), 0);
            assert_eq!(client.flush(), 0);
            session.signal("KILL");
            session.ended();
            let file = OpenOptions::new().write(true).open(folder.path(leg)).unwrap();
            file.write_all_at(&[0xa5; 100], page * 4096 + 50).unwrap();
            let mut session = serve(&folder, &[]);
            let mut client = Client::new(&folder.path("s.sock"));
            let read = client.read(page * 4096 % (8 << 20), 4096).unwrap();
            assert_eq!(read, [value; 4096], "{leg} {page}");
            session.end();
            assert_eq!(offline(&folder)["clean"], true);
        }
    }
    alike(&folder);
}

#[test]
fn strange_devices_are_refused() {
    let folder = made(&[]);
    blank(&folder, "other");
    blank(&folder, "third");
    let output = run(&folder, "create", &[&["--fast", "other", "--slow", "third"]]);
    assert!(output.status.success());
    let serve =
        |fast: &str, slow: &str| run(&folder, "serve", &[&["--fast", fast, "--slow", slow]]);
    refused(&serve("fast", "third"), &["third belongs to mirror", "but fast to"]);
    refused(&serve("slow", "fast"), &["slow is the mirror's slow, not its fast", "swap"]);
    refused(&serve("fast", "fast"), &["--fast and --slow are both fast"]);
    refused(&serve("fast", "nothing"), &["cannot open nothing", "--without slow"]);
    std::fs::copy(folder.path("fast"), folder.path("copy")).unwrap();
    refused(&serve("fast", "copy"), &["both claim to be the fast", "one is a copy"]);
    let slow = OpenOptions::new().write(true).open(folder.path("slow")).unwrap();
    slow.set_len(LEG_BYTES / 2).unwrap();
    refused(&serve("fast", "slow"), &["slow has 33554432 bytes, but its leg needs 67108864"]);
}

#[test]
fn what_is_served_is_not_served_twice_nor_overwritten() {
    let folder = made(&[]);
    let mut session = serve(&folder, &[]);
    refused(&run(&folder, "serve", &[LEGS]), &["fast is in use"]);
    let overwrite = ["--overwrite", "fast", "--overwrite", "slow"];
    refused(&run(&folder, "create", &[LEGS, &overwrite]), &["fast is in use"]);
    assert_eq!(offline(&folder)["clean"], false);
    session.end();
    assert_eq!(offline(&folder)["clean"], true);
    assert!(folder.leftovers().is_empty(), "{:?}", folder.leftovers());
}

/// Ranges that lie across blocks, zeros, discards, and what QEMU makes of them, in each mode.
#[test]
fn qemu_reads_what_it_wrote() {
    if !have(&["qemu-io"]) {
        return;
    }
    let script = r#"qemu-io -f raw "$uri" -c "write -P 17 0 8M" -c "write -P 34 512 5120" \
        -c "write -f -P 51 1M 512" -c flush -c "read -P 17 0 512" -c "read -P 34 512 5120" \
        -c "read -P 17 5632 512" -c "write -z 2049k 3M" -c "read -P 0 2049k 3M" \
        -c "read -P 17 2048k 1k" -c "read -P 51 1M 512" -c "discard 6M 1M" -c "read -P 0 6M 1M" \
        -c "read -P 17 7M 1M" > log; grep -c 'Pattern verification failed' log && exit 9
        grep -c ^read log"#;
    for mode in ["strict", "log", "relaxed"] {
        let folder = made(&["--mode", mode]);
        let output = run(&folder, "serve", &[LEGS, &["--run", script]]);
        assert_eq!(output.status.code(), Some(0), "{mode}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "0\n8", "{mode}: {output:?}");
        assert_eq!(offline(&folder)["clean"], true);
        alike(&folder);
    }
}

#[test]
fn fio_verifies_what_it_wrote() {
    fio_verifies(&made(&[]));
}

fn fio_verifies(folder: &Folder) {
    if !have(&["fio"]) {
        return;
    }
    let script = "fio --name=v --ioengine=nbd --uri=$uri --rw=randwrite --bsrange=4k-256k \
        --size=32M --iodepth=16 --verify=crc32c --do_verify=1 --fsync=16 >log 2>&1";
    let output = run(folder, "serve", &[LEGS, &["--run", script]]);
    let log = std::fs::read_to_string(folder.path("log")).unwrap();
    if log.contains("engine nbd not loadable") {
        return skip("fio-nbd", "this fio has no engine nbd");
    }
    assert_eq!(output.status.code(), Some(0), "{log}");
    alike(folder);
}

/// What each block of a small area held at the last flush, and what was written since.
#[derive(Default, Clone)]
struct Block {
    flushed: u8,
    since: Vec<u8>,
}

const BLOCKS: u64 = 64;

/// Wait until so many writes were answered.
fn has_reached(answered: &AtomicU64, writes: u64) {
    until("the writes are answered", || answered.load(Ordering::SeqCst) >= writes);
}

/// Write and flush until the server is gone; `answered` counts the writes.
fn write_until_killed(
    mut client: Client,
    blocks: &mut [Block],
    seed: &mut u64,
    answered: &AtomicU64,
) -> u32 {
    let mut flushes = 0;
    loop {
        for _ in 0..6 {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (at, value) = ((*seed >> 33) % BLOCKS, (*seed >> 48) as u8);
            // Once it is sent it may be there, answered or not.
            blocks[at as usize].since.push(value);
            if sent(&mut client.stream, 1, at * 4096, &[value; 4096]) != Some(0) {
                return flushes;
            }
            answered.fetch_add(1, Ordering::SeqCst);
        }
        if sent(&mut client.stream, 3, 0, &[]) != Some(0) {
            return flushes;
        }
        flushes += 1;
        for block in blocks.iter_mut() {
            block.flushed = block.since.pop().unwrap_or(block.flushed);
            block.since.clear();
        }
    }
}

/// The answer to a request; `None` when the server is gone.
fn sent(stream: &mut UnixStream, kind: u16, offset: u64, data: &[u8]) -> Option<u32> {
    use std::io::Read;
    let head = Client::request(kind, offset, data.len() as u32);
    stream.write_all(&[&head[..], data].concat()).ok()?;
    let mut reply = [0; 16];
    stream.read_exact(&mut reply).ok()?;
    Some(u32::from_be_bytes(reply[4..8].try_into().unwrap()))
}

#[test]
fn what_was_flushed_survives_kill_9() {
    for (mode, rounds) in [("log", 8), ("relaxed", 4), ("strict", 4)] {
        survives_kill_9(&made(&["--mode", mode]), mode, rounds);
    }
}

fn survives_kill_9(folder: &Folder, mode: &str, rounds: u64) {
    let mut blocks = vec![Block::default(); BLOCKS as usize];
    let (mut seed, mut flushes) = (7, 0);
    for round in 0..rounds {
        let mut session = serve(folder, &[]);
        let mut client = Client::new(&folder.path("s.sock"));
        for (at, block) in blocks.iter_mut().enumerate() {
            let data = client.read(at as u64 * 4096, 4096).unwrap();
            let value = data[0];
            assert!(data.iter().all(|&byte| byte == value), "{mode} {round}: block {at} torn");
            let may = block.flushed == value || block.since.contains(&value);
            assert!(may, "{mode} {round}: block {at} is {value}, flushed {}", block.flushed);
            (block.flushed, block.since) = (value, Vec::new());
        }
        // Whatever was read once stays.
        assert_eq!(client.flush(), 0);
        let (gone, answered) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                has_reached(&answered, 20 + 77 * round);
                gone.store(true, Ordering::SeqCst);
                session.signal("KILL");
            });
            flushes += write_until_killed(client, &mut blocks, &mut seed, &answered);
        });
        assert!(gone.load(Ordering::SeqCst), "{mode} {round}: the server went by itself");
        assert_eq!(session.ended(), None);
        assert_eq!(offline(folder)["clean"], false);
    }
    assert!(flushes > 0, "{mode}: no flush was ever answered");
    serve(folder, &[]).end();
    alike(folder);
}

#[test]
fn a_leg_that_was_away_is_filled_and_never_passes_for_current() {
    let folder = made(&[]);
    let write = |value: u8| {
        let mut client = Client::new(&folder.path("s.sock"));
        assert_eq!(client.write(u64::from(value) << 20, &vec![value; 300_000]), 0);
        assert_eq!(client.flush(), 0);
    };
    let mut session = serve(&folder, &[]);
    write(1);
    session.end();
    std::fs::rename(folder.path("slow"), folder.path("away")).unwrap();
    refused(&run(&folder, "serve", &[LEGS]), &["cannot open slow", "--without slow"]);
    let mut session = serve(&folder, &["--without", "slow"]);
    write(2);
    assert_eq!(live(&folder)["states"][1], "out");
    assert!(live(&folder)["out_of_sync_bytes"][1].as_u64().unwrap() >= 300_000);
    session.signal("KILL");
    session.ended();

    std::fs::rename(folder.path("away"), folder.path("slow")).unwrap();
    let mut session = serve(&folder, &[]);
    write(3);
    until("the leg is a member again", || live(&folder)["states"][1] == "member");
    let status = live(&folder);
    assert_eq!(status["out_of_sync_bytes"], serde_json::json!([0, 0]));
    let copied = status["copied_bytes"].as_u64().unwrap();
    assert!((1..LEG_BYTES / 4).contains(&copied), "{copied} bytes were copied, not what it lacked");
    session.end();
    alike(&folder);

    // Now it goes on without the fast leg, which must not come back as if nothing had been.
    let mut session = serve(&folder, &["--without", "fast"]);
    write(4);
    session.end();
    // Nobody can tell that from a slow leg that is gone: with the operator's word it starts, but
    // what has come of it is noticed.
    serve(&folder, &["--without", "slow"]).end();
    refused(&run(&folder, "serve", &[LEGS]), &["split brain", "went on without the other"]);
}

#[test]
fn a_witness_is_part_of_it() {
    let folder = Folder::new();
    ["fast", "slow", "third"].iter().for_each(|name| blank(&folder, name));
    let witness = ["--witness", "third"];
    assert!(run(&folder, "create", &[LEGS, &witness]).status.success());
    let mut session = serve(&folder, &witness);
    let mut client = Client::new(&folder.path("s.sock"));
    assert_eq!(client.write(0, &[5; 8192]), 0);
    assert_eq!(client.flush(), 0);
    assert_eq!(live(&folder)["states"], serde_json::json!(["member", "member", "member"]));
    session.signal("KILL");
    session.ended();
    let output = run(&folder, "serve", &[LEGS, &["--without", "slow"]]);
    refused(&output, &["--accept-loss"]);
    let mut session = serve(&folder, &witness);
    assert_eq!(Client::new(&folder.path("s.sock")).read(0, 8192).unwrap(), [5; 8192]);
    session.end();
    alike(&folder);
}

/// A client that goes on writing does not keep a server from stopping in order.
#[test]
fn it_stops_in_order_under_load() {
    let folder = made(&[]);
    for name in ["TERM", "INT"] {
        let mut session = serve(&folder, &[]);
        let client = Client::new(&folder.path("s.sock"));
        let (mut blocks, mut seed) = (vec![Block::default(); BLOCKS as usize], 3);
        let answered = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                has_reached(&answered, 100);
                session.signal(name);
                assert_eq!(session.ended(), Some(0));
            });
            write_until_killed(client, &mut blocks, &mut seed, &answered);
        });
        assert_eq!(offline(&folder)["clean"], true);
        alike(&folder);
    }
}

/// Ten times what the ring has room for, of a client that waits for nothing else.
#[test]
fn ten_times_the_depth_is_answered() {
    let folder = made(&[]);
    let mut session = serve(&folder, &[]);
    let mut client = Client::new(&folder.path("s.sock"));
    assert_eq!(client.write(0, &vec![5; 4 << 20]), 0);
    assert_eq!(client.flush(), 0);
    client.reads_at_once(5120);
    session.end();
}

/// As much as `nbd-tester-client` writes at once.
#[test]
fn a_request_of_47_mib_is_split_inside() {
    let folder = made(&[]);
    let mut session = serve(&folder, &[]);
    let mut client = Client::new(&folder.path("s.sock"));
    let data: Vec<u8> = (0..47u32 << 20).map(|n| (n % 241) as u8).collect();
    assert_eq!(client.write(1024, &data), 0);
    assert!(client.read(1024, 47 << 20).unwrap() == data);
    assert_eq!(client.flush(), 0);
    session.end();
    alike(&folder);
}
