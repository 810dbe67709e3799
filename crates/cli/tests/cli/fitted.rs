//! `calibrate`: what is fitted, and how far it is looked for.

use crate::calibrate::{HEADER, measured, number, value};
use crate::support::Test;

/// Reads as they are of a drive with a link of 6.8 GB/s, beside writes that were offered: what
/// `probe --overwrite` measures. All of it is fitted, not only the way of letting writes in: what a
/// process takes, too, which comes out as less than a nanosecond on the way.
#[test]
fn reads_are_fitted_beside_offered_writes() {
    let reads = "\
        ,,randread,4k,1,1,,,13889,72.0,69.8,108.0\n,,randread,4k,32,1,,,408825,78.3,75.9,117.4\n\
        ,,randread,128k,1,1,,,5263,190.0,184.3,285.0\n\
        ,,randread,128k,64,1,,,51993,1230.9,1194.0,1846.4\n";
    let offered = [
        (100_000, 71_511, [953.88, 3359.47], [898.5, 3376.0], [2205.5, 4039.0]),
        (20_000, 14_846, [84.25, 11.5], [71.0, 11.0], [276.0, 14.0]),
    ];
    let writes = offered.map(|(rate, done, mean, p50, p99)| {
        let load = format!("{rate},load,randwrite,4k,64,6,{},poisson,{done},,,\n", rate - 5_000);
        let quiet = |rw: &str, of: usize| {
            let [mean, p50, p99] = [mean, p50, p99].map(|each| each[of]);
            format!("{rate},quiet,{rw},4k,64,1,5000,poisson,,{mean},{p50},{p99}\n")
        };
        load + &quiet("randread", 0) + &quiet("randwrite", 1)
    });
    let head = "load,job,rw,bs,iodepth,numjobs,offered_iops,rate_process,iops,mean_us,p50_us,\
                p99_us";
    let table = format!("{head}\n{reads}{}", writes.concat());
    let args = ["calibrate", "--from", "a.csv", "--base", "tlc-3d-128", "--out", "mine.toml"];
    let args = [&args[..], &["--requests", "1000", "--hold-out", "0", "--json"]].concat();
    let answer = Test::new().file("a.csv", table).args(&args).json();
    for key in ["ssd.host.bandwidth", "ssd.nand.bus", "ssd.nand.read", "ssd.nand.program"] {
        value(&answer, key);
    }
    let rows = answer["fitted"].as_array().unwrap();
    let most = rows.iter().find(|row| row["bs"] == "128k" && row["iodepth"] == 64).unwrap();
    let [drive, part] = ["measured", "modelled"].map(|of| most[of]["iops"].as_f64().unwrap());
    assert!((part / drive - 1.0).abs() < 0.1, "{most} {}", answer["keys"]);
}

/// A disk in the cloud that gives 16,000 a second, however many wait: one process does not tell
/// that from its own core, and more processes would not get more.
#[test]
fn a_limit_that_one_process_saw_may_be_the_drive_s() {
    let rows = [(1, 1923.0), (4, 7600.0), (8, 13_200.0), (32, 16_000.0), (128, 16_000.0)];
    let of = |bs: &str| {
        let row = |(depth, iops): (u32, f64)| {
            format!("randread,{bs},{depth},1,{iops},{:.0},,\n", f64::from(depth) / iops * 1e6)
        };
        rows.map(row).concat()
    };
    let table = format!("{HEADER}\n{}{}", of("4k"), of("16k"));
    let args = ["calibrate", "--from", "a.csv", "--base", "tlc-3d-128", "--out", "a.toml"];
    let test = Test::new().file("a.csv", &table).args(&args);
    let answer = test.args(&["--requests", "1000", "--json"]).json();
    let interval = number(value(&answer, "ssd.host.process_interval"));
    assert!((interval / 62.5 - 1.0).abs() < 0.1, "{answer}");
    let notes = answer["notes"].to_string();
    assert!(notes.contains("that may be a limit of the drive"), "{notes}");
    let test = Test::new().file("a.csv", &table).args(&args).args(&["--requests", "1000"]);
    assert_eq!(test.run().code, 0);
    let part = std::fs::read_to_string(test.path("a.toml")).unwrap();
    assert!(part.contains("or a limit of the drive"), "{part}");
    // What the note says to set for it is right for several processes.
    let more = format!("{HEADER}\nrandread,4k,32,4,16000,8000,,\n");
    let test = Test::new().file("more.csv", &more).file("a.toml", &part);
    let args = ["compare", "a.toml", "--with", "more.csv", "--requests", "2000", "--json"];
    let link = format!("ssd.host.link_command={interval}us");
    let sets = ["--set", "ssd.host.process_interval=0ns", "--set", &link];
    let answer = test.args(&args).args(&sets).json();
    let iops = answer["parts"][0]["points"][0]["modelled"]["iops"].as_f64().unwrap();
    // Not quite, as data take the link, too; by the process each of four gets as much.
    assert!((iops / 16_000.0 - 1.0).abs() < 0.2, "{answer}");
}

/// A disk of 7200 rpm, begun with one of 5400; and two that no rotation makes of that one.
#[test]
fn a_disk_is_found_and_none_that_cannot_be() {
    let random = [1, 2, 4, 8, 16, 32].map(|depth| ("randread", "4k", depth));
    let sequential = [("read", "128k", 1), ("read", "128k", 8), ("read", "64k", 1)];
    let loads = [&random[..], &sequential].concat();
    let table = measured("wd-80g-5400", &["hdd.rpm=7200"], &loads);
    let args = ["calibrate", "--from", "a.csv", "--base", "wd-80g-5400", "--out", "a.toml"];
    let args = [&args[..], &["--requests", "1000", "--json"]].concat();
    let answer = Test::new().file("a.csv", &table).args(&args).json();
    let rpm = number(value(&answer, "hdd.rpm"));
    assert!((rpm / 7200.0 - 1.0).abs() < 0.05, "{}", answer["keys"]);
    for row in [&answer["fitted"], &answer["held_back"]]
        .into_iter()
        .flat_map(|all| all.as_array().unwrap())
    {
        let [drive, part] = ["measured", "modelled"].map(|of| row[of]["iops"].as_f64().unwrap());
        assert!((part / drive - 1.0).abs() < 0.1, "{row} {}", answer["keys"]);
    }
    // With twice the sectors of a track, and another arm.
    let denser = "hdd.geometry.zones={count=16,cylinders=2510,outer=2600,inner=1300}";
    let arm = "hdd.seek.formula={a=1.2,b=0.0537,knee=12024,c=4.5,e=2.7e-4}";
    let sets = ["hdd.rpm=7200", denser, arm, "hdd.interface=300MB/s"];
    let table = measured("wd-80g-5400", &sets, &loads);
    let output = Test::new().file("a.csv", &table).args(&args[..7]).run();
    assert_eq!(output.code, 1, "{}", output.stdout);
    assert!(output.stdout.contains("none does; try another --base"), "{}", output.stdout);
    // Four times as quick at random, one after the other: no disk.
    let row = |(depth, iops): (u32, u32)| format!("randread,4k,{depth},1,{iops},,,\n");
    let rows = [(1, 800), (2, 900), (4, 950), (8, 1000)].map(row).concat();
    let test = Test::new().file("a.csv", format!("{HEADER}\n{rows}")).args(&args[..7]);
    let output = test.run();
    assert_eq!(output.code, 1, "{}", output.stdout);
    assert!(output.stdout.contains("would have to turn with 15000 rpm"), "{}", output.stdout);
}

/// Parts that are tried are those that were asked for, but for what says how well all is known.
#[test]
fn no_more_parts_are_tried_than_asked_for() {
    let loads = ["4k", "16k"].map(|bs| [1, 4, 16, 64].map(|depth| ("randread", bs, depth)));
    let table = measured("samsung-980-pro-1tb", &["ssd.nand.bus=600MB/s"], &loads.concat());
    let args = ["calibrate", "--from", "a.csv", "--base", "samsung-980-pro-1tb"];
    let more = ["--out", "a.toml", "--requests", "1000", "--tries", "120", "--json"];
    let answer = Test::new().file("a.csv", &table).args(&args).args(&more).run().stdout;
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    let tries = answer["tries"].as_u64().unwrap();
    // At four sets of addresses each key twice, and the best.
    assert!(tries <= 120 + 4 * (2 * 6 + 1), "{tries}");
}

/// Rows of two drives: a part of what is between them is of neither, however near it comes to most.
#[test]
fn rows_that_contradict_each_other_are_no_answer() {
    let rows = |again: u32| {
        let rates = [(1, 16_500), (4, 64_000), (16, 230_000), (64, 500_000), (64, again)];
        let rows = rates.map(|(depth, iops)| format!("randread,4k,{depth},1,{iops},,,\n"));
        format!("{HEADER}\n{}", rows.concat())
    };
    let base = "samsung-980-pro-1tb";
    let args = ["calibrate", "--from", "a.csv", "--base", base, "--out", "a.toml"];
    let more = ["--fit", "ssd.nand.read", "--tries", "10", "--requests", "1000"];
    for (again, code, status) in [(300_000, 0, "calibrated"), (100_000, 1, "sketch")] {
        let test = Test::new().file("a.csv", rows(again)).args(&args).args(&more);
        let output = test.run();
        assert_eq!(output.code, code, "{again}: {}{}", output.stdout, output.stderr);
        let part = std::fs::read_to_string(test.path("a.toml")).unwrap();
        assert!(part.contains(&format!("status = \"{status}\"")), "{again}: {part}");
        let said = "no answer: randread 4k depth 64 is there 2 times, with 100000 to 500000 IOPS";
        assert_eq!(output.stdout.starts_with(said), code == 1, "{again}: {}", output.stdout);
    }
}
