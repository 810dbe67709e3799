//! Where the payload lives: a sparse file with or without a name, or memory.
//!
//! Memory is a file without a name, too, so all have one implementation, and holes are the
//! kernel's.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rustix::fs::{
    FallocateFlags, FlockOperation, MemfdFlags, SeekFrom, fallocate, memfd_create, seek,
};
use rustix::io::Errno;
use sim::Bytes;
use study::Failure;

use crate::private_folder::{self, PrivateFolder};
use crate::zeroes::{self, PUNCH, ZERO};

/// The bytes of one device.
#[derive(Debug)]
pub struct Store {
    file: File,
    bytes: u64,
    /// `None` for what goes with the session.
    path: Option<PathBuf>,
    /// What it may take, where that is limited.
    room: Option<Room>,
}

/// What to do about a file that may not be so large.
const RAISE: &str = "raise the limit: ulimit -f unlimited, or LimitFSIZE= of a service";

/// Room on this machine that a file without a name may take.
#[derive(Debug)]
struct Room {
    limit: Bytes,
    /// So much fits for sure: what is taken is looked at only when that is used up.
    left: Cell<u64>,
    /// Something did not fit.
    is_used_up: Cell<bool>,
}

impl Room {
    fn new(limit: Bytes) -> Room {
        Room { limit, left: Cell::new(0), is_used_up: Cell::new(false) }
    }

    /// Take so many bytes of what is left to `file`.
    fn take(&self, bytes: u64, file: &File) -> io::Result<()> {
        if self.left.get() < bytes {
            self.left.set(self.limit.0.saturating_sub(taken(file)?));
        }
        match self.left.get().checked_sub(bytes) {
            Some(left) => self.left.set(left),
            None => {
                self.is_used_up.set(true);
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        Ok(())
    }
}

/// Bytes that a file takes, without its holes.
fn taken(file: &File) -> io::Result<u64> {
    /// Of `st_blocks`, whatever the file system's are.
    const BLOCK_BYTES: u64 = 512;
    Ok(file.metadata()?.blocks() * BLOCK_BYTES)
}

/// A stretch of the device that is data or a hole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Its length.
    pub bytes: u64,
    /// Never written, or given back: reads as zeroes.
    pub hole: bool,
}

impl Store {
    /// Memory that takes room only where it is written.
    ///
    /// # Errors
    /// When the kernel gives none.
    pub fn memory(capacity: Bytes) -> Result<Store, Failure> {
        let refused = |why: io::Error| {
            let help = match why.kind() {
                io::ErrorKind::FileTooLarge => RAISE,
                _ => "keep the data in a file: --data FILE",
            };
            Failure::machine(format!("no memory for the device's data, {capacity}: {why}"))
                .expected("memory, which this machine counts as a file of the device's size")
                .help(help)
        };
        let fd = memfd_create("blocklab", MemfdFlags::CLOEXEC).map_err(|e| refused(e.into()))?;
        let file = File::from(fd);
        file.set_len(capacity.0).map_err(refused)?;
        Ok(Store { file, bytes: capacity.0, path: None, room: None })
    }

    /// A sparse file without a name, which may take `limit` of this machine's disk and goes with
    /// its last handle.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn temporary(capacity: Bytes, limit: Bytes) -> Result<Store, Failure> {
        let base = private_folder::for_large_files();
        let refused = |why: io::Error| {
            let base = base.display();
            Failure::machine(format!("cannot keep {capacity} of data in {base}: {why}"))
                .expected("a folder for large files: TMPDIR, or /var/tmp without it")
                .help("set TMPDIR to a folder of yours")
        };
        let folder = PrivateFolder::below(&base)?;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(folder.path.join("data"));
        let file = file.map_err(refused)?;
        file.set_len(capacity.0).map_err(refused)?;
        Ok(Store { file, bytes: capacity.0, path: None, room: Some(Room::new(limit)) })
    }

    /// What is in a sparse file that nobody else needs, with room behind it up to `capacity`. It
    /// goes with its last handle once its name is gone.
    ///
    /// # Errors
    /// When it cannot be opened, or is larger.
    pub(crate) fn image(path: &Path, capacity: Bytes) -> Result<Store, Failure> {
        let shown = path.display();
        let unusable = |why: io::Error| Failure::machine(format!("cannot use {shown}: {why}"));
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(unusable)?;
        let bytes = file.metadata().map_err(unusable)?.len();
        if bytes > capacity.0 {
            return Err(Failure::input(format!(
                "{shown} has {bytes} bytes, the device {capacity}"
            ))
            .expected("a device that it fits on"));
        }
        file.set_len(capacity.0).map_err(unusable)?;
        Ok(Store { file, bytes: capacity.0, path: None, room: None })
    }

    /// Its limit has kept something out.
    pub(crate) fn is_used_up(&self) -> bool {
        self.room.as_ref().is_some_and(|room| room.is_used_up.get())
    }

    /// Why a write found no room.
    pub(crate) fn full(&self) -> Failure {
        if let Some(room) = self.room.as_ref().filter(|_| self.is_used_up()) {
            let limit = room.limit;
            return Failure::machine(format!("the guest's data takes more than {limit} here"))
                .expected(
                    "less, or a higher limit: --data-limit, or travel.data_limit of a study",
                );
        }
        let place = self.path.clone().unwrap_or_else(private_folder::for_large_files);
        let taken = Bytes(taken(&self.file).unwrap_or(0));
        let place = place.display();
        Failure::machine(format!("no room is left at {place}, where the guest's data is ({taken})"))
            .expected("room for what the guest writes")
            .help("delete something there, or set TMPDIR to a folder with more room")
    }

    /// The same bytes under another handle: what one writes, the other reads.
    ///
    /// # Errors
    /// When there are no more descriptors.
    pub(crate) fn share(&self) -> Result<Store, Failure> {
        let unusable = |why: io::Error| Failure::machine(format!("no handle for data: {why}"));
        let file = self.file.try_clone().map_err(unusable)?;
        let room = self.room.as_ref().map(|room| Room::new(room.limit));
        Ok(Store { file, bytes: self.bytes, path: self.path.clone(), room })
    }

    /// A [temporary](Store::temporary) copy of what was written.
    ///
    /// # Errors
    /// When there is no room for it.
    pub(crate) fn fork(&self, limit: Bytes) -> Result<Store, Failure> {
        let copy = Store::temporary(Bytes(self.bytes), limit)?;
        let copied = self.for_each_written(|offset, data| copy.write(offset, data));
        copied.map_err(|why| match why.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => copy.full(),
            _ => Failure::machine(format!("cannot copy the device's data: {why}")),
        })?;
        Ok(copy)
    }

    /// Show all that is not a hole, in the order of its place.
    ///
    /// # Errors
    /// Those of the file and of `see`.
    pub(crate) fn for_each_written(
        &self,
        see: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.for_each_written_of(0..self.bytes, see)
    }

    /// The same of a range.
    ///
    /// # Errors
    /// Those of the file and of `see`.
    pub(crate) fn for_each_written_of(
        &self,
        range: Range<u64>,
        mut see: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut buffer = vec![0; range.end.saturating_sub(range.start).min(1 << 20) as usize];
        let mut at = range.start;
        while at < range.end {
            let from = self.next(SeekFrom::Data(at))?.min(range.end);
            let hole = if from < range.end { self.next(SeekFrom::Hole(from))? } else { from };
            let end = hole.min(range.end);
            for offset in (from..end).step_by(buffer.len()) {
                let bytes = (end - offset).min(buffer.len() as u64) as usize;
                self.read(offset, &mut buffer[..bytes])?;
                see(offset, &buffer[..bytes])?;
            }
            at = end.max(at + 1);
        }
        Ok(())
    }

    /// The sparse file at `path`; made when it does not exist.
    ///
    /// # Errors
    /// When it cannot be opened or has another size.
    pub fn file(path: &Path, capacity: Bytes) -> Result<Store, Failure> {
        let shown = path.display();
        let unusable = |why: io::Error| {
            Failure::input(format!("cannot use {shown} for the device's data: {why}"))
                .expected("a file that can be read and written, or a name for a new one")
        };
        let was_there = path.symlink_metadata().is_ok();
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(unusable)?;
        let lock = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        lock.map_err(|_| {
            Failure::input(format!("{shown} is in use by another session"))
                .help("end that session first, or name another file")
        })?;
        let length = file.metadata().map_err(unusable)?.len();
        if length == 0 {
            file.set_len(capacity.0).map_err(|why| {
                // An empty one would stay.
                if !was_there {
                    let _ = std::fs::remove_file(path);
                }
                match why.kind() {
                    io::ErrorKind::FileTooLarge => {
                        Failure::machine(format!("cannot make {shown} of {capacity}: {why}"))
                            .expected("a limit of file sizes, and a file system, that allow it")
                            .help(RAISE)
                    }
                    _ => unusable(why),
                }
            })?;
        } else if length != capacity.0 {
            return Err(Failure::input(format!(
                "{shown} has {length} bytes, but the device has {}",
                capacity.0
            ))
            .expected("data of the same device, or a new file")
            .help("name another file, or attach the part this one was made with"));
        }
        Ok(Store { file, bytes: capacity.0, path: Some(path.to_path_buf()), room: None })
    }

    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its file's name, or `None` when it has none.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The file itself, to be read from.
    pub(crate) fn source(&self) -> &File {
        &self.file
    }

    /// When it was last changed, in nanoseconds since 1970.
    pub(crate) fn modified_ns(&self) -> Option<u64> {
        let modified = self.file.metadata().and_then(|metadata| metadata.modified()).ok()?;
        u64::try_from(modified.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()
    }

    /// True when nothing was ever written.
    pub(crate) fn is_blank(&self) -> bool {
        self.next(SeekFrom::Data(0)).is_ok_and(|data| data >= self.bytes)
    }

    /// Fill `buffer` from byte `offset`.
    ///
    /// # Errors
    /// Those of the file.
    #[inline]
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    /// Write `data` at byte `offset`. A write that finds no room changes nothing.
    ///
    /// # Errors
    /// Those of the file: a full disk, or a limit.
    #[inline]
    pub fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if let Some(room) = &self.room {
            room.take(data.len() as u64, &self.file)?;
        }
        if self.path.is_some() {
            self.make_room(offset, data.len() as u64)?;
        }
        self.file.write_all_at(data, offset)
    }

    /// Have room for all of a range before any of it is written.
    fn make_room(&self, offset: u64, bytes: u64) -> io::Result<()> {
        if bytes == 0 || self.next(SeekFrom::Hole(offset))? >= offset + bytes {
            return Ok(());
        }
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, offset, bytes) {
            Err(why @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(why.into()),
            // Not every file system can promise it.
            _ => Ok(()),
        }
    }

    /// Make a range read as zeroes, and give its room back.
    ///
    /// # Errors
    /// Those of the file.
    pub fn clear(&self, offset: u64, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        match fallocate(&self.file, PUNCH, offset, bytes) {
            Err(Errno::OPNOTSUPP) => zeroes::write(&self.file, offset, offset + bytes),
            other => Ok(other?),
        }
    }

    /// Make a range read as zeroes, and keep its room, or take it.
    ///
    /// # Errors
    /// Those of the file: a full disk, or a limit.
    pub(crate) fn zero(&self, offset: u64, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        if let Some(room) = &self.room {
            room.take(bytes, &self.file)?;
        }
        // Holes are filled from the front: what finds no room half-way would have zeroed data.
        if self.path.is_some() {
            self.make_room(offset, bytes)?;
        }
        match fallocate(&self.file, ZERO, offset, bytes) {
            // Memory cannot.
            Err(Errno::OPNOTSUPP) => zeroes::write(&self.file, offset, offset + bytes),
            other => Ok(other?),
        }
    }

    /// The extents of a range in order, at most `most` of them; neighbours differ in kind.
    ///
    /// # Errors
    /// Those of the file.
    pub fn extents(&self, offset: u64, bytes: u64, most: usize) -> io::Result<Vec<Extent>> {
        let end = offset + bytes;
        let mut extents = Vec::new();
        let mut at = offset;
        while at < end && extents.len() < most {
            let data = self.next(SeekFrom::Data(at))?.min(end);
            if data > at {
                extents.push(Extent { bytes: data - at, hole: true });
                at = data;
                continue;
            }
            let hole = self.next(SeekFrom::Hole(at))?.clamp(at + 1, end);
            extents.push(Extent { bytes: hole - at, hole: false });
            at = hole;
        }
        Ok(extents)
    }

    /// Where the next data or hole begins; the end when there is none.
    fn next(&self, from: SeekFrom) -> io::Result<u64> {
        match seek(&self.file, from) {
            Ok(at) => Ok(at),
            Err(Errno::NXIO) => Ok(self.bytes),
            Err(other) => Err(other.into()),
        }
    }

    /// Bring everything to the host's own disk.
    ///
    /// # Errors
    /// Those of the file.
    pub fn sync(&self) -> io::Result<()> {
        match self.path {
            Some(_) => self.file.sync_data(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_written_is_a_hole_of_zeroes() {
        let store = Store::memory(Bytes::from_mib(1)).unwrap();
        store.write(65536, &[7; 4096]).unwrap();
        let mut buffer = [1; 8192];
        store.read(61440, &mut buffer).unwrap();
        assert!(buffer[..4096].iter().all(|&b| b == 0) && buffer[4096..].iter().all(|&b| b == 7));
        let extents = store.extents(0, 1 << 20, 9).unwrap();
        let kinds: Vec<_> = extents.iter().map(|e| (e.bytes, e.hole)).collect();
        assert_eq!(kinds, [(65536, true), (4096, false), ((1 << 20) - 69632, true)]);
        assert_eq!(store.extents(0, 1 << 20, 1).unwrap().len(), 1);
        store.clear(0, 1 << 20).unwrap();
        assert_eq!(store.extents(4096, 4096, 9).unwrap(), [Extent { bytes: 4096, hole: true }]);
    }

    #[test]
    fn a_fork_has_the_same_bytes_and_goes_its_own_way() {
        let store = Store::temporary(Bytes::from_mib(3), Bytes::from_mib(1)).unwrap();
        store.write(4096, &[7; 4096]).unwrap();
        store.write((2 << 20) + 65536, &[9; 100]).unwrap();
        let fork = store.fork(Bytes::from_mib(1)).unwrap();
        let shared = store.share().unwrap();
        store.write(4096, &[1; 4096]).unwrap();
        let first = |store: &Store, offset| {
            let mut byte = [0];
            store.read(offset, &mut byte).unwrap();
            byte[0]
        };
        assert_eq!((first(&fork, 4096), first(&shared, 4096)), (7, 1));
        assert_eq!((first(&fork, (2 << 20) + 65536), first(&fork, 0)), (9, 0));
        assert_eq!(fork.extents(0, 1 << 20, 9).unwrap()[0], Extent { bytes: 4096, hole: true });
    }

    #[test]
    fn data_takes_no_more_room_than_its_limit_and_what_is_given_back_fits_again() {
        let store = Store::temporary(Bytes::from_gib(1), Bytes::from_mib(1)).unwrap();
        let piece = [7; 64 << 10];
        let write = |store: &Store, at: u64| store.write(at << 20, &piece);
        let fitted = (0..100).take_while(|&at| write(&store, at).is_ok()).count();
        // A file system may take some more for itself.
        assert!((12..=16).contains(&fitted), "{fitted} of 64 KiB each");
        let full = write(&store, 200).unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        assert!(store.full().message.contains("more than 1 MiB"), "{}", store.full());
        let failure = store.fork(Bytes::from_kib(256)).unwrap_err();
        assert!(failure.message.contains("more than 256 KiB"), "{failure}");
        store.clear(0, 8 << 20).unwrap();
        write(&store, 200).unwrap();
    }

    #[test]
    fn a_full_file_system_is_named() {
        let file = OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
        let store = Store { file, bytes: 4096, path: None, room: Some(Room::new(Bytes(1 << 20))) };
        let why = store.write(0, &[1; 512]).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::StorageFull);
        assert!(store.full().message.contains("no room is left at"), "{}", store.full());
    }

    #[test]
    fn a_file_of_another_size_is_refused() {
        let name = format!("blocklab-store-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let store = Store::file(&path, Bytes::from_mib(1)).unwrap();
        let error = Store::file(&path, Bytes::from_mib(1)).unwrap_err();
        assert!(error.to_string().contains("in use by another session"), "{error}");
        drop(store);
        let error = Store::file(&path, Bytes::from_mib(2)).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(error.to_string().contains("has 1048576 bytes"), "{error}");
        assert_eq!(error.exit_code(), 2);
        assert!(Store::file(Path::new("no-such-folder/x"), Bytes::from_mib(1)).is_err());
    }
}
