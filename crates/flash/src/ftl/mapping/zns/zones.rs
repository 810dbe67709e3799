//! The drive's table: which blocks are a zone, how far it is written.

use sim::{Bytes, snapshot_fields};

use crate::ftl::flash::Flash;
use crate::ftl::mapping::bits;
use crate::ssd::geometry::Geometry;
use crate::ssd::plan::NONE;

/// Set in the tag of blocks of a zone for moved pages; the rest is the number of the zone.
const MOVED: u32 = 1 << 31;

#[derive(Clone, Copy, Default, Debug)]
struct Zone {
    /// Pages handed out; all of them when the zone was closed before its end.
    written: u32,
    /// Pages that hold the newest copy.
    valid: u32,
    /// It has blocks.
    used: bool,
}

snapshot_fields!(Zone { written, valid, used });

#[derive(Clone)]
pub(super) struct Zones {
    /// Planes that a zone stripes over.
    width: u32,
    groups: u32,
    blocks_per_plane: u32,
    pages_per_block: u32,
    zones: Vec<Zone>,
    /// The blocks of each zone, in the order of planes; [`NONE`] where there is none (yet).
    members: Vec<u32>,
    /// The zone of each block in one.
    zone_of: Vec<u32>,
    /// Numbers that no zone has.
    unused: Vec<u32>,
    /// Closed zones without valid pages.
    dead: u32,
}

snapshot_fields!(Zones { zones, members, zone_of, unused, dead });

impl Zones {
    pub(super) fn new(geometry: &Geometry, width: u32) -> Zones {
        let count = geometry.blocks() / width;
        Zones {
            width,
            groups: geometry.planes() / width,
            blocks_per_plane: geometry.blocks_per_plane.get(),
            pages_per_block: geometry.pages_per_block.get(),
            zones: vec![Zone::default(); count as usize],
            members: vec![NONE; geometry.blocks() as usize],
            zone_of: vec![NONE; geometry.blocks() as usize],
            unused: (0..count).rev().collect(),
            dead: 0,
        }
    }

    pub(super) fn width(&self) -> u32 {
        self.width
    }

    pub(super) fn count(&self) -> u32 {
        self.zones.len() as u32
    }

    pub(super) fn pages_per_zone(&self) -> u32 {
        self.width * self.pages_per_block
    }

    pub(super) fn valid(&self, zone: u32) -> u32 {
        self.zones[zone as usize].valid
    }

    #[inline]
    pub(super) fn is_full(&self, zone: u32) -> bool {
        self.zones[zone as usize].written == self.pages_per_zone()
    }

    fn members(&self, zone: u32) -> std::ops::Range<usize> {
        let first = (zone * self.width) as usize;
        first..first + self.width as usize
    }

    /// The blocks of a zone.
    pub(super) fn blocks(&self, zone: u32) -> impl Iterator<Item = u32> {
        self.members[self.members(zone)].iter().copied().filter(|&block| block != NONE)
    }

    /// Page `index` of a zone, its planes in turn; `None` where a power failure took the block.
    pub(super) fn page(&self, geometry: &Geometry, zone: u32, index: u32) -> Option<u32> {
        let block = self.members[(zone * self.width + index % self.width) as usize];
        (block != NONE).then(|| geometry.first_ppn(block) + index / self.width)
    }

    /// Zones of a group that can be opened.
    fn empty_in(&self, flash: &Flash, group: u32) -> u32 {
        let planes = group * self.width..(group + 1) * self.width;
        planes.map(|plane| flash.free_blocks(plane)).min().unwrap_or(0)
    }

    /// Zones that can be opened.
    pub(super) fn empty(&self, flash: &Flash) -> u32 {
        (0..self.groups).map(|group| self.empty_in(flash, group)).sum()
    }

    /// Open a zone where most are empty; `None` when no more than `kept` are.
    #[cold]
    pub(super) fn open(&mut self, flash: &mut Flash, moved: bool, kept: u32) -> Option<u32> {
        if self.empty(flash) <= kept {
            return None;
        }
        let emptiest = |&group: &u32| std::cmp::Reverse(self.empty_in(flash, group));
        let group = (0..self.groups).min_by_key(emptiest)?;
        let zone = self.unused.pop()?;
        self.zones[zone as usize] = Zone { used: true, ..Zone::default() };
        self.take_blocks(flash, zone, if moved { zone | MOVED } else { zone }, group);
        Some(zone)
    }

    /// Give a zone the blocks it has not.
    fn take_blocks(&mut self, flash: &mut Flash, zone: u32, tag: u32, group: u32) {
        for plane in group * self.width..(group + 1) * self.width {
            if self.members[(zone * self.width + plane % self.width) as usize] == NONE {
                let block = flash.take_block(plane, tag, 0).expect("the plane has a free block");
                self.set_member(zone, plane, block);
            }
        }
    }

    fn set_member(&mut self, zone: u32, plane: u32, block: u32) {
        self.members[(zone * self.width + plane % self.width) as usize] = block;
        self.zone_of[block as usize] = zone;
    }

    /// Hand out the next page of a zone: in the block that is behind, the first of several.
    #[inline]
    pub(super) fn append(&mut self, flash: &mut Flash, zone: u32, lpn: u32) -> u32 {
        let entry = &mut self.zones[zone as usize];
        let turn = entry.written % self.width;
        entry.written += 1;
        entry.valid += 1;
        let mut block = self.members[(zone * self.width + turn) as usize];
        let row = (entry.written - 1) / self.width;
        if u32::from(flash.block(block).written) != row {
            // A power failure left the blocks at different heights.
            let behind = |&block: &u32| flash.block(block).written;
            block = self.blocks(zone).min_by_key(behind).expect("an open zone has blocks");
        }
        let page = u32::from(flash.block(block).written);
        flash.allocate_at(block, page, lpn)
    }

    /// A page lost its data; true when its zone can be reset therefore.
    #[inline]
    pub(super) fn lost_page(&mut self, geometry: &Geometry, ppn: u32) -> bool {
        let zone = self.zone_of[geometry.block_page(ppn).0 as usize];
        let entry = &mut self.zones[zone as usize];
        entry.valid -= 1;
        let dead = entry.valid == 0 && entry.written == self.width * self.pages_per_block;
        self.dead += u32::from(dead);
        dead
    }

    /// True when a closed zone has no valid page.
    pub(super) fn has_dead(&self) -> bool {
        self.dead > 0
    }

    /// The zone with the fewest valid pages that is not in `open`, if any has an invalid one.
    pub(super) fn least_valid(&self, open: &[u32]) -> Option<u32> {
        let closed = |&zone: &u32| self.zones[zone as usize].used && !open.contains(&zone);
        let zone = (0..self.count()).filter(closed).min_by_key(|&zone| self.valid(zone))?;
        (self.valid(zone) < self.pages_per_zone()).then_some(zone)
    }

    /// A zone without valid pages is going to be reset.
    pub(super) fn reset(&mut self) {
        self.dead -= 1;
    }

    /// The reset of a zone has ended.
    pub(super) fn forget(&mut self, zone: u32) {
        let members = self.members(zone);
        self.members[members].fill(NONE);
        self.zones[zone as usize] = Zone::default();
        self.unused.push(zone);
    }

    /// Power is back, and the newest copies are known: find the zones by their tags. One that was
    /// not written to its end is opened again in the place in `open` of what it was opened for,
    /// the last for moved pages; when there is no place, or nothing in it is valid, it is closed.
    pub(super) fn rebuild(&mut self, flash: &mut Flash, open: &mut [u32]) {
        self.zones.fill(Zone::default());
        self.members.fill(NONE);
        self.dead = 0;
        let mut tags = vec![NONE; self.zones.len()];
        for (block, tag) in flash.own_blocks() {
            let zone = tag & !MOVED;
            self.set_member(zone, flash.geometry.plane_of_block(block), block);
            tags[zone as usize] = tag;
            let entry = &mut self.zones[zone as usize];
            entry.used = true;
            entry.written += u32::from(flash.block(block).written);
            entry.valid += flash.valid(block);
        }
        self.unused = (0..self.count()).filter(|&z| !self.zones[z as usize].used).rev().collect();
        open.fill(NONE);
        // The emptiest first: of two zones for moved pages, what the older one lost still has to
        // be moved, and needs the room of the newer.
        let mut used: Vec<u32> =
            (0..self.count()).filter(|&z| self.zones[z as usize].used).collect();
        used.sort_by_key(|&zone| self.zones[zone as usize].written);
        for zone in used {
            let entry = self.zones[zone as usize];
            let tag = tags[zone as usize];
            let (streams, moved) = open.split_at_mut(open.len() - 1);
            let mut places = if tag & MOVED == 0 { streams.iter_mut() } else { moved.iter_mut() };
            match places.find(|place| **place == NONE) {
                _ if self.is_full(zone) => self.dead += u32::from(entry.valid == 0),
                Some(place) if entry.valid > 0 => {
                    *place = zone;
                    let block = self.blocks(zone).next().expect("a used zone has a block");
                    let group = flash.geometry.plane_of_block(block) / self.width;
                    self.take_blocks(flash, zone, tag, group);
                }
                _ => {
                    self.zones[zone as usize].written = self.pages_per_zone();
                    self.dead += u32::from(entry.valid == 0);
                }
            }
        }
    }

    /// The drive's table.
    pub(super) fn ram(&self) -> Bytes {
        let zone = self.width * bits(self.blocks_per_plane) + bits(self.pages_per_zone() + 1);
        Bytes((u64::from(self.count()) * u64::from(zone)).div_ceil(8))
    }
}
