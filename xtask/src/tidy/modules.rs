//! Which module a file is, and which one a path names.

/// Room and module of a source file.
pub(super) fn module_of(path: &str) -> Option<(&str, Vec<&str>)> {
    let (room, path) = path.strip_prefix("crates/")?.split_once("/src/")?;
    let path = path.strip_suffix(".rs")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    Some((room, path.split('/').filter(|name| *name != "lib").collect()))
}

/// What a path in the file of `module` names, from the root of the crate; `None` for what begins
/// with neither `crate` nor `super`: that leads to other crates or further inside.
pub(super) fn resolve<'a>(module: &[&'a str], names: &[&'a str]) -> Option<Vec<&'a str>> {
    let ups = names.iter().take_while(|name| **name == "super").count();
    let base = match names[0] {
        "crate" => &[],
        "super" => &module[..module.len().checked_sub(ups)?],
        _ => return None,
    };
    Some(base.iter().chain(&names[ups.max(1)..]).copied().collect())
}
