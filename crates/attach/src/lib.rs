//! A modelled device under the wall clock: anything that speaks NBD, or mounts a block device,
//! meets it with real tools. And under a calendar of its own: a real Linux in virtual time.
//!
//! Frontends are codecs; [`Engine`] is what stands behind all of them. It never decides a latency:
//! the model does, and [`Statistics`] tells how late this machine was against it.

// What is told goes through `say` and `warn`: a closed terminal must not end the program.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod aligned;
mod beside;
mod buffer_pool;
mod captive;
mod client_side;
mod clock;
pub mod control;
mod control_socket;
pub mod crash;
mod data;
mod delayed;
mod engine;
mod event_loop;
mod exclusive;
mod fault;
pub mod frontend;
pub mod holders;
pub mod host;
mod identity;
mod kept_pages;
mod live;
mod loops;
mod mapped;
pub mod mirror;
mod order;
mod patch;
mod poll;
mod private_folder;
mod realtime;
mod record;
mod report;
mod request_log;
mod session;
mod shared_state;
mod signals;
mod spin;
mod state;
mod statistics;
mod store;
mod target;
pub mod travel;
mod travelled;
mod unfinished;
mod unix_socket;
pub mod vhost_user;
mod volatile;
mod zeroes;

pub use buffer_pool::BufferPool;
pub use captive::{dies_with_us, ends_with_us};
pub use client_side::{Account, ClientSide};
pub use clock::{Clock, Timeline, Wall};
pub use data::{Data, WriteSink};
pub use engine::{Engine, PowerCut};
pub use fault::{FaultId, Faults, Kind, Rule};
pub use identity::Identity;
pub use kept_pages::KeptPages;
pub use order::{Command, Order, Refusal, Reply, Submitter, Ticket, Timing};
pub use poll::{Event, Interest, Poll};
pub use private_folder::{PrivateFolder, abandoned_folders, has_no_room};
pub use realtime::{Priority, realtime_permitted};
pub use record::Recorder;
pub use report::{DeviceReport, Report};
pub use session::{Compensation, DeviceOptions, Options, Outcome, Start, attach};
pub use shared_state::{Budget, Export, SharedState};
pub use statistics::{Beyond, Quantiles, Statistics, Summary};
pub use store::{Extent, Store};
pub use target::Target;
pub use travelled::Travelling;
pub use unfinished::{Unfinished, remove_unfinished};
pub use volatile::AtRisk;
