//! Studies that travel: what is refused before anything boots, what a point answers, and that a
//! point which comes to nothing takes no other with it.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Folder, can_travel, until};

const DEVICE: &str = "[device.null]\nlatency = \"20us\"\ncapacity = \"64MiB\"\n";

/// A study with these lines in its table `[travel]`, and what follows it.
fn study(folder: &Folder, travel: &str, rest: &str) {
    let text = format!("{DEVICE}[travel]\n{travel}\n{rest}");
    std::fs::write(folder.path("study.toml"), text).unwrap();
}

/// Run it with these options; its exit code, result and complaints.
fn run(folder: &Folder, options: &[&str]) -> (Option<i32>, Value, String) {
    let all = [&["run", "study.toml", "--no-report", "--json"], options].concat();
    let output = folder.blocklab(&all);
    let result = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output.status.code(), result, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn refused(travel: &str, rest: &str, sets: &[&str], words: &[&str]) {
    let folder = Folder::new();
    study(&folder, travel, rest);
    let options: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let (code, _, said) = run(&folder, &options);
    assert!(matches!(code, Some(2 | 3)), "{travel}: {code:?} {said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("error:")).count(), 1, "{said}");
    words.iter().for_each(|word| assert!(said.contains(word), "{travel}: no {word} in {said}"));
    assert!(!folder.path("out").exists() && folder.leftovers().is_empty());
}

#[test]
fn what_no_guest_can_do_is_refused_before_anything_boots() {
    let sync = "command = 'sync'";
    let with = |line: &str| format!("{sync}\n{line}");
    let at = "study.toml:6:";
    refused(&with("scheduler = 'cfq'"), "", &[], &["`cfq`", "mq-deadline", at]);
    refused(&with("scheduler = 'mqdeadline'"), "", &[], &["did you mean `mq-deadline`?", at]);
    refused(&with("file_system = 'ext33'"), "", &[], &["did you mean `ext3`?", at]);
    refused(&with("program = 'fi0'"), "", &[], &["did you mean `fio`?", at]);
    refused(&with("memory = '32MiB'"), "", &[], &["32 MiB of memory", "at least 64MiB", at]);
    refused(&with("dirty = '0.5%'"), "", &[], &["a limit of 0.5%", at]);
    refused(&with("mount_options = 'sync'"), "", &[], &["without a file system", at]);
    refused(&with("mkfs_discard = true"), "", &[], &["without a file system", at]);
    refused(&with("arguments = { PATH = '/' }"), "", &[], &["`PATH` cannot be a variable", at]);
    refused(&with("read_ahead = 4"), "", &[], &["did you mean `read_ahead_kb`?", at]);
    refused(sync, "", &["travel.write_cache=through"], &["`through`", "write-through", "--set:1"]);
    refused(&with("faults = ['eror']"), "", &[], &["`eror` is not one of", at]);
    refused(&with("faults = ['error disk=vdb']"), "", &[], &["one disk, vda", at]);
    refused("command = 'no-such-program'", "", &[], &["`no-such-program`", "study.toml:5:"]);
    refused("command = 'if'", "", &[], &["no shell can read travel.command"]);
    refused("setup = 'x'", "", &[], &["missing field `command`"]);
    refused(sync, "[workload.fio]", &[], &["exclude each other", at]);
    refused(sync, "[run]\nrequests = 5", &[], &["no [run] beside [travel]", at]);
    let crash = |line: &str| format!("[crash]\n{line}");
    refused(sync, &crash("cuts = 0"), &[], &["crash.cuts = 0", "study.toml:7:"]);
    refused(sync, &crash("cut = 1"), &[], &["did you mean `cuts`?", "study.toml:7:"]);
    refused(sync, &crash("check = 'if'"), &[], &["no shell can read crash.check", "study.toml:7:"]);
    refused(sync, &crash("check = 'no-such-check'"), &[], &["`no-such-check`", "study.toml:7:"]);
    refused(sync, &crash("every = '1ms'\nat_flush = true"), &[], &["exclude each other"]);
    refused(sync, &crash("subsets = 4\npanic = true"), &[], &["exclude each other"]);
    refused(sync, "[crash]", &[], &["nothing to look at", "study.toml:6:"]);
    refused(&with("file_system = 'ext2'"), &crash("subsets = 0"), &[], &["crash.subsets"]);
    let swept = "[sweep]\n'travel.scheduler' = ['none', 'cfq']";
    refused(sync, swept, &[], &["`cfq`", "study.toml:7:"]);
    let missing = ["f2fs", "jfs", "reiserfs"].into_iter().find(|kind| {
        !["/sbin", "/usr/sbin"].iter().any(|f| Path::new(f).join(format!("mkfs.{kind}")).exists())
    });
    if let Some(kind) = missing {
        let line = format!("file_system = '{kind}'");
        refused(&with(&line), "", &[], &[&format!("mkfs.{kind} is not installed"), "apt-get", at]);
    }
}

/// Two points that read a file with and without read-ahead.
const READ: &str = "
setup = 'dd if=/dev/urandom of=f bs=1M count=$mib'
command = 'cat f > /dev/null && echo $mib > g'
arguments = { mib = 4 }
file_system = 'ext4'
mount_options = 'noatime,data=writeback'
scheduler = 'mq-deadline'
wbt = '0s'
dirty = '8MiB'
";

#[test]
fn two_points_answer_alike_twice_and_differ_as_they_should() {
    if !can_travel(&["mkfs.ext4"]) {
        return;
    }
    let folder = Folder::new();
    let sweep = "[sweep]\n'travel.read_ahead_kb' = [0, 128]\n";
    study(&folder, READ, sweep);
    let (code, first, said) = run(&folder, &[]);
    assert_eq!(code, Some(0), "{said}");
    let metric = |run: usize, name: &str| first["runs"][run]["metrics"][name].as_f64().unwrap();
    // 4 KiB each without read-ahead: the file's 4 MiB, and some metadata.
    assert!((1024.0..1100.0).contains(&metric(0, "block_read_dispatched")));
    assert!(metric(1, "block_read_dispatched") < 100.0);
    assert_eq!((metric(0, "guest_read_ahead_kb"), metric(1, "guest_read_ahead_kb")), (0.0, 128.0));
    // A page each; of some metadata less.
    let kib = metric(0, "block_read_kib_mean");
    assert!((3.9..=4.0).contains(&kib), "{kib}");
    // Neither mkfs nor the setup's 4 MiB are counted.
    assert!(metric(0, "block_write_mb") < 1.0, "{}", metric(0, "block_write_mb"));
    assert!(metric(0, "program_s") > metric(1, "program_s"));
    let settings = &first["runs"][0]["settings"];
    let mounted = settings["mount_options"].as_str().unwrap();
    assert!(mounted.contains("noatime") && mounted.contains("data=writeback"), "{mounted}");
    assert_eq!(
        (&settings["scheduler"], &settings["wbt_lat_usec"]),
        (&"mq-deadline".into(), &0.into())
    );
    assert_eq!(settings["dirty_bytes"], 8 << 20);
    let (code, second, said) = run(&folder, &["--jobs", "1", "--no-cache"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(first["digest"], second["digest"]);
    assert_eq!(first["result_digest"], second["result_digest"]);
    let (_, other, _) = run(&folder, &["--set", "travel.arguments.mib=3"]);
    assert_ne!(first["result_digest"], other["result_digest"]);
    let (code, _, said) = run(&folder, &["--records"]);
    assert!(code == Some(2) && said.contains("--records: a study that travels"), "{said}");
    assert!(folder.leftovers().is_empty());
}

#[test]
fn a_command_of_ones_own_is_asked_how_long_it_takes() {
    if !can_travel(&["dd"]) {
        return;
    }
    let folder = Folder::new();
    let sweep = "[sweep]\n\"travel.scheduler\" = ['none', 'bfq']\n";
    let expect = "[[expect]]\ntext = 'a'\nmetric = 'block_read_dispatched'\nmin = 1e9\n\
                  relative_to = { \"travel.scheduler\" = 'none' }\n";
    study(&folder, "command = 'sync'", &format!("{sweep}{expect}"));
    assert_eq!(run(&folder, &[]).0, Some(1));
    let own = ["--set", "travel.command=dd if=/dev/vda of=/dev/null bs=64k count=64"];
    let (code, result, said) = run(&folder, &own);
    assert_eq!((code, &result["answer"]["metric"]), (Some(0), &"program_s".into()), "{said}");
    assert_eq!(result["answer"]["by"], "travel.scheduler");
    let text = result["answer"]["text"].as_str().unwrap();
    assert!(text.contains("Each point was run once"), "{text}");
    let notes = result["notes"].as_array().unwrap();
    assert!(notes[0].as_str().unwrap().starts_with("travel.command is set: 1 "), "{notes:?}");
}

#[test]
fn a_file_system_is_made_on_a_full_drive_without_emptying_it() {
    if !can_travel(&["mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"]) {
        return;
    }
    let folder = Folder::new();
    // Where nothing is mapped there is nothing to read from flash.
    let study = "[device.ssd]\npart = 'tlc-3d-128'\ngeometry.channels = 2\n\
                 geometry.planes_per_die = 1\ngeometry.blocks_per_plane = 128\n\
                 geometry.pages_per_block = 144\nover_provisioning = { ratio_percent = 20 }\n\
                 [[precondition]]\nfill = {}\n\
                 [travel]\nfile_system = 'ext4'\n\
                 command = 'dd if=/dev/vda of=/dev/null bs=1M skip=200 count=8 iflag=direct'\n\
                 [sweep]\n'travel.file_system' = ['ext4', 'xfs', 'btrfs']\n\
                 'travel.mkfs_discard' = [false, true]\n";
    std::fs::write(folder.path("study.toml"), study).unwrap();
    let (code, result, said) = run(&folder, &[]);
    assert_eq!(code, Some(0), "{said}");
    let seconds = |run: usize| result["runs"][run]["metrics"]["program_s"].as_f64().unwrap();
    for (index, kind) in ["ext4", "xfs", "btrfs"].iter().enumerate() {
        let (full, emptied) = (seconds(2 * index), seconds(2 * index + 1));
        assert!(full > 2.0 * emptied, "{kind}: {full} s full, {emptied} s emptied");
    }
}

#[test]
fn cuts_of_a_study_are_those_of_its_point() {
    if !can_travel(&["mkfs.ext4", "e2fsck"]) {
        return;
    }
    let folder = Folder::new();
    // What setup makes is there in every cut.
    let travel = "setup = 'echo old > old; sync'\nfile_system = 'ext4'\n\
                  arguments = { safe = 'yes' }\n\
                  command = 'for n in 1 2 3; do echo $n > new; [ $safe = no ] || sync new; \
                  mv new $n; [ $safe = no ] || sync .; blocklab-ack $n; done'";
    let crash = "[crash]\ncuts = 6\ncheck = 'grep -q old old || exit 1; while read -r n; do \
                 grep -q $n $n || { echo $n of $safe; exit 1; }; done < $BLOCKLAB_ACKS'\n\
                 [sweep]\n'travel.arguments.safe' = ['yes', 'no']";
    let text = format!("[device.ssd]\npart = 'tlc-3d-128'\n[travel]\n{travel}\n{crash}\n");
    std::fs::write(folder.path("study.toml"), text).unwrap();
    let (code, first, said) = run(&folder, &[]);
    assert_eq!(code, Some(0), "{said}");
    let metric = |run: usize, name: &str| first["runs"][run]["metrics"][name].as_f64();
    assert_eq!((metric(0, "crash_cuts"), metric(0, "crash_clean")), (Some(6.0), Some(6.0)));
    assert_eq!((metric(0, "crash_acks"), metric(0, "crash_first_failure_s")), (Some(3.0), None));
    assert!(metric(1, "crash_lost_share") > Some(0.0));
    assert!(metric(1, "crash_first_failure_s") > Some(0.0));
    assert_eq!(first["answer"]["metric"], "crash_lost_share");
    let note = first["runs"][1]["notes"].to_string();
    assert!(note.contains(" of no") && note.contains("the first cut that is lost"), "{note}");
    let (_, second, _) = run(&folder, &["--jobs", "1", "--no-cache"]);
    assert_eq!(first["result_digest"], second["result_digest"]);
    let (_, panic, _) = run(&folder, &["--set", "crash.panic=true"]);
    assert_ne!(first["digest"], panic["digest"]);
    assert!(folder.leftovers().is_empty());
}

#[test]
fn a_metric_that_no_point_has_is_refused() {
    if !can_travel(&[]) {
        return;
    }
    let expect = "[[expect]]\ntext = 'x'\nmetric = 'block_read_dispatche'\nmin = 1";
    let words = ["did you mean `block_read_dispatched`?", "study.toml:8:"];
    refused("command = 'sync'", expect, &[], &words);
}

#[test]
fn a_point_that_comes_to_nothing_is_one_row() {
    if !can_travel(&["mkfs.ext2"]) {
        return;
    }
    let folder = Folder::new();
    let travel = "command = 'true'\nfile_system = 'ext2'\nlimit = '50s'";
    let sweep = "[sweep]\n'travel.command' = ['echo fine > f', 'echo why >&2; exit 3', \
                 'dd if=/dev/zero of=f bs=1M', 'sleep 100', 'echo c > /proc/sysrq-trigger']\n\
                 [[expect]]\ntext = 'all'\nmetric = 'program_s'\n\
                 where = { 'travel.command' = 'echo fine > f' }\nmin = 0\n";
    study(&folder, travel, sweep);
    let (code, result, said) = run(&folder, &[]);
    assert_eq!(code, Some(1), "{said}");
    let failed = |run: usize| result["runs"][run]["failed"].as_str().unwrap_or("").to_string();
    assert_eq!(failed(0), "");
    assert!(result["runs"][0]["metrics"]["block_write_dispatched"].as_f64() > Some(0.0));
    assert_eq!(result["expectations"][0]["ok"], true);
    assert_eq!(failed(1), "the program ended with code 3: why");
    assert!(failed(2).contains("No space left on device"), "{}", failed(2));
    assert!(failed(3).contains("after 50s of virtual time"), "{}", failed(3));
    assert!(failed(4).contains("the guest ended too early"), "{}", failed(4));
    assert_eq!(result["runs"][4]["metrics"]["program_s"], Value::Null);
    assert!(folder.leftovers().is_empty());
}

#[test]
fn an_interrupted_study_goes_on_where_it_stopped() {
    if !can_travel(&[]) {
        return;
    }
    let folder = Folder::new();
    // The guest's processor is free, but this takes some seconds of ours: time to interrupt it.
    let long = "i=0; until [ $i = 1000000 ]; do i=$((i+1)); done";
    study(
        &folder,
        "command = 'true'",
        &format!("[sweep]\n'travel.command' = ['true', '{long}']\n"),
    );
    let mut first =
        folder.command(&["run", "study.toml", "--no-report", "--jobs", "1"]).spawn().unwrap();
    let kept = folder.path("out/.study.unfinished");
    let rows = || {
        let rows = std::fs::read_dir(&kept).into_iter().flatten().flatten();
        rows.filter(|row| row.path().extension().is_some_and(|end| end == "run")).count()
    };
    until("the first run is kept", || rows() == 1);
    let id = first.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(first.wait().unwrap().code(), None, "it ends by the signal");
    assert!(!folder.path("out/study").exists() && rows() == 1);
    let (code, result, said) = run(&folder, &[]);
    assert_eq!(code, Some(0), "{said}");
    let notes = result["notes"].to_string();
    assert!(notes.contains("1 runs were finished before"), "{notes}");
    let times = result["runs"].as_array().unwrap().iter();
    assert!(times.clone().all(|run| run["metrics"]["program_s"].is_number()) && times.len() == 2);
    assert!(!kept.exists() && folder.leftovers().is_empty());
}

#[test]
fn a_run_is_of_the_files_that_its_command_names() {
    if !can_travel(&[]) {
        return;
    }
    let folder = Folder::new();
    let script = folder.path("p.sh");
    study(&folder, &format!("command = 'sh {}'", script.display()), "");
    let digest = |text: &str| {
        std::fs::write(&script, text).unwrap();
        run(&folder, &[]).1["digest"].as_str().unwrap().to_string()
    };
    let first = digest("true\n");
    assert_eq!(digest("true\n"), first);
    assert_ne!(digest("exit 0\n"), first);
}

#[test]
fn a_programs_own_numbers_are_in_the_row() {
    if !can_travel(&["fio"]) {
        return;
    }
    let folder = Folder::new();
    let fio = "fio --name=t --filename=/dev/vda --size=1m --rw=randread --bs=4k --ioengine=psync \
               --thread --direct=1 --clocksource=clock_gettime --output-format=json";
    let travel = format!("command = '{fio}'\nprogram = 'fio'\nrecord_queue = true\n");
    study(&folder, &travel, "");
    let (code, result, said) = run(&folder, &[]);
    assert_eq!(code, Some(0), "{said}");
    let metric = |name: &str| result["runs"][0]["metrics"][name].as_f64().unwrap();
    assert_eq!(metric("block_read_dispatched"), 256.0);
    // The device answers after 20 us, and nothing but the clock's reading takes time besides.
    assert!(
        (20.0..40.0).contains(&metric("fio_read_latency_us_p50")),
        "{}",
        metric("fio_read_latency_us_p50")
    );
    assert!((20.0..40.0).contains(&metric("block_read_latency_us_p99")));
    assert!(metric("fio_read_iops") > 25_000.0);
    study(&folder, "command = 'echo hello'\nprogram = 'fio'\n", "");
    let (code, result, _) = run(&folder, &[]);
    assert_eq!(code, Some(1));
    let failed = result["runs"][0]["failed"].as_str().unwrap();
    assert!(failed.contains("is not fio's output"), "{failed}");
}

/// What is still dirty when the program ends is written at full speed, beside nobody.
#[test]
fn what_is_written_after_the_program_is_not_what_it_got() {
    if !can_travel(&["mkfs.ext2", "dd"]) {
        return;
    }
    let folder = Folder::new();
    let travel = "command = 'dd if=/dev/zero of=f bs=1M count=16; sleep 10'\n\
                  file_system = 'ext2'\ndirty = '90%'\ndirty_background = '80%'\n";
    study(&folder, travel, "");
    let (code, result, said) = run(&folder, &[]);
    assert_eq!(code, Some(0), "{said}");
    let metric = |name: &str| result["runs"][0]["metrics"][name].as_f64().unwrap();
    assert_eq!(metric("program_write_mb_s"), 0.0);
    assert!(metric("write_mb_s") > 1.0, "{}", metric("write_mb_s"));
}

/// Points that differ in what the setup does not name share a disk, so it knows nothing of that.
#[test]
fn a_setup_is_given_the_arguments_that_it_names_and_no_others() {
    if !can_travel(&["mkfs.ext2"]) {
        return;
    }
    let folder = Folder::new();
    // Neither the text nor what it becomes has the second one's name in it.
    let travel = "setup = 'echo $named > named; eval \"echo \\$h\"\"ow > other\"'\n\
                  command = 'grep -qx $named named && ! grep -q . other && test -n $how'\n\
                  arguments = { named = 'yes' }\nfile_system = 'ext2'\n";
    study(&folder, travel, "[sweep]\n'travel.arguments.how' = ['a', 'b']\n");
    let (code, result, said) = run(&folder, &[]);
    assert_eq!(code, Some(0), "{said}: {}", result["runs"]);
}

#[test]
fn a_command_that_setup_made_is_run() {
    if !can_travel(&["mkfs.ext2"]) {
        return;
    }
    let folder = Folder::new();
    let travel = "setup = \"printf '#!/bin/sh\\nexit $1' > run.sh; chmod +x run.sh\"\n\
                  command = './run.sh 0'\nfile_system = 'ext2'\n";
    study(&folder, travel, "[sweep]\n'travel.command' = ['./run.sh 0', '/mnt/run.sh 7']\n");
    let (code, result, said) = run(&folder, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(result["runs"][0]["failed"], Value::Null);
    let failed = result["runs"][1]["failed"].as_str().unwrap();
    assert!(failed.starts_with("the program ended with code 7"), "{failed}");
}

/// The kernel takes the latency when a disk is registered, before it knows whether that turns.
#[test]
fn write_back_is_throttled_as_the_kernel_does_it_for_such_a_drive() {
    if !can_travel(&[]) {
        return;
    }
    let folder = Folder::new();
    // 3 is what a scheduler has switched off, whatever latency is told.
    let devices = "[devices.a.ssd]\npart = 'tlc-3d-128'\n\
                   [devices.b.hdd]\npart = 'hdd-250g-7200-2008'\n\
                   [travel]\narguments = { off = 'yes' }\ncommand = '''mount -t debugfs none \
                   /sys/kernel/debug && [ $off = yes ] || \
                   ! grep -q 3 /sys/kernel/debug/block/vda/rqos/wbt/enabled'''\n\
                   [sweep]\n'travel.scheduler' = ['none', 'bfq']\n";
    std::fs::write(folder.path("study.toml"), devices).unwrap();
    let latencies = |sets: &[&str]| -> Vec<i64> {
        let (code, result, said) = run(&folder, sets);
        assert_eq!(code, Some(0), "{said}: {}", result["runs"]);
        let runs = result["runs"].as_array().unwrap().iter();
        runs.map(|run| run["settings"]["wbt_lat_usec"].as_i64().unwrap()).collect()
    };
    assert_eq!(latencies(&[]), [2000, 0, 75_000, 0]);
    let asked_for = ["--set", "travel.wbt=75ms", "--set", "travel.arguments.off=no"];
    assert_eq!(latencies(&asked_for), [75_000; 4]);
    let asked = ["tlc-3d-128", "--sched", "none", "--", "cat", "/sys/block/vda/queue/wbt_lat_usec"];
    assert_eq!(folder.travel(&asked).good().stdout, "2000\n");
}

/// The kernel alone tells why.
#[test]
fn what_the_kernel_said_is_told_of_a_point_that_fails() {
    if !can_travel(&["mkfs.ext4"]) {
        return;
    }
    let folder = Folder::new();
    let travel = "command = 'echo x > f; sync f'\nfile_system = 'ext4'\nlimit = '500s'\n\
                  faults = ['error op=write']\n";
    let sweep = "[sweep]\n'travel.command' = ['echo x > f; sync f', \
                 'echo so far; echo x > f; sync f; sleep 1000']\n";
    study(&folder, travel, sweep);
    let (code, result, said) = run(&folder, &[]);
    assert_eq!(code, Some(1), "{said}");
    for (run, why) in [(0, "the program ended with code 1"), (1, "after 500s of virtual time")] {
        let failed = result["runs"][run]["failed"].as_str().unwrap();
        assert!(failed.contains(why) && failed.contains("I/O error, dev vda"), "{failed}");
        assert_eq!(failed.contains("the program's stdout ended with: / so far"), run == 1);
    }
}

#[test]
fn a_guest_has_the_sectors_that_the_part_says() {
    if !can_travel(&["mkfs.ext4", "e2fsck"]) {
        return;
    }
    let folder = Folder::new();
    let part = "[null]\nlatency = \"20us\"\ncapacity = \"64MiB\"\n[block]\n\
                logical_block = \"4KiB\"\nrotational = true\n";
    std::fs::write(folder.path("part.toml"), part).unwrap();
    let is_so = "cd /sys/block/vda/queue && test $(cat logical_block_size) = 4096 && \
                 test $(cat rotational) = 1";
    let text = format!(
        "[device.null]\npart = './part.toml'\n[travel]\ncommand = 'echo x > f; {is_so}'\n\
         file_system = 'ext4'\nsetup = '{is_so}'\n"
    );
    std::fs::write(folder.path("study.toml"), &text).unwrap();
    let (code, first, said) = run(&folder, &[]);
    assert_eq!(code, Some(0), "{said}: {}", first["runs"]);
    let crash = format!("{text}[crash]\ncuts = 2\ncheck = '{is_so}'\n");
    std::fs::write(folder.path("study.toml"), crash).unwrap();
    let (code, result, said) = run(&folder, &[]);
    assert_eq!(code, Some(0), "{said}: {}", result["runs"]);
    let args =
        ["crash", "--part", "./part.toml", "--mkfs", "ext4", "--cuts", "2", "--check", is_so];
    let output = folder.blocklab(&[&args[..], &["--", "sh", "-c", "echo x > f; sync"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // It is a part of what the point depends on.
    std::fs::write(folder.path("part.toml"), part.replace("4KiB", "1KiB")).unwrap();
    std::fs::write(folder.path("study.toml"), text).unwrap();
    let (code, second, said) = run(&folder, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert_ne!(first["digest"], second["digest"]);
    std::fs::write(folder.path("part.toml"), part.replace("4KiB", "3KiB")).unwrap();
    let (code, _, said) = run(&folder, &[]);
    assert!(code == Some(2) && said.contains("block.logical_block of its part: 3 KiB"), "{said}");
}
