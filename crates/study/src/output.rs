//! A directory that is there completely or not at all, and takes the place of nothing but results.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use config::{Failure, Kind};

use crate::overwrite;
use crate::process::ProcessSpace;

/// In an unfinished folder: where its process runs.
const WRITER: &str = ".writer";

/// A directory being written beside its final place. Dropped without [`Output::finish`], it
/// leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Output {
    /// As the user named it.
    target: PathBuf,
    /// The same place, with no symbolic link at its end: a rename would replace the link.
    place: PathBuf,
    partial: PathBuf,
    finished: bool,
    /// What it was made of goes once it is there.
    is_all_there_is: bool,
}

impl Output {
    /// Begin to write what will be `target`. Everything that would keep it from getting there is
    /// refused now rather than when the runs are done.
    pub(crate) fn begin(target: &Path) -> Result<Output, Failure> {
        let place = match fs::symlink_metadata(target) {
            Ok(_) => replaceable(target)?,
            Err(_) => target.to_path_buf(),
        };
        if place.file_name().is_none() {
            return Err(Failure::input(format!("{} cannot be made anew", target.display()))
                .expected("the name of a folder")
                .help("--out DIR names a folder that need not exist yet"));
        }
        let make = || {
            fs::create_dir_all(place.parent().unwrap_or(Path::new("")))?;
            let partial = make_beside(&place)?;
            let written = fs::write(partial.join(WRITER), ProcessSpace::here().to_text());
            written.map(|()| partial.clone()).inspect_err(|_| {
                let _ = fs::remove_dir_all(&partial);
            })
        };
        let partial = make().map_err(|error| {
            // A full disk is the machine's, any other place that cannot be written the user's.
            let kind = if overwrite::is_full(&error) { Kind::Machine } else { Kind::Input };
            Failure { kind, ..unwritable(target, &error) }
        })?;
        for (left, written_by) in left_behind(&place) {
            config::warn(written_by.warning(&left));
        }
        let target = target.to_path_buf();
        Ok(Output { target, place, partial, finished: false, is_all_there_is: false })
    }

    /// The runs that it was made of are not kept any longer than until it is there.
    pub(crate) fn replaces_what_was_kept(&mut self) {
        self.is_all_there_is = true;
    }

    /// Where to write meanwhile.
    pub(crate) fn path(&self) -> &Path {
        &self.partial
    }

    /// Where everything will be.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Put the directory in its place; older results there are removed after that.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        self.finish_with(sync)
    }

    /// The same, where `sync` makes what is at a path durable.
    fn finish_with(mut self, sync: impl Fn(&Path) -> io::Result<()>) -> Result<(), Failure> {
        let old = if self.place.exists() {
            Some(overwrite::results_of(&self.place).map_err(|why| self.keep(why))?)
        } else {
            None
        };
        self.finished = true;
        let aside = beside(&self.place, "old");
        // What is removed behind it must not be all that a power cut leaves.
        let removes = old.is_some() || self.is_all_there_is;
        let swap = || {
            fs::remove_file(self.partial.join(WRITER))?;
            if removes {
                sync_all(&self.partial, &sync)?;
            }
            if old.is_some() {
                fs::rename(&self.place, &aside)?;
            }
            fs::rename(&self.partial, &self.place).inspect_err(|_| {
                let _ = fs::rename(&aside, &self.place); // as it was
            })
        };
        if let Err(error) = swap() {
            return Err(self.keep(unwritable(&self.target, &error)));
        }
        if removes {
            let above = self.place.parent().filter(|above| !above.as_os_str().is_empty());
            sync(above.unwrap_or(Path::new("."))).map_err(|error| {
                not_durable(&self.target, old.is_some().then_some(&aside), &error)
            })?;
        }
        let Some(old) = old else { return Ok(()) };
        let remove = || {
            old.iter().try_for_each(|name| fs::remove_file(aside.join(name)))?;
            fs::remove_dir(&aside)
        };
        remove().map_err(|error| {
            let (target, aside) = (self.target.display(), aside.display());
            Failure::machine(format!("cannot remove the older results, now in {aside}: {error}"))
                .help(format!("the new ones are in {target}; see what else is in {aside}"))
        })
    }

    /// Results that cannot take their place are not lost for that.
    fn keep(&mut self, failure: Failure) -> Failure {
        let kept = beside(&self.place, "results");
        let kept = fs::rename(&self.partial, &kept).map_or(&self.partial, |()| &kept);
        let _ = fs::remove_file(kept.join(WRITER));
        self.finished = true;
        failure.help(format!("the results are in {}", kept.display()))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}

/// Make a folder and the files in it durable.
fn sync_all(folder: &Path, sync: &impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_all(&entry.path(), sync)?;
        } else {
            sync(&entry.path())?;
        }
    }
    sync(folder)
}

/// Make the content of a file, or the names in a folder, durable, where its file system can.
fn sync(path: &Path) -> io::Result<()> {
    let synced = fs::File::open(path)?.sync_all();
    synced.or_else(|why| if is_of_no_sync(&why) { Ok(()) } else { Err(why) })
}

/// What file systems say that cannot make durable what was asked for.
fn is_of_no_sync(why: &io::Error) -> bool {
    // As Rust did not always tell it from others.
    const EOPNOTSUPP: i32 = 95;
    let kinds = [io::ErrorKind::InvalidInput, io::ErrorKind::Unsupported];
    kinds.contains(&why.kind()) || why.raw_os_error() == Some(EOPNOTSUPP)
}

/// Results that are in their place, and that a disk has not promised to keep.
fn not_durable(target: &Path, older: Option<&PathBuf>, error: &io::Error) -> Failure {
    let target = target.display();
    let what = format!("the results are in {target} but may not survive a power cut: {error}");
    let older = older.map_or(String::new(), |older| {
        format!("; the older ones are in {}: remove them after that", older.display())
    });
    Failure::machine(what).help(format!("`sync` tries once more{older}"))
}

/// Make a hidden folder beside `place`. What has its name already, such as what an older process
/// of the same number left, stays.
fn make_beside(place: &Path) -> io::Result<PathBuf> {
    let mut number = 0;
    loop {
        let partial = match number {
            0 => beside(place, "partial"),
            number => beside(place, &format!("partial{number}")),
        };
        match fs::create_dir(&partial) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            made => return made.map(|()| partial),
        }
    }
}

/// A hidden name of this process beside `place`: a rename cannot leave its file system.
fn beside(place: &Path, what: &str) -> PathBuf {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    place.with_file_name(format!(".{name}.{what}-{}", std::process::id()))
}

/// Whose an unfinished folder is.
#[derive(PartialEq, Eq, Debug)]
enum Writer {
    /// A process of this machine, which is gone.
    Gone,
    /// Of another machine or container of that name, or of this one before it was started anew.
    Elsewhere(String),
    /// It does not say.
    Unknown,
}

impl Writer {
    fn of(partial: &Path) -> Writer {
        let text = fs::read_to_string(partial.join(WRITER)).unwrap_or_default();
        let here = ProcessSpace::here();
        match ProcessSpace::from_text(&text) {
            None => Writer::Unknown,
            Some(space) if space == here => Writer::Gone,
            Some(space) => Writer::Elsewhere(space.host),
        }
    }

    fn warning(&self, left: &Path) -> String {
        let left = left.display();
        match self {
            Writer::Gone => format!("left by a run that was killed, it seems: rm -r {left}"),
            Writer::Elsewhere(host) => format!(
                "unfinished results of another machine: {host} (or of this one, before it was \
                 started anew) writes {left}, if it still runs"
            ),
            Writer::Unknown => {
                format!("unfinished results, and nothing says whose, perhaps of a run now: {left}")
            }
        }
    }
}

/// Unfinished folders beside `place` whose processes do not run here. Somebody else's process may
/// have that number elsewhere, so they stay.
fn left_behind(place: &Path) -> Vec<(PathBuf, Writer)> {
    let folder = place.parent().filter(|parent| !parent.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!(".{name}.partial");
    let writer = |path: PathBuf| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        let (_, process) = name.strip_prefix(&prefix)?.split_once('-')?;
        let process: u32 = process.parse().ok()?;
        let lives = |process| Path::new("/proc").join(format!("{process}")).exists();
        let writer = Writer::of(&path);
        // A number says something only where it was given.
        let runs = !lives(std::process::id()) || lives(process);
        (!runs || matches!(writer, Writer::Elsewhere(_))).then_some((path, writer))
    };
    let mut left: Vec<_> = entries.filter_map(|entry| writer(entry.path())).collect();
    left.sort_by(|(one, _), (other, _)| one.cmp(other));
    left
}

/// Where what exists at `target` really is, when results may take its place.
fn replaceable(target: &Path) -> Result<PathBuf, Failure> {
    let shown = target.display();
    let wrong = |why: &str| {
        Failure::input(format!("{shown} {why}"))
            .expected("a new or empty folder, or one with the results of a run")
            .help("name another place with --out DIR; nothing was touched")
    };
    let place = target.canonicalize().map_err(|why| wrong(&format!("cannot be used: {why}")))?;
    if !place.is_dir() {
        return Err(wrong("is no folder"));
    }
    let device = |path: &Path| path.metadata().map(|about| about.dev());
    if let Some(parent) = place.parent()
        && device(parent).ok() != device(&place).ok()
    {
        return Err(wrong("is a mount point, which cannot be replaced")
            .help(format!("--out {}", target.join("results").display())));
    }
    overwrite::results_of(&place).map(|_| place)
}

/// Results that cannot be written.
pub(crate) fn unwritable(target: &Path, error: &io::Error) -> Failure {
    let room = if overwrite::is_full(error) { "free some space, or name" } else { "name" };
    Failure::machine(format!("cannot write the results to {}: {error}", target.display()))
        .help(format!("{room} another place with --out DIR; nothing was left behind"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_in_the_way_of_the_unfinished_one_stays() {
        let base = std::env::temp_dir().join(format!("blocklab-output-{}", std::process::id()));
        let (target, foreign) = (base.join("out"), beside(&base.join("out"), "partial"));
        fs::create_dir_all(&foreign).unwrap();
        fs::write(foreign.join("notes"), "mine").unwrap();
        let output = Output::begin(&target).unwrap();
        fs::write(output.path().join("result.json"), "{}").unwrap();
        output.finish().unwrap();
        assert_eq!(fs::read_to_string(foreign.join("notes")).unwrap(), "mine");
        assert!(target.join("result.json").exists());
        drop(Output::begin(&base.join("dropped")).unwrap());
        // Of a process that cannot be: no number is as large.
        let left = base.join(".out.partial1-4294967295");
        fs::create_dir(&left).unwrap();
        fs::write(left.join(WRITER), ProcessSpace::here().to_text()).unwrap();
        fs::create_dir(base.join(".out.partial-mine")).unwrap();
        assert_eq!(left_behind(&target), [(left.clone(), Writer::Gone)]);
        assert!(left_behind(&base.join("dropped")).is_empty());
        fs::remove_dir_all(left).unwrap();
        fs::remove_dir(base.join(".out.partial-mine")).unwrap();
        assert_eq!(fs::read_dir(&base).unwrap().count(), 2, "nothing else is left");
        fs::remove_dir_all(&base).unwrap();
    }
    /// A folder that several machines share: only what is surely dead is told to be removed.
    #[test]
    fn a_run_of_another_machine_is_not_told_to_be_removed() {
        let base = std::env::temp_dir().join(format!("blocklab-machines-{}", std::process::id()));
        let target = base.join("out");
        let theirs = base.join(".out.partial-4294967295");
        let unknown = base.join(".out.partial1-4294967295");
        // Its number is that of a process here, which has nothing to do with it.
        let same = beside(&target, "partial7");
        for (folder, host) in [(&theirs, Some("node7")), (&same, Some("node8")), (&unknown, None)] {
            fs::create_dir_all(folder).unwrap();
            if let Some(host) = host {
                let text = format!("{host}\n0000-boot\npid:[4026531836]\n");
                fs::write(folder.join(WRITER), text).unwrap();
            }
        }
        let elsewhere = |host: &str| Writer::Elsewhere(host.into());
        let mut expected = vec![
            (theirs, elsewhere("node7")),
            (unknown, Writer::Unknown),
            (same, elsewhere("node8")),
        ];
        expected.sort_by(|(one, _), (other, _)| one.cmp(other));
        let left = left_behind(&target);
        assert_eq!(left, expected);
        let told: Vec<String> = left.iter().map(|(path, by)| by.warning(path)).collect();
        assert!(told.iter().all(|told| !told.contains("rm ")), "{told:?}");
        assert!(told.iter().any(|told| told.contains("of another machine: node7")), "{told:?}");
        let output = Output::begin(&target).unwrap();
        assert_eq!(Writer::of(output.path()), Writer::Gone, "it says where it is written");
        fs::write(output.path().join("result.json"), "{}").unwrap();
        output.finish().unwrap();
        assert!(!target.join(WRITER).exists());
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn results_that_are_in_place_are_told_as_such() {
        let base = std::env::temp_dir().join(format!("blocklab-durable-{}", std::process::id()));
        fs::create_dir_all(&base).unwrap();
        let base = base.canonicalize().unwrap();
        let target = base.join("out");
        for _ in 0..2 {
            let mut output = Output::begin(&target).unwrap();
            output.replaces_what_was_kept();
            let manifest = r#"{"code_version": "", "result_digest": "", "files": {}}"#;
            fs::write(output.path().join("result.json"), manifest).unwrap();
            // The disk fails when everything is in place.
            let fails = |path: &Path| match path == base {
                true => Err(io::Error::other("the disk is gone")),
                false => sync(path),
            };
            let replaces = target.exists();
            let failure = output.finish_with(fails).unwrap_err().to_string();
            assert!(target.join("result.json").exists());
            let what = format!("the results are in {} but may not survive", target.display());
            assert!(failure.contains(&what) && !failure.contains("left behind"), "{failure}");
            let older = beside(&target, "old");
            let told = format!("the older ones are in {}", older.display());
            assert_eq!((older.exists(), failure.contains(&told)), (replaces, replaces));
        }
        fs::remove_dir_all(&base).unwrap();
        let of = io::Error::from_raw_os_error;
        let [invalid, unsupported, failed] = [22, 95, 5].map(of);
        assert!(is_of_no_sync(&invalid) && is_of_no_sync(&unsupported) && !is_of_no_sync(&failed));
        assert!(is_of_no_sync(&io::ErrorKind::Unsupported.into()));
    }
}
