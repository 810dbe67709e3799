//! `blocklab run FILE --device PART`: a job or a recording, without a study of one's own.

use crate::support::Test;

const JOB: &str = "; mine\n[global]\nfilename=/dev/nvme0n1\nioengine=libaio\nbs=4k\n\
                   [job]\nrw=randread\nsize=16m\nnumber_ios=300\n";
const TRACE: &str = "fio version 3 iolog\n0 /d add\n0 /d open\n0 /d read 4096 4096\n\
                     500 /d write 8192 8192\n";

#[test]
fn a_job_runs_on_each_device_and_reads_what_was_written() {
    let mine = "[null]\nlatency = \"50us\"\n";
    let test = Test::new().file("my.fio", JOB).file("parts/mine.toml", mine);
    let test = test.args(&["run", "my.fio", "--no-report", "--json", "--device", "mlc2009-32g"]);
    let answer = test.args(&["--device", "parts/mine.toml"]).json();
    let runs = answer["runs"].as_array().unwrap();
    let of = |run: usize, metric: &str| runs[run]["metrics"][metric].as_f64().unwrap();
    assert_eq!((runs.len(), of(0, "host_requests"), of(1, "iops")), (2, 300.0, 20_000.0));
    assert_eq!(runs[0]["params"]["device"], "mlc2009-32g");
    assert_eq!(runs[1]["params"]["device"], "mine");
    // The drive was filled, or it would have read no flash.
    assert!(!runs[0]["notes"].to_string().contains("never written"), "{}", runs[0]["notes"]);
    assert!(of(0, "latency_us_mean") > 50.0);
}

#[test]
fn a_recording_runs_on_a_device_with_settings() {
    let test = Test::new().file("log", TRACE);
    let test = test.args(&["run", "log", "--no-report", "--json", "--device", "wd-80g-5400"]);
    let set = ["--set", "workload.trace.replay=back-to-back"];
    let answer = test.args(&set).json();
    assert_eq!(answer["runs"][0]["metrics"]["host_requests"], 2);
    assert_eq!(answer["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn what_is_no_job_no_recording_and_no_part_is_told() {
    let refuses = |args: &[&str], expected: &[&str]| {
        let study = "[study]\ntitle = \"t\"\n";
        let test = Test::new().file("my.fio", JOB).file("s.toml", study).file("bad", "hello\n");
        test.args(&[&["run"], args].concat()).refuses(expected);
    };
    refuses(&["my.fio", "--device", "null-x"], &["there is no part named `null-x`"]);
    let twice = ["my.fio", "--device", "mlc2009-32g", "--device", "mlc2009-32g"];
    refuses(&twice, &["--device mlc2009-32g: named twice"]);
    refuses(&["s.toml", "--device", "mlc2009-32g"], &["s.toml is a study, beside --device"]);
    refuses(&["first-look", "--device", "mlc2009-32g"], &["cannot read first-look", "a study has"]);
    let forced = "help: --set workload.trace.format=NAME reads it as that format";
    refuses(&["bad", "--device", "mlc2009-32g"], &["bad", "expected", forced]);
    // A study need not begin with its title.
    let bare = Test::new().file("bare.toml", "[device.null]\n[workload.fio]\n");
    let bare = bare.args(&["run", "bare.toml", "--device", "mlc2009-32g"]);
    bare.refuses(&["bare.toml is a study, beside --device", "a study has devices of its own"]);
    refuses(&["./my.fio"], &["needs a device: --device PART"]);
}

/// The study around a job is nobody's file, so that a place in it says nothing.
#[test]
fn a_place_is_in_the_file_that_was_given() {
    for (name, content, said) in [
        ("bad.fio", "[a]\nbs=3k5\n", "error: bad.fio:2:4: bs: expected a size such as 4k"),
        (
            "bad.log",
            "fio version 2 iolog\n/d add\n/d open\n/d read 0 40x6\n",
            "error: bad.log:4:11",
        ),
    ] {
        let args = ["run", name, "--device", "mlc2009-32g"];
        let told = Test::new().file(name, content).args(&args).run();
        assert_eq!(told.code, 2, "{}", told.stderr);
        assert!(told.stderr.starts_with(said) && !told.stderr.contains("-->"), "{}", told.stderr);
    }
}
