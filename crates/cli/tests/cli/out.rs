//! `blocklab run --out DIR`: what is replaced, what is refused, what is left when it is ended.

use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use crate::support::{Output, STUDY, Test, entries};

/// A study that takes minutes, in its preconditioning or in its run.
const LONG: &str = "[device.ssd]\n[workload.fio]\nrw = \"randwrite\"\n[run]\ntime = \"100h\"\n";
const LONG_BEFORE: &str = "[device.ssd]\n[workload.fio]\n[run]\nrequests = 1\n[[precondition]]\n\
                           overwrite = { writes = \"100000%\" }\n";

fn run(out: &str) -> Test {
    Test::study(STUDY).args(&["--out", out])
}

fn refused(output: &Output, part: &str) {
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains(part), "{part:?} is not in:\n{}", output.stderr);
    assert_eq!(output.stdout, "");
}

#[test]
fn results_replace_older_results_and_nothing_else() {
    let test = run("mine").args(&["--records"]);
    assert_eq!(test.run().code, 0);
    let html = "<!doctype html>\n<title>x · blocklab</title>";
    let test =
        test.file("mine/report.html", html).file("mine/waf.svg", "<!-- made by blocklab -->");
    assert_eq!(test.run().code, 0, "a report and a figure are ours");
    assert!(!entries(&test.path("mine")).contains(&"report.html".to_string()));
    let before = entries(&test.path("mine"));
    for foreign in ["notes.txt", "report.html", "waf.svg", "sources/main.c"] {
        let test = Test::new().file("study.toml", STUDY);
        let args = ["run", "study.toml", "--no-report", "--out", "mine"];
        let test = test.args(&args);
        assert_eq!(test.run().code, 0);
        let test = test.file(&format!("mine/{foreign}"), "dear");
        let name = foreign.split('/').next().unwrap();
        refused(&test.run(), &format!("mine holds what no run wrote: {name}"));
        assert_eq!(std::fs::read(test.path("mine").join(foreign)).unwrap(), b"dear");
        assert_eq!(entries(&test.path("mine")).len(), before.len());
        assert_eq!(entries(&test.path("")), ["mine", "study.toml"], "nothing is left beside it");
    }
}

#[test]
fn a_result_of_somebody_else_makes_nothing_ours() {
    let theirs = r#"{ "files": { "source": "main.c" } }"#;
    let test = run("mine").file("mine/result.json", theirs).file("mine/main.c", "int main;");
    refused(&test.run(), "mine holds what no run wrote: main.c, result.json");
    assert_eq!(entries(&test.path("mine")), ["main.c", "result.json"]);
}

#[test]
fn a_place_that_cannot_be_written_is_refused_before_the_run() {
    let file = |out: &str| Test::study(LONG).args(&["--out", out]).file("letter.txt", "dear").run();
    refused(&file("letter.txt"), "letter.txt is no folder");
    refused(&file("letter.txt/below"), "cannot write the results to letter.txt/below: File exists");
    refused(&file("/proc/here"), "cannot write the results to /proc/here");
    refused(&file("/proc"), "/proc is a mount point");
    refused(&file("/"), "/ ");
    let long = "x".repeat(300);
    refused(&file(&long), "File name too long");
    let test = Test::study(LONG).args(&["--out", "link"]);
    symlink("nowhere", test.path("link")).unwrap();
    refused(&test.run(), "link cannot be used");
}

#[test]
fn a_link_to_a_folder_stays_one() {
    let test = run("link");
    std::fs::create_dir(test.path("real")).unwrap();
    symlink("real", test.path("link")).unwrap();
    for _ in 0..2 {
        assert_eq!(test.run().code, 0);
        assert!(test.path("link").is_symlink());
        assert!(entries(&test.path("real")).contains(&"result.json".to_string()));
        assert_eq!(entries(&test.path("")), ["link", "real", "study.toml"]);
    }
}

#[test]
fn a_signal_leaves_nothing_half_written() {
    for (study, signal, number) in [(LONG, "-INT", 2), (LONG_BEFORE, "-TERM", 15)] {
        let test = Test::study(study);
        let mut run = Command::new(env!("CARGO_BIN_EXE_blocklab"))
            .args(["run", "study.toml", "--no-cache", "--no-report"])
            .current_dir(test.path(""))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while entries(&test.path("out")).is_empty() {
            assert!(run.try_wait().unwrap().is_none(), "it ended");
            std::thread::yield_now();
        }
        let id = run.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        assert_eq!(run.wait().unwrap().signal(), Some(number));
        assert_eq!(entries(&test.path("out")), [""; 0]);
    }
}

#[test]
fn an_answer_that_is_not_whole_is_an_error_unless_nobody_wanted_more() {
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let told = |verb: &str, output: Stdio| {
        let mut told = Command::new(env!("CARGO_BIN_EXE_blocklab"));
        told.args(verb.split(' ')).stdout(output).output().unwrap()
    };
    for verb in ["list metrics", "completions bash", "doctor", "--help", "run -h", "--version"] {
        let told = told(verb, full().into());
        let said = String::from_utf8_lossy(&told.stderr);
        assert_eq!(told.status.code(), Some(3), "{verb}: {said}");
        assert!(said.starts_with("error: standard output: No space left"), "{verb}: {said}");
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    for verb in ["list metrics", "--help"] {
        let told = told(verb, writer.try_clone().unwrap().into());
        assert_eq!((told.status.code(), told.stderr.as_slice()), (Some(0), &b""[..]), "{verb}");
    }
}
