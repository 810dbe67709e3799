//! `blocklab run` from outside: answers, exit codes, determinism, a full disk.

use std::process::Command;

use crate::support::{STUDY, Test, entries};

const FILES: [&str; 9] = [
    "counters.parquet",
    "heatmap.parquet",
    "latency.parquet",
    "result.json",
    "runs.parquet",
    "series.parquet",
    "study.toml",
    "units.parquet",
    "wear.parquet",
];

#[test]
fn a_sound_study_answers_in_ten_lines_and_leaves_its_files() {
    let test = Test::study(STUDY);
    let output = test.run();
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.lines().count() <= 11, "{}", output.stdout);
    assert!(output.stdout.contains("results out/study"), "{}", output.stdout);
    assert_eq!(entries(&test.path("out/study")), FILES);
    assert_eq!(entries(&test.path("out")), ["study"]);
}

#[test]
fn json_is_one_object_and_equals_the_file() {
    let test = Test::study(STUDY).args(&["--json"]);
    let answer = test.json();
    let metrics = &answer["runs"][0]["metrics"];
    // 4 requests in flight, 10 us each.
    assert_eq!(metrics["iops"], 400_000);
    assert_eq!(metrics["latency_us_mean"], 10);
    assert_eq!(metrics["little_error"], 0);
    assert!(metrics["waf"].is_null());
    let file = std::fs::read(test.path("out/study/result.json")).unwrap();
    assert_eq!(answer, serde_json::from_slice::<serde_json::Value>(&file).unwrap());
}

#[test]
fn waf_is_bytes_where_a_write_is_below_a_page() {
    // Pages of 16 KiB, and few of the writes meet one that still waits in the buffer.
    let study = "[device.ssd]\npart = \"tlc-3d-96\"\n[workload.fio]\nrw = \"randwrite\"\n\
                 bs = \"4KiB\"\n[run]\nrequests = 5000\n";
    let answer = Test::study(study).args(&["--json"]).json();
    let waf = answer["runs"][0]["metrics"]["waf"].as_f64().unwrap();
    assert!((2.0..=4.0).contains(&waf), "{waf}");
}

#[test]
fn a_failing_expectation_is_exit_code_1() {
    let expect = "[[expect]]\ntext = \"fast\"\nmetric = \"iops\"\nmin = 500000\n";
    let output = Test::study(&format!("{STUDY}{expect}")).run();
    assert_eq!(output.code, 1);
    assert!(output.stdout.contains("NOT as expected"), "{}", output.stdout);
    assert!(output.stdout.contains("fast: 400,000/s, 20 % too little; expected iops >= 500000"));
}

#[test]
fn what_holds_without_evidence_is_told() {
    let few = STUDY.replace("requests = 5000", "requests = 500");
    let expect = |text: &str, metric: &str, bound: &str| {
        format!("[[expect]]\ntext = \"{text}\"\nmetric = \"{metric}\"\n{bound}\n")
    };
    let (bare, sure) =
        (expect("p99", "latency_us_p99", "max = 99"), expect("i", "iops", "min = 1"));
    let wrong = expect("slow", "iops", "max = 1");
    let said = |expects: &[&String]| {
        let expects: String = expects.iter().map(|text| text.as_str()).collect();
        Test::study(&format!("{few}{expects}")).run().stdout
    };
    let one = said(&[&bare]);
    assert!(one.starts_with("Sound: as expected, without evidence\n"), "{one}");
    let counted = "a run has 500 such requests, and this percentile takes 1,000";
    let line = format!("  p99: 10 us; no evidence yet: {counted}; expected ");
    assert!(one.contains(&line), "{one}");
    let two = said(&[&bare, &sure]);
    assert!(two.starts_with("Sound: as expected; 2 hold, 1 of them without evidence\n"), "{two}");
    assert!(two.contains(&line) && !two.contains("  i: "), "{two}");
    let three = said(&[&bare, &wrong]);
    let heading = "NOT as expected, 1 of 2 expectations fail; 1 holds, without evidence\n";
    assert!(three.contains(heading) && three.contains(&line), "{three}");
    assert!(said(&[&sure, &sure]).contains("as expected, all 2 expectations hold\n"));
}

#[test]
fn discards_are_answered_and_have_columns() {
    let said = |job: &str| {
        let study = "[device.null]\nlatency = \"10us\"\n[workload.fio]\nfile = \"t.fio\"\n\
                     [run]\nrequests = 5000\n";
        Test::study(study).file("t.fio", job).run().stdout
    };
    let trims = said("[t]\nrw=randtrim\nbs=4k\n");
    assert!(trims.contains("discard_iops is 100,000/s."), "{trims}");
    let lines: Vec<&str> = trims.lines().collect();
    let at = lines.iter().position(|line| line.contains("discards/s")).expect("a heading");
    assert!(lines[at].contains("discard p99 us") && !lines[at].contains("IOPS"), "{trims}");
    assert!(lines[at + 1].contains("100000"), "{trims}");
    let both = said("[w]\nrw=randwrite\nrate_iops=1000\n[t]\nrw=randtrim\nrate_iops=5000\n");
    let heading = both.lines().find(|line| line.contains("IOPS")).expect("a heading");
    assert!(heading.contains("discards/s") && heading.contains("discard p99 us"), "{both}");
    assert!(both.starts_with("study") && both.contains("\niops is "), "{both}");
    assert!(!said("[r]\nrw=randread\n").contains("discard"));
}

/// A write that a flush follows is done when that is.
#[test]
fn flushes_have_a_column_where_they_are_many() {
    let said = |fsync: u32| {
        let study = format!(
            "[device.ssd]\npart = \"tlc-3d-96\"\n[workload.fio]\nrw = \"randwrite\"\n\
             bs = \"4KiB\"\nfsync = {fsync}\n[run]\nrequests = 2000\n"
        );
        Test::study(&study).run().stdout
    };
    let each = said(1);
    assert!(each.contains("flush p99 us"), "{each}");
    assert!(!each.contains("discard"), "{each}");
    let seldom = said(200);
    assert!(!seldom.contains("flush"), "{seldom}");
}

#[test]
fn each_axis_and_what_is_asked_for_has_a_column() {
    let sweep = "[sweep]\n\"device.null.latency\" = [\"1us\", \"2us\", \"3us\", \"4us\"]\n\
                 \"workload.fio.iodepth\" = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]\n\
                 [[claim]]\ntext = \"c\"\nsource = \"s\"\nmetric = \"latency_us_p50\"\n\
                 holds = { min = 0 }\n";
    let run = |args: &[&str]| Test::study(&format!("{STUDY}{sweep}")).args(args).run();
    let lines = |args: &[&str]| run(args).stdout.lines().map(str::to_string).collect::<Vec<_>>();
    let shown = lines(&[]);
    let heading = shown.iter().find(|line| line.contains("IOPS")).expect("a heading");
    let words: Vec<&str> = heading.split_whitespace().collect();
    assert_eq!(&words[..4], ["latency", "iodepth", "latency_us_p50", "IOPS"], "{heading}");
    assert!(shown.contains(&"... and 4 more runs; --all shows them".into()), "{shown:?}");
    // 44 runs, and nothing about it is left out.
    let all = lines(&["--all"]);
    assert!(!all.iter().any(|line| line.contains("more runs")) && all.len() > 45);
    let csv = run(&["--format", "csv"]);
    let lines: Vec<&str> = csv.stdout.lines().collect();
    assert_eq!(lines.len(), 45, "{}", csv.stdout);
    assert!(lines[0].starts_with("device.null.latency,workload.fio.iodepth,latency_us_p50,iops"));
    assert!(lines[1].starts_with("1us,1,1,"), "{}", lines[1]);
    assert!(csv.stderr.contains("claims: 1 hold"), "{}", csv.stderr);
    let markdown = run(&["--format", "markdown"]).stdout;
    assert!(markdown.lines().count() == 46 && markdown.starts_with("| latency | iodepth |"));
}

#[test]
fn an_answer_that_is_none_says_so() {
    let study = STUDY.replace("[study]", "[study]\nanswer = { metric = \"waf\" }");
    let answer = Test::study(&study).args(&["--json"]).json();
    let text = answer["answer"]["text"].as_str().unwrap();
    assert_eq!(text, "There is no answer: waf is undefined in every run.");
    // Three requests make no percentile.
    let few = STUDY.replace("requests = 5000", "requests = 3");
    let few = few.replace("[study]", "[study]\nanswer = { metric = \"latency_us_p99\" }");
    let answer = Test::study(&few).args(&["--json"]).json();
    let text = answer["answer"]["text"].as_str().unwrap();
    assert!(text.contains("10 us") && text.contains("no answer yet"), "{text}");
    let counted = "a run has 3 such requests, and this percentile takes 1,000";
    assert!(text.contains(counted), "{text}");
    // Nor do they bear a statement out.
    let stated = few + "[[expect]]\ntext = 'fast'\nmetric = 'latency_us_p99'\nmax = 1000";
    let answer = Test::study(&stated).args(&["--json"]).json();
    let measured = answer["expectations"][0]["measured"].as_str().unwrap();
    assert_eq!(measured, format!("10 us; no evidence yet: {counted}"));
}

#[test]
fn what_may_be_chance_is_said_of_repeats() {
    let text = |args: &[&str]| {
        let answer = Test::study(SSD).args(&["--json"]).args(args).json();
        answer["answer"]["text"].as_str().unwrap().to_string()
    };
    let repeated = text(&["--set", "study.repeats=3", "--set", "run.requests=100"]);
    assert!(repeated.contains(" Repeats differ the most at "), "{repeated}");
    assert!(!text(&["--set", "study.repeats=1"]).contains("chance"));
    let still = Test::study(STUDY).args(&["--json", "--set", "study.repeats=3"]).json();
    let still = still["answer"]["text"].as_str().unwrap();
    assert!(!still.contains("chance"), "{still}");
}

const SSD: &str = r#"
[study]
repeats = 2
[device.ssd]
[workload.fio]
rw = "randrw"
bs = "4KiB"
iodepth = 4
[[precondition]]
fill = { span = "50%" }
[[precondition]]
overwrite = { span = "1%", writes = "50%" }
[run]
ramp = "1ms"
requests = 2000
[sweep]
"device.ssd.gc" = ["greedy", "fifo"]
"#;

#[test]
fn the_same_study_gives_the_same_digests() {
    let digests = |args: &[&str]| {
        let answer = Test::study(SSD).args(&["--json"]).args(args).json();
        (answer["digest"].to_string(), answer["result_digest"].to_string())
    };
    let one = digests(&["--jobs", "1"]);
    assert_eq!(one, digests(&["--jobs", "2"]));
    assert_eq!(one, digests(&["--jobs", "2", "--no-cache"]));
    assert_eq!(
        one,
        digests(&["--records", "--perfetto", "--fio-json"]),
        "watching changes nothing"
    );
    let other_seed = digests(&["--set", "study.seed=2"]);
    assert!(one.0 != other_seed.0 && one.1 != other_seed.1);
}

#[test]
fn a_setting_takes_the_place_of_a_sweep() {
    let sweep = "[sweep]\n\"device.null.latency\" = [\"1us\", \"2us\"]\n\
                 [[claim]]\ntext = 't'\nsource = 's'\nmetric = 'iops'\nholds = { min = 1 }\n\
                 where = { \"device.null.latency\" = '1us' }\n";
    let set = ["--json", "--set", "device.null.latency=40us"];
    let answer = Test::study(&format!("{STUDY}{sweep}")).args(&set).json();
    assert_eq!(answer["runs"].as_array().unwrap().len(), 1);
    assert_eq!(answer["runs"][0]["metrics"]["latency_us_mean"], 40);
    assert_eq!(answer["notes"][0], "device.null.latency is set and no longer swept");
    assert!(answer["notes"][1].as_str().unwrap().starts_with("1 expectations, claims"));
    assert_eq!(answer["claims"].as_array().unwrap().len(), 0);
    assert_eq!(answer["replay"], "blocklab run study.toml --set device.null.latency=40us");
}

#[test]
fn a_list_takes_the_place_of_a_sweeps_values() {
    let sweep = "[sweep]\n\"device.null.latency\" = [\"1us\", \"2us\", \"3us\"]\n\
                 [[expect]]\ntext = 't'\nmetric = 'latency_us_mean'\nmin = 9\n\
                 where = { \"device.null.latency\" = ['1us', '2us'] }\n\
                 [[expect]]\ntext = 't'\nmetric = 'latency_us_mean'\nmin = 2\n\
                 where = { \"device.null.latency\" = '2us' }\n";
    for set in ["device.null.latency", "sweep.\"device.null.latency\""] {
        let set = format!("{set}=[\"2us\", \"4us\"]");
        let test = Test::study(&format!("{STUDY}{sweep}")).args(&["--json", "--set", &set]);
        let answer = test.json();
        let latency = |run: usize| answer["runs"][run]["metrics"]["latency_us_mean"].clone();
        assert_eq!(answer["runs"].as_array().unwrap().len(), 2);
        assert_eq!((latency(0), latency(1)), (2.into(), 4.into()));
        // What was said about a value that is not swept any more is no answer about this run.
        assert_eq!(answer["expectations"].as_array().unwrap().len(), 1, "{answer}");
        let notes = [
            "device.null.latency is swept without 1us",
            "device.null.latency is swept without 3us",
            "1 expectations, claims and figures about that are left out",
        ];
        assert_eq!(answer["notes"].as_array().unwrap()[..3], notes);
        // Nor is it in the study that the run leaves, which says the same when it is run.
        let left = std::fs::read_to_string(test.path("out/study/study.toml")).unwrap();
        let again = Test::study(&left).args(&["--json"]).json();
        assert_eq!(again["digest"], answer["digest"]);
        assert_eq!(again["expectations"], answer["expectations"]);
    }
}

/// `policy` is swept by name: a tunable of one policy holds where it is chosen, from the command
/// line and from the study, and a wrong one is told.
#[test]
fn what_an_axis_chooses_can_be_set() {
    let study = "[study]\ntitle = 't'\n[device.elevator]\nqueue_depth = 1\nnr_requests = 64\n\
                 [device.elevator.device.hdd]\npart = 'wd-80g-5400'\n@table@\
                 [workload.fio]\nrw = 'randread'\nbs = '4KiB'\niodepth = 32\n\
                 [run]\nrequests = 500\n\
                 [sweep]\n'device.elevator.policy' = ['none', 'mq-deadline']\n";
    let policy = "device.elevator.policy.mq-deadline";
    let means = |table: &str, sets: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        let test = Test::study(&study.replace("@table@", table)).args(&["--json"]);
        let answer = test.args(&sets.collect::<Vec<_>>()).json();
        assert!(!answer["notes"].to_string().contains("swept"), "{answer}");
        [0, 1].map(|run: usize| answer["runs"][run]["metrics"]["latency_us_mean"].clone())
    };
    let plain = means("", &[]);
    // The oldest first, each time.
    let sets = [format!("{policy}.read_expire=0us"), format!("{policy}.fifo_batch=1")];
    let expired = means("", &sets.each_ref().map(String::as_str));
    assert_eq!(plain[0], expired[0]);
    assert!(plain[1].as_f64() < expired[1].as_f64(), "{plain:?} {expired:?}");
    assert_eq!(expired, means(&format!("[{policy}]\nread_expire = '0us'\nfifo_batch = 1\n"), &[]));
    let wrong = format!("{policy}.fifo_batch=x");
    let test = Test::study(&study.replace("@table@", "")).args(&["--set", &wrong]);
    test.refuses(&["fifo_batch", "--set:1:"]);
}

#[test]
fn labelled_devices_and_workloads_are_axes() {
    let study = r#"
[devices.fast.null]
latency = "1us"
[devices.slow.null]
latency = "9us"
[workloads.one.fio]
rw = "randread"
[workloads.two.fio]
rw = "randread"
iodepth = 2
[run]
requests = 100
[[expect]]
text = "the slow one takes 9 us"
metric = "latency_us_max"
where = { device = "slow" }
equal = 9.0
"#;
    let answer = Test::study(study).args(&["--json"]).json();
    let labels: Vec<_> =
        answer["runs"].as_array().unwrap().iter().map(|r| r["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["fast one", "fast two", "slow one", "slow two"]);
    assert_eq!(answer["expectations"][0]["ok"], true);
}

#[test]
fn a_steady_state_gate_reports_itself() {
    let steady = "[[precondition]]\n\
                  until_steady = { workload.fio = { rw = \"randread\" }, round = \"1ms\" }\n";
    let answer = Test::study(&format!("{STUDY}{steady}")).args(&["--json"]).json();
    let gate = &answer["runs"][0]["gate"];
    assert_eq!((&gate["steady"], &gate["rounds"]), (&true.into(), &5.into()));
}

#[test]
fn requests_and_a_perfetto_trace_on_demand() {
    let test = Test::study(STUDY).args(&["--records", "--perfetto", "--fio-json"]);
    assert_eq!(test.run().code, 0);
    let names = entries(&test.path("out/study"));
    assert!(names.contains(&"requests.parquet".to_string()), "{names:?}");
    assert!(names.contains(&"trace.pftrace".to_string()), "{names:?}");
    let fio = std::fs::read(test.path("out/study/fio.json")).unwrap();
    let fio: serde_json::Value = serde_json::from_slice(&fio).unwrap();
    assert_eq!(fio["jobs"][0]["read"]["total_ios"], 5000);
    assert_eq!(names.len(), FILES.len() + 3, "a spool was left behind: {names:?}");
}

#[test]
fn a_full_disk_is_exit_code_3_and_leaves_nothing() {
    let test = Test::study(STUDY);
    let script = format!(
        "{} run study.toml --no-report --records --out small/x; echo code $?; ls -A small",
        env!("CARGO_BIN_EXE_blocklab")
    );
    let Some(output) = test.run_in_small("16k", &script) else { return };
    assert_eq!(output.stdout, "code 3\n", "{}", output.stderr);
    assert!(output.stderr.contains("cannot write the results"), "{}", output.stderr);
}

#[test]
fn a_shipped_study_finds_its_traces_anywhere() {
    let run = Test::new().args(&["run", "first-look", "--no-report", "--json"]);
    let answer = run.json();
    assert_eq!(answer["runs"].as_array().unwrap().len(), 6);
    // They are the repository's, and another digest would say so.
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let sets = ["bonnie-ext3", "postmark-ll10-ext3-mq-deadline", "postmark-ss-ext3"];
    let bytes = |name: &str| std::fs::read(format!("{root}/traces/{name}.blkparse.zst")).unwrap();
    let beside = sets.iter().fold(Test::new(), |test, name| {
        test.file(&format!("traces/{name}.blkparse.zst"), bytes(name))
    });
    let beside = beside.args(&["run", "first-look", "--no-report", "--json"]).json();
    assert_eq!(answer["result_digest"], beside["result_digest"]);
    assert_eq!(answer["digest"], beside["digest"]);
}

/// The quick ones; the others are run by hand, and `docs/measured` says where they do not hold.
#[test]
fn what_shipped_studies_expect_is_so() {
    for study in ["elevators", "op-vs-waf", "read-latency-vs-depth", "steady-state", "write-cliff"]
    {
        let output = Test::new().args(&["run", study, "--no-report"]).run();
        assert_eq!(output.code, 0, "{study}: {}", output.stdout);
    }
}

#[test]
fn one_study_says_which_drive_and_whether_more_spare_flash_helps() {
    let page = include_str!("../../../../docs/howto/which-drive-for-my-trace.md");
    let study = include_str!("../../../../studies/which-drive.toml");
    let body = &study[study.find("[study]").unwrap()..];
    assert!(page.contains(body), "the page shows the study as it is shipped");
    let lines = body.lines().filter(|line| !line.is_empty()).count();
    assert!(lines <= 20, "{lines} lines to write");
    // Drives and trace of a few MiB.
    let small = [
        "device.ssd.geometry.blocks_per_plane=64",
        "device.ssd.geometry.pages_per_block=96",
        "workload.trace.requests=1200",
    ];
    let small: Vec<&str> = small.iter().flat_map(|set| ["--set", set]).collect();
    let run = Test::new().args(&["run", "which-drive", "--no-report", "--json"]).args(&small);
    let answer = run.json();
    let text = answer["answer"]["text"].as_str().unwrap();
    for said in
        [" with card, ", " with mlc, ", " with tlc", "With over_provisioning 28% instead of 7%: "]
    {
        assert!(text.contains(said), "{said:?} is not in {text:?}");
    }
}

#[test]
fn a_sweep_that_was_interrupted_goes_on() {
    // The second of the two runs takes for ever.
    let sweep = "[sweep]\n\"run.requests\" = [3_000_000, 1_000_000_000_000]\n";
    let study = STUDY
        .replace("requests = 5000", "")
        .replace("[workload.fio]", "[workload.fio]\nloops = 1_000_000");
    let test = Test::study(&format!("{study}{sweep}")).args(&["--jobs", "1"]);
    let mut session = Command::new(env!("CARGO_BIN_EXE_blocklab"))
        .args(["run", "study.toml", "--no-report", "--jobs", "1"])
        .current_dir(test.path(""))
        // As a service runs, without a place for drives.
        .env_remove("XDG_CACHE_HOME")
        .env_remove("HOME")
        .spawn()
        .unwrap();
    let kept = || entries(&test.path("out/.study.unfinished"));
    while !kept().iter().any(|name| name.ends_with(".run")) {
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(session.try_wait().unwrap().is_none(), "it ended");
    }
    let id = session.id().to_string();
    Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&session.wait().unwrap()), Some(2));
    assert_eq!(entries(&test.path("out")), [".study.unfinished"]);
    let folder = test.path("out/.study.unfinished");
    let file = folder.join(kept().iter().find(|name| name.ends_with(".run")).unwrap());
    let mut bytes = std::fs::read(&file).unwrap();
    let test = test.args(&["--set", "run.requests=3_000_000", "--json"]);
    let only = test.json();
    assert_eq!(only["runs"].as_array().unwrap().len(), 1);
    let notes = only["notes"].to_string();
    assert!(notes.contains("1 runs were finished before"), "{notes}");
    // What was kept is what is measured anew.
    let set = ["--json", "--no-cache", "--set", "run.requests=3_000_000"];
    let anew = Test::study(&format!("{study}{sweep}")).args(&set).json();
    assert_eq!(only["result_digest"], anew["result_digest"]);
    assert_eq!(only["runs"][0]["metrics"]["iops"], anew["runs"][0]["metrics"]["iops"]);
    // A bit of its numbers that was lost on a disk, and it is no result.
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(&file, bytes).unwrap();
    let damaged = test.json();
    assert!(!damaged["notes"].to_string().contains("finished before"), "{}", damaged["notes"]);
    assert_eq!(damaged["runs"][0]["metrics"]["iops"], anew["runs"][0]["metrics"]["iops"]);
}

#[test]
fn what_cannot_be_done_elsewhere_is_told() {
    let on = |args: &[&str]| Test::study(STUDY).args(&["--on", "ray"]).args(args);
    on(&["--records"]).refuses(&["--on", "--records"]);
    on(&["--no-cache"]).refuses(&["--no-cache"]);
    let mut lacks = Command::new(env!("CARGO_BIN_EXE_blocklab"));
    lacks.args(["run", "study.toml", "--on", "ray"]).env("BLOCKLAB_PYTHON", "/bin/false");
    let test = Test::study(STUDY);
    let output = test.run_as(&mut lacks);
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert!(output.stderr.contains("no usable package blocklab"), "{}", output.stderr);
}

/// Jobs behind a stonewall, a pause before one, and a ramp of a later one: the rates of each are of
/// its own time. One request at a time that takes 100 us is 10,000 a second.
#[test]
fn a_jobs_rate_is_of_its_own_time() {
    let jobs = "[global]\nrw=randread\ntime_based\nruntime=100ms\n\
                [one]\n[late]\nstartdelay=30ms\n\
                [two]\nstonewall\nioengine=libaio\niodepth=2\n\
                [ramped]\nstonewall\nramp_time=50ms\n";
    let study = "[device.null]\nlatency = '100us'\n[workload.fio]\nfile = 'jobs.fio'\n\
                 [study]\nanswer = { metric = 'job.one.read_latency_us_p99' }\n";
    let answer = Test::study(study).file("jobs.fio", jobs).args(&["--json"]).json();
    let metrics = &answer["runs"][0]["metrics"];
    let of = |metric: &str| metrics[metric].as_f64().unwrap_or_else(|| panic!("no {metric}"));
    for (job, iops) in [("one", 10_000.0), ("late", 10_000.0), ("two", 20_000.0), ("ramped", 1e4)] {
        let rate = of(&format!("job.{job}.read_iops"));
        assert!((rate / iops - 1.0).abs() < 0.002, "{job}: {rate}");
        let time = of(&format!("job.{job}.simulated_s"));
        assert!((time / 0.1 - 1.0).abs() < 0.002, "{job}: {time} s");
    }
    assert!((of("simulated_s") - 0.38).abs() < 0.001, "{}", of("simulated_s"));
    // Its requests, not those that its rate would be in the time of all: 1,000 make a percentile.
    assert!(!answer["answer"]["text"].as_str().unwrap().contains("no answer yet"));
    let few = jobs.replace("=100ms", "=90ms");
    let answer = Test::study(study).file("jobs.fio", few).args(&["--json"]).json();
    let text = answer["answer"]["text"].as_str().unwrap();
    assert!(text.contains("a run has 900 such requests"), "{text}");
}
