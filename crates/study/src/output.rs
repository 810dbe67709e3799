//! A directory that is there completely or not at all, and takes the place of nothing but results.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use config::{Failure, Kind};

use crate::overwrite;

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
            make_beside(&place)
        };
        let partial = make().map_err(|error| {
            // A full disk is the machine's, any other place that cannot be written the user's.
            let kind = if overwrite::is_full(&error) { Kind::Machine } else { Kind::Input };
            Failure { kind, ..unwritable(target, &error) }
        })?;
        for left in left_behind(&place) {
            config::warn(format!(
                "left by a run that was killed, it seems: rm -r {}",
                left.display()
            ));
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
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
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
            if removes {
                sync_all(&self.partial)?;
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
            let synced = sync_folder(above.unwrap_or(Path::new(".")));
            synced.map_err(|error| unwritable(&self.target, &error))?;
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
fn sync_all(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_all(&entry.path())?;
        } else {
            fs::File::open(entry.path())?.sync_all()?;
        }
    }
    sync_folder(folder)
}

/// Make the names in a folder durable, where its file system can.
fn sync_folder(folder: &Path) -> io::Result<()> {
    match fs::File::open(folder)?.sync_all() {
        Err(why) if why.kind() == io::ErrorKind::InvalidInput => Ok(()),
        other => other,
    }
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

/// Unfinished folders beside `place` whose processes are gone. Somebody else's process may have
/// that number elsewhere, so they stay.
fn left_behind(place: &Path) -> Vec<PathBuf> {
    let folder = place.parent().filter(|parent| !parent.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!(".{name}.partial");
    let is_gone = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let ours = name.strip_prefix(&prefix).and_then(|rest| rest.split_once('-'));
        let process = ours.and_then(|(_, process)| process.parse::<u32>().ok());
        let lives = |process| Path::new("/proc").join(format!("{process}")).exists();
        process.is_some_and(|process| lives(std::process::id()) && !lives(process))
    };
    let mut left: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_gone).collect();
    left.sort();
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
        fs::create_dir(base.join(".out.partial-mine")).unwrap();
        assert_eq!(left_behind(&target), std::slice::from_ref(&left));
        assert!(left_behind(&base.join("dropped")).is_empty());
        fs::remove_dir(left).unwrap();
        fs::remove_dir(base.join(".out.partial-mine")).unwrap();
        assert_eq!(fs::read_dir(&base).unwrap().count(), 2, "nothing else is left");
        fs::remove_dir_all(&base).unwrap();
    }
}
