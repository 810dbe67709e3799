//! `calibrate`: a part of what was measured.

use std::collections::BTreeMap;

use crate::common::until;
use crate::support::{Test, entries};

pub(crate) const HEADER: &str = "rw,bs,iodepth,numjobs,iops,mean_us,p50_us,p99_us";
/// As small while it is measured as while it is fitted: the same pages are asked for.
const SMALL: [&str; 3] = [
    "ssd.geometry.blocks_per_plane=24",
    "ssd.geometry.pages_per_block=3072",
    "ssd.over_provisioning=\"28%\"",
];

/// What a part does, as a table of a drive.
pub(crate) fn measured(part: &str, sets: &[&str], loads: &[(&str, &str, u32)]) -> String {
    let rows = loads.iter().map(|(rw, bs, depth)| format!("{rw},{bs},{depth},1,1,,,\n"));
    let asked = format!("{HEADER}\n{}", rows.collect::<String>());
    let mut args = vec!["compare", part, "--with", "asked.csv", "--requests", "5000", "--json"];
    sets.iter().for_each(|set| args.extend(["--set", set]));
    let answer = Test::new().file("asked.csv", &asked).args(&args).json();
    let points = answer["parts"][0]["points"].as_array().unwrap().iter().map(|point| {
        let of = |name: &str| point["modelled"][name].as_f64().unwrap();
        let text = |name: &str| point[name].as_str().unwrap().to_string();
        format!(
            "{},{},{},1,{},{},{},{}\n",
            text("rw"),
            text("bs"),
            point["iodepth"],
            of("iops"),
            of("latency_us_mean"),
            of("latency_us_p50"),
            of("latency_us_p99")
        )
    });
    format!("{HEADER}\n{}", points.collect::<String>())
}

pub(crate) fn value<'a>(answer: &'a serde_json::Value, key: &str) -> &'a serde_json::Value {
    let keys = answer["keys"].as_array().unwrap();
    keys.iter().find(|one| one["key"] == key).unwrap_or_else(|| panic!("no {key}: {answer}"))
}

/// The first number of a value.
pub(crate) fn number(value: &serde_json::Value) -> f64 {
    let text = value["value"].as_str().unwrap();
    let digits = |c: char| c.is_ascii_digit() || c == '.';
    let begin = text.find(digits).unwrap();
    let end = text[begin..].find(|c| !digits(c)).map_or(text.len(), |end| begin + end);
    text[begin..end].parse().unwrap()
}

fn what_is_known_is_said(answer: &serde_json::Value) {
    // Dies that read on while data go out: a channel's time for a read is not told from the host's.
    for (key, said) in [
        ("ssd.nand.read", None),
        ("ssd.nand.bus", Some("not told from ssd.host.completion by these points")),
        ("ssd.host.completion", Some("not told from ssd.nand.bus by these points")),
        ("ssd.host.bandwidth", Some("not known by these points")),
        // No process took anything.
        ("ssd.host.process_interval", Some("not known by these points")),
    ] {
        assert_eq!(value(answer, key)["not_identified"].as_str(), said, "{key} {}", answer["keys"]);
    }
}

/// The rms that is said of the dies is that of the numbers beside it.
fn what_is_off_is_what_the_table_shows(answer: &serde_json::Value) {
    let rows = answer["fitted"].as_array().unwrap().iter();
    let squares: Vec<f64> = rows
        .flat_map(|row| {
            let [measured, modelled] =
                ["measured", "modelled"].map(|of| row[of].as_object().unwrap().clone());
            let of = |(name, drive): (&String, &serde_json::Value)| {
                let ratio = modelled[name].as_f64().unwrap() / drive.as_f64()?;
                Some(ratio.ln().powi(2))
            };
            measured.iter().filter_map(of).collect::<Vec<_>>()
        })
        .collect();
    let rms = (squares.iter().sum::<f64>() / squares.len() as f64).sqrt();
    let tried = answer["dies_tried"].as_array().unwrap();
    let chosen = tried.iter().find(|one| one["dies"] == answer["dies_per_package"]).unwrap();
    let said = chosen["error"].as_f64().unwrap();
    assert!((said / rms - 1.0).abs() < 1e-9, "{said}, {rms}");
}

#[test]
fn known_parameters_are_found_again() {
    let loads: Vec<(&str, &str, u32)> =
        [1, 2, 4, 8, 16, 32, 64, 128, 256].map(|depth| ("randread", "4k", depth)).into();
    let large = [("randread", "16k", 1), ("randread", "16k", 32)];
    let loads = [&loads[..], &large].concat();
    let mut sets = SMALL.to_vec();
    sets.extend([
        "ssd.nand.read=[\"70us\",\"70us\",\"86.47us\"]",
        "ssd.nand.read_small.read=[\"40us\",\"40us\",\"56us\"]",
        "ssd.host.completion=\"12us\"",
        "ssd.host.bandwidth=\"2500MB/s\"",
    ]);
    let table = measured("samsung-980-pro-1tb", &sets, &loads);
    let mut args = vec!["calibrate", "--from", "mine.csv", "--base", "samsung-980-pro-1tb"];
    args.extend(["--out", "mine.toml", "--requests", "5000"]);
    SMALL.iter().for_each(|set| args.extend(["--while-fitting", set]));
    args.push("--json");
    let test = Test::new().file("mine.csv", &table).args(&args);
    let answer = test.json();
    for (key, wanted) in [
        ("ssd.nand.read", 70.0),
        ("ssd.nand.read_small.read", 40.0),
        ("ssd.nand.bus", 439.0),
        ("ssd.host.completion", 12.0),
        ("ssd.host.bandwidth", 2500.0),
    ] {
        let found = number(value(&answer, key));
        // What it says it does not know may be further off, in a valley that goes on for long.
        let known = value(&answer, key)["not_identified"].is_null();
        let allowed = if known { 0.05 } else { 0.1 };
        assert!((found / wanted - 1.0).abs() < allowed, "{key}: {found}, {answer}");
    }
    what_is_known_is_said(&answer);
    // Reads say nothing of programs: the base's value stays, and is marked.
    let program = value(&answer, "ssd.nand.program");
    assert_eq!(program["not_identified"], "not known by these points");
    assert_eq!(program["value"], "[\"0us\", \"0us\", \"640us\"]");

    // The part says where it comes from, and is one that a second run does not overwrite.
    let part = std::fs::read_to_string(test.path("mine.toml")).unwrap();
    for said in [
        "name = \"mine\"",
        "status = \"calibrated\"",
        "held back",
        "fitted: 8 points of mine.csv",
        // What no point moved has the source that it had.
        "\"ssd.nand.program\" = \"of samsung-980-pro-1tb: fitted: the datasheet's 2.0 GB/s",
    ] {
        assert!(part.contains(said), "{said}: {part}");
    }
    what_is_off_is_what_the_table_shows(&answer);
    let again = Test::new().file("mine.csv", &table).file("mine.toml", &part);
    again.args(&args[..args.len() - 1]).refuses(&["mine.toml exists already"]);
    let compared = Test::new().file("mine.csv", &table).file("mine.toml", &part);
    let mut args =
        vec!["compare", "mine.toml", "--with", "mine.csv", "--requests", "5000", "--json"];
    SMALL.iter().for_each(|set| args.extend(["--set", set]));
    let error = compared.args(&args).json()["parts"][0]["median_error"].as_f64().unwrap();
    assert!(error < 0.02, "{error}");
}

/// A card whose one die is the limit, and one whose host asks slowly: which of them it is, is told
/// from where the search begins, not from small steps. What the base had not is far away.
#[test]
fn what_limits_a_drive_is_found() {
    let loads: Vec<(&str, &str, u32)> = ["4k", "16k", "64k"]
        .iter()
        .flat_map(|bs| [1, 2, 8].map(|depth| ("randread", *bs, depth)))
        .collect();
    let slow = ["ssd.nand.read=[\"350us\"]", "ssd.nand.bus=60MB/s", "ssd.host.completion=500us"];
    let asks = ["ssd.host.process_interval=800us", "ssd.host.completion=2ms"];
    for (sets, keys) in [
        (&slow[..], [("ssd.host.bandwidth", 90.0), ("ssd.host.completion", 500.0)]),
        (&asks[..], [("ssd.host.process_interval", 800.0), ("ssd.host.completion", 2000.0)]),
    ] {
        let table = measured("sd-uhs1", sets, &loads);
        let args = ["calibrate", "--from", "a.csv", "--base", "sd-uhs1", "--out", "a.toml"];
        let test = Test::new().file("a.csv", &table).args(&args);
        // Text, as `run` and `compare` take it.
        let answer =
            test.args(&["--requests", "2000", "--set", "ssd.nand.erase=4ms", "--json"]).json();
        for (key, wanted) in keys {
            let found = number(value(&answer, key));
            let known = value(&answer, key)["not_identified"].is_null();
            let allowed = if known { 0.05 } else { 0.15 };
            assert!((found / wanted - 1.0).abs() < allowed, "{key}: {found}, {}", answer["keys"]);
        }
    }
}

/// The table of a PTS report, of a drive whose numbers the model has: it finds them again.
#[test]
fn a_report_of_the_pts_makes_a_part() {
    let rows: String = [4u32, 8, 16, 32, 64, 128]
        .iter()
        .map(|kib| {
            // As the model has it: a time for each request, and one for each byte beyond 4 KiB.
            let more = f64::from((kib - 4) * 1024);
            let per_second =
                |iops: f64, mbs: f64| (1.0 / (1.0 / iops + more / (mbs * 1e6))).round();
            format!("{kib},{},1,{}\n", per_second(60_000.0, 800.0), per_second(300_000.0, 2_400.0))
        })
        .collect();
    let report = format!(
        "DUT,mine\nTest,IOPS\nThread Count,2\nOutstanding I/O per Thread,16\n\n\
         Block Size (KiB),0/100,65/35,100/0\n{rows}"
    );
    let base = "iocost/samsung-ssd-970-pro-512gb";
    let args = ["calibrate", "--from", "pts.csv", "--base", base, "--out", "mine.toml", "--json"];
    let test = Test::new().file("pts.csv", &report).args(&args);
    let answer = test.json();
    let part = std::fs::read_to_string(test.path("mine.toml")).unwrap();
    assert!(part.contains("of pts.csv"), "{part}");
    assert!(answer.to_string().contains("6 mixes of reads and writes left out"), "{answer}");
    let held = answer["held_back"].as_array().unwrap();
    assert_eq!((held.len(), answer["fitted"].as_array().unwrap().len()), (4, 8), "{answer}");
    for row in held {
        let [drive, part] = ["measured", "modelled"].map(|of| row[of]["iops"].as_f64().unwrap());
        assert!((part / drive - 1.0).abs() < 0.05, "{row}");
    }
    let silent = report.replace("Outstanding I/O per Thread,16\n", "");
    let test = Test::new().file("pts.csv", &silent).args(&args[..7]);
    test.refuses(&[
        "pts.csv",
        "no line says what was outstanding",
        "Outstanding I/O per thread,16",
    ]);
}

#[test]
fn what_cannot_be_calibrated_is_refused() {
    let row = |depth: u32, iops: &str| format!("randread,4k,{depth},1,{iops},,,\n");
    let table = |rows: &[String]| format!("{HEADER}\n{}", rows.concat());
    let few = table(&[row(1, "9"), row(2, "10")]);
    let same = table(&[1, 2, 4, 8].map(|depth| row(depth, "7")));
    let again = table(&[7, 8, 9, 7].map(|iops| row(4, &iops.to_string())));
    let good = table(&[1, 2, 4, 8].map(|depth| row(depth, &depth.to_string())));
    let base = "iocost/samsung-ssd-970-pro-512gb";
    for (text, base, out, more, said) in [
        (&few, base, "a.toml", &[][..], ["2 points", "4 points or more"]),
        (&same, base, "a.toml", &[], ["all points have the same IOPS", "differs"]),
        (&again, base, "a.toml", &[], ["4 points of one load", "differs"]),
        (&good, "nothing", "a.toml", &[], ["there is no part named `nothing`", "list parts"]),
        (&good, base, "a.txt", &[], ["parts are TOML", ".toml"]),
        (&good, base, "a.toml", &["--fit", "iocost.x"], ["no such quantity", "iocost.rbps"]),
        (&good, base, "a.toml", &["--set", "iocost.rbp=1"], ["unknown name `rbp`", "rbps"]),
        (&good, base, "a.toml", &["--while-fitting", "ssd.gc=1"], ["no such device", "iocost"]),
        (&good, base, "no/a.toml", &[], ["no/a.toml", "folder"]),
    ] {
        let test = Test::new().file("mine.csv", text);
        let args = ["calibrate", "--from", "mine.csv", "--base", base, "--out", out];
        let test = test.args(&args).args(more);
        test.refuses(&said);
        assert!(!test.path(out).exists());
    }
}

/// Reads say nothing of how long a program takes: that is the answer, and not a failure.
#[test]
fn a_value_without_any_effect_is_not_known() {
    let rows = [(1, 16_500), (4, 64_000), (16, 230_000), (64, 500_000)];
    let rows = rows.map(|(depth, iops)| format!("randread,4k,{depth},1,{iops},,,\n"));
    let test = Test::new().file("mine.csv", format!("{HEADER}\n{}", rows.concat()));
    let args =
        ["calibrate", "--from", "mine.csv", "--base", "samsung-980-pro-1tb", "--out", "a.toml"];
    let more = ["--fit", "ssd.nand.program", "--tries", "10", "--requests", "1000", "--json"];
    let output = test.args(&args).args(&more).run();
    assert!(output.stderr.is_empty(), "{}", output.stderr);
    let answer: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let key = &answer["keys"][0];
    assert_eq!(key["key"], "ssd.nand.program");
    assert_eq!(key["not_identified"], "not known by these points");
}

/// In place of fio: notes how it was called in `calls`, fails while there is a file `broken` at the
/// load that it says, or at the eleventh, does what is in a file `change`, and gives as many
/// requests a second as it was called times. As fio 3.33, it does not say when a job began.
const FIO: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo fio-3.33; exit 0; }
[ "$1" = --enghelp=io_urnig ] && { echo IO engine io_urnig not found; exit 1; }
case "$1" in --enghelp=*) exit 0; esac
cd "$(dirname "$0")"
echo "$@" >> calls
times=$(wc -l < calls)
at=$(cat broken 2>/dev/null) && case "$*" in
  *"--name=${at:-randread-128k-1} "*) echo "fio: no more" >&2; exit 1;;
esac
[ -e change ] && . ./change
bytes=16777216
for option; do
  case $option in
    --rw=*) rw=${option#*=};;
    --bs=*) bs=${option#*=};;
    --iodepth=*) depth=${option#*=};;
    --ioengine=*) engine=${option#*=};;
    --io_size=*) bytes=${option#*=};;
  esac
done
case $rw in *read) way=read;; *trim) way=trim;; *) way=write; times=100;; esac
mean=$((depth * 1000000000 / times))
cat << END
{ "fio version": "fio-3.33", "jobs": [{
    "jobname": "a",
    "groupid": 0,
    "job options": { "rw": "$rw", "bs": "$bs", "iodepth": "$depth",
      "ioengine": "$engine", "direct": "1" },
    "$way": {
      "iops": $times,
      "io_bytes": $bytes,
      "lat_ns": { "mean": $mean },
      "clat_ns": { "percentile": { "50.000000": $mean, "99.000000": $((2 * mean)) } }
    }
}] }
END
"#;

/// A folder with a drive (a file of 16 MiB) and the program above.
pub(crate) fn drive() -> Test {
    use std::os::unix::fs::PermissionsExt;
    let test = Test::new().file("fio", FIO).file("drive", vec![7; 16 << 20]);
    let runs = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(test.path("fio"), runs).unwrap();
    let file = test.path("drive").display().to_string();
    let fio = test.path("fio").display().to_string();
    test.args(&["calibrate", "probe", "--file", &file, "--fio", &fio, "--out", "measured"])
}

/// How it was called.
pub(crate) fn calls(test: &Test) -> Vec<String> {
    let text = std::fs::read_to_string(test.path("calls")).unwrap_or_default();
    text.lines().map(str::to_string).collect()
}

/// Of the input or of the machine: one error that says all of this.
pub(crate) fn fails(test: &Test, said: &[&str]) {
    let output = test.run();
    assert!(output.code == 2 || output.code == 3, "{}", output.code);
    for part in said {
        assert!(output.stderr.contains(part), "{part:?} is not in:\n{}", output.stderr);
    }
}

#[test]
fn a_probe_only_reads_and_goes_on_where_it_was_interrupted() {
    let test = drive().file("broken", "");
    fails(&test, &["fio, randread-128k-1", "exit status: 1", "fio: no more"]);
    assert_eq!(calls(&test).len(), 11);
    std::fs::remove_file(test.path("broken")).unwrap();
    let output = test.run();
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.contains("10 of the loads were measured before"), "{}", output.stdout);
    let calls = calls(&test);
    assert_eq!(calls.len(), 15, "four more loads, and the one that failed");
    for call in &calls {
        assert!(call.contains("--readonly") && !call.contains("write"), "{call}");
    }
    let merged = std::fs::read_to_string(test.path("measured/measured.json")).unwrap();
    let merged: serde_json::Value = serde_json::from_str(&merged).unwrap();
    assert_eq!(merged["jobs"].as_array().unwrap().len(), 14);
    // Another plan is not mixed with it.
    let test = test.args(&["--engine", "libaio"]);
    test.refuses(&["about another probe", "choose a new folder"]);
    test.args(&["--runtime", "9"]).refuses(&["about another probe", "choose a new folder"]);
}

/// Each load was a run of its own, whatever fio says of groups and begins.
#[test]
fn what_was_probed_is_fitted_load_by_load() {
    let probed = drive();
    assert_eq!(probed.run().code, 0);
    let measured = std::fs::read_to_string(probed.path("measured/measured.json")).unwrap();
    let base = "iocost/samsung-ssd-970-pro-512gb";
    let args = ["calibrate", "--from", "mine.json", "--base", base, "--out", "a.toml"];
    let more = ["--hold-out", "0", "--tries", "10", "--requests", "1000", "--json"];
    let output = Test::new().file("mine.json", &measured).args(&args).args(&more).run();
    assert!(output.stderr.is_empty(), "{}", output.stderr);
    let answer: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let loads = answer["fitted"].as_array().unwrap();
    assert_eq!(loads.len(), 14);
    assert!(loads.iter().all(|load| load["load"].is_null()), "{answer}");
    // As if all of them had been one run.
    let mut merged: serde_json::Value = serde_json::from_str(&measured).unwrap();
    for job in merged["jobs"].as_array_mut().unwrap() {
        job["groupid"] = 0.into();
    }
    let test = Test::new().file("mine.json", merged.to_string()).args(&args);
    test.refuses(&["14 points of one load", "(`cat`), not merged into one"]);
}

#[test]
fn a_probe_writes_only_to_the_drive_that_is_named() {
    let test = drive();
    let word = test.path("drive").display().to_string();
    let test = test.args(&["--overwrite", &word]);
    let output = test.run();
    assert_eq!(output.code, 0, "{}", output.stderr);
    let calls = calls(&test);
    assert!(calls[0].contains("--rw=write") && !calls[0].contains("--time_based"), "{}", calls[0]);
    let steady = calls.iter().filter(|call| call.contains("--name=steady"));
    assert_eq!(steady.count(), 5, "a rate that does not change is steady after five rounds");
    let offered = calls.iter().find(|call| call.contains("--name=load-75")).unwrap();
    assert!(offered.contains("--rate_iops=75"), "{offered}");

    let test = drive();
    let said = test.args(&["--overwrite", "S5GXNX0W123456"]);
    said.refuses(&["--overwrite S5GXNX0W123456 is not", "may be destroyed"]);
    assert!(!said.path("calls").exists() && !said.path("measured").exists());

    // A loop device, a virtual machine: what others have open is theirs.
    let test = drive();
    let word = test.path("drive").display().to_string();
    let open = std::fs::File::open(&word).unwrap();
    let mut user = std::process::Command::new("sleep").arg("60").stdin(open).spawn().unwrap();
    let said = test.args(&["--overwrite", &word]);
    said.refuses(&["is in use", "has it open"]);
    user.kill().unwrap();
    user.wait().unwrap();
    assert!(!said.path("calls").exists() && !said.path("measured").exists());
}

#[test]
fn a_probe_that_is_ended_ends_fio_and_leaves_what_was_measured() {
    let test = drive().file("pid", "");
    let waits = "#!/bin/sh\ncase $1 in --version) echo fio-3; exit;; --enghelp*) exit; esac\n\
                 echo $$ > pid\nexec sleep 1000\n";
    std::fs::write(test.path("fio"), waits).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_blocklab"));
    command.args(["calibrate", "probe", "--file", "drive", "--fio", "./fio", "--out", "measured"]);
    let mut probe = command.current_dir(test.path("")).spawn().unwrap();
    let pid = || std::fs::read_to_string(test.path("pid")).unwrap().trim().to_string();
    until("fio runs", || !pid().is_empty());
    let id = probe.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let ended = probe.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(15));
    // A signal that comes before we listen for it ends fio through the kernel, a little later.
    let fio = format!("/proc/{}", pid());
    until("fio has ended", || !std::path::Path::new(&fio).exists());
    assert_eq!(entries(&test.path("measured")), ["probe.json"]);
}

#[test]
fn a_probe_without_room_says_so_and_leaves_no_half() {
    let test = drive();
    // Room for what the folder is about, and for no measurement.
    let script = format!(
        "head -c 4096 /dev/zero > small/full && \
         {} calibrate probe --file drive --fio ./fio --out small/x; echo code $?; ls -A small/x",
        env!("CARGO_BIN_EXE_blocklab")
    );
    let Some(output) = test.run_in_small("8k", &script) else { return };
    assert_eq!(output.stdout, "code 3\nprobe.json\n", "{}", output.stderr);
    assert!(output.stderr.contains("cannot write small/x/"), "{}", output.stderr);
}

#[test]
fn what_cannot_be_probed_is_refused() {
    let file = |name: &str| format!("/nonexistent/{name}");
    for (args, said) in [
        (
            &["--device", "/dev/null"][..],
            ["--device /dev/null is something else", "a block device"],
        ),
        (&["--file", "small"], ["--file small has 3 bytes", "no cache holds"]),
        (&["--file", &file("a")], ["there is none", "lsblk"]),
        (&["--nbd", "localhost:10809"], ["no address of NBD", "nbd://"]),
        (&["--file", "large", "--fio", "/nonexistent/fio"], ["fio is not here", "apt install fio"]),
        (&["--file", "large", "--engine", "psync"], ["one thing after the other", "libaio"]),
    ] {
        let test = Test::new().file("small", "abc").file("large", vec![1; 16 << 20]);
        let test = test.args(&["calibrate", "probe", "--out", "measured"]).args(args);
        fails(&test, &said);
        assert!(!test.path("measured").exists());
    }
    let test = drive().args(&["--engine", "io_urnig"]);
    test.refuses(&["--engine io_urnig: this fio has none of that name", "fio --enghelp"]);
    assert!(!test.path("measured").exists());
    let test = drive().file("measured/thesis.tex", "mine");
    test.refuses(&["is not empty, and no probe's", "a new folder"]);
    assert_eq!(std::fs::read_to_string(test.path("measured/thesis.tex")).unwrap(), "mine");
    let test = drive();
    std::fs::write(test.path("fio"), "#!/bin/sh\n[ $1 = --version ] && echo fio-3 || echo no\n")
        .unwrap();
    fails(&test, &["what it wrote is not its JSON", "--engine"]);
    assert!(!test.path("measured").exists(), "another engine would be another probe");
}

/// SSD-iq's table of a drive that takes a write each 14 us: the pace is found, and what runs beside
/// each other judges together.
#[test]
fn offered_loads_tell_a_pace_from_a_full_buffer() {
    let head = "drive_id,target_rate_per_s,achieved_write_iops,probe_read_us_50p,\
                probe_read_us_99p,probe_write_us_50p,probe_write_us_99p,probe_write_us_avg";
    let rows = "a,20000,19847,71,276,11,14,11.5\na,60000,59449,108,388,15,81,20.7\n\
                a,70000,69341,114,382,23,318,47\na,100000,76511,900,2205,3376,4039,3359\n";
    let args = ["calibrate", "--from", "a.csv", "--base", "tlc-3d-128", "--out", "mine.toml"];
    let args = [&args[..], &["--requests", "2000", "--json"]].concat();
    let table = format!("{head}\n{rows}");
    let test = Test::new().file("a.csv", &table).args(&args);
    let answer = test.json();
    assert_eq!(answer["mechanism"], "a pace", "{answer}");
    assert_eq!(answer["mechanisms_tried"].as_array().map(Vec::len), Some(4));
    let page = number(value(&answer, "ssd.buffer.pace.page"));
    assert!((page / 13.0 - 1.0).abs() < 0.1, "{page}");
    let held = answer["held_back"].as_array().unwrap();
    assert_eq!(held.len() % 4, 0, "{answer}");
    let part = std::fs::read_to_string(test.path("mine.toml")).unwrap();
    assert!(part.contains("hold_at_waiting") && part.contains("commands"), "{part}");
    assert!(part.contains("\"ssd.nand.erase\" = \"as parts were tried and judged"), "{part}");
    // The part as it was written, of as much flash as the base, is the one that was judged.
    let written = Test::new().file("a.csv", &table).file("mine.toml", &part);
    let args = ["compare", "mine.toml", "--with", "a.csv", "--requests", "2000", "--json"];
    let written = written.args(&args).json();
    let done = |rows: &serde_json::Value| -> BTreeMap<String, f64> {
        let rates = rows.as_array().unwrap().iter().filter_map(|row| {
            row["measured"]["iops"].as_f64()?;
            Some((row["load"].to_string(), row["modelled"]["iops"].as_f64().unwrap()))
        });
        rates.collect()
    };
    let written = done(&written["parts"][0]["points"]);
    let judged = [done(&answer["fitted"]), done(&answer["held_back"])];
    assert_eq!((judged[0].len() + judged[1].len(), written.len()), (4, 4));
    for (load, iops) in judged.iter().flatten() {
        assert!((written[load] / iops - 1.0).abs() < 0.1, "{load}: {iops}, {written:?}");
    }
}
