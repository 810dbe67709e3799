//! A modelled device under the wall clock: anything that speaks NBD, or mounts a block device,
//! meets it with real tools.
//!
//! Frontends are codecs; [`Engine`] is what stands behind all of them. It never decides a latency:
//! the model does, and [`Statistics`] tells how late this machine was against it.

mod clock;
mod data;
mod delayed;
mod engine;
mod fault;
mod pool;
mod record;
mod statistics;
mod store;
mod volatile;

pub use clock::{Clock, Timeline, Wall};
pub use data::{Data, WriteSink};
pub use engine::{Command, Engine, Order, PowerCut, Refusal, Reply, Ticket};
pub use fault::{FaultId, Faults, Kind, Rule};
pub use pool::Pool;
pub use record::Recorder;
pub use statistics::{Quantiles, Statistics, Summary, Timing};
pub use store::{Extent, Store};
