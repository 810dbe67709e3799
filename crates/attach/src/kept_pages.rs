//! A file that this machine's kernel keeps in memory.

use std::fs::File;
use std::io;
use std::path::Path;

use config::Failure;
use rustix::mm::mlock;

use crate::mapped::Mapped;

/// As long as it lives, who reads the file need not wait for a disk: not even for its holes.
pub struct KeptPages {
    _pages: Mapped,
}

impl KeptPages {
    /// Read all of the file at `path`, which is not empty, and keep it. Who may not lock so much
    /// memory keeps it only while nobody else needs it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(path: &Path) -> Result<KeptPages, Failure> {
        KeptPages::map(path).map_err(|why| {
            Failure::machine(format!("{}: cannot be kept in memory: {why}", path.display()))
        })
    }

    fn map(path: &Path) -> io::Result<KeptPages> {
        let file = File::open(path)?;
        let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let pages = Mapped::new(&file, bytes)?;
        let (start, bytes) = pages.place();
        // SAFETY: the mapping from above, whole.
        let _ = unsafe { mlock(start, bytes) };
        Ok(KeptPages { _pages: pages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PrivateFolder;

    #[test]
    fn a_file_is_kept_and_one_that_is_not_there_is_named() {
        let folder = PrivateFolder::new().unwrap();
        let path = folder.path.join("file");
        std::fs::write(&path, [1; 10_000]).unwrap();
        let kept = KeptPages::of(&path).unwrap();
        assert_eq!(kept._pages.place().1, 10_000);
        drop(kept);
        let message = KeptPages::of(&folder.path.join("none")).err().unwrap().message;
        assert!(message.contains("none: cannot be kept in memory"), "{message}");
    }
}
