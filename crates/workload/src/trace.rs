//! Trace replay: a recorded workload.
//!
//! # What it models
//! The requests of a trace at the pace that `replay` chooses. The file may be plain, gzip or zstd;
//! its format is recognised by content unless `format` names one.
//!
//! # Equation
//! Addresses beyond the device: `wrap` takes them modulo the device's size, `scale` multiplies
//! every address by device size / trace span, `refuse` ends the run. Both keep the alignment
//! within 4 KiB and move a request that would cross the end back until it fits.
//!
//! # Parameters
//! `file`, `format` (with its own parameters), `replay`, `remap`, `device`, `first`, `requests`,
//! `watch`.
//!
//! # What it leaves out
//! What was in the recording machine's page cache; dependencies between requests, but for
//! `replay = "dependencies"`. Traces of
//! several devices are laid over each other unless `device` picks one. `scale` breaks up
//! sequential runs.
//!
//! # Validated against
//! Issue times to the nanosecond and every remapped address, in tests.
//!
//! # References
//! Anderson et al., "Buttress", FAST 2004; Tarasov et al., "Extracting Flexible, Replayable
//! Models from Large Block Traces", FAST 2012.

mod computing;
mod dependent;
mod paced;
mod source;
mod watched;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use sim::{Workload, WorkloadError};

use config::ConfigError;
use trace::TraceFormat;

use crate::Context;
use crate::replay::{Order, Replay};
use dependent::Dependent;
use paced::Paced;
use source::Source;

/// Parameters of trace replay.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// The trace, relative to the study's file.
    pub file: String,
    /// Its format; recognised by content when absent.
    pub format: Option<TraceFormat>,
    /// When requests are issued.
    pub replay: Replay,
    /// What happens to addresses beyond the device.
    pub remap: Remap,
    /// Replay only this device of the trace, as `blocklab trace info` names it.
    #[serde(deserialize_with = "name_or_number")]
    pub device: Option<String>,
    /// Requests to pass over first.
    pub first: u64,
    /// Requests to replay at most.
    pub requests: Option<u64>,
    /// Measure how long the processes of this name wait for the device (`process_wait_s`): while a
    /// read, a flush or a write that is waited for is under way. With `replay = "dependencies"`.
    pub watch: Option<String>,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            file: String::new(),
            format: None,
            replay: Replay::Timestamps(Default::default()),
            remap: Remap::default(),
            device: None,
            first: 0,
            requests: None,
            watch: None,
        }
    }
}

/// What happens to addresses beyond the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Remap {
    /// They wrap around.
    #[default]
    Wrap,
    /// All addresses shrink so that the trace's span fits; nothing changes when it fits already.
    Scale,
    /// They are an error.
    Refuse,
}

/// Many formats have numbers for names.
fn name_or_number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a device's name, as `blocklab trace info` has it")]
    enum Either {
        Name(String),
        Number(u64),
    }
    Ok(Option::<Either>::deserialize(from)?.map(|either| match either {
        Either::Name(name) => name,
        Either::Number(number) => number.to_string(),
    }))
}

impl Params {
    /// Build the workload: opens the trace and reads its first records, or all of them where
    /// requests follow each other.
    ///
    /// # Errors
    /// When the trace cannot be opened, is damaged, or lacks times or completions that are needed.
    pub fn build(&self, context: &Context) -> Result<Box<dyn Workload + Send>, ConfigError> {
        if self.file.is_empty() {
            return Err(ConfigError::new("file", "expected the name of a trace file"));
        }
        if self.requests == Some(0) {
            return Err(ConfigError::new("requests", "expected at least 1, got 0"));
        }
        let order = self.replay.build(&()).map_err(|e| e.within("replay"))?;
        if self.watch.is_some() && !matches!(order, Order::Dependencies { .. }) {
            let message = "expected replay = \"dependencies\", in which processes wait";
            return Err(ConfigError::new("watch", message));
        }
        let wrong = |e: WorkloadError| ConfigError::new("file", e.0);
        let follows = matches!(order, Order::Dependencies { .. });
        let mut source = Source::new(self, context, follows)?;
        source.refill().map_err(wrong)?;
        source.check_start(&order)?;
        Ok(match order {
            Order::Paced(pace) => Box::new(Paced::new(source, pace)),
            Order::Dependencies { burst, handover, cores } => {
                let mut replay = Dependent::new(source, (burst, handover), cores).map_err(wrong)?;
                if let Some(name) = &self.watch {
                    replay.watch(name).map_err(|message| ConfigError::new("watch", message))?;
                }
                Box::new(replay)
            }
        })
    }
}
