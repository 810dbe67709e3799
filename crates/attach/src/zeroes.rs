//! Ranges of a file that are to read as zeroes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::FallocateFlags;

/// Give a range's room back. Not every file system or device can.
pub(crate) const PUNCH: FallocateFlags =
    FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

/// Take a range's room without writing it. Not every file system can.
pub(crate) const ZERO: FallocateFlags = FallocateFlags::ZERO_RANGE.union(FallocateFlags::KEEP_SIZE);

/// Write them, from byte `at` to byte `end`: they take room but are right.
pub(crate) fn write(file: &File, mut at: u64, end: u64) -> io::Result<()> {
    static ZEROES: [u8; 256 << 10] = [0; 256 << 10];
    while at < end {
        let length = (end - at).min(ZEROES.len() as u64);
        file.write_all_at(&ZEROES[..length as usize], at)?;
        at += length;
    }
    Ok(())
}
