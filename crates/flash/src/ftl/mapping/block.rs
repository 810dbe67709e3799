//! Block mapping: one table entry per block, three ways to overwrite a page.
//!
//! ```text
//!  RAM: lbn -> block            in-place          nftl-1                nftl-n
//!  nftl: lbn -> further         +--+--+--+--+     +--+--+--+--+ home    +--+--+--+--+ home
//!        block(s)               |28|29|30|31|     |28| x| x|31|         |28| x| x|31|
//!                               +--+--+--+--+     +--+--+--+--+         +--+--+--+--+
//!                               rewritten for     |30|29|30| .| in      | .|29| x| .| in place,
//!                               every overwrite   +--+--+--+--+ order   | .| .|30| .| up to N
//!                                                       of arrival      +--+--+--+--+
//! ```
//!
//! # What it models
//! The write path:
//! 1. The page's place in its data block is free and not below one written: it goes there.
//! 2. `in-place`: otherwise the whole block is copied to a free one with the page in its place.
//! 3. `nftl-1`: otherwise to the next page of the one replacement block; when that is full, both
//!    are folded (copied) into a free block.
//! 4. `nftl-n`: otherwise to its own offset in the first replacement block that can take it; when
//!    none of N can, all are folded into a free block.
//! 5. Folding waits for nothing else; without a free block the least recently written (`nftl-1`)
//!    or the longest (`nftl-n`) chain of the plane is folded.
//!
//! Reading looks through spare areas, because RAM says only which blocks: `nftl-1` from the newest
//! page of the replacement block on, `nftl-n` in each newer block that has the page's offset
//! written. Each look is a read without transfer (`flash_reads.map`). So does a write of a part of
//! a page, which needs the rest of it.
//!
//! # Equation
//! An in-place overwrite costs (b-1)c + X + P + E, so `WAF = b` for single-page overwrites; a fold
//! of N replacement blocks costs bc + (N+1)E. RAM = logical blocks x log2(blocks) bits, twice that
//! for `nftl-1`, (N+1) times for `nftl-n`.
//!
//! # Parameters
//! `variant`: `in-place`, `nftl-1` or `nftl-n` (`replacements`: N, 1 to 64). `striping`: `pages` (a
//! logical block is every n-th page on n planes) or `blocks`.
//!
//! # What it leaves out
//! Switch merges; garbage collection of folded chains in the background; write pointers of
//! replacement blocks are taken to be in RAM. Folding reads no spare areas to find what it copies.
//! A data block whose pages were all discarded is kept as long as it has replacement blocks.
//!
//! # Validated against
//! Exact costs, `WAF = b`, the NAND oracle with power cuts.
//!
//! # References
//! Ban, US patents 5,404,485 and 5,937,425; Chung, Park, Park, Lee, Lee, Song, EUC 2006.

use config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::log_block::{Associative, Budget, Hybrid, MERGES, Store, Striping};
use super::{Built, Context};

mod chain;
mod in_place;

/// What happens to a page whose place is taken.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// The block is copied with the new page in its place.
    #[default]
    InPlace,
    /// It goes to one replacement block, in order of arrival.
    #[serde(rename = "nftl-1")]
    Nftl1,
    /// It goes to its own offset in one of N replacement blocks.
    #[serde(rename = "nftl-n")]
    NftlN {
        /// Most replacement blocks of a logical block, 1 to 64.
        replacements: u32,
    },
}

/// Parameters of block mapping.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// What happens to a page whose place is taken.
    pub variant: Variant,
    /// What is striped over the planes.
    pub striping: Striping,
}

impl Params {
    /// What the schemes with log blocks count.
    pub const COUNTED: sim::metric::Declarations = &[&MERGES];

    /// Build the mapping.
    ///
    /// # Errors
    /// When there is no block to spare, or N is out of range.
    pub fn build(&self, context: &Context) -> Built {
        let store = Store::new(context, self.striping, false);
        let spare = Budget::new(context, &store.layout).per_plane(1)?;
        Ok(match self.variant {
            Variant::InPlace => Hybrid::boxed(store, in_place::InPlace {}),
            Variant::Nftl1 => {
                let logs = Associative::<false>::new(context, &store, spare);
                Hybrid::boxed(store, logs)
            }
            Variant::NftlN { replacements: n @ 1..=64 } => {
                let logs = chain::Chains::new(context, &store, n, spare);
                Hybrid::boxed(store, logs)
            }
            Variant::NftlN { replacements } => {
                let key = "variant.nftl-n.replacements";
                return Err(ConfigError::new(key, format!("expected 1 to 64, got {replacements}")));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::ftl::mapping::log_block::testing::{Drive, uniform_overwrites};

    const NFTL_1: &str = "mapping.block.variant = 'nftl-1'";
    const NFTL_2: &str = "mapping.block.variant.nftl-n.replacements = 2";

    #[test]
    fn an_overwrite_in_place_copies_the_block() {
        let mut drive = Drive::one_plane("mapping = 'block'", 4, 8, 16);
        drive.fill();
        let counted = drive.counted(|drive| [5, 5, 20].into_iter().for_each(|p| drive.write(p)));
        assert_eq!((counted.copies(), counted.erases()), (3 * 7, 3));
        assert_eq!((counted.get("update_pure"), counted.merges()), (3, [0, 0, 3]));
        let drive = Drive::one_plane("mapping = 'block'", 40, 16, 44);
        let waf = uniform_overwrites(drive, 40_000, |_| false);
        assert_eq!(waf, 16.0);
    }

    #[test]
    fn a_replacement_block_absorbs_a_block_of_writes_and_is_folded_by_the_next() {
        let mut drive = Drive::one_plane(NFTL_1, 4, 8, 16);
        drive.fill();
        let absorbed = drive.counted(|drive| (0..8).for_each(|_| drive.write(3)));
        assert_eq!((absorbed.copies(), absorbed.erases()), (0, 0));
        let folded = drive.counted(|drive| drive.write(3));
        assert_eq!((folded.copies(), folded.erases(), folded.merges()), (8, 2, [0, 0, 1]));
    }

    #[test]
    fn a_chain_absorbs_n_writes_to_one_page_and_is_folded_by_the_next() {
        let mut drive = Drive::one_plane(NFTL_2, 4, 8, 16);
        drive.fill();
        let absorbed = drive.counted(|drive| [3, 3, 4, 5].into_iter().for_each(|p| drive.write(p)));
        assert_eq!((absorbed.copies(), absorbed.erases()), (0, 0));
        let folded = drive.counted(|drive| drive.write(3));
        assert_eq!((folded.copies(), folded.erases(), folded.merges()), (8, 3, [0, 0, 1]));
    }

    #[test]
    fn a_write_in_part_looks_for_the_rest_as_a_read_does() {
        let text = format!(
            "{NFTL_1}\ntiming = 'event'\nover_provisioning.capacity = '32KiB'\n\
             collection.separate = false\n[geometry]\nchannels = 1\n\
             packages_per_channel = 1\ndies_per_package = 1\nplanes_per_die = 1\n\
             blocks_per_plane = 16\npages_per_block = 8\npage = '1KiB'\n"
        );
        let mut drive = Drive::build(&text);
        drive.fill();
        // Page 3 is in the replacement block, and three pages after it.
        [3, 4, 5, 6].into_iter().for_each(|page| drive.write(page));
        let read = drive.counted(|drive| drive.read(3));
        let written = drive.counted(|drive| drive.write_part(3, 1));
        for name in ["flash_reads.map", "flash_reads.host"] {
            assert_eq!(written.get(name), read.get(name), "{name}");
        }
        assert_eq!(written.get("flash_reads.map"), 4);
        // A page of the data block: all five that are now in the replacement block.
        let written = drive.counted(|drive| drive.write_part(0, 1));
        assert_eq!(written.get("flash_reads.map"), 5);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let error = Drive::refused("mapping.block.variant.nftl-n.replacements = 0");
        assert_eq!(error, "mapping.block.variant.nftl-n.replacements: expected 1 to 64, got 0");
    }

    #[test]
    fn ram_is_a_table_of_blocks() {
        let ram = |mapping| Drive::paper(mapping).ram();
        assert_eq!(ram("mapping = 'block'"), 27_856 * 15 / 8);
        assert_eq!(ram(NFTL_1), 27_856 * 2 * 15 / 8);
        assert_eq!(ram(NFTL_2), 27_856 * 3 * 15 / 8);
    }
}
