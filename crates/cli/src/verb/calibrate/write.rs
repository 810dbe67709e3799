//! The part that was fitted, as a file.

use std::path::Path;

use study::Failure;
use toml::{Table, Value};

use super::super::measured::summary;
use super::host_path::{PROCESS_INTERVAL, may_be_the_drive_s};
use super::knobs::{Base, DIES};
use super::{Calibrated, Fitting};

/// Refuse to overwrite what is there, before anything is run.
pub(super) fn check_free(out: &Path) -> Result<(), Failure> {
    if out.extension().is_none_or(|extension| extension != "toml") {
        return Err(Failure::input(format!("--out {}: parts are TOML", out.display()))
            .expected("a name that ends with .toml"));
    }
    study::check_create(out)
}

/// What a fit says of the part that it made.
pub(super) struct Findings {
    /// How far off the part is.
    pub(super) error: String,
    /// Whether it does about what the drive does.
    pub(super) fits: bool,
    /// By key, where its value comes from.
    pub(super) source: Vec<(String, String)>,
}

/// The name of a file, without its folder and for people.
pub(super) fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl Calibrated {
    /// What is to be said of what a process takes, if that was moved and may be the drive's.
    pub(super) fn one_process(&self, base: &Base) -> Option<String> {
        let knob = base.knobs.iter().position(|knob| knob.key == PROCESS_INTERVAL)?;
        let (_, value) = base.values(&self.fit.place).swap_remove(knob);
        let points = [&self.split.fitted[..], &self.split.held].concat();
        may_be_the_drive_s(&points, &value.to_string()).filter(|_| self.fit.is_moved(knob))
    }

    pub(super) fn findings(&self, from: &Fitting, base: &Base) -> Findings {
        let error = if self.held.is_empty() {
            let errors = summary(&self.split.fitted, &self.fitted);
            format!(
                "on the points it was fitted to, median and worst: {errors}; no other was tried"
            )
        } else {
            let errors = summary(&self.split.held, &self.held);
            let points = self.held.len();
            format!("on {points} points that were held back, median and worst: {errors}")
        };
        let fitted = format!("fitted: {} points of {}", self.fit.points, name_of(&from.from));
        let mut source = Vec::new();
        for (index, knob) in base.knobs.iter().enumerate() {
            // What was not moved is as it was, and from where it was.
            if !self.fit.is_moved(index) {
                continue;
            }
            let known = self.fit.known(index);
            let why = match &self.fit.unknown[index] {
                None => format!("standard error {known}"),
                Some(_) => format!("but {known}"),
            };
            let doubted = knob.key == PROCESS_INTERVAL && self.one_process(base).is_some();
            let why = why + if doubted { "; or a limit of the drive" } else { "" };
            source.push((knob.key.clone(), format!("{fitted}, {why}")));
        }
        if base.dies.is_some() {
            source.push((DIES.to_string(), format!("{fitted}, {}", self.fit.of_dies())));
        }
        source.extend(base.why_shaped(&self.fit.place));
        let mut added = base.added.clone();
        added.retain(|key| source.iter().all(|(known, _)| known != key));
        source.extend(added.into_iter().map(|key| (key, "added by blocklab calibrate".into())));
        Findings { error, fits: self.fits(), source }
    }
}

/// Write the part that `table` describes: whole, or not at all.
pub(super) fn part(from: &Fitting, mut table: Table, findings: Findings) -> Result<(), Failure> {
    let name = from.out.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let measured = name_of(&from.from);
    let text = |text: String| Value::String(text);
    let status = if findings.fits { "calibrated" } else { "sketch" };
    let head = Table::from_iter([
        ("name".to_string(), text(name.clone())),
        ("title".to_string(), text(format!("{name}: fitted to {measured} by blocklab calibrate"))),
        ("status".to_string(), text(status.into())),
        ("error".to_string(), text(findings.error)),
    ]);
    let known = table.remove("source").and_then(|source| source.as_table().cloned());
    let mut source = Table::new();
    for (key, why) in known.unwrap_or_default() {
        let why = why.as_str().unwrap_or_default();
        let kept =
            if why.starts_with("of ") { why.into() } else { format!("of {}: {why}", from.base) };
        source.insert(key, text(kept));
    }
    for set in &from.sets {
        let key = set.split('=').next().unwrap_or_default().trim().to_string();
        source.insert(key, text("set on the command line of blocklab calibrate".into()));
    }
    source.extend(findings.source.into_iter().map(|(key, why)| (key, text(why))));
    table.remove("part");
    // In the order in which parts are read.
    let sections = [("part", head)].into_iter().chain(
        table.iter().filter_map(|(key, value)| Some((key.as_str(), value.as_table()?.clone()))),
    );
    let sections = sections.chain([("source", source)]);
    let written: Vec<String> = sections
        .map(|(key, section)| {
            Table::from_iter([(key.to_string(), Value::Table(section))]).to_string()
        })
        .collect();
    study::create(&from.out, written.join("\n").as_bytes())
}
