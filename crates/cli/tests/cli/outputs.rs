//! What lies where a verb would write: it is refused before any work begins, and stays as it is.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::boot::RECORD;
use crate::paths::{PATHS, Use};
use crate::support::{STUDY, Test};

/// A command line that writes.
struct Case {
    /// The verb and its argument.
    of: [&'static str; 2],
    /// The command line; `@` is the output.
    line: &'static str,
    /// What the output is called.
    name: &'static str,
    /// A file that would be written into it, where the output is a folder.
    file: Option<&'static str>,
}

const fn file(verb: &'static str, argument: &'static str, line: &'static str) -> Case {
    Case { of: [verb, argument], line, name: "place.toml", file: None }
}

const fn folder(
    verb: &'static str,
    argument: &'static str,
    line: &'static str,
    file: &'static str,
) -> Case {
    Case { of: [verb, argument], line, name: "place", file: Some(file) }
}

const CASES: &[Case] = &[
    folder("run", "out", "run study.toml --no-report --no-cache --out @", "notes.txt"),
    // What is recorded anew lies beside the results.
    Case {
        of: ["run", "out"],
        line: "run boots.toml --no-report --live vmlinuz --out place",
        name: "place.recordings",
        file: Some("plain.boot"),
    },
    file("attach", "data", "attach part.toml --run true --data @"),
    file("attach", "socket", "attach part.toml --run true --socket @"),
    file("attach", "record", "attach part.toml --run true --record @"),
    file("attach", "control", "attach part.toml --run true --control @"),
    folder("attach", "out", "attach part.toml --run true --out @", "attach.json"),
    file("travel", "data", "travel part.toml --kernel=/bin/true --data @ -- true"),
    file("travel", "record", "travel part.toml --kernel=/bin/true --record @ -- true"),
    file("travel", "record_queue", "travel part.toml --kernel=/bin/true --record-queue @ -- true"),
    folder("travel", "out", "travel part.toml --kernel=/bin/true --out @ -- true", "travel.json"),
    folder(
        "crash",
        "out",
        "crash --part part.toml --kernel=/bin/true --out @ -- true",
        "crash.json",
    ),
    file("calibrate", "out", "calibrate --from points.csv --base slc2010-paper --out @"),
    folder(
        "calibrate probe",
        "out",
        "calibrate probe --file drive --fio ./fio --out @",
        "notes.txt",
    ),
    file("trace convert", "output", "trace convert a.csv @ --to blkparse"),
    file("boot image", "out", "boot image vmlinuz --out @"),
    folder(
        "boot load",
        "record",
        "boot load vmlinuz --variant plain --record @",
        "vmlinuz-plain.boot",
    ),
    folder("boot record", "out", "boot record --device part.toml --out @", "part.record"),
    folder("boot record", "out", "boot record --device part.toml --queue --out @", "part.blk"),
    file("boot record", "html", "boot record --device part.toml --html @"),
    file("boot collect", "out", "boot collect --root root --out @"),
    file("boot report", "html", "boot report a.record --html @"),
    file("boot report", "perfetto", "boot report a.record --perfetto @"),
    folder("snapshot try", "record", "snapshot try vmlinuz --record @", "notes.txt"),
    file("snapshot try", "keep", "snapshot try vmlinuz --keep @"),
    // What belongs to an image lies beside it.
    Case {
        of: ["snapshot try", "keep"],
        line: "snapshot try vmlinuz --keep image",
        name: "image.swap",
        file: None,
    },
    file("mirror serve", "socket", "mirror serve --fast fast --slow slow --socket @"),
    file("mirror serve", "control", "mirror serve --fast fast --slow slow --control @"),
    folder("snapshot tools", "folder", "snapshot tools @", "notes.txt"),
    folder("man", "folder", "man @", "blocklab.1"),
    Case { of: ["new", "name"], line: "new study place", name: "place.toml", file: None },
];

/// A mirror of two files, in the test's folder.
fn with_mirror(test: Test) -> Test {
    for leg in LEGS {
        std::fs::File::create(test.path(leg)).unwrap().set_len(64 << 20).unwrap();
    }
    let mut create = std::process::Command::new(env!("CARGO_BIN_EXE_blocklab"));
    create.args(["mirror", "create", "--fast", "fast", "--slow", "slow"]);
    let made = test.run_as(&mut create);
    assert_eq!(made.code, 0, "{}", made.stderr);
    test
}

/// A folder with what the command lines read.
fn with_inputs() -> Test {
    let trace = "128166372003061629,hm,0,Read,383496192,32768,413\n";
    let boots = "[device.null]\n[workload.boot]\nfile = \"a.boot\"\n";
    let recording = "blocklab boot recording 1\nkernel k\nvariant plain\nfile_bytes 1\n\
                     last_instructions 0\nstart_instructions 1\nreads 1\n1 64\n";
    let test = Test::new()
        .file("study.toml", STUDY)
        .file("boots.toml", boots)
        .file("a.boot", recording)
        .file("part.toml", "[null]\nlatency = \"20us\"\ncapacity = \"512MiB\"\n")
        .file("a.csv", trace)
        .file("vmlinuz", "text")
        .file("a.record", RECORD)
        .file("root/run/blocklab/boot.record", RECORD)
        .file("fio", "#!/bin/sh\n[ $1 = --version ] && echo fio-3\n")
        .file("drive", vec![7; 16 << 20]);
    let runs = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(test.path("fio"), runs).unwrap();
    test
}

/// Foreign files that look a little like what is written.
const FOREIGN: [&str; 4] = [
    "dear",
    "<!doctype html>\n<html lang=\"en\"><title>My own</title>",
    "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[]}",
    "{ \"devices\": [\"phone\"], \"cuts\": [] }",
];

/// A mirror's own, which count its starts.
const LEGS: [&str; 2] = ["fast", "slow"];

/// All files and links below a folder with what is in them, but for a mirror's legs.
fn all(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    for entry in entries.filter(|entry| LEGS.iter().all(|leg| entry.file_name() != *leg)) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(all(&path));
        } else if kind.is_symlink() {
            let to = std::fs::read_link(&path).unwrap();
            found.insert(path, to.into_os_string().into_encoded_bytes());
        } else {
            found.insert(path.clone(), std::fs::read(path).unwrap());
        }
    }
    found
}

impl Case {
    /// Bad input, in one message that names `place`; nothing is changed, and no file is new. Says
    /// what is not so.
    fn complaint(&self, test: Test, what: &str, place: &str) -> Option<String> {
        let words: Vec<String> = self.line.split(' ').map(|w| w.replace('@', place)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let test = if words[0] == "mirror" { with_mirror(test) } else { test }.args(&words);
        let before = all(&test.path(""));
        let told = test.run();
        let wrong = [
            (told.code != 2, "the exit code is not 2"),
            (told.stderr.matches("error:").count() != 1, "it is not one error"),
            (!told.stderr.contains(place), "the place is not named"),
            (!told.stdout.is_empty(), "it is not on stderr alone"),
            (all(&test.path("")) != before, "something was written or changed"),
        ];
        let wrong: Vec<&str> = wrong.iter().filter(|(is, _)| *is).map(|(_, why)| *why).collect();
        let line = words.join(" ");
        let told =
            || format!("{line}, {what}: {}\n{} {}", wrong.join("; "), told.code, told.stderr);
        (!wrong.is_empty()).then(told)
    }

    /// All that is wrong with it.
    fn complaints(&self) -> Vec<String> {
        let name = self.name;
        // The place itself, or where the file in it would be.
        let place = self.file.map_or(name.to_string(), |file| format!("{name}/{file}"));
        let foreign =
            FOREIGN.map(|text| (with_inputs().file(&place, text), "a foreign file", name));
        let mut tried = Vec::from(foreign);
        tried.push((with_inputs().file(&format!("{place}/dear"), "dear"), "a folder", name));
        let test = with_inputs().file("dear.txt", "dear").file(&format!("{place}/x"), "");
        std::fs::remove_dir_all(test.path(&place)).unwrap();
        symlink(test.path("dear.txt"), test.path(&place)).unwrap();
        tried.push((test, "a link to a foreign file", name));
        if self.file.is_some() {
            tried.push((with_inputs().file(name, "dear"), "a file, not a folder", name));
        }
        if self.line.contains('@') {
            // Nobody may write there, root included.
            tried.push((with_inputs(), "no such folder", "/proc/none/place.toml"));
        }
        tried
            .into_iter()
            .filter_map(|(test, what, name)| self.complaint(test, what, name))
            .collect()
    }
}

#[test]
fn what_is_in_the_way_of_an_output_is_refused_and_stays() {
    let wrong: Vec<String> = CASES.iter().flat_map(Case::complaints).collect();
    assert!(wrong.is_empty(), "{}\n{} of them", wrong.join("\n"), wrong.len());
}

#[test]
fn a_trace_is_written_to_where_a_link_leads() {
    let convert = |name: &str, more: &[&str]| {
        let test = with_inputs().file("kept/old.blkparse", "dear");
        symlink("kept/old.blkparse", test.path("link")).unwrap();
        symlink("kept/new.blkparse", test.path("dangling")).unwrap();
        symlink("circle", test.path("circle")).unwrap();
        let args = ["trace", "convert", "a.csv", name, "--to", "blkparse"];
        let test = test.args(&[&args[..], more].concat());
        let told = test.run();
        (all(&test.path("")), told, test)
    };
    let (_, told, test) = convert("plain", &[]);
    assert_eq!(told.code, 0, "{}", told.stderr);
    let whole = std::fs::read(test.path("plain")).unwrap();
    for (name, more, place) in [
        ("link", &["--overwrite"][..], "kept/old.blkparse"),
        ("dangling", &[], "kept/new.blkparse"),
    ] {
        let (found, told, test) = convert(name, more);
        assert_eq!(told.code, 0, "{}", told.stderr);
        assert_eq!(found.get(&test.path(name)).map(Vec::as_slice), Some(place.as_bytes()));
        assert_eq!(found.get(&test.path(place)), Some(&whole), "{name}");
    }
    let (found, told, test) = convert("circle", &["--overwrite"]);
    assert_eq!(told.code, 2, "{}", told.stderr);
    assert!(told.stderr.contains("cannot write circle"), "{}", told.stderr);
    assert_eq!(found.get(&test.path("circle")).map(Vec::as_slice), Some(&b"circle"[..]));
}

#[test]
fn every_output_is_tried() {
    let is_tried = |verb, argument| CASES.iter().any(|case| case.of == [verb, argument]);
    for (verb, argument, what) in PATHS {
        assert_eq!(is_tried(*verb, *argument), *what == Use::Output, "{verb} {argument}");
    }
}
