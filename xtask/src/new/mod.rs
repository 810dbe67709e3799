//! stub
use std::path::Path;
pub(crate) fn kinds_help() -> String {
    String::new()
}
pub(crate) fn run(_: &Path, _: &str, _: &str) -> Result<(), String> {
    Ok(())
}
