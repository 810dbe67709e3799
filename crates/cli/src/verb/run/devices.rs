//! `run FILE --device PART`: what a job or a recording does on devices, without a study of one's
//! own.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use study::{Failure, PlannedStudy};

use super::super::in_toml;

/// Bytes at the beginning of a file that say what it is.
const HEAD: u64 = 64 << 10;

/// The plan of a study of `file`, a fio job file or a recording, on each of `devices`: parts by
/// name or file, which are filled first.
///
/// # Errors
/// When the file cannot be read or is a study, a device is named twice or is no part, and what is
/// wrong with either.
pub(super) fn plan(
    file: &str,
    devices: &[String],
    sets: &[String],
) -> Result<PlannedStudy, Failure> {
    let workload = workload_of(file)?;
    let name = name(file);
    let labels: Vec<&str> = devices.iter().map(|part| label(part)).collect();
    let mut text = format!(
        "[study]\ntitle = {}\nquestion = {}\n\n",
        in_toml::text(&format!("{name} on {}", labels.join(", "))),
        in_toml::text(&format!("What does {file} do on {}?", labels.join(", "))),
    );
    for (nth, part) in devices.iter().enumerate() {
        if labels[..nth].contains(&labels[nth]) {
            return Err(Failure::input(format!("--device {part}: named twice"))
                .expected("each device once, by a name of its own"));
        }
        let place = match devices.len() {
            1 => "device".to_string(),
            _ => format!("devices.{}", in_toml::text(labels[nth])),
        };
        let model = study::model_of(part)?;
        let part = in_toml::part(part);
        let _ = writeln!(text, "[{place}.{model}]\npart = {part}\n");
    }
    let _ = writeln!(text, "[workload.{workload}]\nfile = {}\n", in_toml::text(file));
    text += "[[precondition]]\nfill = {}\n";
    PlannedStudy::parse_in(Path::new(""), &name, &text, sets)
}

/// What the study is called.
fn name(file: &str) -> Cow<'_, str> {
    Path::new(file).file_stem().unwrap_or_default().to_string_lossy()
}

/// The failure without its place in the study that was made up here, which nobody can look at: a
/// failure of the file names its place in that.
pub(super) fn without_place(file: &str, mut failure: Failure) -> Failure {
    let is_ours = |place: &study::FilePlace| place.file == Path::new(&*name(file));
    if failure.place.as_ref().is_some_and(is_ours) {
        failure.place = None;
        let of_file = ["workload.fio.file: ", "workload.trace.file: "];
        let told = of_file.iter().find_map(|key| failure.message.strip_prefix(key));
        if let Some(told) = told.map(String::from) {
            failure.message = told;
        }
        if failure.message.contains("the format cannot be told") {
            return failure.help("--set workload.trace.format=NAME reads it as that format");
        }
    }
    failure
}

/// The failure of what was taken for a study, where it may be a job or a recording.
pub(super) fn hint(file: &str, failure: Failure) -> Failure {
    if file.ends_with(".toml") || !Path::new(file).is_file() {
        return failure;
    }
    failure.help("a fio job file or a recorded trace needs a device: --device PART")
}

/// What a device is called in the answer.
fn label(part: &str) -> &str {
    let name = part.rsplit('/').next().unwrap_or(part);
    name.strip_suffix(".toml").unwrap_or(name)
}

/// The workload that reads such a file: a job file begins with a section, a recording does not.
fn workload_of(file: &str) -> Result<&'static str, Failure> {
    let wrong = |what: String| {
        Failure::input(what)
            .expected("with --device, a fio job file or a recorded trace")
            .help("a study has devices of its own: `--set device...=...` changes them")
    };
    let mut head = Vec::new();
    let read = File::open(file).and_then(|opened| opened.take(HEAD).read_to_end(&mut head));
    read.map_err(|why| wrong(format!("cannot read {file}: {why}")))?;
    // No job file is called so, and a study need not begin with [study].
    if file.ends_with(".toml") {
        return Err(wrong(format!("{file} is a study, beside --device")));
    }
    let head = String::from_utf8_lossy(&head);
    let lines = head.trim_start_matches('\u{feff}').lines().map(str::trim);
    let mut told = lines.filter(|line| !line.is_empty() && !line.starts_with([';', '#']));
    match told.next() {
        Some("[study]") => Err(wrong(format!("{file} is a study, beside --device"))),
        Some(line) if line.starts_with('[') => Ok("fio"),
        _ => Ok("trace"),
    }
}
