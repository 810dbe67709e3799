//! A crate may depend only on the rooms to its left.

use super::Finding;
use crate::tree::{File, Tree};

/// The rooms, left to right. A room may use those before it, not those after it.
pub(crate) const ROOMS: [&str; 8] =
    ["sim", "mirror", "models", "study", "attach", "boot", "cli", "py"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.files.iter().filter_map(|file| {
        let room = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        Some((room, file))
    });
    manifests.flat_map(|(room, file)| check_manifest(room, file)).collect()
}

fn check_manifest(room: &str, file: &File) -> Vec<Finding> {
    let order = ROOMS.join(" <- ");
    let Some(place) = ROOMS.iter().position(|r| *r == room) else {
        let what = format!("`crates/{room}` is no room of the house");
        let fix = format!("put the code into one of {order}, or add the room to ROOMS in edges.rs");
        return vec![Finding::new(&file.path, 1, what, fix)];
    };
    let used = match dependencies(&file.text) {
        Ok(used) => used,
        Err(why) => return vec![Finding::new(&file.path, 1, why, "write valid TOML")],
    };
    let wrong = used.iter().filter_map(|name| {
        let other = room_of(name)?;
        let index = ROOMS.iter().position(|r| *r == other)?;
        (index >= place).then(|| {
            let line = file.lines().find(|(_, l)| l.trim_start().starts_with(name.as_str()));
            let what = format!("`{room}` uses `{other}`, which is not to its left");
            let fix = format!("move the code so that the order holds: {order}");
            Finding::new(&file.path, line.map_or(1, |(n, _)| n), what, fix)
        })
    });
    wrong.collect()
}

/// The room a dependency name stands for, if any.
fn room_of(dependency: &str) -> Option<&str> {
    match dependency {
        "blocklab" => Some("cli"),
        name => {
            let name = name.strip_prefix("blocklab-").unwrap_or(name);
            ROOMS.contains(&name).then_some(name)
        }
    }
}

/// Every dependency name of a manifest: normal, dev and build, for any target.
fn dependencies(manifest: &str) -> Result<Vec<String>, String> {
    let table: toml::Table = manifest.parse().map_err(|e: toml::de::Error| e.to_string())?;
    let mut names = Vec::new();
    collect(&table, &mut names);
    Ok(names)
}

fn collect(table: &toml::Table, names: &mut Vec<String>) {
    for (key, value) in table {
        let Some(inner) = value.as_table() else { continue };
        if key.ends_with("dependencies") {
            for (name, spec) in inner {
                let package = spec.get("package").and_then(|p| p.as_str());
                names.push(package.unwrap_or(name).into());
            }
        } else {
            collect(inner, names);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, manifest: &str) -> Vec<String> {
        let tree = Tree::planted(&[(path, manifest)]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rooms_to_the_left_are_fine() {
        let manifest = "[dependencies]\nsim.workspace = true\nserde = \"1\"\n";
        assert!(findings("crates/models/Cargo.toml", manifest).is_empty());
    }

    #[test]
    fn a_room_to_the_right_is_found_under_any_name() {
        for manifest in [
            "[dependencies]\nstudy.workspace = true\n",
            "[dev-dependencies]\nblocklab-study = { path = \"../study\" }\n",
            "[target.'cfg(unix)'.dependencies]\nx = { package = \"blocklab-study\" }\n",
            "[dependencies]\nblocklab = \"0.1\"\n",
        ] {
            let found = findings("crates/models/Cargo.toml", manifest);
            assert_eq!(found.len(), 1, "{manifest}");
            assert!(found[0].contains("not to its left"), "{found:?}");
        }
        let found = findings("crates/models/Cargo.toml", "[dependencies]\nstudy = \"1\"\n");
        assert!(found[0].starts_with("crates/models/Cargo.toml:2: "), "{found:?}");
    }

    #[test]
    fn an_unknown_room_is_found() {
        assert!(findings("crates/shed/Cargo.toml", "")[0].contains("no room of the house"));
    }
}
