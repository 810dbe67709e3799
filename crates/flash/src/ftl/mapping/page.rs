//! Page mapping: one table entry per logical page, all of it in RAM.
//!
//! # What it models
//! The FTL of Agrawal et al.: any logical page may be anywhere, every write goes to the next page
//! of an open block, the page it replaces becomes invalid. Fast, and the yardstick for every
//! scheme that needs less RAM.
//!
//! # Equation
//! `RAM = logical pages x ceil(log2(physical pages)) / 8` bytes.
//!
//! # Parameters
//! None of its own; see `allocation`, `gc` and `wear`.
//!
//! # What it leaves out
//! Writing the table to flash: after a power failure it is made anew from every spare area.
//!
//! # Validated against
//! Closed forms of write amplification (`docs/measured/closed-forms.md`); the NAND oracle.
//!
//! # References
//! Agrawal, Prabhakaran, Wobber, Davis, Manasse, Panigrahy, USENIX ATC 2008.

use config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Bytes, Counters, CowVec};

use super::fill::fill;
use super::{Built, Context, Full, HostPage, Mapping, Needs, bits, next_page, write_anywhere};
use crate::ftl::allocation::Allocator;
use crate::ftl::flash::{Flash, Frontier, Pslc};
use crate::ssd::plan::{NONE, OpCounts, Plan, Rebuilt};

/// Page mapping has no parameters of its own.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {}

impl Params {
    /// Build the mapping.
    ///
    /// # Errors
    /// None: any geometry can be page mapped.
    pub fn build(&self, context: &Context) -> Built {
        Ok(Box::new(PageMap::new(context, Handles::ONE)))
    }
}

/// Placement handles: writes with the same one share blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Handles {
    /// How many; a stream beyond them is the first one's.
    pub(super) count: u8,
    /// Pages that the collector moves stay with their handle.
    pub(super) isolated: bool,
}

impl Handles {
    /// The host's pages are not told apart.
    pub(super) const ONE: Handles = Handles { count: 1, isolated: false };

    /// Open blocks in each plane.
    fn frontiers(self) -> u8 {
        Frontier::COMMON + (self.count - 1) * if self.isolated { 2 } else { 1 }
    }

    /// A number of handles under `key` that leaves every plane room to collect in.
    pub(super) fn check(self, key: &str, context: &Context) -> Result<Handles, ConfigError> {
        let spare = context.spare_blocks();
        // The map's open block is not used.
        let most = (1..=64u8).rev().find(|&count| {
            u32::from(Handles { count, ..self }.frontiers() - 1) + context.reserve < spare
        });
        match most {
            Some(most) if (1..=most).contains(&self.count) => Ok(self),
            _ => {
                let most = most.unwrap_or(1);
                let message = format!(
                    "{} handles with an open block each do not fit into the {spare} spare blocks \
                     of a plane: expected 1 to {most}, or leave more over_provisioning",
                    self.count
                );
                Err(ConfigError::new(key, message))
            }
        }
    }
}

#[derive(Clone)]
pub(super) struct PageMap {
    map: CowVec<u32>,
    allocator: Allocator,
    reserve: u32,
    ram: Bytes,
    handles: Handles,
    pslc: Option<Pslc>,
    /// Pages written as pSLC, and moved from there.
    cached: u64,
    folded: u64,
}

impl PageMap {
    pub(super) fn new(context: &Context, handles: Handles) -> PageMap {
        let entry = u64::from(bits(context.geometry.pages()));
        let table = u64::from(context.logical_pages) * entry;
        PageMap {
            map: CowVec::new(context.logical_pages as usize, NONE),
            allocator: context.allocator.clone(),
            reserve: context.reserve,
            ram: Bytes(table.div_ceil(8)),
            handles,
            pslc: None,
            cached: 0,
            folded: 0,
        }
    }

    /// The same with a cache of blocks used as pSLC.
    pub(super) fn with_pslc(mut self, pslc: Pslc, blocks: u32) -> PageMap {
        self.pslc = Some(pslc);
        // One bit says how a block is used.
        self.ram.0 += u64::from(blocks.div_ceil(8));
        self
    }

    /// The plane and the open block that take a host page.
    #[inline]
    fn choose(&mut self, page: &HostPage, flash: &Flash) -> Result<(u32, Frontier), Full> {
        let (lpn, reserve, frontier) = (page.lpn, self.reserve, self.frontier(page.stream));
        if self.pslc.is_some()
            && let Ok(plane) = self.allocator.choose(Frontier::PSLC, lpn, flash, reserve)
        {
            self.cached += 1;
            return Ok((plane, Frontier::PSLC));
        }
        let plane = self.allocator.choose(frontier, lpn, flash, reserve).map_err(Full)?;
        Ok((plane, frontier))
    }

    #[inline]
    fn frontier(&self, stream: u16) -> Frontier {
        if stream < u16::from(self.handles.count) {
            Frontier::of_handle(stream as u8)
        } else {
            Frontier::HOST
        }
    }
}

sim::snapshot_fields!(PageMap { map, allocator, cached, folded });

impl Mapping for PageMap {
    #[inline]
    fn lookup(&mut self, _flash: &mut Flash, lpn: u32) -> u32 {
        self.map.get(lpn as usize)
    }

    #[inline]
    fn prefetch(&self, lpn: u32) {
        self.map.prefetch(lpn as usize);
    }

    #[inline]
    fn prefetch_page(&mut self, flash: &Flash, lpn: u32) {
        if (lpn as usize) < self.map.len() {
            flash.prefetch(self.map.get(lpn as usize));
        }
    }

    fn read(&mut self, _flash: &mut Flash, page: HostPage, plan: &mut Plan) {
        page.plan_read(self.map.get(page.lpn as usize), plan);
    }

    fn write(&mut self, flash: &mut Flash, page: HostPage, plan: &mut Plan) -> Result<(), Full> {
        let (lpn, reserve) = (page.lpn, self.reserve);
        let (plane, frontier) = self.choose(&page, flash)?;
        let ppn = next_page(flash, plane, frontier, lpn, reserve, plan)
            .expect("the allocator chose a plane with room");
        let old = self.map.get(lpn as usize);
        page.plan_program(old, ppn, flash, plan);
        self.map.set(lpn as usize, ppn);
        Ok(())
    }

    fn discard(&mut self, flash: &mut Flash, lpn: u32, _plan: &mut Plan) -> Result<(), Full> {
        let old = self.map.get(lpn as usize);
        if old != NONE {
            flash.invalidate(old);
            self.map.set(lpn as usize, NONE);
        }
        Ok(())
    }

    #[inline]
    fn relocated(&mut self, flash: &mut Flash, lpn: u32, from: u32, to: u32) {
        self.folded += u64::from(flash.is_pslc(from));
        self.map.set(lpn as usize, to);
    }

    fn rebuild(&mut self, flash: &mut Flash) -> Rebuilt {
        self.map = flash.find_newest(self.map.len() as u32);
        Rebuilt { spare_reads: flash.programmed_pages(), ..Rebuilt::default() }
    }

    fn fill(&mut self, flash: &mut Flash, count: u32, plan: &mut Plan) -> bool {
        let Some(filled) = fill(flash, &mut self.allocator, count, self.reserve, 0, plan) else {
            return false;
        };
        self.map.follow(0, count as usize, move |lpn| filled.ppn(lpn as u32));
        true
    }

    fn needs(&self) -> Needs {
        let Handles { count, isolated } = self.handles;
        let isolated = if isolated { count } else { 0 };
        let frontiers = self.handles.frontiers() + u8::from(self.pslc.is_some());
        // Discarded pages of a victim may be back after a power failure, and a victim with few
        // valid pages would leave the host so much room that they found none.
        let kept_for_collection = u32::from(self.pslc.is_some());
        Needs { frontiers, isolated, kept_for_collection, pslc: self.pslc, ..Needs::default() }
    }

    fn ram(&self) -> Bytes {
        self.ram
    }

    fn counters(&self, planned: &OpCounts, out: &mut Counters) {
        write_anywhere(planned, out);
        if self.pslc.is_some() {
            out.add("pslc_pages_written", self.cached);
            out.add("pslc_pages_folded", self.folded);
        }
    }

    fn freeze(&mut self) {
        self.map.freeze();
    }

    fn boxed_clone(&self) -> Box<dyn Mapping> {
        Box::new(self.clone())
    }
}
