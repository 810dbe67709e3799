//! A file of what was measured, in whichever form it is.

use std::path::Path;

use study::{Failure, TEXT_BYTES_MAX};

use super::amplification::{self, Rows};
use super::fio::of_fio;
use super::iocost::{self, Rates};
use super::points::{KINDS, Point, Wrong, of_table};
use super::{again, little, outputs, pts, ssdiq};

/// The text of a file. It is read once: a pipe has no second time.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    study::read_text(path, TEXT_BYTES_MAX)
        .map_err(|why| Failure::input(format!("cannot read {}: {why}", path.display())))
}

/// What a file says of a drive.
pub(crate) struct Measured {
    pub(crate) points: Vec<Point>,
    /// What of it says nothing that can be compared, or contradicts the rest.
    pub(crate) notes: Vec<String>,
    /// Percent of the drive that were overwritten at random before, where the file says it.
    pub(crate) behind: Option<u32>,
}

/// The points of a file with this text.
///
/// # Errors
/// Names the file, the place in it, what is wrong and what was expected.
pub(crate) fn points(path: &Path, text: &str) -> Result<Measured, Failure> {
    let help = "docs/howto/compare-with-my-drive.md says what can be read";
    let (mut points, mut notes) = of_text(text).map_err(|why| wrong(path, why, help))?;
    little::in_units(&points).map_err(|why| wrong(path, why, help))?;
    notes.extend(little::leave_out(&mut points));
    if points.is_empty() {
        let notes: String = notes.iter().map(|why| format!("; {why}")).collect();
        let what = format!("{}: nothing to compare with{notes}", path.display());
        return Err(Failure::input(what).expected(format!("jobs of one of {}", KINDS.join(", "))));
    }
    notes.extend(little::by_median(&points));
    notes.extend(again::note(&points));
    let behind = (!outputs::is_one(text)).then(|| pts::behind(text)).flatten();
    Ok(Measured { points, notes, behind })
}

/// Its rows of write amplification; `None` when it is something else.
///
/// # Errors
/// The same.
pub(crate) fn amplification(path: &Path, text: &str) -> Result<Option<Rows>, Failure> {
    let help = "docs/calibrate.md says what such a table has";
    amplification::of_text(text).map_err(|why| wrong(path, why, help))
}

/// Its six sustained rates; `None` when it is something else.
///
/// # Errors
/// The same.
pub(crate) fn rates(path: &Path, text: &str) -> Result<Option<Rates>, Failure> {
    let help = "docs/calibrate.md says what such a table has";
    iocost::of_text(text).map_err(|why| wrong(path, why, help))
}

fn wrong(path: &Path, (what, expected): Wrong, help: &str) -> Failure {
    Failure::input(format!("{}: {what}", path.display())).expected(expected).help(help)
}

/// The points of a text: fio's JSON, a table of SNIA's PTS, or any other table.
pub(crate) fn of_text(text: &str) -> Result<(Vec<Point>, Vec<String>), Wrong> {
    match text {
        _ if outputs::is_one(text) => of_fio(text),
        _ if pts::is_table(text) => pts::read(text),
        _ if ssdiq::is_table(text) => ssdiq::read(text),
        _ => ssdiq::refused(text).map_or_else(|| of_table(text), Err),
    }
}

#[cfg(test)]
mod tests {
    use super::super::overwritten;
    use super::*;

    #[test]
    fn warnings_of_fio_may_stand_before_its_output() {
        let job = r#"{"jobname":"a","job options":{},"read":{"iops":5}}"#;
        let text = format!("fio: this platform does not support {{x}}\n{{\n\"jobs\":[{job}]}}");
        let (points, _) = of_text(&text).unwrap();
        assert_eq!(points[0].measured[0], Some(5.0));
        assert!(of_text("fio: no such file\n").unwrap_err().0.starts_with("line 1: "));
    }

    #[test]
    fn what_a_drive_had_behind_it_is_said_or_asked_for() {
        let of = |text: &str| {
            let Measured { points, behind, .. } = points(Path::new("a.csv"), text).unwrap();
            let told = |asked, model| {
                let (percent, note) = overwritten(asked, model, &points, behind);
                (percent, note.is_some())
            };
            // Rates alone have no state.
            assert_eq!(told(None, "iocost"), (0, false));
            [told(None, "ssd"), told(Some(0), "ssd")]
        };
        let snia = "Test,IOPS\nThreads,2\nOIO/Thread,16\nBlock Size (KiB),0/100,100/0\n4,9,9\n";
        assert_eq!(of(snia), [(300, false), (0, false)]);
        assert_eq!(of(&snia.replace("IOPS", "Latency")), [(300, false), (0, false)]);
        // That one is preconditioned in sequence.
        assert_eq!(of(&snia.replace("IOPS", "Throughput")), [(0, false); 2]);
        assert_eq!(of(&snia.replace("Test,IOPS\n", "")), [(300, false), (0, false)]);
        let table = |row: &str| format!("rw,bs,iodepth,iops,offered_iops\n{row}\n");
        assert_eq!(of(&table("randwrite,4k,1,9,10")), [(300, false), (0, false)]);
        assert_eq!(of(&table("randwrite,4k,1,9,")), [(0, true), (0, false)]);
        assert_eq!(of(&table("randread,4k,1,9,")), [(0, false); 2]);
    }
}
