//! pSLC write cache: a page map whose host writes first go to blocks used with one bit a cell.
//!
//! ```text
//!   host --> pSLC blocks --fold, when the die rests--> TLC blocks
//!     \______ no room in the cache ______________________/
//! ```
//!
//! # What it models
//! The cache of client drives. A free block may be used as pSLC: it takes fewer pages, faster. Up
//! to `blocks_percent` of the blocks of a plane are used so, and only while more than
//! `keep_free_percent` of them are free, so that the cache shrinks as the drive fills. When there
//! is no room in it, the host writes to the dense blocks directly: the write cliff. When a die has
//! rested for `collection.background_after`, its blocks are folded, the oldest first: what is still
//! valid in them moves to dense blocks. The collector, too, empties them like other blocks.
//!
//! The write path:
//! 1. choose a plane whose pSLC block is open, or where a free block may become one;
//! 2. if there is none, choose one whose dense block has room;
//! 3. program the next page of that block;
//! 4. mark the old page invalid, wherever it is, change the entry.
//!
//! # Equation
//! `RAM = page map + blocks / 8` bytes. A burst of up to
//! `blocks_percent x physical pages / bits_per_cell` runs at tPROG of pSLC. A page that is still
//! valid when its block is folded is written twice: at most 1 is added to the write amplification.
//!
//! # Parameters
//! `blocks_percent`, `keep_free_percent`; the flash says what pSLC is like in `nand.pslc`.
//!
//! # What it leaves out
//! Blocks that are pSLC for ever, and their higher endurance: wear is counted in erases of any
//! kind. A cache that large writes pass by. Folding while the host waits for it.
//!
//! # Validated against
//! Times and write amplification of a burst within the cache and beyond it; the NAND oracle.
//!
//! # References
//! Micron, "Optimized client computing with dynamic write acceleration", 2014.

use config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::metric::{Counted, Counter};

use super::page::{Handles, PageMap};
use super::{Built, Context};
use crate::ftl::flash::{Frontier, Pslc};

/// What goes through the cache.
static CACHE: Counted = Counted {
    counters: &[
        Counter::new("pslc_pages_written", "pages", "pages that went into the pSLC blocks"),
        Counter::new("pslc_pages_folded", "pages", "pages moved on from there"),
    ],
    metrics: &[],
};

/// Parameters of the pSLC cache.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Blocks of a plane that are used as pSLC at most, in percent.
    pub blocks_percent: f64,
    /// Free blocks of a plane that are not used as pSLC, in percent.
    pub keep_free_percent: f64,
}

impl Default for Params {
    fn default() -> Params {
        Params { blocks_percent: 10.0, keep_free_percent: 5.0 }
    }
}

impl Params {
    /// What goes through the cache.
    pub const COUNTED: sim::metric::Declarations = &[&CACHE];

    /// Build the mapping.
    ///
    /// # Errors
    /// Flash without a pSLC mode, shares that leave no block for the cache, or a logical space
    /// that leaves no block for it.
    pub fn build(&self, context: &Context) -> Built {
        let blocks_per_plane = context.geometry.blocks_per_plane.get();
        let pages = context.geometry.pages_per_block.get();
        let Some(pages_per_block) = context.pslc_pages.filter(|&pages| pages > 0) else {
            let message = "the flash has no pSLC mode, or no whole page in a block of it: say what \
                           it is like, for instance \
                           nand.pslc = { read = \"30us\", program = \"200us\", bits_per_cell = 3 }";
            return Err(ConfigError::new("", message));
        };
        let share = |key: &str, percent: f64| {
            if !(0.0..100.0).contains(&percent) {
                return Err(ConfigError::new(key, format!("expected 0 to 100, got {percent}")));
            }
            Ok((percent / 100.0 * f64::from(blocks_per_plane)) as u32)
        };
        let blocks = share("blocks_percent", self.blocks_percent)?;
        let keep_free = share("keep_free_percent", self.keep_free_percent)?;
        // A block is open for the host, for moved pages and for pSLC.
        let (spare, least) =
            (context.spare_blocks(), context.reserve + u32::from(Frontier::COMMON));
        if blocks == 0 || pages_per_block == 0 {
            let least = 100.0 / f64::from(blocks_per_plane);
            let message = format!(
                "{} % of {blocks_per_plane} blocks of {pages} pages are none: expected at least \
                 {least:.2}",
                self.blocks_percent
            );
            return Err(ConfigError::new("blocks_percent", message));
        }
        if spare <= least {
            let message = format!(
                "a plane has {spare} spare blocks, but a pSLC cache needs more than {least}: leave \
                 more over_provisioning"
            );
            return Err(ConfigError::new("", message));
        }
        let pslc = Pslc { pages_per_block, blocks, keep_free };
        let map = PageMap::new(context, Handles::ONE);
        Ok(Box::new(map.with_pslc(pslc, context.geometry.blocks())))
    }
}

#[cfg(test)]
mod tests {
    use sim::{Device, Lba, Nanos, Request, Stepper};

    use config::Duration;

    use crate::device::ssd::{OverProvisioning, Params as SsdParams, TimingMode};
    use crate::ftl::mapping::MappingScheme;
    use crate::ftl::mapping::tests::drive::{build, count, small};
    use crate::ssd::timing::PslcParams;

    const BLOCKS: u32 = 64;
    const PAGES: u32 = 48;
    /// 2 KiB at 40 MB/s.
    const BUS: u64 = 51_200;

    fn params(changes: super::Params) -> SsdParams {
        let mut params = small(MappingScheme::Pslc(changes), (1, 1), 50.0);
        params.oracle = true;
        params.timing = TimingMode::default();
        params.geometry.blocks_per_plane = BLOCKS;
        params.geometry.pages_per_block = PAGES;
        params.nand.program = vec![Duration(Nanos::from_micros(1_500))];
        params.nand.pslc = Some(PslcParams {
            read: Duration(Nanos::from_micros(20)),
            program: Duration(Nanos::from_micros(150)),
            bits_per_cell: 3,
        });
        params
    }

    type Host = Stepper<Box<dyn Device>>;

    fn host(changes: super::Params) -> Host {
        Stepper::new(build(&params(changes)).unwrap())
    }

    /// Write pages `range`, one after the other, and say how long each took on average.
    fn write(host: &mut Host, range: std::ops::Range<u64>) -> u64 {
        let pages = range.end - range.start;
        let each = range.map(|lpn| time(host, Request::write(Lba(lpn * 4), 4)));
        each.sum::<u64>() / pages
    }

    /// How long a request takes, in nanoseconds.
    fn time(host: &mut Host, request: Request) -> u64 {
        let start = host.now();
        host.answered(request).since(start).0
    }

    #[test]
    fn a_burst_is_fast_until_the_cache_is_full_and_fast_again_after_a_rest() {
        let mut host = host(super::Params { blocks_percent: 12.5, keep_free_percent: 5.0 });
        let cache = u64::from(BLOCKS / 8 * (PAGES / 3));
        assert_eq!(write(&mut host, 0..cache), 150_000 + BUS);
        assert_eq!(write(&mut host, cache..2 * cache), 1_500_000 + BUS);
        assert_eq!(count(&*host.device, "pslc_pages_written"), cache);
        assert_eq!(count(&*host.device, "pslc_pages_folded"), 0);

        host.drain();
        assert_eq!(count(&*host.device, "pslc_pages_folded"), cache);
        assert_eq!(count(&*host.device, "flash_programs.gc"), cache);
        // Overwritten before it is folded, a page is never moved.
        for _ in 0..2 {
            assert_eq!(write(&mut host, 0..cache / 2), 150_000 + BUS);
        }
        host.drain();
        assert_eq!(count(&*host.device, "pslc_pages_folded"), cache + cache / 2);
    }

    #[test]
    fn the_cache_keeps_off_the_last_free_blocks() {
        let keep_free_percent = 50.0;
        let mut host = host(super::Params { blocks_percent: 90.0, keep_free_percent });
        let pages = host.device.limits().sectors() / 4;
        write(&mut host, 0..pages);
        assert_eq!(count(&*host.device, "pslc_pages_written"), u64::from(BLOCKS / 2 * (PAGES / 3)));
    }

    #[test]
    fn a_page_is_read_at_the_speed_of_the_block_it_is_in() {
        let mut host = host(super::Params::default());
        write(&mut host, 0..u64::from(PAGES / 3));
        assert_eq!(time(&mut host, Request::read(Lba(0), 4)), 20_000 + BUS);
        host.drain();
        assert_eq!(time(&mut host, Request::read(Lba(0), 4)), 25_000 + BUS);
    }

    #[test]
    fn what_cannot_be_a_cache_is_refused() {
        let refused = |params: &SsdParams| build(params).map(drop).unwrap_err().to_string();
        let mut no_mode = params(super::Params::default());
        no_mode.nand.pslc = None;
        assert!(refused(&no_mode).contains("the flash has no pSLC mode"));
        let none = super::Params { blocks_percent: 1.0, ..Default::default() };
        assert!(refused(&params(none)).contains("expected at least 1.56"));
        let mut full = params(super::Params::default());
        full.over_provisioning = OverProvisioning::LivePercent(93.0);
        assert!(refused(&full).contains("spare blocks"), "{}", refused(&full));
    }
}
