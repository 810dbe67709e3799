//! Workloads: anything that issues requests. One file each.

pub mod boot_recording;
mod closed_loop;
mod distribution;
mod extents;
mod one_file;
pub mod replay;
mod size_mix;

use std::io::Read;

use config::ConfigError;
use sim::{Limits, Rng, Workload};

pub use boot::{BootReplay, Until};

sim::registry! {
    /// Anything that issues requests.
    pub enum WorkloadModel("workload"): Context<'_> => Built = {
        Bonnie = "bonnie" => bonnie,
        Boot = "boot" => boot,
        Customers = "customers" => customers,
        Fio = "fio" => fio,
        Ie = "ie" => ie,
        Iozone = "iozone" => iozone,
        Pc = "pc" => pc,
        Trace = "trace" => trace,
    }
}

/// What a workload's `build` gives.
pub type Built = Result<Box<dyn Workload + Send>, ConfigError>;

/// Opens a file a workload names. Models do no I/O of their own; the study hands them readers.
pub type Opener<'a> = &'a dyn Fn(&str) -> std::io::Result<Box<dyn Read + Send>>;

/// What a workload is built with besides its parameters.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The root of this workload's random streams.
    pub rng: Rng,
    /// The device it runs on.
    pub limits: Limits,
    /// How to open the files it names.
    pub open: Opener<'a>,
}
