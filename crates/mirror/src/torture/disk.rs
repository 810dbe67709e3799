//! A simulated device: durable content, a volatile cache, and what a power cut leaves of both.
//!
//! A block of data is two half-blocks with a 32-bit value each, standing for its eight sectors: a
//! torn write leaves one half old and one new. The protocol never looks inside a block except
//! through its checksum, so finer tears are no different to it.

use std::collections::BTreeSet;
use std::rc::Rc;

use sim::{Rng, mix64};

use crate::core::Meta;
use crate::format::layout::{ACTIVITY_PAGES, SUPERBLOCKS};
use crate::format::maps::{Activity, Bitmap, TablePage};
use crate::format::record::Record;
use crate::format::{Damage, Geometry, Superblock};

/// The content of a block: the low half-block's value and the high one's.
pub type Block = u64;

/// The checksum of a block's content at its place.
#[inline]
pub fn sum(block: u64, content: Block) -> u32 {
    mix64(content ^ (block + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)) as u32
}

/// One page of the log ring.
#[derive(Clone, Debug, Default)]
pub enum Page {
    /// Never written.
    #[default]
    Empty,
    /// The head of a record.
    Head(Rc<Record>),
    /// Payload: the block it belongs to and its content.
    Payload(Block),
    /// Torn or rotten.
    Damaged,
}

/// What one write leaves behind.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Blocks of data from `start` on; `blocks` of `content`.
    Data {
        /// First block.
        start: u64,
        /// Contents.
        content: [Block; super::SPAN_MAX],
        /// How many.
        blocks: u32,
        /// Durable on completion.
        fua: bool,
    },
    /// A record's pages from `page` on.
    Record {
        /// Page of the ring.
        page: u64,
        /// Head.
        record: Rc<Record>,
        /// Payload.
        payload: Vec<Block>,
    },
    /// A metadata page.
    Meta(Rc<Meta>),
}

/// A metadata page that may be damaged.
type Cell<T> = Option<Rc<T>>;

/// One device.
#[derive(Clone, Debug)]
pub struct Disk {
    /// What reads see.
    pub data: Vec<Block>,
    /// What is on the medium.
    stable: Vec<Block>,
    /// Completed writes that are in the cache, oldest first: block, content, stamp.
    cache: Vec<(u32, Block, u32)>,
    stamp: u32,
    /// Blocks that cannot be read until they are written.
    pub unreadable: BTreeSet<u64>,
    supers: [Cell<Superblock>; SUPERBLOCKS as usize],
    log: Vec<Page>,
    activity: [Cell<Activity>; ACTIVITY_PAGES as usize],
    bitmap: [Cell<Bitmap>; 2],
    table: [Cell<TablePage>; 2],
}

impl Disk {
    /// A new device with zeros.
    pub fn new(geometry: &Geometry) -> Disk {
        Disk {
            data: vec![0; geometry.blocks as usize],
            stable: vec![0; geometry.blocks as usize],
            cache: Vec::new(),
            stamp: 0,
            unreadable: BTreeSet::new(),
            supers: Default::default(),
            log: vec![Page::Empty; geometry.log_pages as usize],
            activity: Default::default(),
            bitmap: Default::default(),
            table: Default::default(),
        }
    }

    /// The current superblock.
    pub fn superblock(&self) -> Result<Superblock, Vec<Damage>> {
        let copies = self.supers.iter().flatten();
        let newest = copies.max_by_key(|superblock| superblock.update);
        newest
            .map(|superblock| Superblock::clone(superblock))
            .ok_or_else(|| vec![Damage::Magic { found: [0; 8] }; SUPERBLOCKS as usize])
    }

    /// A page of the log ring.
    pub fn log_page(&self, page: u64) -> &Page {
        &self.log[page as usize]
    }

    /// Does a record in the ring name this block?
    pub fn logs(&self, block: u64) -> bool {
        let heads = self.log.iter().filter_map(|page| match page {
            Page::Head(record) => Some(record),
            _ => None,
        });
        { heads }
            .flat_map(|record| &record.entries)
            .any(|entry| (entry.block..entry.block + entry.sums.len() as u64).contains(&block))
    }

    /// The newest page of the activity log.
    pub fn activity(&self) -> Option<Activity> {
        let newest = self.activity.iter().flatten().max_by_key(|page| page.version);
        newest.map(|page| Activity::clone(page))
    }

    /// The newer slot of the bitmap.
    pub fn bitmap(&self) -> Option<Bitmap> {
        let newest = self.bitmap.iter().flatten().max_by_key(|page| page.version);
        newest.map(|page| Bitmap::clone(page))
    }

    /// The newer slot of the checksum table.
    pub fn table(&self) -> Option<TablePage> {
        let newest = self.table.iter().flatten().max_by_key(|page| page.version);
        newest.map(|page| TablePage::clone(page))
    }

    /// A write completes.
    pub fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Data { start, content, blocks, fua } => {
                for (block, &content) in (*start..).zip(&content[..*blocks as usize]) {
                    self.data[block as usize] = content;
                    self.unreadable.remove(&block);
                    if *fua {
                        self.stable[block as usize] = content;
                        self.cache.retain(|cached| u64::from(cached.0) != block);
                    } else {
                        self.cache.push((block as u32, content, self.stamp));
                    }
                }
            }
            Effect::Record { page, record, payload } => {
                self.log[*page as usize] = Page::Head(record.clone());
                for (page, &content) in (page + 1..).zip(payload) {
                    self.log[page as usize] = Page::Payload(content);
                }
            }
            Effect::Meta(meta) => self.apply_meta(meta, false),
        }
    }

    fn apply_meta(&mut self, meta: &Meta, torn: bool) {
        let index = |version: u64| (version % 2) as usize;
        match meta {
            Meta::Superblock { copy, superblock } => {
                let page = (!torn).then(|| Rc::new(Superblock::clone(superblock)));
                self.supers[*copy as usize] = page;
            }
            Meta::Activity(activity) => {
                let page = (!torn).then(|| Rc::new(activity.clone()));
                let slot = 2 * index(activity.version);
                (self.activity[slot], self.activity[slot + 1]) = (page.clone(), page);
            }
            Meta::Bitmap(bitmap) => {
                self.bitmap[index(bitmap.version)] = (!torn).then(|| Rc::new(bitmap.clone()));
            }
            Meta::Table(table) => {
                self.table[index(table.version)] = (!torn).then(|| Rc::new(table.clone()));
            }
        }
    }

    /// A device flush is sent: what it will cover.
    pub fn flush_begins(&mut self) -> u32 {
        self.stamp += 1;
        self.stamp
    }

    /// A device flush completes: all writes that had completed when it was sent are durable.
    pub fn flush_ends(&mut self, stamp: u32) {
        let covered = self.cache.iter().take_while(|cached| cached.2 < stamp).count();
        for (block, content, _) in self.cache.drain(..covered) {
            self.stable[block as usize] = content;
        }
    }

    /// Rot: change the content of a block under everybody's feet.
    pub fn rot(&mut self, block: u64, bits: u64) {
        self.data[block as usize] ^= bits;
        self.stable[block as usize] ^= bits;
    }

    /// Is the block's content durable, with nothing in the cache?
    pub fn is_stable(&self, block: u64) -> bool {
        self.data[block as usize] == self.stable[block as usize]
            && !self.cache.iter().any(|cached| u64::from(cached.0) == block)
    }

    /// Forget a block's content, as if the last write had gone astray.
    pub fn set(&mut self, block: u64, content: Block) {
        (self.data[block as usize], self.stable[block as usize]) = (content, content);
        self.cache.retain(|cached| u64::from(cached.0) != block);
    }

    /// Something rots that is not data: one of the two copies of the newest superblock, a page of
    /// the log, one of the two newest pages of the activity log, the newest page of the table.
    /// False when there is nothing of the kind.
    pub fn rot_metadata(&mut self, kind: u64, rng: &mut Rng) -> bool {
        match kind {
            0 => {
                let newest = self.supers.iter().flatten().map(|copy| copy.update).max();
                let whole = |copy: &Cell<Superblock>| copy.as_ref().map(|s| s.update) == newest;
                let copies: Vec<usize> = (0..self.supers.len())
                    .filter(|&copy| whole(&self.supers[copy]) && newest.is_some())
                    .collect();
                // One that is torn already leaves none.
                let [_, second] = copies[..] else { return false };
                self.supers[[copies[0], second][rng.below(2) as usize]] = None;
            }
            1 => {
                let page = rng.below(self.log.len() as u64) as usize;
                let heads = self.log.iter().enumerate().filter_map(|(at, page)| match page {
                    Page::Head(record) => Some((record.number, at, record.payload_pages())),
                    _ => None,
                });
                // The newest record is the one that may be torn: nobody can tell it from rotten.
                let newest = heads.max();
                let within = |(_, at, payload): (u64, usize, u32)| {
                    (at..=at + payload as usize).contains(&page)
                };
                if matches!(self.log[page], Page::Empty) || newest.is_some_and(within) {
                    return false;
                }
                self.log[page] = Page::Damaged;
            }
            2 => {
                let newest = (0..self.activity.len())
                    .max_by_key(|&page| self.activity[page].as_ref().map(|a| a.version));
                let Some(page) = newest else { return false };
                if self.activity[page ^ 1].is_none() {
                    return false;
                }
                self.activity[page] = None;
            }
            _ => {
                let version = |slot: usize| self.table[slot].as_ref().map(|page| page.version);
                let newest = usize::from(version(1) > version(0));
                self.table[newest] = None;
            }
        }
        true
    }

    /// No page of the activity log can be read.
    pub fn lose_activity(&mut self) {
        self.activity = Default::default();
    }

    /// The writes that a power cut may or may not leave: per block, every version since the last
    /// one that is durable. `flying` are the writes that are out.
    pub fn versions(&self, flying: &[&Effect]) -> Vec<(u64, Vec<Block>)> {
        let mut all: Vec<(u64, Vec<Block>)> = Vec::new();
        let mut add =
            |block: u64, content: Block| match all.iter_mut().find(|(known, _)| *known == block) {
                Some((_, versions)) => versions.push(content),
                None => all.push((block, vec![content])),
            };
        for &(block, content, _) in &self.cache {
            add(block.into(), content);
        }
        for effect in flying {
            if let Effect::Data { start, content, blocks, .. } = effect {
                for (block, &content) in (*start..).zip(&content[..*blocks as usize]) {
                    add(block, content);
                }
            }
        }
        all
    }

    /// The power is cut while `flying` are out: any subset of what is not durable survives, in
    /// any order, torn or whole.
    pub fn power_cut(&mut self, flying: &[&Effect], rng: &mut Rng) {
        for (block, versions) in self.versions(flying) {
            let old = self.stable[block as usize];
            let mut pick = || match rng.below(versions.len() as u64 + 1) {
                0 => old,
                n => versions[n as usize - 1],
            };
            let mut content = pick();
            // One in four is torn: its halves are of different versions.
            if rng.below(4) == 0 {
                let other = match rng.below(versions.len() as u64 + 1) {
                    0 => old,
                    n => versions[n as usize - 1],
                };
                content = content & 0xffff_ffff | other & !0xffff_ffff;
            }
            self.stable[block as usize] = content;
        }
        self.settle();
        for effect in flying {
            self.tear(effect, rng);
        }
    }

    /// What is on the medium is all there is.
    pub fn settle(&mut self) {
        self.cache.clear();
        self.data.clone_from(&self.stable);
    }

    /// Make `content` what is on the medium if everything in the cache is lost.
    pub fn keep_under(&mut self, block: u64, content: Block) {
        if self.cache.iter().any(|cached| u64::from(cached.0) == block) {
            self.stable[block as usize] = content;
        }
    }

    /// A page was out when the power went: 0 it did not land, 1 it is torn, 2 it did.
    pub fn leave(&mut self, effect: &Effect, way: u64) {
        match (effect, way) {
            (_, 0) | (Effect::Data { .. }, _) => {}
            (Effect::Meta(meta), way) => self.apply_meta(meta, way == 1),
            (Effect::Record { page, payload, .. }, 1) => {
                let pages = *page as usize + payload.len();
                self.apply(effect);
                self.log[pages] = Page::Damaged;
            }
            (effect, _) => self.apply(effect),
        }
    }

    /// Put one version of a block on the medium, for exhaustive enumeration.
    pub fn keep(&mut self, block: u64, content: Block) {
        self.stable[block as usize] = content;
    }

    /// A metadata write was out: it landed, did not, or is torn.
    fn tear(&mut self, effect: &Effect, rng: &mut Rng) {
        match effect {
            Effect::Data { .. } => {}
            Effect::Meta(meta) => match rng.below(3) {
                0 => {}
                1 => self.apply_meta(meta, true),
                _ => self.apply_meta(meta, false),
            },
            Effect::Record { page, record, payload } => {
                for index in 0..=payload.len() {
                    let content = match rng.below(3) {
                        0 => continue,
                        1 => Page::Damaged,
                        _ if index == 0 => Page::Head(record.clone()),
                        _ => Page::Payload(payload[index - 1]),
                    };
                    self.log[*page as usize + index] = content;
                }
            }
        }
    }
}
