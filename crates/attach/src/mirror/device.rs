//! A real device of a mirror: a file or a block device, read and written at pages.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mirror::format::PAGE_BYTES;
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, fallocate, fcntl_getfl, fcntl_setfl, seek};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};
use study::Failure;

use super::claim::{Unclaimed, claim};
use super::mutant::planted;
use super::watch::{self, Asked};
use crate::aligned::Aligned;
use crate::zeroes::{self, PUNCH, ZERO};

/// A page in bytes, where offsets are counted.
pub(super) const PAGE: u64 = PAGE_BYTES as u64;

/// How a device is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Access {
    /// To look at it, even while it is served.
    Look,
    /// For ourselves alone.
    Own,
}

/// An open device.
#[derive(Debug)]
pub(super) struct Device {
    path: PathBuf,
    file: File,
    pages: u64,
    /// Locked with it.
    #[expect(dead_code, reason = "they are only kept open")]
    claimed: Vec<File>,
    /// A sync failed: what it should have written may be gone, so no later one may succeed. The
    /// kernel tells of such a loss once per open file.
    lost: Arc<AtomicBool>,
    /// The last write found no room.
    full: Arc<AtomicBool>,
    /// It goes past the page cache.
    direct: bool,
    /// In tests: it answers nothing for now.
    #[cfg(test)]
    pub(super) frozen: Arc<AtomicBool>,
    /// In tests: every request fails.
    #[cfg(test)]
    pub(super) broken: Arc<AtomicBool>,
    /// In tests: so many requests fail.
    #[cfg(test)]
    pub(super) fails: Arc<std::sync::atomic::AtomicU32>,
    /// In tests: it goes through the page cache.
    #[cfg(test)]
    cached: bool,
}

impl Device {
    pub(super) fn open(path: &Path, access: Access) -> Result<Device, Failure> {
        let shown = path.display();
        let unusable = |why: io::Error| {
            Failure::input(format!("cannot open {shown}: {why}"))
                .expected("a file or a block device that may be read and written")
        };
        let kind = std::fs::metadata(path).map_err(unusable)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(Failure::input(format!("{shown} is neither a file nor a block device")));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(access == Access::Own);
        if access == Access::Own && kind.is_block_device() {
            // Refused by the kernel while it is mounted or part of something else.
            options.custom_flags(OFlags::EXCL.bits() as i32);
        }
        let (file, claimed) = match access {
            Access::Own => claim(path, || options.open(path)).map_err(|why| match why {
                Unclaimed::Unusable(why) => unusable(why),
                Unclaimed::Held(failure) => failure,
            })?,
            Access::Look => (options.open(path).map_err(unusable)?, Vec::new()),
        };
        let bytes = seek(&file, SeekFrom::End(0)).map_err(|why| unusable(why.into()))?;
        let lost = Arc::new(AtomicBool::new(false));
        #[cfg(test)]
        let switches = super::torture::machine::switches(&file);
        Ok(Device {
            path: path.to_path_buf(),
            file,
            pages: bytes / PAGE,
            claimed,
            lost,
            full: Arc::default(),
            direct: false,
            #[cfg(test)]
            frozen: switches.frozen,
            #[cfg(test)]
            broken: switches.broken,
            #[cfg(test)]
            fails: Arc::default(),
            #[cfg(test)]
            cached: switches.cached,
        })
    }

    /// The same device with an open file of its own, which hears of lost writes by itself.
    pub(super) fn again(&self) -> io::Result<Device> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Device {
            path: self.path.clone(),
            file,
            pages: self.pages,
            claimed: Vec::new(),
            lost: Arc::clone(&self.lost),
            full: Arc::clone(&self.full),
            direct: false,
            #[cfg(test)]
            frozen: Arc::clone(&self.frozen),
            #[cfg(test)]
            broken: Arc::clone(&self.broken),
            #[cfg(test)]
            fails: Arc::clone(&self.fails),
            #[cfg(test)]
            cached: self.cached,
        })
    }

    /// Go past the page cache from now on, if single pages can be read so. The open file stays
    /// the one that is locked: what the kernel still does for a server that was killed holds it.
    pub(super) fn bypass_cache(&mut self) -> bool {
        #[cfg(test)]
        if self.cached {
            return false;
        }
        let mut page = Aligned::new(1);
        self.direct =
            self.set_direct(true).is_ok() && self.file.read_exact_at(page.bytes_mut(), 0).is_ok();
        // One that was never direct is that still.
        let _ = self.direct || self.set_direct(false).is_ok();
        self.direct
    }

    fn set_direct(&self, direct: bool) -> io::Result<()> {
        let mut flags = fcntl_getfl(&self.file)?;
        flags.set(OFlags::DIRECT, direct);
        Ok(fcntl_setfl(&self.file, flags)?)
    }

    /// What requests past the page cache go to.
    pub(super) fn direct(&self) -> Option<RawFd> {
        self.direct.then(|| self.file.as_raw_fd())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its size in pages; a part of a page at the end does not count.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// Fill `buffer` from page `page` on.
    pub(super) fn read(&self, page: u64, buffer: &mut [u8]) -> io::Result<()> {
        let asked = Asked::Read { at: page * PAGE, bytes: buffer.len() as u64 };
        let read = || self.file.read_exact_at(buffer, page * PAGE).map(|()| 0);
        watch::ask(self.file.as_raw_fd(), asked, read).map(drop)
    }

    /// Write `bytes` from page `page` on, durable on return when `durable`.
    pub(super) fn write(&self, page: u64, bytes: &[u8], durable: bool) -> io::Result<()> {
        step();
        match durable {
            true if !planted!(FileWithoutDsync) => self.trusted(|| {
                let done = self.write_all(page * PAGE, bytes, ReadWriteFlags::DSYNC);
                match done {
                    // Its own blocks, or earlier ones that the kernel found no room for only now?
                    Err(why) if is_full(&why) => {
                        let alone = self.write_all(page * PAGE, bytes, ReadWriteFlags::empty());
                        alone.and_then(|()| Err(io::Error::other(why)))
                    }
                    done => done,
                }
            }),
            _ => self.write_all(page * PAGE, bytes, ReadWriteFlags::empty()),
        }
    }

    fn write_all(&self, mut at: u64, mut rest: &[u8], flags: ReadWriteFlags) -> io::Result<()> {
        while !rest.is_empty() {
            let durable = flags.contains(ReadWriteFlags::DSYNC);
            let asked = Asked::Write { at, bytes: rest, durable };
            let write = || Ok(pwritev2(&self.file, &[io::IoSlice::new(rest)], at, flags)?);
            match watch::ask(self.file.as_raw_fd(), asked, write) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(done) => (at, rest) = (at + done as u64, &rest[done..]),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// Make `pages` pages from `page` on read as zeros; with `keep` they take room.
    pub(super) fn zero(&self, page: u64, pages: u64, durable: bool, keep: bool) -> io::Result<()> {
        step();
        let (at, end) = (page * PAGE, (page + pages) * PAGE);
        watch::ask(self.file.as_raw_fd(), Asked::Zeros { at, bytes: end - at }, || {
            // Whatever cannot forget a range is told zeros instead.
            let how = if keep { ZERO } else { PUNCH };
            if fallocate(&self.file, how, at, end - at).is_err() {
                zeroes::write(&self.file, at, end)?;
            }
            Ok(0)
        })?;
        if durable { self.sync() } else { Ok(()) }
    }

    /// Make `pages` pages from `page` on read as zeros, and keep the room that they have: what
    /// was allocated ahead stays so. A block device forgets them if it can.
    pub(super) fn clear(&self, page: u64, pages: u64) -> io::Result<()> {
        if self.file.metadata()?.file_type().is_block_device() {
            return self.zero(page, pages, false, false);
        }
        step();
        let (mut at, end) = (page * PAGE, (page + pages) * PAGE);
        watch::ask(self.file.as_raw_fd(), Asked::Zeros { at, bytes: end - at }, || {
            // Holes, and what was allocated and never written, are zeros already.
            while let Some(data) = self.next(SeekFrom::Data(at))?.filter(|&data| data < end) {
                at = self.next(SeekFrom::Hole(data))?.unwrap_or(end).min(end);
                if fallocate(&self.file, ZERO, data, at - data).is_err() {
                    zeroes::write(&self.file, data, at)?;
                }
            }
            Ok(0)
        })
        .map(drop)
    }

    /// Where the next data or hole begins; `None` when there is no more.
    fn next(&self, from: SeekFrom) -> io::Result<Option<u64>> {
        match seek(&self.file, from) {
            Err(Errno::NXIO) => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    /// Have room for `pages` pages from `page` on, so that none of them is ever refused for want
    /// of it. Not every file system can promise that.
    pub(super) fn reserve(&self, page: u64, pages: u64) -> io::Result<()> {
        match fallocate(&self.file, FallocateFlags::KEEP_SIZE, page * PAGE, pages * PAGE) {
            Err(why @ (Errno::NOSPC | Errno::DQUOT)) => Err(why.into()),
            _ => Ok(()),
        }
    }

    /// Make all completed writes durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        step();
        if planted!(FileWithoutFsync) {
            return Ok(());
        }
        let sync = || self.file.sync_data().map(|()| 0);
        let sync = || watch::ask(self.file.as_raw_fd(), Asked::Sync, sync).map(drop);
        // Without room for what it should have written, that is lost, too.
        self.trusted(|| sync().map_err(io::Error::other))
    }

    /// Do something that ends durable, unless durability has been lost before.
    fn trusted(&self, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.is_trusted()?;
        let done = work();
        if done.as_ref().is_err_and(|why| !is_full(why)) {
            self.distrust();
        }
        done
    }

    /// Nothing may end durable after something that should have did not.
    pub(super) fn is_trusted(&self) -> io::Result<()> {
        if self.lost.load(Ordering::SeqCst) {
            Err(io::Error::other("an earlier sync failed: writes may be lost"))
        } else {
            Ok(())
        }
    }

    /// Something that should have ended durable failed.
    pub(super) fn distrust(&self) {
        self.lost.store(true, Ordering::SeqCst);
    }

    /// A write ended: did it find room?
    pub(super) fn found_room(&self, room: bool) {
        if self.is_full() == room {
            self.full.store(!room, Ordering::SeqCst);
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::SeqCst)
    }

    /// In tests: it answers nothing for now.
    pub(super) fn is_frozen(&self) -> bool {
        #[cfg(test)]
        return self.frozen.load(Ordering::SeqCst);
        #[cfg(not(test))]
        false
    }

    /// In tests: every request may fail.
    pub(super) fn works(&self) -> io::Result<()> {
        #[cfg(test)]
        {
            let fails = |left: u32| left.checked_sub(1);
            if self.broken.load(Ordering::SeqCst)
                || self.fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails).is_ok()
            {
                return Err(io::Error::other("broken for a test"));
            }
        }
        Ok(())
    }
}

/// There was no room for a write: nothing of it was lost that was there before.
pub(super) fn is_full(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// In a debug build, a test may have the process killed before its so-manieth step on any device:
/// `kill -9` at every place where it could make a difference.
pub(super) fn step() {
    #[cfg(debug_assertions)]
    {
        use std::sync::LazyLock;
        use std::sync::atomic::AtomicU64;
        static KILL_AT: LazyLock<Option<u64>> = LazyLock::new(|| {
            std::env::var("BLOCKLAB_MIRROR_KILL_AT").ok().and_then(|text| text.parse().ok())
        });
        static STEPS: AtomicU64 = AtomicU64::new(0);
        if let Some(at) = *KILL_AT
            && STEPS.fetch_add(1, Ordering::SeqCst) + 1 == at
        {
            use rustix::process::{Signal, getpid, kill_process};
            // Nothing after this is reached.
            let _ = kill_process(getpid(), Signal::KILL);
        }
    }
}
