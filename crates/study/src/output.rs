//! A directory that is there completely or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A directory being written beside its final place. Dropped without [`Output::finish`], it
/// leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Output {
    target: PathBuf,
    partial: PathBuf,
    finished: bool,
}

impl Output {
    /// Begin to write what will be `target`.
    pub(crate) fn begin(target: &Path) -> Result<Output, Failure> {
        let begin = || {
            let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
            let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new("."));
            fs::create_dir_all(parent)?;
            let partial = parent.join(format!(".{name}.partial-{}", std::process::id()));
            let _ = fs::remove_dir_all(&partial);
            fs::create_dir(&partial)?;
            Ok(partial)
        };
        let partial = begin().map_err(|error| unwritable(target, &error))?;
        Ok(Output { target: target.to_path_buf(), partial, finished: false })
    }

    /// Where to write meanwhile.
    pub(crate) fn path(&self) -> &Path {
        &self.partial
    }

    /// Where everything will be.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Put the directory in its place, where it replaces an older one of the same kind.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let replace = || {
            if self.target.exists() {
                refuse_foreign(&self.target)?;
                fs::remove_dir_all(&self.target)?;
            }
            fs::rename(&self.partial, &self.target)
        };
        replace().map_err(|error| unwritable(&self.target, &error))?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_dir_all(&self.partial);
        }
    }
}

/// Only a run's own directory may be replaced.
fn refuse_foreign(target: &Path) -> io::Result<()> {
    let ours = target.join("result.json").exists();
    match ours || fs::read_dir(target)?.next().is_none() {
        true => Ok(()),
        false => Err(io::Error::other("it exists and holds something other than results")),
    }
}

/// Results that cannot be written.
pub(crate) fn unwritable(target: &Path, error: &io::Error) -> Failure {
    Failure::machine(format!("cannot write the results to {}: {error}", target.display()))
        .help("free some space, or name another place with --out DIR; nothing was left behind")
}
