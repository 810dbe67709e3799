//! A real device of a mirror: a file or a block device, read and written at pages.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mirror::format::PAGE_BYTES;
use rustix::fs::{FallocateFlags, FlockOperation, OFlags, SeekFrom, fallocate, flock, seek};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};
use study::Failure;

use crate::aligned::Aligned;

/// A page in bytes, where offsets are counted.
pub(super) const PAGE: u64 = PAGE_BYTES as u64;

/// Make a range read as zeros, and give its space back.
pub(super) const PUNCH: FallocateFlags =
    FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

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
    /// A sync failed: what it should have written may be gone, so no later one may succeed. The
    /// kernel tells of such a loss once per open file.
    lost: Arc<AtomicBool>,
    /// The same past the page cache, where that can be.
    direct: Option<File>,
    /// In tests: it answers nothing for now.
    #[cfg(test)]
    pub(super) frozen: Arc<AtomicBool>,
    /// In tests: every request fails.
    #[cfg(test)]
    pub(super) broken: Arc<AtomicBool>,
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
        let file = options.open(path).map_err(unusable)?;
        if access == Access::Own {
            flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
                Failure::input(format!("{shown} is in use: another mirror serves it"))
                    .help("stop that one first")
            })?;
        }
        let bytes = seek(&file, SeekFrom::End(0)).map_err(|why| unusable(why.into()))?;
        let lost = Arc::new(AtomicBool::new(false));
        Ok(Device {
            path: path.to_path_buf(),
            file,
            pages: bytes / PAGE,
            lost,
            direct: None,
            #[cfg(test)]
            frozen: Arc::default(),
            #[cfg(test)]
            broken: Arc::default(),
        })
    }

    /// The same device with an open file of its own, which hears of lost writes by itself.
    pub(super) fn again(&self) -> io::Result<Device> {
        let file = self.reopen(OFlags::empty())?;
        Ok(Device {
            path: self.path.clone(),
            file,
            pages: self.pages,
            lost: Arc::clone(&self.lost),
            direct: None,
            #[cfg(test)]
            frozen: Arc::clone(&self.frozen),
            #[cfg(test)]
            broken: Arc::clone(&self.broken),
        })
    }

    fn reopen(&self, flags: OFlags) -> io::Result<File> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let flags = flags.bits() as i32;
        OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
    }

    /// Have [`Device::direct`], if single pages can be read so.
    pub(super) fn bypass_cache(&mut self) -> bool {
        let mut page = Aligned::new(1);
        let file = self.reopen(OFlags::DIRECT).ok();
        self.direct = file.filter(|file| file.read_exact_at(page.bytes_mut(), 0).is_ok());
        self.direct.is_some()
    }

    /// What requests past the page cache go to.
    pub(super) fn direct(&self) -> Option<RawFd> {
        self.direct.as_ref().map(AsRawFd::as_raw_fd)
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
        self.file.read_exact_at(buffer, page * PAGE)
    }

    /// Write `bytes` from page `page` on, durable on return when `durable`.
    pub(super) fn write(&self, page: u64, bytes: &[u8], durable: bool) -> io::Result<()> {
        step();
        if !durable {
            return self.file.write_all_at(bytes, page * PAGE);
        }
        self.trusted(|| {
            let (mut at, mut rest) = (page * PAGE, bytes);
            while !rest.is_empty() {
                let slices = [io::IoSlice::new(rest)];
                match pwritev2(&self.file, &slices, at, ReadWriteFlags::DSYNC) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(done) => (at, rest) = (at + done as u64, &rest[done..]),
                    Err(Errno::INTR) => {}
                    Err(why) => return Err(why.into()),
                }
            }
            Ok(())
        })
    }

    /// Make `pages` pages from `page` on read as zeros.
    pub(super) fn zero(&self, page: u64, pages: u64, durable: bool) -> io::Result<()> {
        static ZEROS: [u8; 256 << 10] = [0; 256 << 10];
        step();
        let (mut at, end) = (page * PAGE, (page + pages) * PAGE);
        // Whatever cannot forget a range is told zeros instead.
        if fallocate(&self.file, PUNCH, at, end - at).is_err() {
            while at < end {
                let length = (end - at).min(ZEROS.len() as u64);
                self.file.write_all_at(&ZEROS[..length as usize], at)?;
                at += length;
            }
        }
        if durable { self.sync() } else { Ok(()) }
    }

    /// Make all completed writes durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        step();
        self.trusted(|| self.file.sync_data())
    }

    /// Do something that ends durable, unless durability has been lost before.
    fn trusted(&self, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.is_trusted()?;
        let done = work();
        if done.is_err() {
            self.distrust();
        }
        done
    }

    /// Nothing may end durable after something that should have did not.
    pub(super) fn is_trusted(&self) -> io::Result<()> {
        match self.lost.load(Ordering::SeqCst) {
            true => Err(io::Error::other("an earlier sync failed: writes may be lost")),
            false => Ok(()),
        }
    }

    /// Something that should have ended durable failed.
    pub(super) fn distrust(&self) {
        self.lost.store(true, Ordering::SeqCst);
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
        if self.broken.load(Ordering::SeqCst) {
            return Err(io::Error::other("broken for a test"));
        }
        Ok(())
    }
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
