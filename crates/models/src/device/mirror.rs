//! The hetero-mirror: two unlike devices that cover for each other's freezes.
//!
//! # What it models
//! The protocol of `docs/mirror.md`, by its own code: completions of the legs go into the very core
//! that a real mirror runs, and what it wants done goes to the legs as requests, log records and
//! metadata included, where they lie on a real leg. So acknowledgements, freezes and thaws, read
//! routing and hedged reads, the bounds on what is at risk, the second copy of a flush, hot
//! extents, and a leg that is left out for being stuck and filled again are not modelled but run.
//! The smaller leg decides the size; the mirror's metadata is taken from it.
//!
//! # Equation
//! `write = min(fast, slow)` within the bounds, else `max(fast, slow)`; always the latter in mode
//! `strict`
//!
//! `flush`: two durable copies in two failure domains (`log`), on both legs (`strict`), or one and
//! its record (`relaxed`)
//!
//! # Parameters
//! `fast`, `slow`, `witness` (each a device table, the last may be missing), `mode`, `placement`
//! (of a flush's second copy), `exposure` (`bytes`, `age`), `ram`, `log`, `extent`, `region`,
//! `freeze` (`floor`, `cap`, `percent`, `on_time`, `stuck_after`, `fail_after`), `depth`,
//! `drain_depth`, `hedge_percent`, `flush_after`, `queue_depth_max`.
//!
//! # What it leaves out
//! Data, so no copy is ever wrong, and legs that fail or vanish. The processor's time. What a
//! recovery costs: after a power cut the mirror serves at once. What a power cut takes is the worst
//! case: every acknowledged write that no flush covers and that the fast leg does not hold, which
//! is where recovery copies from when nothing else decides. Filling in no time (`fill`,
//! `overwrite`) reaches both legs' data and records no checksums. Requests above 4 MiB go through
//! the core in pieces, one after the other.
//!
//! # Validated against
//! The core's own proof (`docs/measured/mirror.md`); the contract tests; fixed servers in its own
//! tests; the closed model of Byun 2010 (`docs/measured/hetero-mirror.md`).
//!
//! # References
//! Byun, "A Hetero-Mirroring Scheme to Improve I/O Performance of High-Speed Hybrid Storage",
//! J. KAIS 11(12), 2010. docs/mirror.md, docs/mirror-format.md.

mod shell;

use mirror::core::{Config, Placement as CorePlacement};
use mirror::format::{Geometry, Layout};
use mirror::policy::lag::LagRules;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Bytes, Device, Nanos};

use config::device::Context;
use config::{ConfigError, Duration, Size};
use shell::{Mirror, PAGE};

use crate::device::{DeviceModel, check_depth};
use crate::raid::counted::{EXPOSURE, MIRROR};
use crate::raid::legs::Legs;

/// When writes and flushes are acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Both legs, always.
    Strict,
    /// A write after the first leg; a flush after two durable copies in two failure domains.
    #[default]
    Log,
    /// A write and a flush after the first leg, within the bounds.
    Relaxed,
}

/// Where the second copy of a flushed write goes while a home position is late.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Where it should cost least.
    #[default]
    Auto,
    /// To the witness.
    Witness,
    /// To the log of the late leg.
    OwnLog,
    /// Nowhere: the home position is waited for.
    Home,
}

/// How much may be acknowledged that is not in two failure domains.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Exposure {
    /// At most so much at once.
    pub bytes: Size,
    /// In relaxed mode none more while some has been for so long.
    pub age: Duration,
}

impl Default for Exposure {
    fn default() -> Exposure {
        let age = Duration(Nanos::from_millis(500));
        Exposure { bytes: Size(Bytes::from_mib(8)), age }
    }
}

/// When a leg counts as frozen, and when as stuck.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Freeze {
    /// Not before its oldest request has this age.
    pub floor: Duration,
    /// From this age on in any case.
    pub cap: Duration,
    /// In between: at this share of the expected 95th percentile, in percent.
    pub percent: u32,
    /// On-time answers in a row that end it.
    pub on_time: u32,
    /// The leg is left out, and filled later, when its oldest request has this age.
    pub stuck_after: Duration,
    /// It is left for an operator when that has this age.
    pub fail_after: Duration,
}

impl Default for Freeze {
    fn default() -> Freeze {
        let rules = LagRules::default();
        Freeze {
            floor: Duration(rules.floor),
            cap: Duration(rules.cap),
            percent: rules.percent,
            on_time: rules.on_time,
            stuck_after: Duration(rules.stuck_after),
            fail_after: Duration(rules.fail_after),
        }
    }
}

/// Parameters of a hetero-mirror.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// The leg that is copied from where nothing else decides, usually an SSD.
    pub fast: Box<DeviceModel>,
    /// The other leg, usually a disk.
    pub slow: Box<DeviceModel>,
    /// A small log in a failure domain of its own.
    pub witness: Option<Box<DeviceModel>>,
    /// When writes and flushes are acknowledged.
    pub mode: Mode,
    /// Where a flush's second copy goes.
    pub placement: Placement,
    /// What may be at risk.
    pub exposure: Exposure,
    /// Payload held in memory before writes are kept waiting.
    pub ram: Size,
    /// The log ring of each device.
    pub log: Size,
    /// Unit of the activity log.
    pub extent: Size,
    /// Unit of the out-of-sync bitmap.
    pub region: Size,
    /// Freezes.
    pub freeze: Freeze,
    /// Writes given to a leg at once.
    pub depth: u32,
    /// Writes given at once to a leg that was frozen, until it has caught up.
    pub drain_depth: u32,
    /// Extra reads for hedging, in percent of all.
    pub hedge_percent: u32,
    /// Completed writes stay in a leg's cache for at most this long.
    pub flush_after: Duration,
    /// Requests accepted at once.
    pub queue_depth_max: u32,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            fast: Box::new(DeviceModel::Ssd(Default::default())),
            slow: Box::new(DeviceModel::Hdd(Default::default())),
            witness: None,
            mode: Mode::Log,
            placement: Placement::Auto,
            exposure: Exposure::default(),
            ram: Size(Bytes::from_mib(64)),
            log: Size(Bytes::from_mib(64)),
            extent: Size(Bytes::from_mib(1)),
            region: Size(Bytes::from_kib(64)),
            freeze: Freeze::default(),
            depth: 32,
            drain_depth: 32,
            hedge_percent: 5,
            flush_after: Duration(Nanos::from_secs(1)),
            queue_depth_max: 1024,
        }
    }
}

/// `size` in pages of the mirror, within a range.
fn pages(key: &str, size: Size, low: u64, high: u64) -> Result<u64, ConfigError> {
    let pages = size.0.0 / PAGE;
    if (low..=high).contains(&pages) && size.0.0.is_multiple_of(PAGE) {
        Ok(pages)
    } else {
        let (low, high) = (Bytes(low * PAGE), Bytes(high * PAGE));
        let message = format!("expected whole blocks of 4 KiB, {low} to {high}, got \"{size}\"");
        Err(ConfigError::new(key, message))
    }
}

impl Params {
    /// What the mirror counts.
    pub const COUNTED: sim::metric::Declarations = &[&EXPOSURE, &MIRROR];

    /// Build the mirror.
    ///
    /// # Errors
    /// What is wrong with a leg, named after it, or a value out of range.
    pub fn build(&self, context: &Context) -> Result<Box<dyn Device>, ConfigError> {
        let config = self.config()?;
        let below = |name: &str| Context { rng: context.rng.split(name) };
        let fast = self.fast.build_leg("fast", context)?;
        let slow = self.slow.build_leg("slow", &below("slow"))?;
        let mut legs = vec![("fast", fast), ("slow", slow)];
        if let Some(witness) = &self.witness {
            legs.push(("witness", witness.build_leg("witness", &below("witness"))?));
        }
        let geometry = self.geometry(&legs)?;
        let mode = config.rules.mode;
        let legs = Legs::new(legs);
        Ok(Box::new(Mirror::new(legs, geometry, config, mode, self.queue_depth_max)))
    }

    /// How the core is run.
    fn config(&self) -> Result<Config, ConfigError> {
        check_depth(self.queue_depth_max)?;
        let mode = match self.mode {
            Mode::Strict => mirror::Mode::Strict,
            Mode::Log => mirror::Mode::Log,
            Mode::Relaxed => mirror::Mode::Relaxed,
        };
        if self.placement == Placement::Witness && self.witness.is_none() {
            let message = "\"witness\" needs a device: add a table [device.mirror.witness.<model>]";
            return Err(ConfigError::new("placement", message));
        }
        let bytes = self.exposure.bytes;
        if bytes.0.0 < PAGE {
            let message = format!(
                "expected at least one block of 4 KiB, got \"{bytes}\"; for a mirror without \
                 exposure use mode = \"strict\""
            );
            return Err(ConfigError::new("exposure.bytes", message));
        }
        for (key, time) in [
            ("exposure.age", self.exposure.age),
            ("flush_after", self.flush_after),
            ("freeze.floor", self.freeze.floor),
            ("freeze.stuck_after", self.freeze.stuck_after),
        ] {
            if time.0 == Nanos::ZERO {
                return Err(ConfigError::new(key, "expected more than 0, got \"0ns\""));
            }
        }
        for (key, value) in [("depth", self.depth), ("drain_depth", self.drain_depth)] {
            if !(1..=65_536).contains(&value) {
                return Err(ConfigError::new(key, format!("expected 1 to 65536, got {value}")));
            }
        }
        let Freeze { floor, cap, percent, on_time, stuck_after, fail_after } = self.freeze;
        if cap < floor {
            let message = format!("expected at least the floor, {floor}, got \"{cap}\"");
            return Err(ConfigError::new("freeze.cap", message));
        }
        let mut config = Config::new(mode);
        config.lag = LagRules {
            floor: floor.0,
            cap: cap.0,
            percent,
            on_time,
            stuck_after: stuck_after.0,
            fail_after: fail_after.0,
            // A study asks what a slow leg costs, so it is kept.
            flush_deadline: None,
            slow: None,
        };
        config.exposed_blocks_max = bytes.0.0 / PAGE;
        config.exposed_age_max = self.exposure.age.0;
        config.ram_blocks_max = pages("ram", self.ram, 256, 1 << 34)?;
        (config.depth_max, config.drain_depth) = (self.depth, self.drain_depth);
        config.flush_after = self.flush_after.0;
        config.hedge_percent = self.hedge_percent.into();
        config.placement = match self.placement {
            Placement::Auto => CorePlacement::Auto,
            Placement::Witness => CorePlacement::Witness,
            Placement::OwnLog => CorePlacement::OwnLog,
            Placement::Home => CorePlacement::Home,
        };
        Ok(config)
    }

    /// As many blocks as fit the smaller leg beside the metadata.
    fn geometry(&self, legs: &[(&str, Box<dyn Device>)]) -> Result<Geometry, ConfigError> {
        let log_pages = pages("log", self.log, 1024, 1 << 28)? as u32;
        let extent_blocks = pages("extent", self.extent, 1, 1 << 18)? as u32;
        let region_blocks = pages("region", self.region, 1, 1 << 18)? as u32;
        let geometry = |blocks| Geometry { blocks, extent_blocks, region_blocks, log_pages };
        let room = |leg: usize| legs[leg].1.limits().capacity.0 / PAGE;
        let (leg, smaller) = if room(1) < room(0) { ("slow", room(1)) } else { ("fast", room(0)) };
        let (mut fits, mut too_many) = (0, smaller);
        while fits + 1 < too_many {
            let middle = fits.midpoint(too_many);
            if Layout::leg(&geometry(middle)).pages <= smaller {
                fits = middle
            } else {
                too_many = middle
            }
        }
        // Extent numbers have 32 bits.
        fits = fits.min(u64::from(u32::MAX) * u64::from(extent_blocks));
        if fits == 0 {
            let needs = Bytes(Layout::leg(&geometry(1)).pages * PAGE);
            let message = format!(
                "a leg of {} has no room for data beside the mirror's metadata: expected at \
                 least {needs}, or a smaller `log`",
                Bytes(smaller * PAGE)
            );
            return Err(ConfigError::new(leg, message));
        }
        let geometry = geometry(fits);
        if let Some((_, witness)) = legs.get(2) {
            let needs = Layout::witness(&geometry).pages * PAGE;
            let has = witness.limits().capacity;
            if has.0 < needs {
                let message = format!("expected at least {}, got {has}", Bytes(needs));
                return Err(ConfigError::new("witness", message));
            }
        }
        Ok(geometry)
    }
}

#[cfg(test)]
mod tests;
