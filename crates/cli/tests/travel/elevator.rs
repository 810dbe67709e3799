//! `--elevator`: bios as file systems made them, and on whose behalf, reach the model.

use serde_json::Value;

use crate::repeat::{Load, without_wall_time};
use crate::support::{Folder, Journey, can_travel};

impl Journey {
    fn elevator(&self) -> &Value {
        &self.report["disks"][0]["elevator"]
    }

    fn count(&self, name: &str) -> u64 {
        let count = self.elevator()["counts"][name].as_u64();
        count.unwrap_or_else(|| panic!("no {name} in {:#}", self.elevator()))
    }

    /// What the kernel queued, of reads and writes.
    fn queued(&self) -> u64 {
        let block = self.report["disks"][0]["block"].as_array().unwrap();
        let of = |block: &Value| {
            let count = |key: &str| block[key].as_u64().unwrap();
            assert_eq!(count("merged"), 0, "the kernel joins nothing: {block}");
            count("queued") - count("without_data")
        };
        block.iter().filter(|block| block["op"] != "flush").map(of).sum()
    }
}

#[test]
fn the_same_elevator_decides_the_same_on_a_busy_machine() {
    if !can_travel(&["mkfs.ext3"]) {
        return;
    }
    // A reader beside a writer, and a journal beside both. In the end ext4 has read its bitmaps:
    // the kernel counts what is complete, the elevator what came.
    let script = "dd if=/dev/urandom of=r bs=1M count=4 2>/dev/null; sync; \
                  echo 3 > /proc/sys/vm/drop_caches; \
                  dd if=/dev/zero of=w bs=64k count=200 conv=fsync 2>/dev/null & \
                  dd if=r of=/dev/null bs=16k 2>/dev/null; wait; md5sum < r; sleep 60";
    let args = ["wd-80g-5400", "--mkfs", "ext3", "--elevator", "cfq", "--", "sh", "-c", script];
    let first = Folder::new().travel(&args).good();
    let loads = [Load::new(), Load::new(), Load::new()];
    let second = Folder::new().travel(&args).good();
    drop(loads);
    assert_eq!(without_wall_time(first.report.clone()), without_wall_time(second.report));
    assert_eq!(first.elevator()["policy"], "cfq");
    assert!(first.stderr.contains("elevator cfq"), "{}", first.stderr);
    // Every bio of the kernel came to the elevator, and went on in fewer requests.
    assert_eq!(first.count("enqueued"), first.queued());
    let joined = first.count("merged_back") + first.count("merged_front");
    let joined = joined + first.count("merged_requests");
    assert_eq!(first.count("enqueued") + first.count("splits"), first.count("dequeued") + joined);
    assert!(joined > 0, "{}", first.elevator());
    let ways = first.count("dequeued_reads") + first.count("dequeued_writes");
    assert_eq!(first.count("dequeued"), ways);
    let shares = first.elevator()["shares"].as_array().unwrap();
    assert!(shares.len() >= 3, "reader, writing back and journal: {shares:?}");
    let requests = shares.iter().map(|share| share["requests"].as_u64().unwrap());
    assert_eq!(requests.sum::<u64>(), first.count("dequeued"));
}

#[test]
fn process_and_priority_come_with_each_request() {
    if !can_travel(&["ionice"]) {
        return;
    }
    // Two readers of the device itself, far apart: CFQ gives the one of priority 0 more of it.
    let reader = |level: u32, skip: u32| {
        format!(
            "ionice -c 2 -n {level} dd if=/dev/vda of=/dev/null bs=16k skip={skip} iflag=direct \
             2>/dev/null & p{level}=$!"
        )
    };
    let script =
        format!("{}; {}; sleep 6; kill $p0 $p7; echo $p0 $p7", reader(0, 0), reader(7, 200_000));
    let args = ["wd-80g-5400", "--elevator", "cfq", "--", "sh", "-c", &script];
    let journey = Folder::new().travel(&args).good();
    let processes: Vec<u64> =
        journey.stdout.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let shares = journey.elevator()["shares"].as_array().unwrap();
    let service_ns = |process: u64| {
        let share = shares.iter().find(|share| share["process"] == process);
        let share = share.unwrap_or_else(|| panic!("no {process} in {shares:?}"));
        share["service_ns"].as_f64().unwrap()
    };
    let ratio = service_ns(processes[0]) / service_ns(processes[1]);
    // Its slices are 180 ms against 40 ms, and what is begun in one ends.
    assert!((4.0..5.0).contains(&ratio), "{ratio}: {shares:?}");
}

#[test]
fn only_who_waits_opens_the_plug() {
    if !can_travel(&[]) {
        return;
    }
    // In 2.6.26 the plug opens at once for whoever waits, else at four requests or after 3 ms.
    let slowest_us = |script: &str| {
        let args = ["part.toml", "--elevator", "noop", "--", "bash", "-c", script];
        let journey = Folder::new().travel(&args).good();
        let device = journey.report["disks"][0]["device"].as_array().unwrap();
        let write = device.iter().find(|device| device["op"] == "write");
        let write = write.unwrap_or_else(|| panic!("{script}: {device:?}"));
        assert_eq!(write["requests"], 1, "{script}");
        write["modelled_us"]["max"].as_f64().unwrap()
    };
    let waits = slowest_us("dd if=/dev/zero of=/dev/vda bs=4k count=1 oflag=direct 2>/dev/null");
    assert!(waits < 100.0, "{waits}");
    // Nobody waits for what the kernel writes back by itself, half a minute later.
    let later = slowest_us("exec 3<> /dev/vda; echo x >&3; sleep 60");
    assert!((3000.0..3200.0).contains(&later), "{later}");
}

#[test]
fn the_kernel_joins_cuts_and_holds_back_nothing() {
    if !can_travel(&[]) {
        return;
    }
    let names = "nomerges max_sectors_kb max_segments wbt_lat_usec nr_requests scheduler";
    let script =
        format!("cd /sys/block/vda/queue; cat {names}; cat /sys/block/vdb/queue/max_segments");
    let queue = |option: &str| {
        let args = ["part.toml", "part.toml", option, "--", "sh", "-c", &script];
        Folder::new().travel(&args).good().stdout
    };
    let whole = "2\n16384\n256\n0\n4096\n[none] mq-deadline kyber bfq \n256\n";
    assert_eq!(queue("--elevator=deadline"), whole);
    let usual = queue("--sched=none");
    assert!(usual.starts_with("0\n1280\n254\n") && usual.ends_with("\n254\n"), "{usual}");
}
