//! Parameters of a disk, as they stand in TOML.

use config::{ConfigError, Duration, Rate, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::Nanos;

use crate::geometry::{Geometry, Switches, ZoneLayout};
use crate::mechanics::Mechanics;
use crate::seek::{Formula, Point, SeekTable};

/// Parameters of the disk. The defaults are a 250 GB 7200 rpm drive of 2008.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Where the sectors lie.
    pub geometry: GeometryParams,
    /// Time of one rotation is 60 s / rpm.
    pub rpm: u32,
    /// How long the arm moves.
    pub seek: SeekParams,
    /// To another head of the same cylinder.
    pub head_switch: Duration,
    /// Additional settling before a write.
    pub write_settle: Duration,
    /// The interface.
    pub interface: Rate,
    /// The controller's time for each command.
    pub overhead: OverheadParams,
    /// Commands accepted at once.
    pub queue_depth_max: u32,
    /// How the next command is chosen.
    pub scheduler: Scheduler,
    /// The read cache.
    pub cache: CacheParams,
    /// The write cache.
    pub write_cache: WriteCacheParams,
}

/// Where the sectors lie.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GeometryParams {
    /// Usable sectors; all that fit when absent.
    pub sectors: Option<u64>,
    /// Data surfaces.
    pub heads: u32,
    /// Zones of equal cylinders whose sectors per track fall in a straight line.
    pub zones: LinearZones,
    /// The zones one by one, from the outermost; replaces `zones` when not empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zone: Vec<ZoneParams>,
}

/// Zones whose sectors per track fall in a straight line from the outermost to the innermost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinearZones {
    /// Number of zones.
    pub count: u32,
    /// Cylinders of each zone.
    pub cylinders: u32,
    /// Sectors per track of the outermost zone.
    pub outer: u32,
    /// Sectors per track of the innermost zone.
    pub inner: u32,
}

/// One zone. A skew that is absent is the smallest that covers the head switch (track) or the
/// seek to the next cylinder (cylinder).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZoneParams {
    /// First cylinder; follows the zone before it when absent.
    pub first_cylinder: Option<u32>,
    /// Number of cylinders.
    pub cylinders: u32,
    /// Sectors per track.
    pub sectors_per_track: u32,
    /// Sector times from the end of a track to the start of the next in its cylinder.
    pub track_skew: Option<u32>,
    /// Sector times from the end of a cylinder to the start of the next.
    pub cylinder_skew: Option<u32>,
    /// Sectors at the front that hold no data.
    #[serde(default)]
    pub reserved: u64,
    /// Cylinders that share spare sectors; 1 when absent.
    pub band_cylinders: Option<u32>,
    /// Spare sectors at the end of each band.
    #[serde(default)]
    pub band_spares: u64,
}

/// The seek curve: measured points when there are any, else the formula.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SeekParams {
    /// Two-piece formula.
    pub formula: Formula,
    /// Measured points, by rising distance; replace the formula when not empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<Point>,
}

/// The controller's time before it serves a command. Each of the eight cases takes `command`
/// unless it is given: drives tell hits from misses and switch between reading and writing.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OverheadParams {
    /// Any command.
    pub command: Duration,
    /// A read found in the cache, after a read.
    pub read_hit_after_read: Option<Duration>,
    /// A read found in the cache, after a write.
    pub read_hit_after_write: Option<Duration>,
    /// A read from the medium, after a read.
    pub read_miss_after_read: Option<Duration>,
    /// A read from the medium, after a write.
    pub read_miss_after_write: Option<Duration>,
    /// A write that the write cache takes at once, after a read.
    pub write_hit_after_read: Option<Duration>,
    /// A write that the write cache takes at once, after a write.
    pub write_hit_after_write: Option<Duration>,
    /// Another write, after a read.
    pub write_miss_after_read: Option<Duration>,
    /// Another write, after a write.
    pub write_miss_after_write: Option<Duration>,
    /// Between the last byte of a read and its completion.
    pub read_completion: Duration,
    /// Between the last byte of a write and its completion.
    pub write_completion: Duration,
}

/// How the next of the queued commands is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scheduler {
    /// Shortest positioning time first: the one whose first sector the head can reach soonest.
    Sptf,
    /// First in, first out.
    Fifo,
}

/// Where read-ahead stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReadAheadStop {
    /// `read_ahead` after the read.
    Segment,
    /// At the end of the track or, when the segment began on an earlier track, at the end of the
    /// next one; whatever `read_ahead` says, unless it is 0.
    Track,
}

/// The segmented read cache.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CacheParams {
    /// Segments; 0 turns the read cache off.
    pub segments: u32,
    /// Size of each.
    pub segment: Size,
    /// Read-ahead after the end of a read; 0 turns it off.
    pub read_ahead: Size,
    /// Where read-ahead stops.
    pub read_ahead_stop: ReadAheadStop,
    /// Read-ahead may overwrite the data of the read it follows; otherwise it ends one segment
    /// after the read's beginning.
    pub read_ahead_over_requested: bool,
    /// A read served wholly from the cache lets the idle arm read on behind that segment. That of
    /// its last read it reads on behind in any case, when it stopped because the segment was full.
    pub read_ahead_on_hit: bool,
    /// Sectors that pass under the head before the wanted ones, on their track, are cached too.
    pub read_before: bool,
    /// Written data serves later reads.
    pub read_hits_on_written: bool,
}

/// The write cache.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WriteCacheParams {
    /// Volatile write-back caching; otherwise every write goes to the medium first.
    pub enabled: bool,
    /// Data it holds.
    pub size: Size,
    /// Runs of consecutive sectors it holds.
    pub runs: u32,
    /// Whose turn it is while a flush or a full cache waits for its writes, and commands of the
    /// host wait, too.
    #[serde(skip_serializing_if = "ArmTurns::is_default")]
    pub turns: ArmTurns,
}

/// Who goes next, of the host's commands and of cached writes that somebody waits for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ArmTurns {
    /// One of these, one of those.
    #[default]
    Alternate,
    /// Those of which the head reaches one first.
    Nearest,
}

impl ArmTurns {
    fn is_default(&self) -> bool {
        *self == ArmTurns::default()
    }
}

impl Default for Params {
    fn default() -> Params {
        Params {
            geometry: GeometryParams::default(),
            rpm: 7200,
            seek: SeekParams::default(),
            head_switch: Duration(Nanos::from_micros(900)),
            write_settle: Duration::default(),
            interface: Rate(300_000_000),
            overhead: OverheadParams::default(),
            queue_depth_max: 32,
            scheduler: Scheduler::Sptf,
            cache: CacheParams::default(),
            write_cache: WriteCacheParams::default(),
        }
    }
}

impl Default for GeometryParams {
    fn default() -> GeometryParams {
        GeometryParams {
            sectors: Some(488_397_168),
            heads: 2,
            zones: LinearZones::default(),
            zone: Vec::new(),
        }
    }
}

impl Default for LinearZones {
    fn default() -> LinearZones {
        LinearZones { count: 20, cylinders: 10_806, outer: 1_500, inner: 760 }
    }
}

impl Default for OverheadParams {
    fn default() -> OverheadParams {
        OverheadParams {
            command: Duration(Nanos::from_micros(100)),
            read_hit_after_read: None,
            read_hit_after_write: None,
            read_miss_after_read: None,
            read_miss_after_write: None,
            write_hit_after_read: None,
            write_hit_after_write: None,
            write_miss_after_read: None,
            write_miss_after_write: None,
            read_completion: Duration::default(),
            write_completion: Duration::default(),
        }
    }
}

impl Default for CacheParams {
    fn default() -> CacheParams {
        CacheParams {
            segments: 16,
            segment: Size(sim::Bytes::from_kib(512)),
            read_ahead: Size(sim::Bytes::from_kib(512)),
            read_ahead_stop: ReadAheadStop::Segment,
            read_ahead_over_requested: true,
            read_ahead_on_hit: true,
            read_before: false,
            read_hits_on_written: true,
        }
    }
}

impl Default for WriteCacheParams {
    fn default() -> WriteCacheParams {
        WriteCacheParams {
            enabled: true,
            size: Size(sim::Bytes::from_mib(4)),
            runs: 256,
            turns: ArmTurns::default(),
        }
    }
}

/// Refuse a value outside its range. `what` is the key, then a space and the unit if it has one.
fn within(what: &str, value: u64, range: std::ops::RangeInclusive<u64>) -> Result<(), ConfigError> {
    if range.contains(&value) {
        return Ok(());
    }
    let (key, unit) = what.split_at(what.find(' ').unwrap_or(what.len()));
    let (low, high) = range.into_inner();
    Err(ConfigError::new(key, format!("expected {low} to {high}{unit}, got {value}{unit}")))
}

impl Params {
    /// Check every range that does not depend on another value.
    fn check(&self) -> Result<(), ConfigError> {
        let g = &self.geometry;
        within("geometry.heads", g.heads.into(), 1..=64)?;
        within("rpm", self.rpm.into(), 60..=100_000)?;
        within("head_switch ns", self.head_switch.0.0, 0..=1_000_000_000)?;
        within("write_settle ns", self.write_settle.0.0, 0..=1_000_000_000)?;
        within("interface B/s", self.interface.0, 1_000..=1_000_000_000_000)?;
        within("queue_depth_max", self.queue_depth_max.into(), 1..=1024)?;
        within("cache.segments", self.cache.segments.into(), 0..=1024)?;
        within("cache.segment B", self.cache.segment.0.0, 512..=1 << 30)?;
        within("cache.read_ahead B", self.cache.read_ahead.0.0, 0..=1 << 30)?;
        within("write_cache.size B", self.write_cache.size.0.0, 512..=1 << 34)?;
        within("write_cache.runs", self.write_cache.runs.into(), 1..=1 << 20)?;
        for (name, time) in self.overhead.all() {
            within(&format!("overhead.{name} ns"), time.0.0, 0..=1_000_000_000)?;
        }
        if !g.zone.is_empty() {
            within("geometry.zone entries", g.zone.len() as u64, 1..=1000)?;
            return Ok(());
        }
        within("geometry.zones.count", g.zones.count.into(), 1..=1000)?;
        within("geometry.zones.cylinders", g.zones.cylinders.into(), 1..=1_000_000)?;
        within("geometry.zones.inner", g.zones.inner.into(), 1..=100_000)?;
        within("geometry.zones.outer", g.zones.outer.into(), g.zones.inner.into()..=100_000)
    }

    /// The fixed part of the disk: its layout and its arm.
    ///
    /// # Errors
    /// Names the key whose value is out of range, the value and the range.
    pub fn mechanics(&self) -> Result<Mechanics, ConfigError> {
        self.check()?;
        let period = Nanos((60_000_000_000 + u64::from(self.rpm) / 2) / u64::from(self.rpm));
        let zones = self.geometry.zone_params();
        let mut cylinders: u64 = 0;
        for (index, zone) in zones.iter().enumerate() {
            let key = |name: &str| format!("geometry.zone[{index}].{name}");
            within(&key("cylinders"), zone.cylinders.into(), 1..=4_000_000)?;
            within(&key("sectors_per_track"), zone.sectors_per_track.into(), 1..=100_000)?;
            within(&key("track_skew"), zone.track_skew.unwrap_or(0).into(), 0..=100_000)?;
            within(&key("cylinder_skew"), zone.cylinder_skew.unwrap_or(0).into(), 0..=100_000)?;
            let band = zone.band_cylinders.unwrap_or(1);
            within(&key("band_cylinders"), band.into(), 1..=zone.cylinders.into())?;
            cylinders =
                zone.first_cylinder.map_or(cylinders, u64::from) + u64::from(zone.cylinders);
            within(&key("cylinders"), cylinders, 1..=4_000_000)?;
        }
        let seek = if self.seek.points.is_empty() {
            SeekTable::from_formula(&self.seek.formula, cylinders as u32)?
        } else {
            SeekTable::from_points(&self.seek.points, cylinders as u32)?
        };
        let switches = Switches { track: self.head_switch.0, cylinder: Nanos(seek.ns(1).into()) };
        let layouts = layouts(&zones, period, switches);
        let geometry =
            Geometry::new(self.geometry.heads, period, switches, &layouts, self.geometry.sectors)?;
        Ok(Mechanics::new(geometry, seek, self.head_switch.0, self.write_settle.0))
    }
}

impl GeometryParams {
    fn zone_params(&self) -> Vec<ZoneParams> {
        if !self.zone.is_empty() {
            return self.zone.clone();
        }
        let LinearZones { count, cylinders, outer, inner } = self.zones;
        let fall = u64::from(outer.saturating_sub(inner));
        let last = u64::from(count.max(2) - 1);
        let zone = |index: u32| ZoneParams {
            cylinders,
            sectors_per_track: outer - ((fall * u64::from(index) + last / 2) / last) as u32,
            ..ZoneParams::default()
        };
        (0..count).map(zone).collect()
    }
}

fn layouts(zones: &[ZoneParams], period: Nanos, switches: Switches) -> Vec<ZoneLayout> {
    let mut next = 0;
    let mut layouts = Vec::with_capacity(zones.len());
    for zone in zones {
        let spt = u64::from(zone.sectors_per_track);
        let cover = |switch: Nanos| (switch.0 * spt).div_ceil(period.0) as u32;
        let first_cylinder = zone.first_cylinder.unwrap_or(next);
        next = first_cylinder + zone.cylinders;
        layouts.push(ZoneLayout {
            first_cylinder,
            cylinders: zone.cylinders,
            sectors_per_track: zone.sectors_per_track,
            track_skew: zone.track_skew.unwrap_or_else(|| cover(switches.track)),
            cylinder_skew: zone.cylinder_skew.unwrap_or_else(|| cover(switches.cylinder)),
            reserved: zone.reserved,
            band_cylinders: zone.band_cylinders.unwrap_or(1),
            band_spares: zone.band_spares,
        });
    }
    layouts
}

impl OverheadParams {
    fn all(&self) -> [(&'static str, Duration); 11] {
        let or = |time: Option<Duration>| time.unwrap_or(self.command);
        [
            ("command", self.command),
            ("read_hit_after_read", or(self.read_hit_after_read)),
            ("read_hit_after_write", or(self.read_hit_after_write)),
            ("read_miss_after_read", or(self.read_miss_after_read)),
            ("read_miss_after_write", or(self.read_miss_after_write)),
            ("write_hit_after_read", or(self.write_hit_after_read)),
            ("write_hit_after_write", or(self.write_hit_after_write)),
            ("write_miss_after_read", or(self.write_miss_after_read)),
            ("write_miss_after_write", or(self.write_miss_after_write)),
            ("read_completion", self.read_completion),
            ("write_completion", self.write_completion),
        ]
    }

    /// Overheads in ns, indexed by `write << 2 | miss << 1 | after_write`.
    pub fn table(&self) -> [u64; 8] {
        let all = self.all();
        std::array::from_fn(|index| all[index + 1].1.0.0)
    }
}
