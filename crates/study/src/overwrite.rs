//! What may be written over: only what blocklab itself wrote.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use config::Failure;

/// What begins our HTML page, and our SVG figures.
const MARKS: [&str; 2] = ["blocklab</title>", "<!-- made by blocklab -->"];
/// A mark stands within so many bytes.
const MARK_WITHIN: u64 = 4096;
/// Foreign files named in a message.
const NAMED_MAX: usize = 3;

/// The part of `result.json` that says what a run wrote.
#[derive(Deserialize)]
struct Manifest {
    #[serde(rename = "code_version")]
    _code_version: String,
    #[serde(rename = "result_digest")]
    _result_digest: String,
    files: BTreeMap<String, String>,
}

/// The names in a folder of results, or of an empty one.
///
/// # Errors
/// When there is something in it that neither a run nor its report wrote, or it cannot be read.
pub(crate) fn results_of(directory: &Path) -> Result<Vec<OsString>, Failure> {
    let shown = directory.display();
    let names: io::Result<Vec<_>> = fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
    let mut names = names.map_err(|error| {
        Failure::input(format!("{shown} cannot be looked into: {error}"))
            .help("name another place with --out DIR; nothing was touched")
    })?;
    names.sort();
    let manifest = fs::read(directory.join("result.json")).unwrap_or_default();
    let written = serde_json::from_slice::<Manifest>(&manifest)
        .map(|manifest| manifest.files.into_values().chain(["result.json".into()]).collect())
        .unwrap_or_default();
    let ours = |name: &OsString, written: &Vec<String>| {
        let path = directory.join(name);
        let is_file = path.symlink_metadata().is_ok_and(|about| about.is_file());
        is_file && (written.iter().any(|known| name == known.as_str()) || is_marked(&path))
    };
    let foreign: Vec<_> = names.iter().filter(|name| !ours(name, &written)).collect();
    if foreign.is_empty() {
        return Ok(names);
    }
    let mut list: Vec<_> = foreign.iter().map(|name| name.to_string_lossy()).collect();
    list.truncate(NAMED_MAX);
    let mut list = list.join(", ");
    if foreign.len() > NAMED_MAX {
        list += &format!(" and {} more", foreign.len() - NAMED_MAX);
    }
    Err(Failure::input(format!("{shown} holds what no run wrote: {list}"))
        .expected("a new or empty folder, or one with nothing but the results of a run")
        .help("move it away, or name another place with --out DIR; nothing was touched"))
}

/// True for a page or a figure that a report wrote.
#[must_use]
pub fn is_marked(path: &Path) -> bool {
    let mut begin = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MARK_WITHIN).read_to_end(&mut begin));
    let text = String::from_utf8_lossy(&begin);
    read.is_ok() && MARKS.iter().any(|mark| text.contains(mark))
}

/// Refuse to write over a file that somebody may still need: one with content, unless `ours` says
/// that it is an older one of the same kind. Devices and pipes hold nothing to be lost.
///
/// # Errors
/// When there is such a file at `path`, or a folder.
pub fn check_overwrite(path: &Path, ours: impl FnOnce() -> bool) -> Result<(), Failure> {
    if path.is_dir() {
        return Err(Failure::input(format!("{} is a folder", path.display()))
            .expected("the name of a file"));
    }
    let filled = path.metadata().is_ok_and(|about| about.is_file() && about.len() > 0);
    if filled && !ours() {
        Err(Failure::input(format!("{} exists already", path.display()))
            .expected("a name that is free")
            .help("choose another name, or delete the file first"))
    } else {
        Ok(())
    }
}

/// Refuse, before any work is done for it, a place that nothing can be written to, or that holds
/// what somebody may still need; see [`check_overwrite`].
///
/// # Errors
/// When it is one.
pub fn check_output(path: &Path, ours: impl FnOnce() -> bool) -> Result<(), Failure> {
    check_overwrite(path, ours)?;
    check_replace(path).map_err(|why| {
        Failure::input(format!("cannot write {}: {why}", path.display()))
            .help("name another place, in a folder that exists and has room")
    })
}

/// Refuse, before any work is done for it, a place where [`create`] will not be able to write.
///
/// # Errors
/// When something is there already, or nothing can be written there.
pub fn check_create(path: &Path) -> Result<(), Failure> {
    if path.symlink_metadata().is_ok() {
        return Err(Failure::input(format!("{} exists already", path.display()))
            .expected("a name that is free")
            .help("choose another name, or delete it first"));
    }
    check_output(path, || false)
}

/// Write a new file whole or not at all, over nothing.
///
/// # Errors
/// When something is there, or it cannot be written.
pub fn create(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let wrong = |why: io::Error| match why.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::input(format!("{} exists already", path.display()))
                .help("choose another name, or delete it first")
        }
        _ => Failure::machine(format!("cannot write {}: {why}", path.display()))
            .help("nothing was left behind; make room or choose another place"),
    };
    let mut file = File::create_new(path).map_err(wrong)?;
    file.write_all(content).and_then(|()| file.sync_all()).map_err(|why| {
        // The command has failed already; this failure would add nothing.
        let _ = fs::remove_file(path);
        wrong(why)
    })
}

/// Write a file whole or not at all: what was there stays when there is no room for the new. A link
/// to a file stays one; what is no file, a device or a pipe, is written into.
///
/// # Errors
/// When it cannot be written; nothing is left beside it.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let older = path.metadata().ok().filter(fs::Metadata::is_file);
    replace_as(path, content, older.map(|about| about.permissions()))
}

/// The same; the new file has these permissions, or those of any new file.
///
/// # Errors
/// Those of [`replace`].
pub fn replace_as(
    path: &Path,
    content: &[u8],
    permissions: Option<fs::Permissions>,
) -> io::Result<()> {
    if path.symlink_metadata().is_ok() && !path.is_file() {
        return fs::write(path, content);
    }
    let place = path.canonicalize().unwrap_or_else(|_| path.into());
    let (partial, mut file) = begin(&place)?;
    let set = permissions.map_or(Ok(()), |permissions| file.set_permissions(permissions));
    set.and_then(|()| file.write_all(content))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&partial, &place))
        .inspect_err(|_| {
            // The command has failed already; this failure would add nothing.
            let _ = fs::remove_file(&partial);
        })
}

/// Whether [`replace`] will be able to write there, by all that is known before: neither the file
/// nor a reader of a pipe sees anything of it.
///
/// # Errors
/// When it will not.
pub fn check_replace(path: &Path) -> io::Result<()> {
    match path.symlink_metadata().is_ok() && !path.is_file() {
        true => Ok(()),
        false => fs::remove_file(begin(&path.canonicalize().unwrap_or_else(|_| path.into()))?.0),
    }
}

fn begin(place: &Path) -> io::Result<(PathBuf, File)> {
    let partial = beside(place)?;
    File::create_new(&partial).map(|file| (partial, file))
}

/// A hidden name of this process in the folder of `target`, because a rename cannot leave its file
/// system.
///
/// # Errors
/// When `target` names no file.
pub fn beside(target: &Path) -> io::Result<PathBuf> {
    let name = target.file_name().ok_or_else(|| io::Error::other("the path names no file"))?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.unfinished", std::process::id()));
    Ok(target.with_file_name(hidden))
}

/// Refuse outputs, each given with its option, that are one and the same file: the later would
/// destroy the earlier. Devices and pipes take any number.
///
/// # Errors
/// When two of them are.
pub fn check_distinct(outputs: &[(&str, &Path)]) -> Result<(), Failure> {
    for (nth, (option, path)) in outputs.iter().enumerate() {
        let place = place(path);
        let other = outputs[..nth].iter().find(|(_, earlier)| self::place(earlier) == place);
        if let Some((earlier, _)) = other.filter(|_| !is_special(path)) {
            let what = format!("{} is both {earlier} and {option}", path.display());
            return Err(Failure::input(what).expected("a file of its own for each"));
        }
    }
    Ok(())
}

/// True for what is there and is neither a file nor a folder.
fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|about| !about.is_file() && !about.is_dir())
}

/// One name for all paths of a file, whether or not it exists.
fn place(path: &Path) -> PathBuf {
    let below = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    };
    path.canonicalize().ok().or_else(|| below(path)).unwrap_or_else(|| path.into())
}

/// True when there is no room left: a full disk, or a used-up quota.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_content_is_written_over_only_when_it_is_ours() {
        let path = std::env::temp_dir().join(format!("blocklab-over-{}", std::process::id()));
        let check = |ours: bool| check_overwrite(&path, || ours).map_err(|f| f.exit_code());
        assert_eq!(check(false), Ok(()));
        fs::write(&path, "").unwrap();
        assert_eq!(check(false), Ok(()));
        fs::write(&path, "dear").unwrap();
        assert_eq!((check(false), check(true)), (Err(2), Ok(())));
        fs::remove_file(&path).unwrap();
        assert!(check_overwrite(Path::new("/dev/null"), || false).is_ok());
        let folder = check_overwrite(&std::env::temp_dir(), || true).unwrap_err();
        assert!(folder.message.ends_with("is a folder"), "{folder}");
    }

    #[test]
    fn a_file_is_replaced_whole_or_stays_as_it_was() {
        let folder = std::env::temp_dir().join(format!("blocklab-whole-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (file, link) = (folder.join("file"), folder.join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        // What it would be called while it is written is taken: it stays, and so does the old.
        let taken = beside(&file).unwrap();
        fs::write(&taken, "dear").unwrap();
        let refused = replace(&file, b"new").is_err() && check_replace(&file).is_err();
        let kept = [fs::read_to_string(&file).unwrap(), fs::read_to_string(&taken).unwrap()];
        fs::remove_file(&taken).unwrap();
        let old = File::open(&file).unwrap();
        check_replace(&link).unwrap();
        replace(&link, b"new").unwrap();
        // Who reads the old one reads it to its end: it is not written into.
        let read = io::read_to_string(old).unwrap();
        let new = fs::read_to_string(&file).unwrap();
        let names = fs::read_dir(&folder).unwrap().count();
        let is_link = link.is_symlink();
        fs::remove_dir_all(&folder).unwrap();
        assert!(refused && is_link);
        assert_eq!((kept, names), (["old".to_string(), "dear".to_string()], 2));
        assert_eq!((read.as_str(), new.as_str()), ("old", "new"));
        assert!(replace(Path::new("/dev/null"), b"new").is_ok());
        assert!(replace(Path::new("/dev/full"), b"new").is_err());
    }

    #[test]
    fn a_new_file_is_written_over_nothing() {
        let path = std::env::temp_dir().join(format!("blocklab-new-{}", std::process::id()));
        check_create(&path).unwrap();
        create(&path, b"first").unwrap();
        let refused = [check_create(&path), create(&path, b"second")];
        let kept = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        // A link to nothing is something.
        std::os::unix::fs::symlink("nothing", &path).unwrap();
        let link = [check_create(&path), create(&path, b"second")];
        fs::remove_file(&path).unwrap();
        for refused in refused.into_iter().chain(link) {
            let failure = refused.unwrap_err();
            assert!(failure.message.contains("exists already") && failure.exit_code() == 2);
        }
        assert_eq!(kept, "first");
        assert_eq!(check_create(Path::new("/proc/none")).unwrap_err().exit_code(), 2);
    }

    #[test]
    fn one_file_is_not_two_outputs() {
        let folder = std::env::temp_dir().join(format!("blocklab-two-{}", std::process::id()));
        fs::create_dir_all(folder.join("below")).unwrap();
        fs::write(folder.join("there"), "").unwrap();
        std::os::unix::fs::symlink("there", folder.join("link")).unwrap();
        let both = |one: &str, other: &str| {
            let (one, other) = (folder.join(one), folder.join(other));
            check_distinct(&[("--data", Path::new("x")), ("--one", &one), ("--other", &other)])
        };
        let told = |one: &str, other: &str| both(one, other).unwrap_err().message;
        let new = told("new", "below/../new");
        let (there, link) = (told("there", "there"), told("there", "link"));
        let (apart, null) = (both("new", "below/new"), both("/dev/null", "/dev/null"));
        fs::remove_dir_all(&folder).unwrap();
        assert!([&new, &there, &link].iter().all(|it| it.ends_with("is both --one and --other")));
        assert!(apart.is_ok() && null.is_ok(), "{apart:?} {null:?}");
    }
}
