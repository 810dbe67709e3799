//! A file of what was measured, in whichever form it is.

use std::path::Path;

use study::Failure;

use super::points::{KINDS, Point, Wrong, of_fio, of_table};
use super::pts;

/// The points of a file, and what of it says nothing that can be compared.
///
/// # Errors
/// Names the file, the place in it, what is wrong and what was expected.
pub(crate) fn read(path: &Path) -> Result<(Vec<Point>, Vec<String>), Failure> {
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|why| Failure::input(format!("cannot read {name}: {why}")))?;
    let (points, left_out) = of_text(&text).map_err(|(what, expected)| {
        Failure::input(format!("{name}: {what}"))
            .expected(expected)
            .help("docs/howto/compare-with-my-drive.md says what can be read")
    })?;
    if points.is_empty() {
        return Err(Failure::input(format!("{name}: nothing to compare with"))
            .expected(format!("jobs of one of {}", KINDS.join(", "))));
    }
    Ok((points, left_out))
}

/// The points of a text: fio's JSON, a table of SNIA's PTS, or any other table.
pub(crate) fn of_text(text: &str) -> Result<(Vec<Point>, Vec<String>), Wrong> {
    match text {
        _ if text.trim_start().starts_with('{') => of_fio(text),
        _ if pts::is_table(text) => pts::read(text),
        _ => of_table(text),
    }
}
