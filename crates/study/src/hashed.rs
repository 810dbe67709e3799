//! Files that digests of runs stand for, and whether they still are what was planned with.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use config::Failure;

use crate::digest;
use crate::files::FileSource;
use crate::lock::lock;

/// A file system's clock ticks in seconds at worst: a second change within a tick has its times.
const TICK_S: u64 = 2;

/// A file that a run reads, as it was when the study was planned.
#[derive(Debug)]
pub(crate) struct HashedFile {
    source: FileSource,
    /// Of its content.
    pub(crate) hash: String,
    /// What its file system said when the content was last known to be that; nothing where a
    /// change would not be seen by it.
    seen: Mutex<Option<Stamp>>,
}

impl HashedFile {
    /// The file as it is now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn of(source: FileSource) -> io::Result<HashedFile> {
        let seen = match &source {
            FileSource::At(path) => Stamp::of(path),
            FileSource::Shipped(_) => None,
        };
        let hash = source.open().and_then(digest::of_reader)?;
        Ok(HashedFile { source, hash, seen: Mutex::new(seen) })
    }

    /// Refuse a file that is another one by now: runs open it by its name, each time anew.
    ///
    /// # Errors
    /// When its content was changed, or cannot be read any more.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let FileSource::At(path) = &self.source else { return Ok(()) };
        let changed = |why: &str| {
            let what = format!("{} was changed while the study ran{why}", path.display());
            Failure::input(what)
                .expected("the file that the study was planned with")
                .help("run the study again, and leave its files as they are until it has ended")
        };
        let mut seen = lock(&self.seen);
        let now = Stamp::of(path);
        if now.is_some() && now == *seen {
            return Ok(());
        }
        match self.source.open().and_then(digest::of_reader) {
            Ok(hash) if hash == self.hash => {
                *seen = now;
                Ok(())
            }
            Ok(_) => Err(changed("")),
            Err(why) => Err(changed(&format!(": {why}"))),
        }
    }
}

/// What a file system says of a file, and says otherwise once its content is another.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Of its content and of its inode: seconds and nanoseconds.
    times: [(i64, i64); 2],
}

impl Stamp {
    /// `None` of a file that was changed just now, which might be changed again in the same tick.
    fn of(path: &Path) -> Option<Stamp> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let about = path.metadata().ok()?;
        let times = [(about.mtime(), about.mtime_nsec()), (about.ctime(), about.ctime_nsec())];
        let long_ago = |(at, _): &(i64, i64)| at.abs_diff(now.as_secs() as i64) > TICK_S;
        let (device, inode, bytes) = (about.dev(), about.ino(), about.len());
        times.iter().all(long_ago).then_some(Stamp { device, inode, bytes, times })
    }
}
