//! NFTL-N: chains of replacement blocks that are written in place.

use sim::snapshot_fields;

use crate::ftl::flash::Flash;
use crate::ftl::mapping::Context;
use crate::ftl::mapping::log_block::{Job, Logs, Store, StoredLog, Update};
use crate::ssd::plan::{Cause, FlashOp, NONE, Plan};

#[derive(Clone)]
pub(super) struct Chains {
    /// Replacement blocks of each logical block, oldest first.
    chains: Vec<Vec<u32>>,
    /// Logical blocks with replacement blocks, per plane.
    owners: Vec<Vec<u32>>,
    /// Replacement blocks in use, per plane.
    used: Vec<u32>,
    /// The logical block that must be folded, or [`NONE`] for the one with the longest chain.
    wish: Vec<Option<u32>>,
    longest: u32,
    /// Replacement blocks a plane can spare.
    spare: u32,
}

snapshot_fields!(Chains { chains, owners, used, wish });

impl Chains {
    pub(super) fn new(context: &Context, store: &Store, longest: u32, spare: u32) -> Chains {
        let planes = context.geometry.planes() as usize;
        Chains {
            chains: vec![Vec::new(); store.layout.blocks as usize],
            owners: vec![Vec::new(); planes],
            used: vec![0; planes],
            wish: vec![None; planes],
            longest,
            spare,
        }
    }

    fn length(&self, lbn: u32) -> u32 {
        self.chains[lbn as usize].len() as u32
    }

    fn link(&mut self, plane: usize, lbn: u32, block: u32) {
        let chain = &mut self.chains[lbn as usize];
        if chain.is_empty() {
            self.owners[plane].push(lbn);
        }
        chain.push(block);
        self.used[plane] += 1;
    }
}

impl Logs for Chains {
    const SWITCHES: bool = false;

    fn append(&mut self, store: &mut Store, flash: &mut Flash, update: Update) -> Option<u32> {
        let Update { lpn, lbn, offset, .. } = update;
        let chain = &self.chains[lbn as usize];
        let takes = |&&block: &&u32| offset >= u32::from(flash.block(block).written);
        if let Some(&block) = chain.iter().find(takes) {
            return Some(flash.allocate_at(block, offset, lpn));
        }
        let plane = store.layout.plane(lbn);
        let folded = match self.used[plane as usize] {
            _ if chain.len() as u32 >= self.longest => lbn,
            used if used >= self.spare => NONE,
            _ => {
                let block = store.take_log(flash, plane, lbn)?;
                self.link(plane as usize, lbn, block);
                return Some(flash.allocate_at(block, offset, lpn));
            }
        };
        self.wish[plane as usize] = Some(folded);
        None
    }

    fn wants(&self, pool: usize) -> bool {
        // A power failure can bring back a block that was to be erased.
        self.wish[pool].is_some() || self.used[pool] > self.spare
    }

    fn withdraw(&mut self, pool: usize) {
        self.wish[pool] = None;
    }

    fn holds(&self, _store: &Store, lbn: u32) -> bool {
        self.length(lbn) > 0
    }

    fn next_job(&mut self, _store: &mut Store, flash: &mut Flash, pool: usize) -> Option<Job> {
        let wish = self.wish[pool].take().unwrap_or(NONE);
        let crowd = self.used[pool].cmp(&self.spare);
        let lbn = if wish != NONE && crowd.is_le() {
            (self.length(wish) >= self.longest).then_some(wish)?
        } else if crowd.is_ge() {
            // Of equals the one that has had replacement blocks longest.
            *self.owners[pool].iter().rev().max_by_key(|&&lbn| self.length(lbn))?
        } else {
            return None;
        };
        let chain = &self.chains[lbn as usize];
        let log = chain.iter().find(|&&block| flash.valid(block) > 0).or(chain.first());
        log.map(|&log| Job { log, lbn })
    }

    fn merged(&mut self, store: &mut Store, flash: &mut Flash, lbn: u32) {
        let plane = store.layout.plane(lbn) as usize;
        let chain = std::mem::take(&mut self.chains[lbn as usize]);
        self.owners[plane].retain(|&owner| owner != lbn);
        self.used[plane] -= chain.len() as u32;
        chain.into_iter().for_each(|block| store.bury(flash, block));
    }

    fn emptied(&mut self, _store: &Store, log: u32) {
        unreachable!("block {log} belongs to one logical block");
    }

    fn clear(&mut self) {
        self.chains.iter_mut().for_each(Vec::clear);
        self.owners.iter_mut().for_each(Vec::clear);
        self.used.fill(0);
        self.wish.fill(None);
    }

    fn found(&mut self, store: &mut Store, _flash: &mut Flash, log: StoredLog) {
        self.link(store.layout.plane(log.lbn) as usize, log.lbn, log.block);
    }

    fn probe(&self, store: &Store, flash: &mut Flash, lbn: u32, ppn: u32, plan: &mut Plan) {
        let (holder, offset) = store.geometry.block_page(ppn);
        for &block in self.chains[lbn as usize].iter().rev().take_while(|&&b| b != holder) {
            let page = store.geometry.first_ppn(block) + offset;
            if offset < u32::from(flash.block(block).written) && flash.spare(page) != NONE {
                plan.push(FlashOp::read(Cause::Map, page, flash.spare(page), 0));
            }
        }
    }

    fn ram_bits(&self, store: &Store) -> u64 {
        store.home_bits() * u64::from(self.longest)
    }
}
