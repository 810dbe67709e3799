//! Real clients over NBD.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::support::{Client, Folder, have, skip};

const DATA: &str = "head -c 50003968 /dev/urandom > in.img\n";

#[test]
fn nbdinfo_sees_what_there_is() {
    if !have(&["nbdinfo"]) {
        return;
    }
    let folder = Folder::new();
    let script = "nbdinfo --json \"$uri\" && nbdinfo --list \"$uri\" | grep export= \
                  && nbdinfo --map \"$uri\" && nbdinfo --can multi-conn \"$uri\"";
    let found = folder.captive(&["a=part.toml", "b=part.toml"], script).good();
    for part in [
        "\"protocol\": \"newstyle-fixed\"",
        "\"structured\": true",
        "\"export-size\": 536870912",
        "\"can_fua\": true",
        "\"can_trim\": true",
        "\"block_size_maximum\": 67108864",
        "export=\"a\"",
        "export=\"b\"",
        "hole,zero",
    ] {
        assert!(found.stdout.contains(part), "{part} is not in {}", found.stdout);
    }
}

#[test]
fn clients_are_told_what_the_part_says() {
    if !have(&["nbdinfo"]) {
        return;
    }
    let folder = Folder::new();
    let text = "[null]\ncapacity = \"64MiB\"\n[block]\nmodel = \"X 25\"\nserial = \"A1\"\n\
                rotational = true\nlogical_block = \"4KiB\"\nphysical_block = \"16KiB\"\n\
                request_max = \"128KiB\"\n";
    std::fs::write(folder.path("told.toml"), text).unwrap();
    let found = folder.captive(&["told.toml"], "nbdinfo --json \"$uri\"").good();
    for part in [
        "\"description\": \"X 25, serial A1\"",
        "\"is_rotational\": true",
        "\"block_size_minimum\": 4096",
        "\"block_size_preferred\": 16384",
        "\"block_size_maximum\": 131072",
    ] {
        assert!(found.stdout.contains(part), "{part} is not in {}", found.stdout);
    }
    let wrong = folder.captive(&["told.toml", "--set", "block.serial=two words"], "true");
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("without spaces"), "{}", wrong.stderr);
}

#[test]
fn nbdcopy_copies_both_ways() {
    if !have(&["nbdcopy"]) {
        return;
    }
    let folder = Folder::new();
    let script = format!(
        "{DATA} nbdcopy in.img \"$uri\" && nbdcopy \"$uri\" out.img \
         && cmp -n 50003968 in.img out.img"
    );
    let done = folder.captive(&["part.toml", "--tcp", "127.0.0.1:0"], &script).good();
    let (device, written) = (&done.report["devices"][0], 50_003_968);
    let writes = device["operations"].as_array().unwrap().iter().find(|op| op["op"] == "write");
    assert!(writes.unwrap()["bytes"].as_u64().unwrap() >= written);
    assert_eq!(device["lateness"]["early"], 0);
}

#[test]
fn qemu_img_converts_compares_and_maps() {
    if !have(&["qemu-img"]) {
        return;
    }
    let folder = Folder::new();
    let script = format!(
        "{DATA} truncate -s 256M in.img\n\
         qemu-img convert -n -f raw -O raw in.img \"$uri\" || exit 1\n\
         qemu-img compare -f raw -F raw in.img \"$uri\" || exit 2\n\
         qemu-img map --output=json -f raw \"$uri\""
    );
    let done = folder.captive(&["part.toml"], &script).good();
    assert!(done.stdout.contains("Images are identical."), "{}", done.stdout);
    let map = &done.stdout[done.stdout.find('[').unwrap()..];
    let map: serde_json::Value = serde_json::from_str(map).unwrap();
    let (first, last) = (&map[0], map.as_array().unwrap().last().unwrap());
    assert_eq!((&first["data"], &last["zero"]), (&true.into(), &true.into()));
}

#[test]
fn qemu_io_finds_its_patterns() {
    if !have(&["qemu-io"]) {
        return;
    }
    let folder = Folder::new();
    let commands = [
        "write -P 5 0 32M",
        "read -P 5 0 32M",
        "write -z 1M 1M",
        "read -P 0 1M 1M",
        "read -P 5 2M 64k",
        "discard 4M 1M",
        "read -P 0 4M 1M",
        "write -f -P 9 513 700",
        "read -P 9 513 700",
        "read -P 5 0 513",
        "aio_write -P 3 8M 1M",
        "aio_write -P 4 9M 1M",
        "aio_flush",
        "flush",
        "read -P 3 8M 1M",
        "read -P 4 9M 1M",
    ];
    let listed: Vec<String> = commands.iter().map(|command| format!("-c '{command}'")).collect();
    let script = format!("qemu-io -f raw {} \"$uri\"", listed.join(" "));
    let done = folder.captive(&["part.toml"], &script).good();
    assert!(!done.stdout.contains("verification failed"), "{}", done.stdout);
    let beyond = folder.captive(&["part.toml"], "qemu-io -f raw -c 'read 512M 4k' \"$uri\"");
    assert_ne!(beyond.code, Some(0));
}

#[test]
fn fio_verifies_what_it_wrote() {
    if !have(&["fio"]) {
        return;
    }
    let folder = Folder::new();
    let script = "\
        fio --name=v --ioengine=nbd --uri=\"$uri\" --rw=randrw --bsrange=512-64k --size=24M \
            --iodepth=32 --verify=crc32c --verify_fatal=1 --output-format=terse || exit 1\n\
        fio --name=t --ioengine=nbd --uri=\"$uri\" --rw=randtrimwrite --bs=4k --size=8M \
            --offset=64M --iodepth=32 --output-format=terse";
    let done = folder.captive(&["part.toml"], script);
    if done.stderr.contains("engine nbd not loadable") {
        return skip("fio-nbd", "this fio has no engine nbd");
    }
    let report = done.good().report;
    let operations = report["devices"][0]["operations"].as_array().unwrap();
    let kinds: Vec<&str> = operations.iter().map(|op| op["op"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["read", "write", "discard"]);
}

/// Far more at once than any queue of a device holds.
#[test]
fn ten_times_the_depth_is_answered() {
    let folder = Folder::new();
    let mut session = folder.serve(&["a=part.toml", "--socket", "s.sock"]);
    Client::new(&folder.path("s.sock")).reads_at_once(5120);
    session.end();
}

/// While the path is measured requests bypass the model: what a client wrote then would be in the
/// data and not in the drive.
#[test]
fn a_client_that_comes_early_is_let_in_once_the_path_was_measured() {
    let folder = Folder::new();
    let socket = folder.path("s.sock");
    let early = std::thread::spawn(move || {
        let begun = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "nobody listens");
        }
        Client::new(&socket).write(0, &[7; 4096])
    });
    let mut session = folder.serve(&["part.toml", "--socket", "s.sock", "--out", "measured"]);
    assert_eq!(early.join().unwrap(), 0);
    session.end();
    let report = std::fs::read_to_string(folder.path("measured/attach.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["devices"][0]["operations"][0]["op"], "write", "{report}");
}
