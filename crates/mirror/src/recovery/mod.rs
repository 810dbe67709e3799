//! Recovery: from what is on media to a state that can serve.
//!
//! Straight-line code over a [`Media`], so that its order can be read and a crash can be put
//! after any step. Every step may be repeated: logs are void only once the superblocks say so,
//! and hot extents are forgotten last.

mod hot;
mod log;
mod outdated;

use std::collections::{BTreeMap, BTreeSet};

use sim::mix64;

use crate::core::{Meta, Opened, Regions, State, Table};
use crate::format::Layout;
use crate::format::Superblock;
use crate::format::maps::{Activity, BITS_PER_PAGE, Bitmap, TablePage};
use crate::format::record::Record;
use crate::format::superblock::{Generations, Membership};
use crate::mutant::planted;
use crate::policy::Rules;
use crate::policy::assemble::{Accept, Assembly, Offer, Refusal, Role, assemble};
use crate::policy::merge::{self, Claim, Remedy};
use crate::policy::verify::{self, Verdict};
use crate::types::{Block, DEVICES, FAST, LEGS, Mode, SLOW, Slot, Span, WITNESS, other};
use hot::Hot;
use log::Scan;

/// What recovery does to the devices. Reads give `None` for what is not valid or not readable.
pub trait Media {
    /// Why it must stop: a device that fails, or a simulated power cut.
    type Error;

    /// The head of a record at this page of the ring.
    ///
    /// # Errors
    /// When the device fails altogether; so for every method.
    fn record(&mut self, slot: Slot, page: u64) -> Result<Option<Record>, Self::Error>;
    /// Is this page of the ring the payload of `block` with checksum `sum`?
    fn payload(
        &mut self,
        slot: Slot,
        page: u64,
        block: Block,
        sum: u32,
    ) -> Result<bool, Self::Error>;
    /// The newest page of the activity log.
    fn activity(&mut self, slot: Slot) -> Result<Option<Activity>, Self::Error>;
    /// The newer slot of a page of the bitmap.
    fn bitmap(&mut self, slot: Slot, index: u64) -> Result<Option<Bitmap>, Self::Error>;
    /// The newer slot of a page of the checksum table.
    fn table(&mut self, slot: Slot, index: u64) -> Result<Option<TablePage>, Self::Error>;
    /// The checksum of a block's home position.
    fn sum(&mut self, slot: Slot, block: Block) -> Result<Option<u32>, Self::Error>;
    /// Write a payload page of the ring of `from` to the block's home position on `to`.
    fn replay(&mut self, from: Slot, page: u64, to: Slot, block: Block) -> Result<(), Self::Error>;
    /// Write zeros to a block's home position; `sum` is their checksum.
    fn zero(&mut self, slot: Slot, block: Block, sum: u32) -> Result<(), Self::Error>;
    /// Copy a block's home position from one leg to the other.
    fn copy(&mut self, from: Slot, to: Slot, block: Block) -> Result<(), Self::Error>;
    /// Make all writes of the device durable.
    fn flush(&mut self, slot: Slot) -> Result<(), Self::Error>;
    /// Write a metadata page, durable on return.
    fn meta(&mut self, slot: Slot, meta: Meta) -> Result<(), Self::Error>;
}

/// Why there is no array to serve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failed<E> {
    /// It must not start.
    Refused(Refusal),
    /// A device failed meanwhile; start again without it.
    Device(E),
}

impl<E> From<Refusal> for Failed<E> {
    fn from(refusal: Refusal) -> Failed<E> {
        Failed::Refused(refusal)
    }
}

/// Decide who starts as what, bring the members to one content, and void their logs.
///
/// `entropy` is random and never the same twice.
///
/// # Errors
/// A refusal, or what stopped the media.
pub fn recover<M: Media>(
    rules: &Rules,
    media: &mut M,
    offers: &[Offer],
    accept: Accept,
    entropy: u128,
) -> Result<Opened, Failed<M::Error>> {
    let assembly = assemble(rules, offers, accept)?;
    let mut recovery = Recovery::new(*rules, media, assembly, offers);
    recovery.read_logs(accept)?;
    let claims = if recovery.clean { Claims::new() } else { recovery.claims() };
    if !planted!(rules, ReplayUnnoticed) {
        // The witness may name a block that was not hot on any leg that is here.
        recovery.hot.extend(claims.keys());
    }
    recovery.read_maps().map_err(Failed::Device)?;
    if !recovery.clean {
        recovery.converge(&claims).map_err(Failed::Device)?;
    }
    recovery.finish(entropy).map_err(Failed::Device)
}

/// By block, with the page in the log and the checksum of each.
type Claims = BTreeMap<Block, Vec<(Claim, u64, u32)>>;

struct Recovery<'m, M> {
    rules: Rules,
    media: &'m mut M,
    role: [Role; DEVICES],
    present: [Option<Superblock>; DEVICES],
    newest: Superblock,
    clean: bool,
    scans: [Scan; DEVICES],
    hot: Hot,
    out_of_sync: [Regions; LEGS],
    table: Table,
    /// The version of each page of the table on each leg.
    table_on: [BTreeMap<u64, u64>; LEGS],
    /// Pages of the table that say different things on the two legs.
    differ: BTreeSet<u64>,
    version: u64,
    /// The version of the activity log on each leg.
    activity: [u64; LEGS],
    map_slots: BTreeMap<(bool, u64), u64>,
}

impl<'m, M: Media> Recovery<'m, M> {
    fn new(rules: Rules, media: &'m mut M, assembly: Assembly, offers: &[Offer]) -> Self {
        let Assembly { role, offer, newest, clean } = assembly;
        let present = offer
            .map(|index| index.and_then(|index| offers[index].superblock.as_ref().ok()).cloned());
        let geometry = newest.geometry;
        let regions = || Regions::new(geometry.blocks, geometry.region_blocks);
        Recovery {
            rules,
            media,
            role,
            present,
            clean,
            scans: Default::default(),
            hot: Hot::new(geometry.blocks),
            out_of_sync: [regions(), regions()],
            table: Table::new(geometry.blocks),
            table_on: Default::default(),
            differ: BTreeSet::new(),
            version: 0,
            activity: [0; LEGS],
            map_slots: BTreeMap::new(),
            newest,
        }
    }

    fn is_current(&self, slot: Slot) -> bool {
        self.role[slot] == Role::Current
    }

    fn current_legs(&self) -> Vec<Slot> {
        (0..LEGS).filter(|&leg| self.is_current(leg)).collect()
    }

    /// Read every member's log. A log with a hole is corrupt: its device is left out if another
    /// one can stand for it. That of the witness stands for a leg that is not here.
    fn read_logs(&mut self, accept: Accept) -> Result<(), Failed<M::Error>> {
        for slot in 0..DEVICES {
            let Some(superblock) = &self.present[slot] else { continue };
            let (rules, pages) = (&self.rules, u64::from(self.newest.geometry.log_pages));
            let scan =
                log::scan(rules, self.media, slot, superblock, pages).map_err(Failed::Device)?;
            if let (Some(record), true) = (scan.hole, self.is_current(slot)) {
                let alone = self.current_legs() == [slot];
                let stands_in = slot == WITNESS && self.stands_in() && !accept.exposure;
                if alone || stands_in {
                    return Err(Refusal::BrokenLog { slot, record }.into());
                }
                self.role[slot] = Role::Whole;
                self.clean = false;
            }
            self.scans[slot] = scan;
        }
        Ok(())
    }

    /// What the logs that count say of each block.
    fn claims(&self) -> Claims {
        let mut claims = Claims::new();
        for slot in (0..DEVICES).filter(|&slot| self.is_current(slot)) {
            let void = self.present[slot]
                .as_ref()
                .is_none_or(|own| own.incarnation != self.newest.incarnation);
            if void && !planted!(self.rules, OldLog) {
                // A start since then has brought the legs to one content without it.
                continue;
            }
            for said in &self.scans[slot].said {
                let claim = Claim { sequence: said.sequence, kind: said.kind, device: slot };
                claims.entry(said.block).or_default().push((claim, said.page, said.sum));
            }
        }
        claims
    }

    /// May a flush rely on the witness and a leg that is not here?
    fn stands_in(&self) -> bool {
        let missing =
            |leg: Slot| !self.is_current(leg) && self.newest.members[leg] == Membership::Member;
        self.newest.armed_witness && !self.clean && (0..LEGS).any(missing)
    }

    fn read_maps(&mut self) -> Result<(), M::Error> {
        for leg in 0..LEGS {
            if !matches!(self.role[leg], Role::Current | Role::Partial) {
                continue;
            }
            let counts = self.own_log_counts(leg);
            match self.media.activity(leg)? {
                Some(activity) => {
                    self.version = self.version.max(activity.version);
                    self.activity[leg] = activity.version;
                    if counts {
                        self.hot.heat(&activity, self.newest.geometry.extent_blocks);
                    }
                }
                None if !counts || planted!(self.rules, IgnoreLostActivity) => {}
                // Nobody knows what else it was given before the power went.
                None if self.is_current(leg) => self.hot.heat_all(),
                None => self.role[leg] = Role::Whole,
            }
            if self.is_current(leg) {
                self.read_table(leg)?;
                self.read_bitmap(leg)?;
            }
        }
        for leg in 0..LEGS {
            match self.role[leg] {
                Role::Current => {}
                Role::Absent => self.lacks_what_is_hot(leg),
                Role::Partial => {
                    self.read_outdated(leg)?;
                    self.lacks_what_is_hot(leg);
                }
                Role::Whole => {
                    self.read_outdated(leg)?;
                    Span::pieces(0..self.newest.geometry.blocks)
                        .for_each(|piece| self.out_of_sync[leg].insert(piece));
                }
            }
        }
        Ok(())
    }

    /// What was hot may differ, whatever the bitmap says.
    fn lacks_what_is_hot(&mut self, leg: Slot) {
        let lacks = &mut self.out_of_sync[leg];
        self.hot.spans().for_each(|span| lacks.insert(span));
    }

    fn bitmap_pages(&self) -> u64 {
        let geometry = self.newest.geometry;
        geometry.blocks.div_ceil(geometry.region_blocks.into()).div_ceil(BITS_PER_PAGE)
    }

    /// Does its activity log say anything? After a stop in order the members hold the same. A leg
    /// that was away then may have been given, before it went, what no other one knows of.
    fn own_log_counts(&self, leg: Slot) -> bool {
        match self.role[leg] {
            Role::Partial if self.clean => !planted!(self.rules, SkipOwnActivityAfterStop),
            Role::Partial => !planted!(self.rules, SkipOwnActivity),
            _ => !self.clean,
        }
    }

    fn read_table(&mut self, leg: Slot) -> Result<(), M::Error> {
        let second = leg == SLOW && self.is_current(FAST);
        for index in 0..self.table.pages() {
            let page = self.media.table(leg, index)?;
            if second && self.table.page(index) != page.as_ref().map(|page| &page.sums[..]) {
                self.differ.insert(index);
            }
            let Some(page) = page else { continue };
            self.table_on[leg].insert(index, page.version);
            self.version = self.version.max(page.version);
            let known = self.map_slots.get(&(false, index)).copied().unwrap_or(0);
            if page.version > known {
                self.map_slots.insert((false, index), page.version);
                self.table.load(index, &page.sums);
            }
        }
        Ok(())
    }

    /// What the left-out leg lacks, as recorded by a member.
    fn read_bitmap(&mut self, leg: Slot) -> Result<(), M::Error> {
        let lacking = other(leg);
        for index in 0..self.bitmap_pages() {
            let Some(page) = self.media.bitmap(leg, index)? else { continue };
            self.version = self.version.max(page.version);
            let known = self.map_slots.entry((true, index)).or_default();
            *known = page.version.max(*known);
            if !self.is_current(lacking) && !planted!(self.rules, ClearBitmap) {
                let first = (index * BITS_PER_PAGE / 64) as usize;
                self.out_of_sync[lacking].merge(first, &page.words);
            }
        }
        Ok(())
    }

    /// Make every block that may differ the same on all members, by the newest claim.
    fn converge(&mut self, claims: &Claims) -> Result<(), M::Error> {
        let mut blocks = match planted!(self.rules, SkipHot) {
            true => Hot::new(self.newest.geometry.blocks),
            false => self.hot.clone(),
        };
        blocks.extend(claims.keys());
        for block in blocks.iter() {
            let claims = claims.get(&block).map_or(&[][..], Vec::as_slice);
            // Whatever the legs hold of a lost block is no content of it. Only a record can tell
            // of a newer one.
            let lost = self.table.is_lost(block) && !planted!(self.rules, TrustLost);
            let sum = match merge::remedy(&self.rules, claims.iter().map(|&(claim, ..)| claim)) {
                Remedy::Replay(claim) => {
                    let said = claims.iter().find(|said| said.0 == claim);
                    let &(_, page, sum) = said.expect("the remedy is one of the claims");
                    self.replay(block, claim, page, sum)?;
                    Some(sum)
                }
                Remedy::Copy(claim) => {
                    let said = claims.iter().find(|said| said.0 == claim);
                    let &(.., sum) = said.expect("the remedy is one of the claims");
                    // An older record names what the block was before it was lost, and the other
                    // leg may still hold that.
                    if lost && self.media.sum(claim.device, block)? != Some(sum) {
                        continue;
                    }
                    if self.only_older_left(block, claim.device, sum)? {
                        self.table.lose(block);
                        continue;
                    }
                    self.copy(block, claim.device, sum)?
                }
                Remedy::Compare if lost => continue,
                Remedy::Compare => self.compare(block)?,
            };
            match sum {
                Some(sum) => self.table.set(block, sum, self.newest.incarnation << 40),
                None => self.table.forget(block),
            }
        }
        if !planted!(self.rules, RecoverWithoutFlush) {
            for leg in self.current_legs() {
                self.media.flush(leg)?;
            }
        }
        Ok(())
    }

    fn replay(&mut self, block: Block, claim: Claim, page: u64, sum: u32) -> Result<(), M::Error> {
        for leg in self.current_legs() {
            match claim.kind {
                crate::format::record::EntryKind::Zero => self.media.zero(leg, block, sum)?,
                _ => self.media.replay(claim.device, page, leg, block)?,
            }
        }
        Ok(())
    }

    /// In relaxed mode a flush may rely on one leg. If that one cannot read the block, what the
    /// other holds may be older than the flush: an error is honest, and that content is not.
    fn only_older_left(&mut self, block: Block, leg: Slot, said: u32) -> Result<bool, M::Error> {
        let relied = self.newest.armed_relaxed && !planted!(self.rules, OlderForLost);
        Ok(relied
            && self.is_current(other(leg))
            && self.media.sum(leg, block)?.is_none()
            && self.media.sum(other(leg), block)? != Some(said))
    }

    /// The log of `leg` says that its copy is the newest, with checksum `said`. If it is another by
    /// now, a later write that nobody flushed is there, or the copy has rotted: then the other
    /// leg's is better if it is the one that was meant.
    fn copy(&mut self, block: Block, leg: Slot, said: u32) -> Result<Option<u32>, M::Error> {
        let target = other(leg);
        let sum = self.media.sum(leg, block)?;
        if !self.is_current(target) {
            return Ok(sum);
        }
        let theirs = self.media.sum(target, block)?;
        let rotten = sum.is_none() || (sum != Some(said) && theirs == Some(said));
        let rotten = rotten || planted!(self.rules, WrongDirection);
        let (from, to, sum) = if rotten { (target, leg, theirs) } else { (leg, target, sum) };
        if sum.is_some() && self.media.sum(to, block)? != sum {
            self.media.copy(from, to, block)?;
        }
        Ok(sum)
    }

    /// Any copy will do, but a right one is better than a rotten one. What is recorded of a hot
    /// block may be outdated: two equal copies are taken as they are.
    fn compare(&mut self, block: Block) -> Result<Option<u32>, M::Error> {
        let recorded = self.table.get(block).map(|(sum, _)| sum);
        // Where every block is compared, most of them were never hot, and many never written.
        let unwritten = self.hot.is_all() && recorded.is_none();
        let sums = match self.current_legs()[..] {
            [leg] => [self.media.sum(leg, block)?; LEGS],
            _ => [self.media.sum(FAST, block)?, self.media.sum(SLOW, block)?],
        };
        if sums[0] == sums[1] {
            return Ok(sums[0].filter(|_| !unwritten));
        }
        let from = match verify::copies(&self.rules, recorded, sums) {
            Verdict::Same => FAST,
            Verdict::Wrong(leg) => other(leg),
            Verdict::Unknown => FAST,
        };
        self.media.copy(from, other(from), block)?;
        Ok(sums[from])
    }

    /// Record the outcome: checksums, what a leg lacks, superblocks, and last the hot extents.
    fn finish(mut self, entropy: u128) -> Result<Opened, M::Error> {
        let mut superblock = self.next_superblock(entropy);
        let legs = self.current_legs();
        if planted!(self.rules, CoolFirst) {
            self.cool(&legs)?;
        }
        self.write_table(&legs)?;
        self.write_bitmap(&legs)?;
        let log_first: [u64; DEVICES] = std::array::from_fn(|slot| {
            let before = self.present[slot].as_ref();
            before.map_or(0, |before| self.scans[slot].next.max(before.log_first))
        });
        self.write_superblocks(&mut superblock, &log_first)?;
        if !planted!(self.rules, CoolFirst) {
            self.cool(&legs)?;
        }
        let state = std::array::from_fn(|slot| self.state(slot, &superblock));
        Ok(Opened {
            superblock,
            own: self.present,
            state,
            log_first,
            out_of_sync: self.out_of_sync,
            table: self.table,
            activity: self.activity,
            compared_all: self.hot.is_all() && !self.clean,
            map_version: self.version + 1,
            map_slots: self.map_slots,
            entropy,
        })
    }

    /// Write the superblock of the start to every member, and then, to all but the last, that the
    /// others have it: from then on an older copy of any of them is known for one.
    fn write_superblocks(
        &mut self,
        superblock: &mut Superblock,
        log_first: &[u64; DEVICES],
    ) -> Result<(), M::Error> {
        let is_member = |slot: &Slot| superblock.members[*slot] == Membership::Member;
        let members = (0..DEVICES).filter(is_member).filter(|&slot| self.present[slot].is_some());
        let mut turns: Vec<Slot> = members.collect();
        if !planted!(self.rules, StartUntold) {
            turns.extend_from_within(..turns.len().saturating_sub(1));
        }
        for slot in turns {
            let Some(before) = &self.present[slot] else { continue };
            let after = Superblock {
                device: slot as u8,
                identity: before.identity,
                update: superblock.seen[slot].next_update(before.update),
                log_first: log_first[slot],
                ..superblock.clone()
            };
            for copy in Layout::copies_of(after.update) {
                let superblock = Box::new(after.clone());
                self.media.meta(slot, Meta::Superblock { copy, superblock })?;
            }
            superblock.seen[slot] = after.as_seen();
            self.present[slot] = Some(after);
        }
        Ok(())
    }

    /// Write the pages of the table that changed, or that one leg lacks: either may be alone next
    /// time. A leg's newest page stays whole until a newer one is.
    fn write_table(&mut self, legs: &[Slot]) -> Result<(), M::Error> {
        let of = |span: Span| Table::page_of(span.start)..=Table::page_of(span.end() - 1);
        let hot = self.hot.spans().flat_map(of);
        let pages: BTreeSet<u64> = hot.chain(self.differ.iter().copied()).collect();
        for index in pages {
            let Some(sums) = self.table.page(index).map(<[_]>::to_vec) else { continue };
            // The version before it is for a leg whose newest page is in the slot of this one.
            self.version += 1;
            let version = self.next_version(false, index);
            for &leg in legs {
                let newest = self.table_on[leg].get(&index);
                let in_the_way = newest.is_some_and(|newest| newest % 2 == version % 2);
                for version in version - u64::from(in_the_way)..=version {
                    let page = TablePage { version, index, sums: sums.clone() };
                    self.media.meta(leg, Meta::Table(page))?;
                }
            }
        }
        Ok(())
    }

    fn state(&self, slot: Slot, superblock: &Superblock) -> State {
        match (superblock.members[slot], self.role[slot]) {
            (Membership::Member, _) => State::Member,
            (Membership::Never, _) => State::Never,
            (Membership::Out, Role::Partial | Role::Whole) if slot < LEGS => State::Filling,
            (Membership::Out, _) => State::Out,
        }
    }

    fn cool(&mut self, legs: &[Slot]) -> Result<(), M::Error> {
        for &leg in legs {
            // The last one on this leg stays whole until this one is.
            self.version += 1 + u64::from(self.version % 2 != self.activity[leg] % 2);
            let activity = Activity { version: self.version, hot: Vec::new() };
            self.activity[leg] = self.version;
            self.media.meta(leg, Meta::Activity(activity))?;
        }
        Ok(())
    }

    fn next_version(&mut self, bitmap: bool, index: u64) -> u64 {
        let last = self.map_slots.get(&(bitmap, index)).copied();
        self.version += 1;
        if last.is_some_and(|last| last % 2 == self.version % 2) {
            self.version += 1;
        }
        self.map_slots.insert((bitmap, index), self.version);
        self.version
    }

    /// What the other leg lacks must be on media before anything else forgets it.
    fn write_bitmap(&mut self, legs: &[Slot]) -> Result<(), M::Error> {
        let &[leg] = legs else { return Ok(()) };
        let count = (BITS_PER_PAGE / 64) as usize;
        for index in 0..self.bitmap_pages() {
            let version = self.next_version(true, index);
            let mut words = self.out_of_sync[other(leg)].words(index as usize * count, count);
            words.resize(count, 0);
            self.media.meta(leg, Meta::Bitmap(Bitmap { version, index, words }))?;
        }
        Ok(())
    }

    /// The superblock of the start: a new incarnation, and a new generation if anybody is missing
    /// who was a member.
    fn next_superblock(&self, entropy: u128) -> Superblock {
        let mut next = self.newest.clone();
        let before = next.members;
        next.members = std::array::from_fn(|slot| {
            let back = slot == WITNESS && self.role[slot] == Role::Whole;
            match (before[slot], self.is_current(slot) || back) {
                (Membership::Never, _) => Membership::Never,
                (_, true) => Membership::Member,
                (_, false) => Membership::Out,
            }
        });
        let lost = |slot: Slot| {
            before[slot] == Membership::Member && next.members[slot] != Membership::Member
        };
        let left: Vec<Slot> = (0..DEVICES).filter(|&slot| lost(slot)).collect();
        if !left.is_empty() && !planted!(self.rules, NoGeneration) {
            let Generations { current, base, .. } = next.generations;
            next.generations.begin(entropy.max(1));
            let leg = left.iter().any(|&slot| slot < LEGS);
            next.generations.base = if leg { current } else { base };
        }
        let seen = self.present.iter().flatten().map(|superblock| superblock.incarnation);
        next.incarnation = seen.max().unwrap_or(0) + 1;
        next.run = mix64(entropy as u64 ^ mix64((entropy >> 64) as u64)).max(1);
        for slot in 0..DEVICES {
            let told = self.present.iter().flatten().map(|by| by.seen[slot]);
            let own = self.present[slot].iter().map(Superblock::as_seen);
            let newest = told.chain(own).max_by_key(|seen| seen.update);
            next.seen[slot] = newest.unwrap_or_default();
        }
        next.clean = false;
        let whole = next.members[..LEGS] == [Membership::Member; LEGS];
        next.armed_relaxed = next.mode == Mode::Relaxed && whole;
        next.armed_witness = next.members[WITNESS] == Membership::Member;
        if planted!(self.rules, NeverArm) {
            (next.armed_relaxed, next.armed_witness) = (false, false);
        }
        next
    }
}
