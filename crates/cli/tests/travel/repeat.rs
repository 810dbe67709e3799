//! The same journey is the same journey, and its recordings say what happened.

use std::process::{Child, Command};

use serde_json::Value;

use crate::support::{Folder, can_travel, same_times};

/// Keeps a core busy while it lives.
pub(crate) struct Load(Child);

impl Load {
    pub(crate) fn new() -> Load {
        Load(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn without_wall_time(mut report: Value) -> Value {
    for of_the_host in ["wall_s", "free_cpu_s", "free_cpu_share"] {
        report.as_object_mut().unwrap().remove(of_the_host).unwrap();
    }
    report
}

#[test]
fn the_hosts_load_changes_nothing() {
    if !can_travel(&["mkfs.ext3"]) {
        return;
    }
    let script = "for i in 1 2 3 4 5 6 7 8 9; do mkdir d$i; cp -r /usr/share/doc/tar d$i; sync; \
                  dd if=/dev/urandom of=d$i/f bs=64k count=40 conv=fsync 2>/dev/null; done; \
                  cat d*/f | md5sum; rm -r d1 d3; sync; date +%s.%N";
    let args = ["wd-80g-5400", "--mkfs", "ext3", "--sched", "bfq", "--", "bash", "-c", script];
    let first = Folder::new().travel(&args).good();
    let loads = [Load::new(), Load::new(), Load::new()];
    let second = Folder::new().travel(&args).good();
    drop(loads);
    assert_eq!(first.stdout, second.stdout);
    assert_eq!(without_wall_time(first.report), without_wall_time(second.report));
    let mut other = args.to_vec();
    other.splice(1..1, ["--seed", "2"]);
    let third = Folder::new().travel(&other).good();
    assert_ne!(first.stdout, third.stdout, "the seed decides the random numbers");
}

#[test]
fn one_truth_in_simulate_and_travel() {
    if !can_travel(&["mkfs.ext4"]) {
        return;
    }
    let folder = Folder::new();
    let script = "dd if=/dev/zero of=a bs=4k count=500 conv=fsync 2>/dev/null; \
                  dd if=/dev/vda of=/dev/null bs=16k count=300 iflag=direct 2>/dev/null; rm a";
    let args = ["mqsim-f", "--mkfs", "ext4", "--record", "t.trace", "--", "sh", "-c", script];
    let journey = folder.travel(&args).good();
    let metrics = folder.replay("[device.ssd]\npart = \"mqsim-f\"", "t.trace");
    let operations = journey.report["disks"][0]["device_whole"].as_array().unwrap();
    assert!(operations.len() >= 3, "{operations:?}");
    // A study measures no discards and flushes by themselves; what they do to others it does.
    let measured = |name: &Value| name == "read" || name == "write";
    let both: Vec<_> = operations.iter().filter(|one| measured(&one["op"])).collect();
    assert_eq!(both.len(), 2);
    for operation in both {
        same_times(operation, &metrics);
    }
}

#[test]
fn the_queue_is_recorded_above_the_scheduler() {
    if !can_travel(&["mkfs.ext3"]) {
        return;
    }
    let folder = Folder::new();
    let script = "dd if=/dev/urandom of=f bs=1M count=4 conv=fsync 2>/dev/null; \
                  echo 3 > /proc/sys/vm/drop_caches; cat f > /dev/null";
    let queue = ["part.toml", "part.toml", "--mkfs", "ext3", "--record-queue", "q.trace", "--"];
    let other = format!("{script}; dd if=/dev/vdb of=/dev/null bs=4k count=9 iflag=direct");
    let args: Vec<&str> = queue.into_iter().chain(["sh", "-c", &other]).collect();
    let journey = folder.travel(&args).good();
    // With the queue recorded, both disks' times at the block layer are known by percentile.
    for (disk, bytes) in [(0, 4 << 20), (1, 9 << 12)] {
        let read = &journey.report["disks"][disk]["block"][0];
        assert_eq!(read["op"], "read");
        assert!(read["bytes"].as_u64() >= Some(bytes), "{read}");
        let us = |key: &str| read["latency_us"][key].as_f64().unwrap();
        // The part answers after 20 us.
        assert!(20.0 <= us("p50") && us("p50") <= us("p95") && us("p95") <= us("p99"), "{read}");
        assert!(us("p99") <= us("max") && us("max") < 1e6, "{read}");
    }
    assert!(journey.stderr.contains("in the block layer: mean"), "{}", journey.stderr);
    let text = std::fs::read_to_string(folder.path("q.trace")).unwrap();
    let flags = |flag: &str| text.lines().filter(|line| line.contains(flag)).count();
    assert!(flags(" Q  RA ") > 0, "read-ahead");
    assert!(flags(" Q  WS ") + flags(" Q   W ") > 0, "writes");
    assert!(text.contains("[cat]") && text.contains("[jbd2/vda-8]"), "processes");
    assert!(text.contains(" m   N after="), "dependencies");
    assert!(flags(" C ") > 0 && flags(" D ") > 0);
    folder.replay("[device.null]", "q.trace");
}
