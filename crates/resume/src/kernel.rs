//! What Linux writes in front of its image, as `/dev/snapshot` gives it on x86-64.
//!
//! Source: Linux 6.1, `kernel/power/snapshot.c` and `arch/x86/power/hibernate.c`.

use crate::bytes::u64_at;
use crate::page_tables::LARGE_BYTES;
use crate::{PAGE_BYTES, Refusal, Runs};

/// What the architecture's record begins with on x86-64.
const MAGIC: u64 = 0x2345_6789_abcd_ef02;
/// Addresses of the kernel's code are above.
const KERNEL_CODE: u64 = 0xffff_ffff_8000_0000;
/// Says that a page is of zeros and not in the stream (Linux 6.7 and newer).
const ZERO_FLAG: u64 = 1 << 63;
/// Ends a list of frames.
const END: u64 = u64::MAX;
/// Page numbers in a page.
const PER_PAGE: u64 = (PAGE_BYTES / 8) as u64;

/// How the kernel in the image is entered.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Entry {
    /// Virtual address of its code that takes over.
    pub jump: u64,
    /// Where that is in memory.
    pub jump_physical: u64,
    /// Its page tables.
    pub cr3: u64,
    /// Says which record this is.
    pub magic: u64,
    /// The kernel's own checksum of the memory map.
    pub map_sum: u64,
}

impl Entry {
    /// Is this the record of a kernel that the loader knows how to enter?
    ///
    /// # Errors
    /// [`Refusal::Kernel`].
    pub fn check(&self) -> Result<(), Refusal> {
        // Its code is mapped by a large page.
        let offset = |address: u64| address % LARGE_BYTES;
        let known = self.magic == MAGIC
            && self.jump >= KERNEL_CODE
            && offset(self.jump) == offset(self.jump_physical)
            && self.jump_physical < 1 << 40
            && self.cr3 < 1 << 40
            && self.cr3.is_multiple_of(PAGE_BYTES as u64)
            && self.cr3 != 0;
        if known { Ok(()) } else { Err(Refusal::Kernel) }
    }

    /// Are the code that is entered and its page tables in the image?
    ///
    /// # Errors
    /// [`Refusal::Kernel`].
    pub fn check_places(&self, runs: &Runs) -> Result<(), Refusal> {
        let is_there = |address: u64| runs.contains(address / PAGE_BYTES as u64);
        let known = is_there(self.jump_physical) && is_there(self.cr3);
        if known { Ok(()) } else { Err(Refusal::Kernel) }
    }
}

/// The first page of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamHeader {
    /// How the kernel is entered.
    pub entry: Entry,
    /// Pages with content in the stream.
    pub data_pages: u64,
    /// Pages of frame numbers before them.
    pub list_pages: u64,
}

impl StreamHeader {
    /// Read it.
    ///
    /// # Errors
    /// [`Refusal::Kernel`] when it is none that is known.
    pub fn read(page: &[u8; PAGE_BYTES]) -> Result<StreamHeader, Refusal> {
        let word = |index: usize| u64_at(page, index * 8);
        let entry = Entry {
            jump: word(0),
            jump_physical: word(1),
            cr3: word(2),
            magic: word(3),
            map_sum: word(4),
        };
        entry.check()?;
        let (frames, data_pages, pages) = (u64_at(page, 400), u64_at(page, 416), u64_at(page, 424));
        let list_pages = pages.checked_sub(data_pages).and_then(|rest| rest.checked_sub(1));
        let list_pages = list_pages.ok_or(Refusal::Kernel)?;
        // Pages of zeros need a number in the list, too.
        let fits = data_pages > 0
            && data_pages <= frames
            && list_pages >= data_pages.div_ceil(PER_PAGE)
            && list_pages <= frames.div_ceil(PER_PAGE) + 1;
        if !fits {
            return Err(Refusal::Kernel);
        }
        Ok(StreamHeader { entry, data_pages, list_pages })
    }
}

/// A frame in the stream's list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its number.
    pub frame: u64,
    /// Its page is of zeros and has no place in the stream.
    pub zero: bool,
}

/// The frames of a page of the list; the last page ends early.
pub fn listed(page: &[u8; PAGE_BYTES]) -> impl Iterator<Item = Listed> + '_ {
    let (words, _) = page.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let listed = |word: u64| Listed { frame: word & !ZERO_FLAG, zero: word & ZERO_FLAG != 0 };
    words.take_while(|word| *word != END).map(listed)
}
