//! A solid-state drive: flash array, FTL, write buffer and host link, driven by events.
//!
//! # What it models
//! Channels of packages of dies of planes, each die executing one operation (or one multi-plane
//! group) at a time and sharing its channel's bus. The FTL plans flash operations; the NAND model
//! times them: reads first, then writes in planned order, then background reads. Collection works
//! a step at a time when its die has nothing else to do, and at once when free blocks run out.
//! A page of the FTL may be a unit of a larger page of the flash, that page may lie over several
//! planes that program and erase as one, small reads may take less, and parity may take its share.
//! Four ways to let writes in: as long as the buffer has room; at a pace (`buffer.pace`); in turns
//! with the collector (`collection.turn_pages`), whose turn the host feels as a pause, or as a pace
//! (`buffer.pace.in_turns`); and at the
//! rate of lately while the drive catches up with what its writes owe the collector
//! (`buffer.throttle`). Reads pass either way, unless programs may not be suspended while the
//! buffer is full (`buffer.suspend_when_full`) or many writes wait for their pace
//! (`buffer.hold_at_waiting`), or the commands inside are counted (`host.commands`). A program may
//! have to run for a while before it can be suspended (`nand.suspend_after`).
//! Reads may be repeated (`nand.retry`): the more, the more their block was read since its erase.
//! A die may read on while data go out (`nand.cache_read`).
//!
//! # Equation
//! Per package with n dies, bus time X of a page, tR = R, tPROG = P:
//! reads/s = min(n / (R + X), 1 / X), writes/s = min(n / (X + P), 1 / X); with cache reads
//! min(n / max(R, X), 1 / X). A process makes 1 / (host.process_interval) of either at most.
//! Collecting a block of m valid pages with copy-back costs m (R + P) + E.
//! With u units per page, a program of u pages takes u X + P; with parity after every k pages, all
//! programs take (k + 1) / k of their bus time and tPROG.
//! A pace of one page each t and Poisson writes at load r: they wait t r / 2(1 - r) in the mean
//! (M/D/1). With turns whose collection takes D and a buffer of w pages, a write at rate L that
//! comes into the collector's turn waits up to D - w / L; at a pace of r pages a second in that
//! turn, up to D (1 - r / L), and no longer than all that are in flight take at it.
//! A throttle whose pages come at a rate R catches up for the share owed R / (1 - page r) of the
//! time, and takes r = R - h (1 / (page + owed) - R) meanwhile, with h for `hold_back_percent`.
//! With m pages moved for one of the host's and q reads a second, page and owed are both
//! (1 + m moved / (page + owed)) / (1 - q read) times as long: for long it takes
//! (1 - q read) / (page + owed + m moved) pages a second.
//! With retries, the share 1 - exp(-(n / (reads (1 + more (k - 1))))^shape) of the pages needs k or
//! more of them, when their block was read n times.
//!
//! # Parameters
//! `geometry`, `nand`, `over_provisioning`, `mapping`, `allocation`, `gc`, `collection`, `wear`,
//! `buffer`, `host`, `queue_depth_max`, `timing`, `oracle`.
//!
//! # What it leaves out
//! Errors but for retries, blocks moved because they were read too often, bad blocks, cache
//! programs, the controller's own computing time, power. Data on its way through the controller
//! is served from RAM. Partial page reads transfer only the sectors that were asked for, or
//! `nand.transfer_least`. Units of one page of the flash are sensed one by one, but for reads of
//! the host where `nand.planes_as_one` says that planes are, and parity takes no room. Where the
//! last page of a word line programs it all, the earlier ones count as programmed, and durable,
//! once they were
//! transferred: a drive without power-loss protection would program the rest of the word line for
//! a flush, which takes a tPROG more. A FUA write waits for all of the buffer, like a flush.
//! Fairness: reads of the host always come first on a die, and data out before data in on a
//! channel, so that writes starve behind reads without end: with four default dies on one channel
//! and 64 random reads in flight, 1.6 of 20 writes a second are done, after 632 ms in the mean.
//!
//! # Validated against
//! Closed forms of timing and write amplification, the DiskSim SSD extension's printed results
//! and MQSim (`docs/measured/fidelity-mqsim.md`), two drives that can be bought
//! (`docs/measured/real-drives.md`); the NAND oracle checks every plan in tests.
//!
//! # References
//! Agrawal et al., USENIX ATC 2008; Tavakkol et al., FAST 2018; Ha, Cho and Eom, J. KIISE 37(4),
//! 2010 (default geometry and timing).

use std::fmt;

use config::device::Context;
use config::{ConfigError, Duration, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};
use sim::{
    Busy, Bytes, Completions, Counters, Device, Limits, Nanos, Request, Survivors, snapshot_fields,
};

use crate::ftl::allocation::{self, Allocation};
use crate::ftl::collector::{Collector, Rules};
use crate::ftl::flash::Flash;
use crate::ftl::gc::{self, GcPolicy};
use crate::ftl::mapping::{self, Mapping, MappingScheme};
use crate::ftl::wear::{self, WearPolicy};
use crate::ssd::buffer::{Buffer, BufferParams};
use crate::ssd::controller::{Controller, Parts, Settings};
use crate::ssd::counted::{FLASH, PLACED};
use crate::ssd::geometry::{BLOCKS_PER_PLANE_MAX, Geometry, GeometryParams};
use crate::ssd::host::{HostParams, HostPath, HostQueues};
use crate::ssd::nand::Nand;
use crate::ssd::oracle::Oracle;
use crate::ssd::pace::{Pace, PaceParams};
use crate::ssd::throttle::{Throttle, ThrottleParams};
use crate::ssd::timing::{NandParams, Timing};

mod used;

/// The text of this file: its comment is the page of the model.
pub const SOURCE: &str = include_str!("ssd.rs");

/// How much flash the host does not see.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(transform = or_a_share)]
pub enum OverProvisioning {
    /// (physical - logical) / logical, in percent; `"28%"` says the same.
    RatioPercent(f64),
    /// logical / physical, in percent.
    LivePercent(f64),
    /// The logical capacity itself.
    Capacity(Size),
}

/// The ways to say [`OverProvisioning`] as a table.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Table {
    RatioPercent(f64),
    LivePercent(f64),
    Capacity(Size),
}

const SHARE: &str = "a ratio such as \"28%\" (spare over visible capacity)";

/// The schema of a table or of [`SHARE`].
fn or_a_share(schema: &mut schemars::Schema) {
    let share = schemars::json_schema!({
        "type": "string", "pattern": r"^ *[0-9.]+ *%$", "description": SHARE,
    });
    if let Some(choices) = schema.get_mut("oneOf").and_then(|list| list.as_array_mut()) {
        choices.insert(0, share.into());
    }
}

impl<'de> Deserialize<'de> for OverProvisioning {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<OverProvisioning, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = OverProvisioning;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                write!(
                    f,
                    "{SHARE}, or one of {{ ratio_percent = 28 }}, {{ live_percent = 78 }} and \
                     {{ capacity = \"64GiB\" }}"
                )
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<OverProvisioning, E> {
                let share = text.trim().strip_suffix('%').map(|number| number.trim().parse());
                match share {
                    Some(Ok(percent)) => Ok(OverProvisioning::RatioPercent(percent)),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
            fn visit_map<A: de::MapAccess<'de>>(
                self,
                map: A,
            ) -> Result<OverProvisioning, A::Error> {
                Ok(match Table::deserialize(de::value::MapAccessDeserializer::new(map))? {
                    Table::RatioPercent(percent) => OverProvisioning::RatioPercent(percent),
                    Table::LivePercent(percent) => OverProvisioning::LivePercent(percent),
                    Table::Capacity(size) => OverProvisioning::Capacity(size),
                })
            }
        }
        from.deserialize_any(Visitor)
    }
}

/// When and how blocks are collected. A mapping that frees its blocks itself only heeds
/// `reserve_blocks`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CollectionParams {
    /// Collect when this share of a plane's blocks (or fewer) is free, in percent.
    pub start_free_percent: f64,
    /// Having begun, go on while this share of blocks (or fewer) is free, in percent: the high
    /// watermark, at least `start_free_percent`. 0: no further than that.
    pub stop_free_percent: f64,
    /// Collect ahead of host requests when this many blocks of a plane (or fewer) are free.
    pub urgent_free_blocks: u32,
    /// Free blocks of a plane that only relocation may take, at least 1: host writes wait while no
    /// more than these are free. With 1, a victim's valid pages always find a place.
    pub reserve_blocks: u32,
    /// Also collect idle dies up to this share of free blocks, in percent; 0 never does.
    pub background_free_percent: f64,
    /// How long a die must be idle before it is collected in the background.
    pub background_after: Duration,
    /// Pages moved in one step, between which host requests may come first.
    pub step_pages: u32,
    /// Host pages after which the collector has its turn: every pool that is being collected moves
    /// `step_pages`, and no page of the buffer is programmed meanwhile. 0: they share the dies.
    pub turn_pages: u32,
    /// Moved pages get open blocks of their own.
    pub separate: bool,
    /// Choose victims over the whole drive instead of per plane.
    pub global: bool,
    /// A block of map pages is a victim when this share of its pages (or less) is valid, in
    /// percent; with more only if no other block would do. 100 takes it like any block.
    pub map_victim_percent: f64,
}

impl Default for CollectionParams {
    fn default() -> CollectionParams {
        CollectionParams {
            start_free_percent: 5.0,
            stop_free_percent: 0.0,
            urgent_free_blocks: 1,
            reserve_blocks: 1,
            background_free_percent: 0.0,
            background_after: Duration(Nanos::from_millis(1)),
            step_pages: 1,
            turn_pages: 0,
            separate: true,
            global: false,
            map_victim_percent: 100.0,
        }
    }
}

/// What time flash operations take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TimingMode {
    /// Events on dies and channels.
    #[default]
    Event,
    /// None at all: only write amplification and wear are of interest. Each request then writes its
    /// pages whole: there is no write buffer that puts parts of a page together.
    None,
}

/// Parameters of a solid-state drive.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Shape of the array.
    pub geometry: GeometryParams,
    /// Timing of the flash.
    pub nand: NandParams,
    /// Flash the host does not see.
    pub over_provisioning: OverProvisioning,
    /// How the FTL finds pages.
    pub mapping: MappingScheme,
    /// Which plane takes the next page.
    pub allocation: Allocation,
    /// Which block is collected next.
    pub gc: GcPolicy,
    /// When and how blocks are collected.
    pub collection: CollectionParams,
    /// How wear is levelled.
    pub wear: WearPolicy,
    /// Write buffer.
    pub buffer: BufferParams,
    /// Host path.
    pub host: HostParams,
    /// Requests accepted at once.
    pub queue_depth_max: u32,
    /// What time flash operations take.
    pub timing: TimingMode,
    /// Check every flash operation with the NAND oracle: slow, for tests.
    pub oracle: bool,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            geometry: GeometryParams::default(),
            nand: NandParams::default(),
            over_provisioning: OverProvisioning::LivePercent(85.0),
            mapping: MappingScheme::Page(Default::default()),
            allocation: Allocation::Static(Default::default()),
            gc: GcPolicy::Greedy(Default::default()),
            collection: CollectionParams::default(),
            wear: WearPolicy::None(Default::default()),
            buffer: BufferParams::default(),
            host: HostParams::default(),
            queue_depth_max: 1024,
            timing: TimingMode::Event,
            oracle: false,
        }
    }
}

impl Params {
    /// What a drive counts, and where its mapping puts pages.
    pub const COUNTED: sim::metric::Declarations = &[&FLASH, &PLACED];

    /// Build the drive.
    ///
    /// # Errors
    /// Names the first value that cannot be used and its range.
    pub fn build(&self, context: &Context) -> Result<Box<dyn Device>, ConfigError> {
        Ok(Box::new(self.build_around(context, |mapping| mapping)?))
    }

    /// The timing of flash of this shape.
    fn timing(&self) -> Result<Timing, ConfigError> {
        let (units, pages) = (self.nand.units_per_page, self.geometry.pages_per_block);
        let timing = self.nand.check().map_err(|e| e.within("nand"))?;
        if !pages.is_multiple_of(units) {
            let message = format!("expected a divisor of pages_per_block ({pages}), got {units}");
            return Err(ConfigError::new("nand.units_per_page", message));
        }
        let (least, page) = (self.nand.transfer_least, self.geometry.page);
        if let Some(least) = least.filter(|&least| least.0 > page.0) {
            let message = format!("expected at most a page ({}), got {}", page.0, least.0);
            return Err(ConfigError::new("nand.transfer_least", message));
        }
        Ok(timing)
    }

    /// Build the drive with what `wrap` makes of its mapping.
    pub(crate) fn build_around(
        &self,
        context: &Context,
        wrap: impl FnOnce(Box<dyn Mapping>) -> Box<dyn Mapping>,
    ) -> Result<Ssd, ConfigError> {
        let geometry = self.geometry.check().map_err(|e| e.within("geometry"))?;
        let timing = self.timing()?;
        let mut rules = self.rules(&geometry)?;
        let logical_pages = self.logical_pages(&geometry)?;
        if self.queue_depth_max == 0 || self.queue_depth_max > 1 << 20 {
            let message = format!("expected 1 to 1048576, got {}", self.queue_depth_max);
            return Err(ConfigError::new("queue_depth_max", message));
        }
        let allocator = self.allocation.build(&allocation::Context { geometry });
        let allocator =
            allocator.map_err(|e| e.within(self.allocation.name()).within("allocation"))?;
        if rules.global && allocator.is_static() {
            let message = "a victim anywhere does not help the plane a static allocation needs; \
                           use allocation = \"dynamic\"";
            return Err(ConfigError::new("collection.global", message));
        }
        let mapping = self.mapping.build(&mapping::Context {
            geometry,
            allocator,
            logical_pages,
            reserve: self.collection.reserve_blocks,
            copy_back: self.nand.copy_back,
            pslc_pages: self.pslc_pages(),
        });
        let mapping = wrap(mapping.map_err(|e| e.within(self.mapping.name()).within("mapping"))?);
        let needs = mapping.needs();
        self.check_used(needs)?;
        rules.raise(needs, self.collection.reserve_blocks);
        let planes = geometry.planes();
        let pools = if rules.global { 1 } else { planes };
        let gc = self.gc.build(&gc::Context { rng: context.rng.split("gc"), pools });
        let wear = self.wear.build(&wear::Context { planes });
        let (page, ahead) = (geometry.page_bytes(), timing.programs_ahead(planes));
        let buffer = Buffer::new(&self.buffer, page, ahead).map_err(|e| e.within("buffer"))?;
        let (pace, throttle) = self.admission(buffer.is_some())?;
        let host = HostPath::new(&self.host).map_err(|e| e.within("host"))?;
        let queues = HostQueues::new(&self.host).map_err(|e| e.within("host"))?;
        let mut flash = Flash::new(geometry, needs.frontiers, wear.levels_free_blocks());
        flash.map_victim_pages = self.map_victim_pages(&geometry)?;
        flash.kept_for_collection = if rules.separate { 0 } else { needs.kept_for_collection };
        let parts = Parts {
            nand: Nand::new(geometry, timing),
            flash: flash.with_pslc(needs.pslc),
            mapping,
            collector: Collector::new(rules, gc, wear, planes),
            buffer,
            pace,
            throttle,
            host,
            queues,
            oracle: self
                .oracle
                .then(|| Box::new(Oracle::new(geometry, logical_pages + needs.map_pages))),
        };
        let limits = Limits {
            capacity: Bytes(u64::from(logical_pages) * geometry.page_bytes()),
            block_bytes: geometry.page_bytes() as u32,
            queue_depth_max: self.queue_depth_max,
            rotational: false,
            write_cache: parts.buffer.as_ref().is_some_and(Buffer::is_volatile),
            discard: true,
        };
        let settings = self.settings(needs.pslc.is_some());
        Ok(Ssd { limits, controller: Controller::new(settings, parts) })
    }

    /// Pages of a block used as pSLC: whole pages of the flash.
    fn pslc_pages(&self) -> Option<u32> {
        let units = self.nand.units_per_page;
        let pages = |bits: u32| self.geometry.pages_per_block / bits / units * units;
        self.nand.pslc.map(|pslc| pages(pslc.bits_per_cell))
    }

    /// Of the controller; `folds` where a pSLC cache is emptied in the background.
    fn settings(&self, folds: bool) -> Settings {
        let background = self.collection.background_free_percent > 0.0 || folds;
        Settings {
            queue_depth_max: self.queue_depth_max,
            instant: self.timing == TimingMode::None,
            rest: background.then_some(self.collection.background_after.0),
            hold_when_full: !self.buffer.suspend_when_full,
            hold_at_waiting: self.buffer.hold_at_waiting,
            turn_pages: self.collection.turn_pages,
        }
    }

    fn map_victim_pages(&self, geometry: &Geometry) -> Result<Option<u32>, ConfigError> {
        let percent = self.collection.map_victim_percent;
        if !(0.0..=100.0).contains(&percent) {
            let message = format!("expected 0 to 100, got {percent}");
            return Err(ConfigError::new("collection.map_victim_percent", message));
        }
        let pages = f64::from(geometry.pages_per_block.get()) * percent / 100.0;
        Ok((percent < 100.0).then_some(pages as u32))
    }

    fn rules(&self, geometry: &Geometry) -> Result<Rules, ConfigError> {
        let collection = &self.collection;
        let blocks = geometry.blocks_per_plane.get();
        let share = |key: &str, percent: f64| {
            if !(0.0..=50.0).contains(&percent) {
                let key = format!("collection.{key}");
                return Err(ConfigError::new(key, format!("expected 0 to 50, got {percent}")));
            }
            Ok((percent / 100.0 * f64::from(blocks)).floor() as u32)
        };
        if collection.step_pages == 0 {
            return Err(ConfigError::new("collection.step_pages", "expected at least 1, got 0"));
        }
        // Nobody else can help a host write that waits for the reserve.
        let reserve = collection.reserve_blocks;
        if reserve == 0 || reserve > blocks / 2 {
            let message = format!("expected 1 to {} (half a plane), got {reserve}", blocks / 2);
            return Err(ConfigError::new("collection.reserve_blocks", message));
        }
        let (start, stop) = (collection.start_free_percent, collection.stop_free_percent);
        let start_free = share("start_free_percent", start)?.max(reserve);
        let stop_free = share("stop_free_percent", stop)?.max(start_free);
        if stop != 0.0 && stop < start {
            let message =
                format!("expected 0, or start_free_percent ({start}) or more, got {stop}");
            return Err(ConfigError::new("collection.stop_free_percent", message));
        }
        Ok(Rules {
            start_free,
            stop_free,
            urgent_free: collection.urgent_free_blocks.max(reserve),
            background_free: share("background_free_percent", collection.background_free_percent)?,
            step_pages: collection.step_pages,
            separate: collection.separate,
            copy_back: self.nand.copy_back,
            global: collection.global,
            before_erase_pages: 0,
            isolated: 0,
            own_pools: 0,
        })
    }

    /// Blocks that a plane has to have for `wanted` logical pages, `spare` of them for what it does
    /// inside, where that is a question of blocks.
    fn least_blocks(&self, geometry: &Geometry, wanted: f64, spare: u32) -> Option<f64> {
        let share = wanted / f64::from(geometry.pages());
        let blocks = match self.over_provisioning {
            // Of a larger drive it is as much.
            OverProvisioning::Capacity(_) => {
                share * f64::from(geometry.blocks_per_plane.get()) + f64::from(spare)
            }
            _ => f64::from(spare) / (1.0 - share),
        };
        (blocks > 0.0 && blocks <= f64::from(BLOCKS_PER_PLANE_MAX)).then(|| blocks.ceil())
    }

    /// Logical pages, checked against what the array can hold at all.
    fn logical_pages(&self, geometry: &Geometry) -> Result<u32, ConfigError> {
        let physical = f64::from(geometry.pages());
        let (key, wanted) = match self.over_provisioning {
            OverProvisioning::RatioPercent(ratio) => {
                ("ratio_percent", physical / (1.0 + ratio / 100.0))
            }
            OverProvisioning::LivePercent(live) => ("live_percent", physical * live / 100.0),
            OverProvisioning::Capacity(size) => {
                ("capacity", (size.0.0 / geometry.page_bytes()) as f64)
            }
        };
        // Each plane needs its reserve, its open blocks and one block's worth of invalid pages.
        let open = if self.collection.separate { 2 } else { 1 };
        let spare = self.collection.reserve_blocks + open + 1;
        let usable = geometry.blocks_per_plane.get().saturating_sub(spare);
        let most = u64::from(geometry.planes())
            * u64::from(usable)
            * u64::from(geometry.pages_per_block.get());
        if !wanted.is_finite() || wanted < 1.0 || wanted.floor() > most as f64 {
            let least = self.least_blocks(geometry, wanted, spare);
            let larger = least
                .map(|blocks| format!(", or geometry.blocks_per_plane = {blocks:.0} at least"));
            let message = format!(
                "a logical space of {wanted:.0} pages does not fit: expected 1 to {most} of {} \
                 physical pages, because each plane needs {spare} spare blocks{}",
                geometry.pages(),
                larger.unwrap_or_default(),
            );
            return Err(ConfigError::new(format!("over_provisioning.{key}"), message));
        }
        Ok(wanted.floor() as u32)
    }
}

/// A solid-state drive.
#[derive(Clone)]
pub(crate) struct Ssd {
    limits: Limits,
    controller: Controller,
}

snapshot_fields!(Ssd { controller });

#[cfg(test)]
impl Ssd {
    /// Events that wait.
    pub(crate) fn events(&self) -> usize {
        self.controller.events()
    }

    /// Where a page is.
    pub(crate) fn lookup(&mut self, lpn: u32) -> u32 {
        self.controller.lookup(lpn)
    }
}

impl Device for Ssd {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Busy> {
        self.controller.submit(now, request)
    }

    fn next_event(&self) -> Option<Nanos> {
        self.controller.next_event()
    }

    fn advance(&mut self, now: Nanos, out: &mut Completions) {
        self.controller.advance(now, out);
    }

    fn advance_until(&mut self, until: Nanos, out: &mut Completions) -> Option<Nanos> {
        self.controller.advance_until(until, out)
    }

    fn power_fail(&mut self, now: Nanos) -> Survivors {
        self.controller.power_fail(now)
    }

    fn apply(&mut self, request: &Request) {
        self.controller.apply(request);
    }

    fn prefetch(&mut self, request: &Request) {
        self.controller.prefetch(request);
    }

    fn counters(&self, out: &mut Counters) {
        self.controller.counters(out);
    }

    fn wear(&self) -> Vec<sim::Wear> {
        let planes = self.controller.wear().into_iter().enumerate();
        planes.map(|(plane, blocks)| sim::Wear { unit: format!("plane{plane}"), blocks }).collect()
    }

    fn freeze(&mut self) {
        self.controller.freeze();
    }

    fn boxed_clone(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }
}
