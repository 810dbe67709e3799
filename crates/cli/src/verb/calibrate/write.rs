//! The part that was fitted, as a file.

use std::path::Path;

use study::Failure;
use toml::{Table, Value};

use super::super::measured::summary;
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

/// Write the part: whole, or not at all.
pub(super) fn part(from: &Fitting, base: &Base, calibrated: &Calibrated) -> Result<(), Failure> {
    let name = from.out.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let measured = from.from.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut table = base.scaled(&calibrated.fit.place);
    let text = |text: String| Value::String(text);
    let error = if calibrated.held.is_empty() {
        let errors = summary(&calibrated.split.fitted, &calibrated.fitted);
        format!("on the points it was fitted to, median and worst: {errors}; no other was tried")
    } else {
        let errors = summary(&calibrated.split.held, &calibrated.held);
        format!(
            "on {} points that were held back, median and worst: {errors}",
            calibrated.held.len()
        )
    };
    let head = Table::from_iter([
        ("name".to_string(), text(name.clone())),
        ("title".to_string(), text(format!("{name}: fitted to {measured} by blocklab calibrate"))),
        (
            "status".to_string(),
            text(if calibrated.fits() { "calibrated" } else { "sketch" }.into()),
        ),
        ("error".to_string(), text(error)),
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
    let points = calibrated.split.fitted.len();
    for (index, knob) in base.knobs.iter().enumerate() {
        let why = match &calibrated.fit.unknown[index] {
            None => format!("standard error {}", calibrated.fit.known(index)),
            Some(why) => format!("but {why}"),
        };
        source.insert(
            knob.key.clone(),
            text(format!("fitted: {points} points of {measured}, {why}")),
        );
    }
    for key in &base.added {
        source.entry(key.clone()).or_insert(text("added by blocklab calibrate".into()));
    }
    if base.dies.is_some() {
        let why = format!("fitted: {points} points of {measured}, {}", calibrated.fit.of_dies());
        source.insert(DIES.to_string(), text(why));
    }
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
