//! How large WADPM's window on the mapping table is: fixed, or following the workload.

use config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::snapshot_fields;

use super::mrc::{Curve, MrcParams};
use super::share::{percent, up_to_max};

/// How large the window is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WindowParams {
    /// That share of the table, in percent of a complete page table's bytes.
    Fixed(f64),
    /// The paper's controller: one step up after an interval with too few hits, one step down
    /// after several good ones (figure 8).
    HillClimb(HillClimbParams),
    /// Beyond the paper: the size that an estimated miss-ratio curve says is enough.
    Mrc(MrcParams),
}

impl Default for WindowParams {
    fn default() -> WindowParams {
        WindowParams::HillClimb(HillClimbParams::default())
    }
}

/// Limits of a window that changes, and when it is looked at.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HillClimbParams {
    /// Size at power-on, in percent of a complete page table.
    pub start: f64,
    /// Smallest size, in percent.
    pub min: f64,
    /// Largest size, in percent.
    pub max: f64,
    /// A step up or down, in percent of a complete page table.
    pub step: f64,
    /// Page accesses between two looks.
    pub period: u32,
    /// An interval with a smaller share of hits is a bad one, in percent.
    pub hit_ratio: f64,
    /// Good intervals that are only counted; the one after them shrinks the window.
    pub maintenance: u32,
    /// A bad interval sets the count of good ones to 0. The paper's pseudo-code does not, its
    /// prose may.
    pub reset_on_miss: bool,
}

impl Default for HillClimbParams {
    fn default() -> HillClimbParams {
        HillClimbParams {
            start: 1.0,
            min: 1.0,
            max: 50.0,
            step: 1.0,
            period: 256,
            hit_ratio: 90.0,
            maintenance: 5,
            reset_on_miss: false,
        }
    }
}

impl WindowParams {
    /// Check the values. `table` is the size of a complete page table and `chunk` of a map page,
    /// in bytes; `chunks` map pages make the table.
    ///
    /// # Errors
    /// Names the first value that cannot be used.
    pub(super) fn build(&self, table: u64, chunk: u64, chunks: u32) -> Result<Window, ConfigError> {
        let bytes = |percent: f64| (table as f64 * percent / 100.0) as u64;
        let window = match self {
            WindowParams::Fixed(share) => {
                Window { bytes: bytes(percent("fixed", *share)?), policy: Policy::Fixed }
            }
            WindowParams::HillClimb(params) => {
                params.check().map_err(|error| error.within("hill-climb"))?;
                let climb = HillClimb {
                    min: bytes(params.min),
                    max: bytes(params.max),
                    step: bytes(params.step),
                    period: params.period,
                    hits_wanted: params.hit_ratio / 100.0,
                    maintenance: params.maintenance,
                    reset_on_miss: params.reset_on_miss,
                    ..HillClimb::default()
                };
                Window { bytes: bytes(params.start), policy: Policy::HillClimb(climb) }
            }
            WindowParams::Mrc(params) => {
                let curve = params.build(table, chunk, chunks);
                let curve = curve.map_err(|error| error.within("mrc"))?;
                Window { bytes: bytes(params.start), policy: Policy::Mrc(Box::new(curve)) }
            }
        };
        Ok(window)
    }

    /// The smallest size the window can have, in percent, and its key.
    pub(super) fn least(&self) -> (&'static str, f64) {
        let (start, min) = match self {
            WindowParams::Fixed(share) => return ("fixed", *share),
            WindowParams::HillClimb(params) => {
                (("hill-climb.start", params.start), ("hill-climb.min", params.min))
            }
            WindowParams::Mrc(params) => (("mrc.start", params.start), ("mrc.min", params.min)),
        };
        if start.1 < min.1 { start } else { min }
    }
}

impl HillClimbParams {
    fn check(&self) -> Result<(), ConfigError> {
        percent("max", self.max)?;
        percent("step", self.step)?;
        percent("hit_ratio", self.hit_ratio)?;
        up_to_max("min", self.min, self.max)?;
        up_to_max("start", self.start, self.max)?;
        match self.period {
            0 => Err(ConfigError::new("period", "expected at least 1, got 0")),
            _ => Ok(()),
        }
    }
}

/// The window: its size now, and who changes it.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Bytes of map pages that may be in RAM.
    pub(super) bytes: u64,
    policy: Policy,
}

#[derive(Clone, Debug)]
enum Policy {
    Fixed,
    HillClimb(HillClimb),
    Mrc(Box<Curve>),
}

impl sim::Snapshot for Window {
    fn save(&self, to: &mut sim::Saver) {
        self.bytes.save(to);
        match &self.policy {
            Policy::Fixed => {}
            Policy::HillClimb(climb) => climb.save(to),
            Policy::Mrc(curve) => curve.save(to),
        }
    }
    fn restore(&mut self, from: &mut sim::Loader) -> Result<(), sim::SnapshotError> {
        self.bytes.restore(from)?;
        match &mut self.policy {
            Policy::Fixed => Ok(()),
            Policy::HillClimb(climb) => climb.restore(from),
            Policy::Mrc(curve) => curve.restore(from),
        }
    }
}

impl Window {
    /// A page in `chunk` was looked up. Returns true when the window shrank.
    #[inline]
    pub(super) fn accessed(&mut self, chunk: u32, hit: bool) -> bool {
        let before = self.bytes;
        match &mut self.policy {
            Policy::Fixed => {}
            Policy::HillClimb(climb) => climb.accessed(&mut self.bytes, hit),
            Policy::Mrc(curve) => curve.accessed(&mut self.bytes, chunk),
        }
        self.bytes < before
    }

    /// RAM of the controller itself: counters, and the samples of an estimate.
    pub(super) fn ram(&self) -> u64 {
        match &self.policy {
            Policy::Fixed => 0,
            Policy::HillClimb(_) => 16,
            Policy::Mrc(curve) => curve.ram(),
        }
    }
}

/// The controller of figure 8.
#[derive(Clone, Default, Debug)]
struct HillClimb {
    min: u64,
    max: u64,
    step: u64,
    period: u32,
    hits_wanted: f64,
    maintenance: u32,
    reset_on_miss: bool,
    accesses: u32,
    hits: u32,
    count: u32,
}

snapshot_fields!(HillClimb { accesses, hits, count });

impl HillClimb {
    #[inline]
    fn accessed(&mut self, bytes: &mut u64, hit: bool) {
        self.accesses += 1;
        self.hits += u32::from(hit);
        if self.accesses == self.period {
            let ratio = f64::from(self.hits) / f64::from(self.accesses);
            (self.accesses, self.hits) = (0, 0);
            self.evaluate(bytes, ratio);
        }
    }

    /// The end of an interval with that share of hits.
    fn evaluate(&mut self, bytes: &mut u64, hit_ratio: f64) {
        if hit_ratio < self.hits_wanted {
            *bytes = (*bytes + self.step).min(self.max);
            if self.reset_on_miss {
                self.count = 0;
            }
        } else if self.count < self.maintenance {
            self.count += 1;
        } else {
            *bytes = bytes.saturating_sub(self.step).max(self.min);
            self.count = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(reset_on_miss: bool, ratios: &[f64]) -> Vec<u64> {
        let mut climb = HillClimb {
            min: 1,
            max: 50,
            step: 1,
            hits_wanted: 0.9,
            maintenance: 5,
            reset_on_miss,
            ..HillClimb::default()
        };
        let mut bytes = 10;
        let step = |&ratio: &f64| {
            climb.evaluate(&mut bytes, ratio);
            bytes
        };
        ratios.iter().map(step).collect()
    }

    #[test]
    fn the_controller_follows_figure_8_to_the_letter() {
        let grow_then_shrink = [0.80, 0.95, 0.95, 0.95, 0.95, 0.95, 0.95];
        assert_eq!(sizes(false, &grow_then_shrink), [11, 11, 11, 11, 11, 11, 10]);
        let dip = [0.95, 0.95, 0.95, 0.80, 0.95, 0.95, 0.95];
        assert_eq!(sizes(false, &dip), [10, 10, 10, 11, 11, 11, 10], "the count survives the dip");
        assert_eq!(sizes(true, &dip), [10, 10, 10, 11, 11, 11, 11]);
    }

    #[test]
    fn impossible_windows_name_their_key() {
        let error = WindowParams::Fixed(0.0).build(1000, 10, 100).unwrap_err();
        assert_eq!(error.to_string(), "fixed: expected above 0 to 100, got 0");
        let climb = HillClimbParams { start: 60.0, ..HillClimbParams::default() };
        let error = WindowParams::HillClimb(climb).build(1000, 10, 100).unwrap_err();
        assert_eq!(error.to_string(), "hill-climb.start: expected above 0 to max (50), got 60");
    }
}
