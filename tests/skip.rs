//! A test that needs what the machine lacks is skipped aloud; where it may not be, it fails.

use std::fs::OpenOptions;
use std::io::Write;

/// What a test may need, and how to get it, one a line.
const NEEDS: &str = include_str!("needs.txt");

/// Say that a test, or a part of it, is skipped because `need` is missing: on stderr and, for the
/// list at the end of `make test`, in the file that BLOCKLAB_SKIPPED names.
///
/// # Panics
/// When BLOCKLAB_REQUIRE, a list with commas, has the need, or has one that nobody knows.
pub(crate) fn skip(need: &str, why: &str) {
    let required = std::env::var("BLOCKLAB_REQUIRE").unwrap_or_default();
    let why = why.trim();
    let how = may_skip(need, &required).unwrap_or_else(|message| panic!("{message}\n{why}"));
    eprintln!("skipped for want of {need}: {why}\nget it: {how}");
    let Some(list) = std::env::var_os("BLOCKLAB_SKIPPED") else { return };
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let first = why.lines().next().unwrap_or_default();
    let mut list = OpenOptions::new().append(true).create(true).open(list).unwrap();
    // One call, so that tests side by side do not mix their lines.
    list.write_all(format!("{need} ({how}): {test}: {first}\n").as_bytes()).unwrap();
}

/// How to get what is missing, or why a test may not be skipped for it.
fn may_skip(need: &str, required: &str) -> Result<&'static str, String> {
    let how = how_to_get(need)
        .ok_or_else(|| format!("a test needs `{need}`: give it a line in tests/needs.txt"))?;
    if names(required)?.contains(&need) {
        Err(format!("BLOCKLAB_REQUIRE has `{need}`, which this machine lacks; get it: {how}"))
    } else {
        Ok(how)
    }
}

/// The names in a list with commas, all of them known.
fn names(required: &str) -> Result<Vec<&str>, String> {
    let names: Vec<&str> =
        required.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    match names.iter().find(|name| how_to_get(name).is_none()) {
        None => Ok(names),
        Some(unknown) => {
            let known: Vec<&str> = known().map(|(name, _)| name).collect();
            Err(format!(
                "BLOCKLAB_REQUIRE: no test needs `{unknown}`; expected some of {}",
                known.join(", ")
            ))
        }
    }
}

fn how_to_get(need: &str) -> Option<&'static str> {
    known().find(|(name, _)| *name == need).map(|(_, how)| how)
}

fn known() -> impl Iterator<Item = (&'static str, &'static str)> {
    NEEDS.lines().map(|line| line.split_once(": ").expect("a name and how to get it"))
}

/// A misspelt need would require nothing.
#[test]
fn what_is_required_is_known() {
    names(&std::env::var("BLOCKLAB_REQUIRE").unwrap_or_default()).unwrap();
}

#[test]
fn a_skip_that_matters_fails() {
    assert_eq!(may_skip("travel", ""), Ok("make kernel"));
    assert_eq!(may_skip("travel", "fio, root,"), Ok("make kernel"));
    let required = may_skip("travel", "fio,travel").unwrap_err();
    assert!(required.contains("this machine lacks; get it: make kernel"), "{required}");
    let unknown = may_skip("travel", "fio,travle").unwrap_err();
    assert!(unknown.contains("`travle`; expected some of btrfs, "), "{unknown}");
    assert!(may_skip("a unicorn", "").unwrap_err().contains("tests/needs.txt"));
}
