//! `xtask score-disks DIR`: score the disk model against measured drives.
//!
//! DIR holds, for each drive, `<name>.diskspecs` with the model and seek files it names, and its
//! validation trace `<name>.trace` or `<name>.trace.zst`, as published with DiskSim 4.0.

use std::fs;
use std::path::Path;

use disk::hdd::Params;
use disk::{demerit, disksim};
use sim::Nanos;

/// DiskSim's own demerits in us, as its validation suite states them.
const DISKSIM_US: [(&str, u32); 5] = [
    ("atlas_III", 378),
    ("barracuda", 348),
    ("cheetah4LP", 318),
    ("ibm18es", 136),
    ("hp_c2490a", 254),
];

/// At most this multiple of DiskSim's demerit is a pass.
const BAR: f64 = 1.5;

/// Print one line per drive.
///
/// # Errors
/// When the folder cannot be read or holds no drive, and when a drive fails or has no score.
pub(crate) fn run(directory: &Path) -> Result<(), String> {
    let entries = fs::read_dir(directory).map_err(|why| format!("{directory:?}: {why}"))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_suffix(".diskspecs")?.to_owned()))
        .collect();
    names.sort();
    if names.is_empty() {
        return Err(format!("{directory:?} holds no .diskspecs file; expected one per drive"));
    }
    println!("drive         requests  measured ms  modelled ms  demerit ms  DiskSim ms  ratio");
    let mut bad: Vec<String> = Vec::new();
    for name in names {
        let passes = match score(directory, &name) {
            Ok(score) => print(&name, &score),
            Err(why) => {
                println!("{name:<12}  not scored: {why}");
                false
            }
        };
        if !passes {
            bad.push(name);
        }
    }
    if bad.is_empty() { Ok(()) } else { Err(format!("failed or not scored: {}", bad.join(", "))) }
}

struct Score {
    requests: usize,
    measured_ms: f64,
    modelled_ms: f64,
    demerit_ms: f64,
    by_op: [f64; 2],
}

/// DiskSim's own demerit, ours as a multiple of it, and whether that passes; `None` of a drive that
/// DiskSim's suite does not have.
fn judged(name: &str, demerit_ms: f64) -> Option<(f64, f64, bool)> {
    let (_, us) = DISKSIM_US.iter().find(|(drive, _)| *drive == name)?;
    let reference = f64::from(*us) / 1e3;
    let ratio = demerit_ms / reference;
    Some((reference, ratio, ratio <= BAR))
}

/// Print a drive's line; true when it does not fail.
fn print(name: &str, s: &Score) -> bool {
    let judged = judged(name, s.demerit_ms);
    let text = judged.map_or_else(String::new, |(reference, ratio, passes)| {
        let verdict = if passes { "pass" } else { "FAIL" };
        format!("{reference:>10.3}  {ratio:>5.2}  {verdict}")
    });
    println!(
        "{name:<12}  {:>8}  {:>11.3}  {:>11.3}  {:>10.3}  {text}  (reads {:.3}, writes {:.3})",
        s.requests, s.measured_ms, s.modelled_ms, s.demerit_ms, s.by_op[0], s.by_op[1]
    );
    judged.is_none_or(|(_, _, passes)| passes)
}

fn score(directory: &Path, name: &str) -> Result<Score, String> {
    let read = |file: &str| {
        let path = directory.join(file);
        fs::read_to_string(&path).map_err(|why| format!("{file}: {why}"))
    };
    let specs = read(&format!("{name}.diskspecs"))?;
    let model = read(&disksim::model_file(&specs).map_err(|why| why.to_string())?)?;
    let seek = read(&disksim::seek_file(&model).map_err(|why| why.to_string())?)?;
    let params = disksim::params(&specs, &model, &seek).map_err(|why| why.to_string())?;
    let trace = disksim::trace(&trace_text(directory, name)?).map_err(|why| why.to_string())?;
    let modelled = respond(&params, &trace)?;
    let measured: Vec<Nanos> = trace.iter().map(|sample| sample.service).collect();
    let of = |write: bool| {
        let pick = |times: &[Nanos]| -> Vec<Nanos> {
            let all = times.iter().zip(&trace);
            all.filter(|(_, sample)| sample.write == write).map(|(&time, _)| time).collect()
        };
        demerit::demerit(&pick(&measured), &pick(&modelled)).unwrap_or(f64::NAN) / 1e6
    };
    let mean = |times: &[Nanos]| {
        times.iter().map(|time| time.0 as f64).sum::<f64>() / times.len() as f64 / 1e6
    };
    let total = demerit::demerit(&measured, &modelled).ok_or("the trace is empty")?;
    Ok(Score {
        requests: trace.len(),
        measured_ms: mean(&measured),
        modelled_ms: mean(&modelled),
        demerit_ms: total / 1e6,
        by_op: [of(false), of(true)],
    })
}

fn respond(params: &Params, trace: &[disksim::Measured]) -> Result<Vec<Nanos>, String> {
    let context = config::device::Context { rng: sim::Rng::new(1, "score") };
    let mut device = params.build(&context).map_err(|why| why.to_string())?;
    demerit::replay(&mut *device, trace)
}

fn trace_text(directory: &Path, name: &str) -> Result<String, String> {
    let plain = directory.join(format!("{name}.trace"));
    if plain.exists() {
        return fs::read_to_string(&plain).map_err(|why| format!("{plain:?}: {why}"));
    }
    let packed = directory.join(format!("{name}.trace.zst"));
    let file = fs::File::open(&packed).map_err(|why| format!("{packed:?}: {why}"))?;
    let bytes = zstd::decode_all(file).map_err(|why| format!("{packed:?}: {why}"))?;
    String::from_utf8(bytes).map_err(|why| format!("{packed:?}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_without_a_score_is_no_success() {
        let folder = std::env::temp_dir().join(format!("blocklab-score-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("cheetah4LP.diskspecs"), "no specification").unwrap();
        let scored = run(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(scored.unwrap_err(), "failed or not scored: cheetah4LP");
    }

    #[test]
    fn a_demerit_above_the_bar_is_no_success() {
        let score = |demerit_ms| {
            let by_op = [0.0; 2];
            Score { requests: 1, measured_ms: 1.0, modelled_ms: 1.0, demerit_ms, by_op }
        };
        assert!(print("ibm18es", &score(0.136 * 1.49)));
        assert!(!print("ibm18es", &score(0.136 * 1.51)) && !print("barracuda", &score(f64::NAN)));
        // Of what DiskSim's suite does not have there is nothing to fail by.
        assert!(print("my own", &score(9.0)));
    }
}
