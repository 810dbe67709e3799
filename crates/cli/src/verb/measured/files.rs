//! A file of what was measured, in whichever form it is.

use std::path::Path;

use study::{Failure, TEXT_BYTES_MAX};

use super::amplification::{self, Rows};
use super::fio::of_fio;
use super::points::{KINDS, Point, Wrong, in_units, of_table};
use super::{again, pts, ssdiq};

/// The text of a file. It is read once: a pipe has no second time.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    study::read_text(path, TEXT_BYTES_MAX)
        .map_err(|why| Failure::input(format!("cannot read {}: {why}", path.display())))
}

/// The points of a file with this text, and notes: what of it says nothing that can be compared, or
/// contradicts the rest.
///
/// # Errors
/// Names the file, the place in it, what is wrong and what was expected.
pub(crate) fn points(path: &Path, text: &str) -> Result<(Vec<Point>, Vec<String>), Failure> {
    let help = "docs/howto/compare-with-my-drive.md says what can be read";
    let (points, mut notes) = of_text(text).map_err(|why| wrong(path, why, help))?;
    in_units(&points).map_err(|why| wrong(path, why, help))?;
    if points.is_empty() {
        let notes: String = notes.iter().map(|why| format!("; {why}")).collect();
        let what = format!("{}: nothing to compare with{notes}", path.display());
        return Err(Failure::input(what).expected(format!("jobs of one of {}", KINDS.join(", "))));
    }
    notes.extend(again::note(&points));
    Ok((points, notes))
}

/// Its rows of write amplification; `None` when it is something else.
///
/// # Errors
/// The same.
pub(crate) fn amplification(path: &Path, text: &str) -> Result<Option<Rows>, Failure> {
    let help = "docs/calibrate.md says what such a table has";
    amplification::of_text(text).map_err(|why| wrong(path, why, help))
}

fn wrong(path: &Path, (what, expected): Wrong, help: &str) -> Failure {
    Failure::input(format!("{}: {what}", path.display())).expected(expected).help(help)
}

/// The points of a text: fio's JSON, a table of SNIA's PTS, or any other table.
pub(crate) fn of_text(text: &str) -> Result<(Vec<Point>, Vec<String>), Wrong> {
    match text {
        _ if text.trim_start().starts_with('{') => of_fio(text),
        // What fio warned of goes to the same place as its output.
        _ if text.starts_with("fio: ") || text.starts_with("fio-") => {
            of_fio(text.find("\n{").map_or(text, |at| &text[at + 1..]))
        }
        _ if pts::is_table(text) => pts::read(text),
        _ if ssdiq::is_table(text) => ssdiq::read(text),
        _ => of_table(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_of_fio_may_stand_before_its_output() {
        let job = r#"{"jobname":"a","read":{"iops":5}}"#;
        let text = format!("fio: this platform does not support {{x}}\n{{\n\"jobs\":[{job}]}}");
        let (points, _) = of_text(&text).unwrap();
        assert_eq!(points[0].measured[0], Some(5.0));
        assert!(of_text("fio: no such file\n").unwrap_err().0.starts_with("line 1: "));
    }
}
