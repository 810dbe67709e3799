//! A file in this process's memory, for reading.

use std::ffi::c_void;
use std::fs::File;
use std::io;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The first bytes of a file, all of them in memory, until this is dropped. Others may write them.
pub(crate) struct Mapped {
    start: *mut c_void,
    bytes: usize,
}

// SAFETY: the memory belongs to the process, not to a thread, and is only read.
unsafe impl Send for Mapped {}

impl Mapped {
    pub(crate) fn new(file: &File, bytes: usize) -> io::Result<Mapped> {
        let (protection, flags) = (ProtFlags::READ, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: the kernel chooses the place, so nothing else is there.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, file, 0) }?;
        Ok(Mapped { start, bytes })
    }

    /// Where it is, and how long.
    pub(crate) fn place(&self) -> (*mut c_void, usize) {
        (self.start, self.bytes)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it is what `new` got, and nothing refers to it any more.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}
