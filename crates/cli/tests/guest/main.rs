//! What needs a virtual machine: ublk and Linux's own NBD client, which this machine's kernel may
//! not have, vhost-user, which is for virtual machines, and power cuts. Skipped, with the reason,
//! where guests cannot run.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

#[path = "../../../../tests/skip.rs"]
mod skip;

use skip::skip;

/// The guest's program that says what it expected in vain, and a part.
const PRELUDE: &str = r#"
fail() { echo "FAILED: $*"; exit 1; }
same() { test "$1" = "$2" || fail "$3: $1, not $2"; }
waits() { for i in $(seq 200); do if eval "$1"; then return; fi; usleep 50000; done; fail "$1"; }
# The log is of this session alone: an older one would say too early that the device is there.
session() {
    rm -f log
    blocklab attach "$@" > log 2>&1 &
    server=$!
    waits 'grep -qs "end with" log'
}
queue() { cat /sys/block/${1#/dev/}/queue/$2; }
seen() { grep -q "\"op\": \"$1\"" out/attach/attach.json || fail "no $1 in the report"; }
verify() {
    fio --name=v --filename=$1 --direct=1 --ioengine=libaio --rw=randrw --bsrange=4k-64k \
        --size=12M --iodepth=32 --verify=crc32c --verify_fatal=1 --output-format=terse > fio.log \
        || fail "fio verify on $1: $(cat fio.log)"
    fio --name=t --filename=$1 --direct=1 --ioengine=libaio --rw=randtrimwrite --bs=64k --size=8M \
        --offset=64M --iodepth=32 --output-format=terse > fio.log || fail "trim on $1"
}
files() {
    mkdir -p m && mkfs.ext4 -q -F $1 && mount -t ext4 $1 m || fail "mkfs and mount of $1"
    head -c 8000000 /dev/urandom > m/a && cp m/a m/b && sync && rm m/a && fstrim m \
        || fail "files on $1"
    sha256sum < m/b > sum; umount m && e2fsck -fn $1 > fsck.log 2>&1 || fail "$(cat fsck.log)"
    mount -t ext4 $1 m && sha256sum < m/b | cmp - sum && umount m || fail "files are gone on $1"
}
printf '[null]\nlatency = "20us"\ncapacity = "128MiB"\n' > part.toml
"#;

const TOOLS: [&str; 3] = ["fio", "mkfs.ext4", "e2fsck"];

const BLOCKLAB: &str = env!("CARGO_BIN_EXE_blocklab");

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(name)
}

fn with_prelude(program: &str) -> String {
    format!("cat > lib.sh << 'END'\n{PRELUDE}END\n. ./lib.sh\n{program}")
}

/// Run a script in a guest; true when it ended well, false when there can be no guest.
fn guest(modules: &[&str], tools: &[&str], program: &str) -> bool {
    let mut command = Command::new(script("guest.py"));
    for module in modules {
        command.args(["--module", module]);
    }
    for tool in [&TOOLS[..], tools, &[BLOCKLAB]].concat() {
        command.args(["--bring", tool]);
    }
    let piped = command.arg("-").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut guest = piped.stderr(Stdio::piped()).spawn().unwrap();
    guest.stdin.take().unwrap().write_all(with_prelude(program).as_bytes()).unwrap();
    ended_well(&guest.wait_with_output().unwrap())
}

/// True when a guest ended well, false when there can be none.
fn ended_well(output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stdout);
    let trouble = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => true,
        Some(77) => {
            skip("guest", &trouble);
            false
        }
        code => panic!("the guest ended with {code:?}:\n{said}\n{trouble}"),
    }
}

#[test]
fn ublk_is_a_block_device_that_leaves_nothing() {
    guest(&["ublk_drv", "ext4"], &[], include_str!("ublk.sh"));
}

#[test]
fn linux_is_a_client_over_nbd_and_loop() {
    guest(&["nbd", "loop", "ext4"], &["nbd-client"], include_str!("nbd.sh"));
}

#[test]
fn a_virtual_machine_has_disks_by_vhost_user() {
    let folder = std::env::temp_dir().join(format!("vhost-user-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for life in ["1", "2"] {
        let script = format!("life={life}\n{}", include_str!("vhost-user.sh"));
        std::fs::write(folder.join(format!("life-{life}")), with_prelude(&script)).unwrap();
    }
    std::fs::write(folder.join("part.toml"), "[null]\nlatency = \"20us\"\ncapacity = \"128MiB\"\n")
        .unwrap();
    // Two lives of the machine, one of its disks; the second ends in the middle of its work.
    let life = "$guest --module virtio_pci --module virtio_blk --module ext4 --queues 2 \
                --bring fio --bring mkfs.ext4 --bring e2fsck \
                $(for s in $sockets; do echo --vhost-user $s; done)";
    let output = Command::new(BLOCKLAB)
        .args(["attach", "first=part.toml", "second=part.toml", "third=wd-80g-5400"])
        .args([
            "--as",
            "vhost-user",
            "--queues",
            "2",
            "--run",
            &format!("{life} life-1 && {life} life-2"),
        ])
        .current_dir(&folder)
        .env("guest", script("guest.py"))
        .env("TMPDIR", &folder)
        .output()
        .unwrap();
    let report = std::fs::read_to_string(folder.join("out/attach/attach.json"));
    let left: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("blocklab-"))
        .collect();
    std::fs::remove_dir_all(&folder).unwrap();
    if !ended_well(&output) {
        return;
    }
    assert!(left.is_empty(), "{left:?}");
    for op in ["read", "write", "flush", "discard"] {
        assert!(report.as_ref().unwrap().contains(&format!("\"op\": \"{op}\"")), "no {op}");
    }
}

/// The part of `scripts/mirror-power-cuts.py` that a test has time for.
#[test]
fn a_power_cut_costs_nothing_that_the_mirror_has_flushed() {
    let mut cuts = Command::new(script("mirror-power-cuts.py"));
    cuts.args(["--cuts", "3", "--fs", "ext4", "--mode", "log"]);
    ended_well(&cuts.args(["--binary", BLOCKLAB]).output().unwrap());
}
