//! Workloads: anything that issues requests.

pub mod bonnie;
mod closed_loop;
pub mod customers;
mod distribution;
mod extents;
pub mod fio;
pub mod ie;
pub mod iozone;
pub mod pc;
pub mod replay;
mod size_mix;
pub mod trace;

use std::io::Read;

pub(crate) use closed_loop::check_share;
use sim::{Limits, Rng};

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
