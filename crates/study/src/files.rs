//! The files a study names: parts and traces.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use config::{Cause, Failure, bounded};

use crate::library;

/// The text of a file, of at most so many bytes.
///
/// # Errors
/// When it cannot be read, is longer, or no text.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    bounded::text(File::open(path)?, most)
}

/// The bytes of a file, at most so many.
///
/// # Errors
/// When it cannot be read, or is longer.
pub fn read_bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    bounded::bytes(File::open(path)?, most)
}

/// Where a file was found.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum FileSource {
    At(PathBuf),
    /// Among those that the binary carries with it.
    Shipped(&'static [u8]),
}

impl FileSource {
    /// What is in it.
    pub(crate) fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            FileSource::At(path) => Box::new(File::open(path)?),
            FileSource::Shipped(bytes) => Box::new(*bytes),
        })
    }
}

/// Opens files relative to the study, then to the current directory, then among those shipped, and
/// remembers which.
pub(crate) struct Files {
    directory: PathBuf,
    opened: RefCell<Vec<(String, FileSource)>>,
    /// A file could not be opened.
    refused: Cell<bool>,
}

impl Files {
    /// Files of a study in `directory`.
    pub(crate) fn new(directory: &Path) -> Files {
        let (opened, refused) = (RefCell::default(), Cell::default());
        Files { directory: directory.to_path_buf(), opened, refused }
    }

    /// Where the file of that name is.
    pub(crate) fn locate(&self, name: &str) -> io::Result<PathBuf> {
        let beside = self.directory.join(name);
        let here = PathBuf::from(name);
        if beside.exists() || here.is_absolute() || beside == here {
            return Ok(beside);
        }
        if here.exists() {
            return Ok(here);
        }
        let what =
            format!("no such file: neither {} nor {} exists", beside.display(), here.display());
        Err(io::Error::new(io::ErrorKind::NotFound, what))
    }

    /// Open the file of that name.
    pub(crate) fn open(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        let opened = self.try_open(name);
        self.refused.set(self.refused.get() | opened.is_err());
        opened
    }

    fn try_open(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        let found = match (self.locate(name), library::file(name)) {
            (Ok(path), None) => FileSource::At(regular(path)?),
            (Ok(path), Some(_)) if path.exists() => FileSource::At(regular(path)?),
            (_, Some(shipped)) => FileSource::Shipped(shipped),
            (Err(error), None) => return Err(error),
        };
        let file = found.open()?;
        let mut opened = self.opened.borrow_mut();
        if !opened.iter().any(|(known, _)| known == name) {
            opened.push((name.to_string(), found));
        }
        Ok(file)
    }

    /// What went wrong while these files were opened, with its cause when it was one of them.
    pub(crate) fn with_cause(&self, failure: Failure) -> Failure {
        if self.refused.get() { failure.caused_by(Cause::FileNotOpened) } else { failure }
    }

    /// (name, where it was) of every file that was opened, in order.
    pub(crate) fn opened(&self) -> Vec<(String, FileSource)> {
        self.opened.borrow().clone()
    }
}

/// The path, if a file is there.
fn regular(path: PathBuf) -> io::Result<PathBuf> {
    let kind = path.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !kind.is_file() {
        // Opening a pipe would wait for ever, and the second reading of it finds it empty.
        let what = "it is no file but a pipe or a device, and a study reads it several times; \
                    save it as a file first";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    Ok(path)
}
