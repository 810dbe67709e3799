//! The part that every scheme with a demand-loaded table in the order of logical pages shares:
//! it looks entries up through the scheme's cache, and writes and reads host pages.

use config::ConfigError;
use sim::{Bytes, Snapshot};

use super::{COLLECTION_RESERVE, ENTRY_BYTES, MAP_RESERVE, MapStore, check_room};
use crate::ftl::allocation::Allocator;
use crate::ftl::flash::{Flash, Frontier};
use crate::ftl::mapping::fill::fill;
use crate::ftl::mapping::{Context, Full, HostPage, MapStats, Mapping, Needs, bits, next_page};
use crate::ssd::plan::{FlashOp, Kind, NONE, Plan, Rebuilt};

/// Free blocks per plane that host writes leave. One more than where map pages stay in the plane
/// they map: a collection may have to write map pages whose home has no room.
const RESERVE: u32 = MAP_RESERVE + 1;

/// The table on flash, and where its reads and writes are planned.
pub struct Io<'a> {
    /// The table on flash.
    pub store: &'a mut MapStore,
    /// The books of the flash.
    pub flash: &'a mut Flash,
    /// The plan being made.
    pub plan: &'a mut Plan,
    /// Free blocks per plane that map pages leave which make room in RAM. One less than host
    /// pages: these wait for the room, and would take every block that is freed.
    pub reserve: u32,
}

impl Io<'_> {
    /// True when a map page can be written now.
    pub fn has_room(&self, page: u32) -> bool {
        self.store.home_with_room(page, self.flash, self.reserve).is_some()
    }

    /// Plan the read of a map page, if it was ever written.
    pub fn read(&mut self, page: u32) {
        self.store.plan_read(page, self.plan);
    }

    /// Plan the program of a map page, for which there is room, as a stage after its read.
    pub fn write(&mut self, page: u32) {
        self.plan.then();
        let written = self.store.plan_write_home(page, self.flash, self.reserve, self.plan);
        debug_assert!(written, "room was checked");
    }
}

/// What differs between the schemes: which entries are in RAM.
pub trait Cache: Snapshot + Clone + Send + 'static {
    /// Throw out until the entry of `page.lpn` can be [loaded](Cache::load), unless it is in RAM.
    /// Returns false when what must go has changed and finds no room on flash; it stays.
    fn make_room(&mut self, page: HostPage, io: &mut Io) -> bool;

    /// Have the entry of `page.lpn` in RAM, for which there is room, as part of an access to that
    /// page. Returns false when it was not there.
    fn load(&mut self, page: HostPage, io: &mut Io) -> bool;

    /// The entry of a logical page, if it is in RAM. Changes nothing that can be noticed.
    fn get(&mut self, lpn: u32) -> Option<u32>;

    /// Change an entry that is in RAM. Returns what it was.
    fn set(&mut self, lpn: u32, ppn: u32) -> u32;

    /// Memory of the cache.
    fn ram(&self) -> Bytes;

    /// The power failed: everything is lost.
    fn clear(&mut self);

    /// Prepare for cheap clones.
    fn freeze(&mut self);
}

/// A mapping with its table on flash and a cache of it in RAM.
#[derive(Clone)]
pub struct Demand<C> {
    /// What is in RAM.
    cache: C,
    store: MapStore,
    allocator: Allocator,
    reserve: u32,
    directory: Bytes,
    stats: MapStats,
}

impl<C: Cache> Snapshot for Demand<C> {
    fn save(&self, to: &mut sim::Saver) {
        self.cache.save(to);
        self.store.save(to);
        self.allocator.save(to);
        self.stats.save(to);
    }
    fn restore(&mut self, from: &mut sim::Loader) -> Result<(), sim::SnapshotError> {
        self.cache.restore(from)?;
        self.store.restore(from)?;
        self.allocator.restore(from)?;
        self.stats.restore(from)
    }
}

/// The table of a drive on flash: PPNs of 4 bytes in the order of logical pages.
///
/// # Errors
/// When the drive has no room for it.
pub fn store(context: &Context) -> Result<MapStore, ConfigError> {
    let geometry = &context.geometry;
    let entries = (geometry.page_bytes() / ENTRY_BYTES).min(u64::from(context.logical_pages));
    let store = MapStore::striped(context, entries as u32);
    check_room(context, map_pages_per_plane(&store, context))?;
    Ok(store)
}

/// Map pages that a plane must have room for: its share, and some that found none at home.
fn map_pages_per_plane(store: &MapStore, context: &Context) -> u32 {
    let geometry = &context.geometry;
    store.pages().div_ceil(geometry.planes()) + geometry.pages_per_block.get()
}

impl<C: Cache> Demand<C> {
    /// A mapping with that cache of that table.
    pub fn new(cache: C, store: MapStore, context: &Context) -> Demand<C> {
        let directory = u64::from(store.pages()) * u64::from(bits(context.geometry.pages()));
        Demand {
            cache,
            store,
            allocator: context.allocator.clone(),
            reserve: context.reserve + RESERVE,
            directory: Bytes(directory.div_ceil(8)),
            stats: MapStats::default(),
        }
    }

    /// Throw out of RAM what must leave before an entry is loaded; false when it cannot.
    #[inline]
    fn make_room(&mut self, page: HostPage, flash: &mut Flash, plan: &mut Plan) -> bool {
        let reserve = self.reserve - 1;
        self.cache.make_room(page, &mut Io { store: &mut self.store, flash, plan, reserve })
    }

    /// Have an entry in RAM: read map pages in a stage of their own, and write what has to leave
    /// beside the operations that the caller adds.
    #[inline]
    fn load(&mut self, page: HostPage, flash: &mut Flash, plan: &mut Plan) -> u32 {
        let reserve = self.reserve - 1;
        let hit = self.cache.load(page, &mut Io { store: &mut self.store, flash, plan, reserve });
        programs_last(plan);
        self.stats.lookups += 1;
        self.stats.hits += u64::from(hit);
        self.cache.get(page.lpn).expect("it was loaded")
    }

    /// Read an entry that has no room in RAM, and forget it.
    #[cold]
    fn pass(&mut self, lpn: u32, plan: &mut Plan) -> u32 {
        self.store.plan_read(self.store.page_of(lpn), plan);
        programs_last(plan);
        self.stats.lookups += 1;
        self.store.peek(lpn)
    }
}

/// Make a stage of the reads and leave the programs to the next one, unless one of the reads is of
/// a page that is programmed here.
pub fn programs_last(plan: &mut Plan) {
    let is_program = |op: &FlashOp| op.kind() == Kind::Program;
    let programmed = |ppn| plan.ops.iter().any(|op| is_program(op) && op.ppn() == ppn);
    if plan.ops.iter().any(|op| !is_program(op) && programmed(op.ppn())) {
        plan.then();
        return;
    }
    plan.ops.sort_by_key(is_program);
    plan.stage_ends.clear();
    let reads = plan.ops.iter().filter(|op| !is_program(op)).count();
    if reads > 0 {
        plan.stage_ends.push(reads as u32);
    }
}

impl<C: Cache> Mapping for Demand<C> {
    fn lookup(&mut self, _flash: &mut Flash, lpn: u32) -> u32 {
        if let Some(page) = self.store.page_with_id(lpn) {
            return self.store.ppn(page);
        }
        self.cache.get(lpn).unwrap_or_else(|| self.store.peek(lpn))
    }

    fn read(&mut self, flash: &mut Flash, page: HostPage, plan: &mut Plan) {
        let ppn = if self.make_room(page, flash, plan) {
            self.load(page, flash, plan)
        } else {
            self.pass(page.lpn, plan)
        };
        self.stats.double_reads += u64::from(!plan.stage_ends.is_empty());
        page.plan_read(ppn, plan);
    }

    fn write(&mut self, flash: &mut Flash, page: HostPage, plan: &mut Plan) -> Result<(), Full> {
        let (lpn, reserve) = (page.lpn, self.reserve);
        if !self.make_room(page, flash, plan) {
            return Err(Full(None));
        }
        let plane = self.allocator.choose(Frontier::HOST, lpn, flash, reserve).map_err(Full)?;
        let ppn = next_page(flash, plane, Frontier::HOST, lpn, reserve, plan)
            .expect("the allocator chose a plane with room");
        let old = self.load(page, flash, plan);
        self.cache.set(page.lpn, ppn);
        page.plan_program(old, ppn, flash, plan);
        Ok(())
    }

    fn discard(&mut self, flash: &mut Flash, lpn: u32, plan: &mut Plan) -> Result<(), Full> {
        let page = HostPage::whole(lpn, flash.geometry.page_sectors, 0, 1);
        if !self.make_room(page, flash, plan) {
            return Err(Full(None));
        }
        let old = self.load(page, flash, plan);
        if old != NONE {
            flash.invalidate(old);
            self.cache.set(lpn, NONE);
        }
        Ok(())
    }

    fn relocated(&mut self, flash: &mut Flash, id: u32, from: u32, to: u32) {
        if self.store.page_with_id(id).is_none() && self.cache.get(id).is_some() {
            self.cache.set(id, to);
        } else {
            self.store.relocated(id, id, flash.geometry.plane_of(from), to);
        }
    }

    fn before_erase(&mut self, flash: &mut Flash, plane: u32, plan: &mut Plan) -> bool {
        self.store.write_moved(flash, plane, plan)
    }

    fn map_pages_to_change(&mut self, flash: &mut Flash, block: u32) -> u32 {
        let cache = &mut self.cache;
        self.store.pages_about(flash, block, |lpn| cache.get(lpn).is_none().then_some(lpn))
    }

    fn rebuild(&mut self, flash: &mut Flash) -> Rebuilt {
        self.cache.clear();
        self.store.rebuild(flash, |lpn| lpn)
    }

    fn fill(&mut self, flash: &mut Flash, count: u32, plan: &mut Plan) -> bool {
        let planes = flash.geometry.planes();
        let more = self.store.pages().div_ceil(planes) + flash.geometry.pages_per_block.get();
        let allocator = &mut self.allocator;
        let Some(filled) = fill(flash, allocator, count, self.reserve, more, plan) else {
            return false;
        };
        let homes = self.allocator.stripe();
        let home = |page: u32| homes[page as usize % homes.len()];
        self.store.fill(flash, count, |lpn| filled.ppn(lpn), |lpn| lpn, home, plan);
        true
    }

    fn needs(&self) -> Needs {
        Needs {
            reserve: RESERVE,
            map_pages: self.store.pages(),
            before_erase_pages: self.store.pages(),
            kept_for_collection: COLLECTION_RESERVE,
            ..Needs::default()
        }
    }

    fn ram(&self) -> Bytes {
        Bytes(self.cache.ram().0 + self.directory.0)
    }

    fn stats(&self) -> Option<MapStats> {
        Some(self.stats)
    }

    fn freeze(&mut self) {
        self.store.freeze();
        self.cache.freeze();
    }

    fn boxed_clone(&self) -> Box<dyn Mapping> {
        Box::new(self.clone())
    }
}
