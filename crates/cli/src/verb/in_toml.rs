//! Words of the command line, as the text of a study has them.

use std::path::Path;

use serde_json::json;

/// Text as TOML has it: a string of JSON is one.
pub(super) fn text(text: &str) -> String {
    json!(text).to_string()
}

/// A part by name or file, for a study: a file is looked for where the user is, not where the study
/// lies.
pub(super) fn part(part: &str) -> String {
    let place = std::path::absolute(Path::new(part)).ok().filter(|path| path.is_file());
    text(&place.map_or(part.to_string(), |path| path.display().to_string()))
}
