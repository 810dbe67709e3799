//! Wrong inputs by the dozen: each is refused before anything runs, by one message with a place and
//! with what would be right.

use std::io::Write;
use std::process::Command;

use crate::support::{Output, STUDY, Test, entries};

/// The sound study with a part of it replaced, and what is said to that.
const REPLACED: [(&str, &str, &[&str]); 34] = [
    ("[run]\nrequests = 5000\n", "\u{0}", &["not TOML", "study.toml:9:"]),
    ("iodepth = 4", "iodepth = 4\niodepth = 5", &["duplicate key", "study.toml:9:1"]),
    ("iodepth = 4", "iodepth = 4\n[run]", &["duplicate key", "study.toml:10:2"]),
    ("[device.null]\nlatency = \"10us\"\n", "", &["no [device.<model>] table", "one of null, ssd"]),
    ("null]\nlatency", "tlc-3d-96]\nlatency", &["4:9", "ssd.part = \"tlc-3d-96\""]),
    (
        "[device.null]\nlatency = \"10us\"",
        "[devices.a]\npart = \"wd-80g-5400\"",
        &["study.toml:5:1", "hdd.part = \"wd-80g-5400\""],
    ),
    ("[workload.fio]", "[workload]", &["study.toml:8:1", "one of bonnie"]),
    ("[workload.fio]", "[device.ssd]\n[workload.fio]", &["not both `null` and `ssd`"]),
    ("iodepth = 4", "iodepth = -4", &["study.toml:8:11", "a whole number"]),
    ("iodepth = 4", "iodepth = 0", &["study.toml:8:11", "from 1 to 4294967295", "got \"0\""]),
    ("iodepth = 4", "iodepth = 4294967296", &["study.toml:8:11", "from 1 to 4294967295"]),
    ("iodepth = 4", "iodepth = 4.5", &["study.toml:8:11", "floating point `4.5`"]),
    ("iodepth = 4", "iodept = 4", &["study.toml:8:1", "did you mean `iodepth`?"]),
    ("randread", "randreed", &["study.toml:7:6", "did you mean \"randread\"?"]),
    ("iodepth = 4", "bs = \"100B\"", &["study.toml:8:6", "multiples of 512 bytes"]),
    ("iodepth = 4", "bs = \"0B\"", &["study.toml:8:6", "from 512 bytes"]),
    ("iodepth = 4", "bs = \"big\"", &["study.toml:8:6", "a size such as 4k"]),
    ("iodepth = 4", "bs = \"1TiB\"", &["a region of at least one block of 1 TiB, got 16 GiB"]),
    ("10us", "10", &["study.toml:5:11", "with a unit, such as \"25us\""]),
    ("10us", "-10us", &["study.toml:5:11", "\"-10us\" is negative"]),
    ("10us", "10 days", &["study.toml:5:11", "known: ns, us, ms, s, min, h"]),
    ("10us", "99999999999999h", &["study.toml:5:11", "at most ten years (87600h)"]),
    ("latency = \"10us\"", "capacity = \"10\"", &["study.toml:5:12", "such as \"4KiB\""]),
    ("latency = \"10us\"", "capacity = \"1000B\"", &["study.toml:5:12", "whole sectors of 512"]),
    ("latency = \"10us\"", "capacity = \"0B\"", &["study.toml:5:12", "whole sectors of 512"]),
    ("requests = 5000", "requests = 0", &["study.toml:10:12", "no requests measures nothing"]),
    ("requests = 5000", "time = \"0s\"", &["study.toml:10:8", "no time measures nothing"]),
    ("requests = 5000", "requests = -1", &["study.toml:10:12", "0 or more"]),
    ("[study]", "[study]\nrepeats = 0", &["study.toml:3:11", "expected: at least 1"]),
    ("[study]", "[study]\nseed = -1", &["study.toml:3:8", "0 or more"]),
    ("[study]", "[study]\nrepeats = 200000", &["200000 runs or more", "at most 100000"]),
    ("[study]", "[study]\nanswer.metric = \"iopps\"", &["study.toml:3:17", "mean `iops`?"]),
    (
        "[study]",
        "[study]\nanswer = { metric = \"iops\", by = \"device\" }",
        &["no axis `device`", "[sweep]"],
    ),
    ("title", "titel", &["study.toml:3:1", "did you mean `title`?"]),
];

/// What is put behind the sound study, and what is said to that.
const APPENDED: [(&str, &[&str]); 28] = [
    ("[sweep]\n\"workload.fio.iodepth\" = 4\n", &["study.toml:12:26", "integer `4`"]),
    ("[sweep]\n\"workload.fio.iodepth\" = []\n", &["study.toml:12:26", "at least one value"]),
    ("[sweep]\n\"workload.fio.iodept\" = [1]\n", &["study.toml:12:1", "mean `iodepth`?"]),
    ("[sweep]\n\"workload.fio.iodepth\" = [1, 2, 1]\n", &["study.toml:12:33", "the value 1 twice"]),
    ("[sweep]\n\"workload.fio.iodepth\" = [1, 0]\n", &["study.toml:12:30", "got \"0\""]),
    ("[[expect]]\ntext = 't'\nmetric = 'iops_'\nmin = 1\n", &["study.toml:13:10", "mean `iops`?"]),
    (
        "[[expect]]\ntext = 't'\nmetric = 'iops'\nmin = nan\n",
        &["study.toml:11:1", "NaN bounds nothing"],
    ),
    ("[[expect]]\ntext = 't'\nmetric = 'iops'\nmin = -inf\n", &["-inf bounds nothing"]),
    ("[[expect]]\ntext = 't'\nmetric = 'iops'\nmin = 9\nmax = 1\n", &["at least 9 and at most 1"]),
    ("[[expect]]\ntext = 't'\nmetric = 'iops'\nequal = nan\n", &["nothing equals"]),
    ("[[expect]]\ntext = 't'\nmetric = 'iops'\n", &["claims nothing that can be checked"]),
    (
        "[[expect]]\ntext = 't'\nmetric = 'iops'\nequal = 5\nmax = 3\n",
        &["study.toml:11:1", "`equal` beside `max` claims two things"],
    ),
    (
        "[[expect]]\ntext = 't'\nmetric = 'iops'\nmin = 3\ntolerance_percent = 1\n",
        &["study.toml:11:1", "`tolerance_percent` is nothing without `equal`"],
    ),
    ("[[expect]]\nmetric = 'iops'\nmin = 1\n", &["study.toml:11:", "missing field `text`"]),
    (
        "[[claim]]\ntext = 't'\nsource = 's'\nmetric = 'iops'\nholds = { min = 2, max = 1 }\n",
        &["study.toml:15:1", "at least 2 and at most 1"],
    ),
    ("[report]\nplots = ['percentile']\n", &["study.toml:12:10", "mean `percentiles`?"]),
    ("[[report.figure]]\nname = 'A b'\ntitle = 't'\nx = 'iops'\ny = 'iops'\n", &["small letters"]),
    ("[[report.figure]]\nname = 'a'\ntitle = 't'\nx = 'none'\ny = 'iops'\n", &["study.toml:14:5"]),
    ("[crash]\ncuts = 5\n", &["study.toml:11:2", "a table [travel]"]),
    ("[crash]\ncust = 5\n", &["study.toml:12:1", "did you mean `cuts`?"]),
    ("[[precondition]]\nfil = {}\n", &["study.toml:12:1", "did you mean `fill`?"]),
    ("[[precondition]]\nfill = { span = '101%' }\n", &["study.toml:12:17", "more than the device"]),
    ("[[precondition]]\nfill = { span = 'all' }\n", &["study.toml:12:17"]),
    (
        "[[precondition]]\nfill = {}\noverwrite = {}\n",
        &["study.toml:11:1", "only one of fill, overwrite", "begin `overwrite` with a [[precond"],
    ),
    ("[[precondition]]\n", &["study.toml:11:1", "precondition.0 names nothing", "exactly one"]),
    (
        "[[precondition]]\noverwrite = { writes = '200' }\n",
        &["study.toml:12:24", "a share such as \"80%\" or a size such as \"4GiB\", got \"200\""],
    ),
    ("[[precondition]]\noverwrite = { unit = '100B' }\n", &["study.toml:12:22", "512-byte"]),
    ("[[precondition]]\noverwrite = { unit = '1TiB' }\n", &["study.toml:12:22", "does not fit"]),
];

/// A line of an SSD, and what is said to that.
const SSDS: [(&str, &[&str]); 14] = [
    ("geometry = { page = \"3KiB\" }", &["study.toml:4:21", "a power of two", "got 3KiB"]),
    ("geometry = { channels = 0 }", &["study.toml:4:25", "1 to 1024, got 0"]),
    ("geometry = { blocks_per_plane = 4000000000 }", &["4 to 16777216, got 4000000000"]),
    ("geometry = { chanels = 2 }", &["study.toml:4:14", "did you mean `channels`?"]),
    ("over_provisioning = { live_percent = 200 }", &["study.toml:4:38", "does not fit"]),
    (
        "geometry.blocks_per_plane = 16\nover_provisioning = \"7%\"",
        &["study.toml:5:21", "does not fit", "or geometry.blocks_per_plane = 62 at least"],
    ),
    ("over_provisioning = \"lots\"", &["study.toml:4:21"]),
    ("gc = \"greeedy\"", &["study.toml:4:6", "did you mean `greedy`?"]),
    ("gc = { d-choices = { e = 2 } }", &["study.toml:4:22", "unknown name `e`"]),
    ("mapping = \"pages\"", &["study.toml:4:11", "did you mean `page`?"]),
    ("mapping = { dftl = { cache = \"8B\" } }", &["mapping.dftl.cache", "at least 16 bytes"]),
    ("part = \"tlc-3d-129\"", &["study.toml:4:8", "no part named `tlc-3d-129`", "did you mean"]),
    ("part = \"wd-80g-5400\"", &["study.toml:4:8", "describes a device.hdd"]),
    ("part = \"./none.toml\"", &["study.toml:4:8", "cannot read the part"]),
];

/// A trace, and what is said to that.
const TRACES: [(&[u8], &[&str]); 10] = [
    (b"", &["study.toml:6:8", "t.log", "the file is empty"]),
    (b"hello world\nhello world\n", &["t.log:1:1", "cannot be told from \"hello world\""]),
    (b"\x01\x02\x03\xff\xfe\x00\x07", &["t.log", "no text, nor a binary trace"]),
    (b"\xff\xfef\x00i\x00o\x00", &["t.log", "UTF-16", "iconv"]),
    (b"fio version 2 iolog\n", &["t.log", "holds no requests"]),
    (b"fio version 2 iolog\n/d add\n/d open\n/d read 0 40x6\n", &["t.log:4:11", "\"40x6\""]),
    (b"fio version 2 iolog\n/d add\n/d open\n/d read -1 4096\n", &["t.log:4:9", "\"-1\""]),
    (b"fio version 9 iolog\n/d add\n", &["t.log:1"]),
    (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", &["t.log", "gzip"]),
    (b"\xfd7zXZ\x00\x00\x04", &["t.log", "compressed by xz; gzip and zstd are read"]),
];

/// Arguments, and what is said to them.
const ARGUMENTS: [(&[&str], &[&str]); 9] = [
    (&["--set", "device"], &["there is no `=`", "key=value"]),
    (&["--set", "=1"], &["--set:1:1", "an empty part"]),
    (&["--set", "workload.fio.dept=1"], &["--set:1:1", "unknown name `dept`"]),
    (&["--set", "workload.fio.iodepth=many"], &["--set:1:22", "a whole number"]),
    (&["--set", "sweep.\"workload.fio.iodepth\"=[1, 1]"], &["the value 1 twice"]),
    (&["--jobs", "-1"], &["'-1'"]),
    (&["--format", "xml"], &["table, csv, markdown"]),
    (&["--recods"], &["'--records'"]),
    (&["--out", "study.toml"], &["study.toml is no folder", "nothing was touched"]),
];

/// What is said to each, where it is not what is wanted: all of them at once.
#[derive(Default)]
struct Weak(Vec<String>);

impl Weak {
    fn refuses(&mut self, what: &str, test: &Test, expected: &[&str]) {
        let Output { code, stdout, stderr } = test.run();
        let missing: Vec<_> = expected.iter().filter(|part| !stderr.contains(**part)).collect();
        let written = entries(&test.path("out"));
        if code != 2 || !stdout.is_empty() || !missing.is_empty() || !written.is_empty() {
            self.0.push(format!("{what:?}: exit code {code}, without {missing:?}: {stderr}"));
        }
    }
}

impl Drop for Weak {
    fn drop(&mut self) {
        assert!(self.0.is_empty(), "{}", self.0.join("\n"));
    }
}

#[test]
fn a_study_that_is_wrong_in_one_place() {
    let mut weak = Weak::default();
    for (from, to, expected) in REPLACED {
        assert!(STUDY.contains(from), "{from}");
        weak.refuses(to, &Test::study(&STUDY.replacen(from, to, 1)), expected);
    }
    for (text, expected) in APPENDED {
        weak.refuses(text, &Test::study(&format!("{STUDY}{text}")), expected);
    }
    for (line, expected) in SSDS {
        let text = format!("[workload.fio]\n\n[device.ssd]\n{line}\n");
        weak.refuses(line, &Test::study(&text), expected);
    }
}

#[test]
fn text_in_another_coding() {
    let utf16: Vec<u8> = STUDY.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let with_mark = [&[0xff, 0xfe], &utf16[..]].concat();
    let run = || Test::new().args(&["run", "study.toml"]);
    run().file("study.toml", with_mark).refuses(&["UTF-16"]);
    run().file("study.toml", b"title = \"\xe9\"").refuses(&["not UTF-8"]);
    // A mark of UTF-8 and lines as of Windows are right.
    for text in [format!("\u{feff}{STUDY}"), STUDY.replace('\n', "\r\n")] {
        assert_eq!(Test::study(&text).run().code, 0);
    }
}

fn traced(line: &str) -> String {
    format!("[study]\ntitle = \"T\"\n[device.null]\n\n[workload.trace]\n{line}\n")
}

#[test]
fn a_trace_that_is_none() {
    let mut weak = Weak::default();
    let study = traced("file = \"t.log\"");
    for (bytes, expected) in TRACES {
        let what = String::from_utf8_lossy(bytes);
        weak.refuses(&what, &Test::study(&study).file("t.log", bytes), expected);
    }
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let log =
        "fio version 2 iolog\n/d add\n/d open\n".to_string() + &"/d read 0 4096\n".repeat(500);
    gzip.write_all(log.as_bytes()).unwrap();
    let whole = gzip.finish().unwrap();
    let behind = [&whole[..], b"garbage"].concat();
    for (bytes, word) in [(&whole[..whole.len() - 9], "cut off"), (&behind, "is damaged after")] {
        weak.refuses(word, &Test::study(&study).file("t.log", bytes), &["t.log", "byte", word]);
    }
    let pipe = Test::study(&study);
    assert!(Command::new("mkfifo").arg(pipe.path("t.log")).status().unwrap().success());
    pipe.refuses(&["it is no file but a pipe"]);
    Test::study(&study).file("t.log/x", "").refuses(&["is a directory"]);
    Test::study(&study).refuses(&["study.toml:6:8", "No such file"]);
}

#[test]
fn a_command_line_that_is_wrong_in_one_place() {
    let mut weak = Weak::default();
    for (arguments, expected) in ARGUMENTS {
        weak.refuses(&arguments.concat(), &Test::study(STUDY).args(arguments), expected);
    }
}

#[test]
fn an_axis_that_one_of_the_devices_does_not_have() {
    let text = "[devices]\nfast.ssd = {}\ndisk.hdd = {}\n\n[workload.fio]\n\n[sweep]\n\
                \"device.ssd.over_provisioning\" = [\"7%\", \"28%\"]\n";
    Test::study(text).refuses(&[
        "study.toml:8:1",
        "the axis `device.ssd.over_provisioning` belongs to `ssd`, but `disk` is of `hdd`",
        "in a study of its own",
    ]);
}

#[test]
fn a_run_in_which_no_time_passes_ends() {
    let study = STUDY.replace("10us", "0us").replace("requests = 5000", "time = \"1s\"");
    let study = study.replace("iodepth = 4", "time_based = true\nruntime = \"1s\"");
    let out = Test::new().file("study.toml", &study).args(&["run", "./study.toml"]).run();
    assert_eq!(out.code, 2, "{}", out.stderr);
    for part in
        ["study.toml:6:", "no time passes: more than 2097152", "[[precondition]]", "[run] requests"]
    {
        assert!(out.stderr.contains(part), "{}", out.stderr);
    }
}

#[test]
fn there_are_more_than_75() {
    let tables =
        [REPLACED.len(), APPENDED.len(), SSDS.len(), TRACES.len(), ARGUMENTS.len()].iter().sum();
    assert!(tables > 75, "{tables}");
    let _: usize = tables;
}
