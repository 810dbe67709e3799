//! Where everything is on a device, in pages of 4 KiB.

use std::ops::Range;

use super::maps::{BITS_PER_PAGE, SUMS_PER_PAGE};
use super::superblock::Geometry;

/// Copies of the superblock: two at the head, two at the tail. An update writes one of each, so
/// one rotten copy is never the only one of the newest, and a torn write hits the older update.
pub const SUPERBLOCKS: u64 = 4;
/// Pages of the activity log: two slots of two equal pages, for the same reasons. The slot is the
/// version's lowest bit.
pub const ACTIVITY_PAGES: u64 = 4;
/// Data starts at a multiple of this many pages (16 MiB).
const ALIGNMENT: u64 = 4096;

/// Page numbers of every region of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// First page of the log ring.
    pub log: u64,
    /// Pages of the log ring.
    pub log_pages: u64,
    /// First page of the activity log.
    pub activity: u64,
    /// First page of the bitmap; slot `s` of page `i` is at `bitmap + 2 i + s`.
    pub bitmap: u64,
    /// First page of the checksum table, laid out as the bitmap.
    pub table: u64,
    /// First page of data.
    pub data: u64,
    /// Blocks of data; 0 on a witness.
    pub blocks: u64,
    /// Pages of the device that are used.
    pub pages: u64,
}

impl Layout {
    /// The layout of a leg.
    pub fn leg(geometry: &Geometry) -> Layout {
        let log_pages = u64::from(geometry.log_pages);
        let regions = geometry.blocks.div_ceil(geometry.region_blocks.into());
        let log = SUPERBLOCKS / 2;
        let activity = log + log_pages;
        let bitmap = activity + ACTIVITY_PAGES;
        let table = bitmap + 2 * regions.div_ceil(BITS_PER_PAGE);
        let end = table + 2 * geometry.blocks.div_ceil(SUMS_PER_PAGE);
        let data = end.next_multiple_of(ALIGNMENT);
        let pages = data + geometry.blocks + SUPERBLOCKS / 2;
        let blocks = geometry.blocks;
        Layout { log, log_pages, activity, bitmap, table, data, blocks, pages }
    }

    /// The layout of a witness: superblocks and a log.
    pub fn witness(geometry: &Geometry) -> Layout {
        let log_pages = u64::from(geometry.log_pages);
        let log = SUPERBLOCKS / 2;
        let end = log + log_pages;
        Layout {
            log,
            log_pages,
            activity: end,
            bitmap: end,
            table: end,
            data: end,
            blocks: 0,
            pages: end + SUPERBLOCKS / 2,
        }
    }

    /// The two copies that superblock update number `update` replaces.
    pub const fn copies_of(update: u64) -> [u64; 2] {
        [update % 2, 2 + update % 2]
    }

    /// The page of superblock copy `copy` of [`SUPERBLOCKS`].
    pub fn superblock(&self, copy: u64) -> u64 {
        if copy < SUPERBLOCKS / 2 { copy } else { self.pages - SUPERBLOCKS + copy }
    }

    /// Both slots of page `index` of the bitmap.
    pub fn bitmap_slots(&self, index: u64) -> Range<u64> {
        let first = self.bitmap + 2 * index;
        first..first + 2
    }

    /// Both slots of page `index` of the checksum table.
    pub fn table_slots(&self, index: u64) -> Range<u64> {
        let first = self.table + 2 * index;
        first..first + 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_do_not_overlap_and_a_terabyte_costs_a_quarter_percent() {
        let blocks = 1 << 28;
        let geometry = Geometry { blocks, extent_blocks: 256, region_blocks: 16, log_pages: 65536 };
        let leg = Layout::leg(&geometry);
        let starts = [leg.log, leg.activity, leg.bitmap, leg.table, leg.data, leg.superblock(2)];
        assert!(starts.is_sorted());
        assert_eq!(leg.superblock(2), leg.data + blocks);
        assert_eq!(leg.superblock(3) + 1, leg.pages);
        assert_eq!(leg.data % ALIGNMENT, 0);
        // Two slots of 8 bytes per 4 KiB, and the log.
        assert!((leg.pages - blocks) * 1000 < blocks * 5, "{leg:?}");
        let witness = Layout::witness(&geometry);
        assert_eq!(witness.pages, 65536 + SUPERBLOCKS);
    }
}
