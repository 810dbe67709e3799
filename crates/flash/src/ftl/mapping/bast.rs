//! BAST: block mapping with log blocks that each serve one logical block.
//!
//! ```text
//!  RAM: block table                 flash of one plane
//!       lbn -> data block           data block of 7    log block of 7      log blocks in all:
//!       lbn -> log block            +--+--+--+--+      +--+--+--+--+       log_blocks / planes
//!       log page table:             |28| x| x|31|      |30|29|30| .|       of each plane
//!       offset -> log page          +--+--+--+--+      +--+--+--+--+
//! ```
//!
//! # What it models
//! The write path:
//! 1. The page's place in its data block is free and not below one written: it goes there.
//! 2. Otherwise it goes to the next page of the logical block's log block.
//! 3. Without one, a log block is taken; when all are in use, the least recently used is merged.
//! 4. A full log block is merged: written in order from page 0, it becomes the data block
//!    (switch); a prefix in order is completed by copying the rest (partial); else every page is
//!    copied to a free block (full).
//! 5. The write waits for the merge; the emptied blocks are erased.
//!
//! A logical block and its log block share a plane, so merges need no bus when the flash can copy
//! back. Each plane has its own log blocks and merges on its own.
//!
//! # Equation
//! Merging costs E (switch), (b-k)c + E (partial, k pages in the log block), bc + 2E (full).
//! Uniform single-page overwrites of D logical blocks with L log blocks, D >> L:
//! `WAF = 1 + b (1 - L/D)`. RAM = block table + L (block + b log2 b) bits.
//!
//! # Parameters
//! `log_blocks`: of the whole drive, a sixteenth of its blocks unless given. `striping`: `pages`
//! (a logical block is every n-th page on n planes) or `blocks`.
//!
//! # What it leaves out
//! The map block on flash: the block table is found again from the spare areas. A data block whose
//! pages were all discarded is kept as long as its logical block has a log block.
//!
//! # Validated against
//! The equation, the costs of the three merges, the NAND oracle with power cuts.
//!
//! # References
//! Kim, Kim, Noh, Min, Cho, IEEE Trans. Consumer Electronics 48(2), 2002.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::log_block::{Associative, Budget, Hybrid, MERGES, Store, Striping};
use super::{Built, Context};

/// Parameters of BAST.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Log blocks of the whole drive; a sixteenth of its blocks unless given. They are dealt
    /// evenly to the planes.
    pub log_blocks: Option<u32>,
    /// What is striped over the planes.
    pub striping: Striping,
}

impl Params {
    /// What the schemes with log blocks count.
    pub const COUNTED: sim::metric::Declarations = &[&MERGES];

    /// Build the mapping.
    ///
    /// # Errors
    /// When the log blocks do not fit beside the data blocks.
    pub fn build(&self, context: &Context) -> Built {
        let store = Store::new(context, self.striping, false);
        let budget = Budget::new(context, &store.layout);
        let planes = context.geometry.planes();
        let logs = budget.log_blocks(self.log_blocks, planes, false)? / planes;
        let logs = Associative::<true>::new(context, &store, logs);
        Ok(Hybrid::boxed(store, logs))
    }
}

#[cfg(test)]
mod tests {
    use crate::ftl::mapping::log_block::testing::{Drive, uniform_overwrites};

    #[test]
    fn thrashing_log_blocks_amplify_as_computed() {
        let sizes = [(1000, 100, 64), (1000, 10, 64), (500, 50, 16), (30_720, 2048, 64)];
        for (data, logs, b) in sizes {
            let text = format!("mapping.bast.log_blocks = {logs}");
            let drive = Drive::one_plane(&text, data, b, data + logs + 3);
            let waf = uniform_overwrites(drive, 100_000, |_| false);
            let theory = 1.0 + f64::from(b) * (1.0 - f64::from(logs) / f64::from(data));
            let error = (waf / theory - 1.0).abs();
            assert!(error < 0.03, "D={data} L={logs} b={b}: {waf} instead of {theory}");
        }
    }

    #[test]
    fn merges_cost_what_they_should() {
        let mut drive = Drive::one_plane("mapping.bast.log_blocks = 1", 4, 8, 16);
        drive.fill();
        // Switch: the whole of block 0 in order, then a page of block 1 takes the log block.
        let switch = drive.counted(|drive| (0..8).chain([9]).for_each(|lpn| drive.write(lpn)));
        assert_eq!(switch.merges(), [1, 0, 0]);
        assert_eq!((switch.copies(), switch.erases()), (0, 1));
        // Partial: block 1 was left with a log block of [9], so it is merged in full first.
        let full = drive.counted(|drive| drive.write(16));
        assert_eq!((full.merges(), full.copies(), full.erases()), ([0, 0, 1], 8, 2));
        let partial = drive.counted(|drive| [17, 18, 0].into_iter().for_each(|p| drive.write(p)));
        assert_eq!((partial.merges(), partial.copies(), partial.erases()), ([0, 1, 0], 5, 1));
    }

    #[test]
    fn writes_are_told_apart() {
        let mut drive = Drive::one_plane("mapping = 'bast'", 16, 8, 32);
        let counted = drive.counted(|d| [3, 1, 3, 1, 5].into_iter().for_each(|lpn| d.write(lpn)));
        assert_eq!(counted.get("write_data"), 2, "pages 3 and 5 go home");
        assert_eq!(counted.get("update_wasted"), 1, "page 1 lies below page 3");
        assert_eq!(counted.get("update_pure"), 2);
    }

    #[test]
    fn ram_and_limits() {
        let paper = "mapping.bast.log_blocks = 2048\n";
        let ram = Drive::paper(paper).ram();
        // Section 2.16 counts a table of all 32,768 blocks; 27,856 of them are logical here.
        assert_eq!(ram, 27_856 * 15 / 8 + 2048 * (15 + 64 * 6) / 8);
        let error = Drive::refused("mapping.bast.log_blocks = 0");
        assert_eq!(
            error,
            "mapping.bast.log_blocks: expected 16 to 4896 (the data blocks leave 306 spare blocks \
             on each of 16 planes), got 0"
        );
        let error = Drive::refused("mapping.bast.log_blocks = 4897");
        assert!(error.ends_with("got 4897"), "{error}");
    }
}
