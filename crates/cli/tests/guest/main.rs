//! What this machine's kernel may not have, tried in a virtual machine: ublk, and Linux's own NBD
//! client, and power cuts. Skipped, with the reason, where guests cannot run.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The guest's program that says what it expected in vain, and a part.
const PRELUDE: &str = r#"
fail() { echo "FAILED: $*"; exit 1; }
same() { test "$1" = "$2" || fail "$3: $1, not $2"; }
waits() { for i in $(seq 200); do if eval "$1"; then return; fi; usleep 50000; done; fail "$1"; }
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

fn script(name: &str) -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(name))
}

/// Run a script in a guest; true when it ended well, false when there can be no guest.
fn guest(modules: &[&str], tools: &[&str], program: &str) -> bool {
    let mut command = script("guest.py");
    for module in modules {
        command.args(["--module", module]);
    }
    for tool in [&TOOLS[..], tools, &[env!("CARGO_BIN_EXE_blocklab")]].concat() {
        command.args(["--bring", tool]);
    }
    let piped = command.arg("-").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut guest = piped.stderr(Stdio::piped()).spawn().unwrap();
    let lib = format!("cat > lib.sh << 'END'\n{PRELUDE}END\n. ./lib.sh\n{program}");
    guest.stdin.take().unwrap().write_all(lib.as_bytes()).unwrap();
    let output = guest.wait_with_output().unwrap();
    went_well(&output)
}

/// True when a guest ended well, false when there can be none.
fn went_well(output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stdout);
    let trouble = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => true,
        Some(77) => {
            eprintln!("skipped: {trouble}");
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

/// The part of `scripts/mirror-power-cuts.py` that a test has time for.
#[test]
fn a_power_cut_costs_nothing_that_the_mirror_has_flushed() {
    let mut cuts = script("mirror-power-cuts.py");
    cuts.args(["--cuts", "3", "--fs", "ext4", "--mode", "log"]);
    went_well(&cuts.args(["--binary", env!("CARGO_BIN_EXE_blocklab")]).output().unwrap());
}
