//! A point with `[crash]`: its program runs once, and guests look at what cuts of the power leave.

use sim::Nanos;
use study::{BuiltPart, Crash, Failure, Setup, Travel, name_of};

use super::check::command_line;
use super::words::end_of;
use crate::crash::{self, Cuts, Media, Progress, Report, Sweep, check_of};
use crate::session::Start;
use crate::travel::{Disk, Left, Options};

/// Guests at a time; points run beside each other, too.
const GUESTS: usize = 2;
/// As on the command line.
const SUBSETS_MAX: u32 = 1_000_000;

/// Refuse what cannot be swept.
pub(super) fn check(setup: &Setup, travel: &Travel, crash: &Crash) -> Result<(), Failure> {
    let at = |key: &str, failure: Failure| setup.at(&["crash", key], failure);
    let nothing = |key: &str, expected: &str| {
        at(key, Failure::input(format!("crash.{key} = 0: nothing is cut")).expected(expected))
    };
    if crash.cuts == 0 {
        return Err(nothing("cuts", "at least 1"));
    }
    if crash.every.is_some_and(|every| every.0 == Nanos(0)) {
        return Err(nothing("every", "such as \"1ms\""));
    }
    if crash.subsets.is_some_and(|count| !(1..=SUBSETS_MAX).contains(&count)) {
        let failure = Failure::input("crash.subsets: so many cannot be looked at");
        return Err(at("subsets", failure.expected(format!("from 1 to {SUBSETS_MAX}"))));
    }
    for (key, other, both) in [
        ("every", "at_flush", crash.every.is_some() && crash.at_flush),
        ("subsets", "panic", crash.subsets.is_some() && crash.panic),
    ] {
        if both {
            let failure =
                Failure::input(format!("crash.{key} and crash.{other} exclude each other"));
            return Err(at(key, failure.expected("one of the two")));
        }
    }
    command_line("crash.check", &crash.check).map_err(|failure| at("check", failure))?;
    match &travel.file_system {
        Some(kind) => {
            check_of(&name_of(kind)).map_err(|why| setup.at(&["travel", "file_system"], why))
        }
        None if crash.check.trim().is_empty() => {
            let failure = Failure::input("[crash] has nothing to look at");
            let failure = failure.expected("travel.file_system, which has a check, or crash.check");
            Err(setup.at(&["crash"], failure))
        }
        None => Ok(()),
    }
}

/// Run the program of `options` on `part`, its only disk, and look at what is left.
pub(super) fn sweep(
    part: BuiltPart,
    start: Start,
    options: Options,
    crash: &Crash,
    outside: &(dyn Fn() -> Result<(), Failure> + Sync),
) -> Result<(Left, study::Cuts, Vec<String>), Failure> {
    let Start { store, at, next_id } = start;
    let start = Disk { device: part.device.boxed_clone(), store, at, next_id };
    let cuts = match (crash.every, crash.at_flush) {
        (Some(every), _) => Cuts::Every(every.0),
        (None, true) => Cuts::AtFlush,
        (None, false) => Cuts::Number(crash.cuts as usize),
    };
    let media = match (crash.subsets, crash.panic) {
        (Some(count), _) => Media::Subsets(count),
        (None, true) => Media::Panicked,
        (None, false) => Media::Modelled,
    };
    let options = crash::Options {
        part,
        start: Some(start),
        travel: options,
        cuts,
        media,
        check: Some(crash.check.clone()).filter(|text| !text.trim().is_empty()),
        guests: GUESTS,
        calls: false,
        // The whole point has one.
        wall_limit: std::time::Duration::MAX,
    };
    let Sweep { report, ended, left } = crash::crash(options, &Progress::with(outside))?;
    ended.map_or(Ok(()), Err)?;
    Ok((left, counted(&report), notes(&report)))
}

/// Since the program began.
fn into_the_program(report: &Report, at_ns: u64) -> Nanos {
    Nanos(at_ns.saturating_sub(report.moments_ns[0]))
}

fn counted(report: &Report) -> study::Cuts {
    let [clean, repaired, lost, refused] = report.worst().map(|count| count as u64);
    let first = report.first_failure();
    study::Cuts {
        cuts: report.moments() as u64,
        looks: report.cuts.len() as u64,
        media: report.distinct as u64,
        acks: report.acks as u64,
        clean,
        repaired,
        lost,
        refused,
        first_failure_s: first.map(|cut| into_the_program(report, cut.at_ns).as_secs_f64()),
    }
}

/// The first failure, for people.
fn notes(report: &Report) -> Vec<String> {
    let Some(cut) = report.first_failure() else { return Vec::new() };
    let ms = into_the_program(report, cut.at_ns).as_secs_f64() * 1e3;
    let (what, acks) = (cut.verdict.name(), cut.acks);
    let said = end_of(&cut.said);
    vec![format!(
        "the first cut that is {what}: after {ms:.3} ms, with {acks} acknowledgements: {said}"
    )]
}
