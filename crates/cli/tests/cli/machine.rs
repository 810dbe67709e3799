//! `blocklab boot record --in qemu`: whole machines, in real time.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::boot::kernel;
use crate::common::skip;
use crate::support::{Output, Test, entries};

/// A process 1 that draws, reaches a unit, and asks who is there. Of the data it reads pieces that
/// no read-ahead fetches for it: of one reader all may have come, on a busy machine, before it
/// sleeps.
const INIT: &str = "#!/bin/busybox sh
mark() { /run/blocklab/blocklab-guest mark $1; }
mark drawing
/bin/busybox head -c 400000 /dev/urandom > /dev/fb0
/bin/busybox sleep 2
for at in 200 150 100 50; do
    /bin/busybox dd if=/data of=/dev/null bs=4096 count=1 skip=$at
done
/bin/busybox head -c 1000000 /data > /dev/null
mark multi-user.target
/bin/busybox printf 'small login: ' > /dev/ttyS0
/bin/busybox sleep 1000
";

/// BusyBox, where it needs no libraries.
fn busybox() -> Option<Vec<u8>> {
    let found =
        ["/bin/busybox", "/usr/bin/busybox"].map(std::fs::read).into_iter().flatten().next();
    let interpreter = b"/ld-linux";
    let is_static =
        |file: &Vec<u8>| !file.windows(interpreter.len()).any(|part| part == interpreter);
    found.filter(is_static)
}

/// A root with `init`, in the test's directory, as a tar file; `None` where nothing can be booted.
fn root(test: &Test, init: &str) -> Option<PathBuf> {
    let (Some(busybox), Some(_)) = (busybox(), kernel()) else {
        skip("boot", "no static busybox, or no kernel of Debian's in the cache folder");
        return None;
    };
    if let [missing, ..] = boot::missing_packages()[..] {
        skip("boot", &format!("no {missing}"));
        return None;
    }
    let folder = test.path("root");
    for name in ["bin", "sbin", "run", "etc"] {
        std::fs::create_dir_all(folder.join(name)).unwrap();
    }
    std::fs::write(folder.join("bin/busybox"), busybox).unwrap();
    std::fs::write(folder.join("sbin/init"), init).unwrap();
    std::fs::write(folder.join("data"), vec![7; 1 << 20]).unwrap();
    let script = "chmod 755 bin/busybox sbin/init && tar -cf ../root.tar . && rm -r ../root";
    let made = Command::new("sh").args(["-c", script]).current_dir(&folder).status().unwrap();
    assert!(made.success());
    Some(test.path("root.tar"))
}

/// Record a boot of it; temporary files are in a folder of the test's.
fn record(test: &Test, root: &Path, more: &[&str]) -> Output {
    let temporary = test.path("tmp");
    std::fs::create_dir_all(&temporary).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_blocklab"));
    command.args(["boot", "record", "--in", "qemu", "--device", "mlc2009-32g", "--json", "--root"]);
    command.arg(root).arg("--kernel").arg(kernel().unwrap()).args(more);
    command.current_dir(test.path("")).env("TMPDIR", &temporary);
    // Whether KVM works is found out once for all tests.
    command.env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
    let output = command.output().unwrap();
    assert_eq!(entries(&temporary), [""; 0], "nothing is left behind");
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    Output { code, stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// How much earlier something may be seen from outside than it was by the guest's clock.
const APART_NS: u64 = 1_000_000_000;

#[test]
fn a_root_boots_in_a_machine_and_what_it_shows_is_seen() {
    let test = Test::new();
    let Some(root) = root(&test, INIT) else { return };
    let out = record(&test, &root, &[]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    let answer: Value = serde_json::from_str(&out.stdout).unwrap();
    let boot = &answer["boots"][0];
    let at = |name: &str| {
        let all = boot["milestones"].as_array().unwrap();
        let found = all.iter().find(|one| one["milestone"] == name);
        found.unwrap_or_else(|| panic!("no {name}: {all:?}"))["at_ns"].as_u64().unwrap()
    };
    let inside = ["initramfs", "root mounted", "recorder", "drawing", "multi-user.target"];
    let times = inside.map(at);
    assert!(times.is_sorted(), "{inside:?}: {times:?}");
    // Seen from outside, so a little later, or on a busy machine earlier by the guest's clock.
    let (drawn, end, picture) = (at("drawing"), at("multi-user.target"), at("first picture"));
    let login = at("login prompt");
    assert!(picture + APART_NS > drawn && picture < end, "{drawn} {picture} {end}");
    assert!(login + APART_NS > end, "{login} {end}");
    let machine = &boot["machine"];
    assert!(machine["requests"]["read"][1].as_u64().unwrap() > 1 << 20, "{machine}");
    let who = machine["accelerator"].as_str().unwrap();
    assert!(who == "KVM" || who.starts_with("TCG ("), "{who}");
    // Whoever read the data waited for it.
    let rows = boot["ranking"].as_array().unwrap();
    let waited = |row: &Value| row["name"] == "busybox" && row["io_ns"].as_u64().unwrap() > 0;
    assert!(rows.iter().any(waited), "{rows:?}");
    assert_eq!(boot["head"]["lost"], 0, "{}", boot["head"]);
    let kept = test.path("out/boot/mlc2009-32g.record");
    let mut report = Command::new(env!("CARGO_BIN_EXE_blocklab"));
    let shown = test.run_as(report.args(["boot", "report"]).arg(kept));
    assert!(shown.code == 0 && shown.stdout.contains("first picture after"), "{}", shown.stdout);
}

#[test]
fn a_machine_that_does_not_come_up_is_told_and_leaves_nothing() {
    let test = Test::new();
    let Some(root) = root(&test, "#!/bin/none\n") else { return };
    let panicked = record(&test, &root, &[]);
    assert_eq!(panicked.code, 3, "{}", panicked.stderr);
    let told = ["ended before its record", "cannot run /sbin/init", "Kernel panic"];
    assert!(told.iter().all(|part| panicked.stderr.contains(part)), "{}", panicked.stderr);
    let late = record(&test, &root, &["--wall-limit", "1"]);
    assert!(late.stderr.contains("was not done in time"), "{}", late.stderr);
    assert_eq!(entries(&test.path("out/boot")), [""; 0]);
}

#[test]
#[ignore = "boots a Debian with systemd by translated instructions: a minute or two"]
fn a_debian_boots_with_its_own_kernel() {
    let cached = boot::timeline::root::cached(boot::timeline::root::Kind::WithKernel).unwrap();
    if !cached.is_file() {
        return skip("debian-machine", "no root with a kernel in the cache folder");
    }
    let test = Test::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_blocklab"));
    command.args(["boot", "record", "--in", "qemu", "--device", "mlc2009-32g", "--json"]);
    let out = command.current_dir(test.path("")).output().unwrap();
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{told}");
    let answer: Value = serde_json::from_slice(&out.stdout).unwrap();
    let boot = &answer["boots"][0];
    let names: Vec<&str> = boot["milestones"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["milestone"].as_str().unwrap())
        .collect();
    // The text console draws where nothing else does.
    for name in [
        "root mounted",
        "systemd",
        "sysinit.target",
        "multi-user.target",
        "login prompt",
        "first picture",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    let units = boot["units"].as_array().unwrap();
    let udevd = units.iter().find(|unit| unit["unit"] == "systemd-udevd.service").unwrap();
    assert!(udevd["io_ns"].as_u64().unwrap() > 0, "{udevd}");
    assert_eq!(boot["head"]["incomplete"], Value::Null);
}
