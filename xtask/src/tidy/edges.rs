//! Every crate is a room, and may depend only on the rooms to its left.

use std::collections::BTreeMap;

use super::Finding;
use crate::rooms::ROOMS;
use crate::tree::{File, Tree};

const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// Rooms that use none of each other, so that they are compiled at once and tested alone.
const APART: [&str; 4] = ["mirror", "disk", "flash", "trace"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    // Each folder, and a file in it.
    let folders: BTreeMap<&str, &str> = (tree.paths.iter().rev())
        .filter_map(|path| Some((path.strip_prefix("crates/")?.split_once('/')?.0, path.as_str())))
        .collect();
    let mut findings = check_document(tree, &folders);
    for (room, path) in folders {
        match place_of(room) {
            Some(place) => {
                let manifest = tree.file(&format!("crates/{room}/Cargo.toml"));
                findings.extend(manifest.into_iter().flat_map(|f| check_manifest(place, f)));
            }
            None => {
                let what = format!("`crates/{room}` is no room of the house");
                let fix = format!(
                    "put the code into one of {}, or add the room to ROOMS in \
                     crates/study/build/rooms.rs",
                    order(|_| true)
                );
                findings.push(Finding::new(path, 1, what, fix));
            }
        }
    }
    findings
}

/// The page that explains the rooms shows those that there are, in their order.
fn check_document(tree: &Tree, folders: &BTreeMap<&str, &str>) -> Vec<Finding> {
    let Some(page) = tree.file(ARCHITECTURE) else { return Vec::new() };
    let order = order(|room| folders.contains_key(room));
    let row = |room: &str| {
        let named = format!("`crates/{room}`");
        page.lines().any(|(_, line)| line.starts_with('|') && line.contains(&named))
    };
    let mut missing: Vec<String> = (folders.keys())
        .filter(|room| place_of(room).is_some() && !row(room))
        .map(|room| format!("a row for `crates/{room}` in the table of rooms"))
        .collect();
    if !page.lines().any(|(_, line)| line.trim() == order) {
        missing.push(format!("the order `{order}`"));
    }
    let finding = |what| Finding::new(ARCHITECTURE, 1, format!("it lacks {what}"), "add it");
    missing.into_iter().map(finding).collect()
}

fn place_of(room: &str) -> Option<usize> {
    ROOMS.iter().position(|(name, _)| *name == room)
}

fn order(which: impl Fn(&str) -> bool) -> String {
    let names: Vec<&str> = ROOMS.iter().map(|(room, _)| *room).filter(|room| which(room)).collect();
    names.join(" <- ")
}

fn check_manifest(place: usize, file: &File) -> Vec<Finding> {
    let room = ROOMS[place].0;
    let used = match dependencies(&file.text) {
        Ok(used) => used,
        Err(why) => return vec![Finding::new(&file.path, 1, why, "write valid TOML")],
    };
    let wrong = used.iter().filter_map(|name| {
        let other = room_of(name)?;
        let line = file.lines().find(|(_, l)| l.trim_start().starts_with(name.as_str()));
        let finding = |what, fix| Finding::new(&file.path, line.map_or(1, |(n, _)| n), what, fix);
        if place_of(other)? >= place {
            let what = format!("`{room}` uses `{other}`, which is not to its left");
            let fix = format!("move the code so that the order holds: {}", order(|_| true));
            return Some(finding(what, fix));
        }
        [room, other].iter().all(|name| APART.contains(name)).then(|| {
            let what = format!("`{room}` uses `{other}`; they are kept apart");
            finding(what, "move what both need into a room that both may use".into())
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
            place_of(name).map(|_| name)
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
    use crate::rooms::Kind;

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
    fn rooms_that_are_kept_apart_do_not_use_each_other() {
        assert!(APART.is_sorted_by_key(|room| place_of(room)), "in the order of the rooms");
        for (index, room) in APART.iter().enumerate() {
            for other in &APART[..index] {
                let manifest = format!("[dependencies]\nsim = \"1\"\n{other}.workspace = true\n");
                let found = findings(&format!("crates/{room}/Cargo.toml"), &manifest);
                assert!(found.len() == 1 && found[0].contains("are kept apart"), "{found:?}");
            }
        }
    }

    #[test]
    fn an_unknown_room_is_found() {
        for file in ["crates/shed/Cargo.toml", "crates/shed/src/lib.rs", "crates/shed/notes"] {
            assert!(findings(file, "")[0].contains("`crates/shed` is no room of the house"));
        }
        assert!(findings("crates/boot/src/lib.rs", "").is_empty(), "its place is known");
    }

    /// Rooms depend only to the left, so nothing that decides a result depends on what does not.
    #[test]
    fn purity_does_not_come_back() {
        assert!(ROOMS.is_sorted_by_key(|(_, kind)| *kind as u8), "{ROOMS:?}");
        assert!(ROOMS.contains(&("study", Kind::Results)));
    }

    #[test]
    fn the_page_shows_the_rooms_that_there_are() {
        let page =
            "    sim <- study\n\n| [`crates/sim`](x) | a | b |\n| `crates/study` | a | b |\n";
        let check = |page: &str, rooms: &[&str]| {
            let paths: Vec<String> =
                rooms.iter().map(|r| format!("crates/{r}/Cargo.toml")).collect();
            let files = paths.iter().map(|path| (path.as_str(), ""));
            check(&Tree::planted(&files.chain([(ARCHITECTURE, page)]).collect::<Vec<_>>()))
        };
        assert_eq!(check(page, &["sim", "study"]), []);
        assert_eq!(check(page, &["sim", "models", "study"]).len(), 2, "neither order nor row");
        assert_eq!(check(&page.replace("<-", "->"), &["sim", "study"]).len(), 1);
        assert_eq!(check(&page.replace("| `", "`"), &["sim", "study"]).len(), 1);
    }
}
