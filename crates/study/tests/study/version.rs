//! The code version changes with every source that decides results.

use std::fs;
use std::path::Path;

#[path = "../../build/code_version.rs"]
mod code_version;
#[path = "../../build/rooms.rs"]
mod rooms;

use rooms::Kind;

/// What the results of a simulation depend on.
const DECIDE: [Kind; 2] = [Kind::Pure, Kind::Results];

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_binary_carries_the_version_of_its_sources() {
    assert_eq!(code_version::of(&root(), &DECIDE).unwrap(), study::library::CODE_VERSION);
}

/// On a copy: each source of each room that decides results, changed by one letter.
#[test]
fn a_change_in_any_source_is_another_version() {
    changed(&DECIDE, &["sim", "mirror", "models", "study"]);
    // What a guest's kernel gives depends on what surrounds it, too.
    changed(&[Kind::Travels], &["attach", "guest"]);
}

fn changed(kinds: &[Kind], rooms: &[&str]) {
    let copy = std::env::temp_dir().join(format!("code-version-{}", std::process::id()));
    let mut sources = Vec::new();
    for folder in code_version::folders(kinds) {
        // The text does not matter here, and reading all of it for each change would take long.
        for path in code_version::files(&root().join(folder), "rs").unwrap() {
            let path = copy.join(path.strip_prefix(root()).unwrap());
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "a").unwrap();
            sources.push(path);
        }
    }
    let before = code_version::of(&copy, kinds).unwrap();
    // The first of each folder: a few hundred readings of the copy rather than many thousands.
    sources.dedup_by(|a, b| a.parent() == b.parent());
    let mut missed = sources.clone();
    missed.retain(|path| {
        fs::write(path, "b").unwrap();
        let same = code_version::of(&copy, kinds).unwrap() == before;
        fs::write(path, "a").unwrap();
        same
    });
    let counts =
        |room: &str| sources.iter().any(|path| path.starts_with(copy.join("crates").join(room)));
    let without: Vec<&str> = rooms.iter().copied().filter(|room| !counts(room)).collect();
    fs::remove_dir_all(&copy).unwrap();
    assert!(missed.is_empty(), "changed unnoticed: {missed:?}");
    assert!(without.is_empty(), "decide results and have no say in the version: {without:?}");
}
