//! Modelled SSDs and hard disks for programs that own their clock: [`Drive`].
//!
//! A drive here is a pure state machine in time. It has queues, channels, dies, garbage collection
//! and a volatile write cache, and no thread, file, clock or random source of its own: the same
//! requests at the same moments have the same completions, on every machine. It holds no data,
//! only what decides times and what a power failure leaves.
//!
//! ```
//! use models::{Drive, Lba, Nanos, Request};
//!
//! let mut drive = Drive::part("tlc-3d-96").seed(7).build()?;
//! let write = drive.submit(Nanos(0), Request::write(Lba(0), 8))?;
//! let done = drive.advance(Nanos::from_micros(10));
//! let after = drive.power_fail(Nanos::from_micros(20));
//! assert_eq!((done[0].id, after.lost[0].id), (write, write)); // acknowledged, never flushed
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In a deterministic simulator, such as turmoil or madsim, sleep until [`Drive::next_event`],
//! then [`Drive::advance`]; a key-value log that does so is `examples/deterministic-simulation` of
//! the repository. [`Drive::save`] is its state as bytes, [`Drive::power_fail`] cuts the power. A
//! drive out of the box has nothing to collect; [`DriveBuilder::filled`] and
//! [`DriveBuilder::overwritten`] age it. [`parts`] lists the drives that are shipped, and
//! [`Drive::toml`] takes one of yours.
//!
//! The same drives run in blocklab's studies, with the same times. To use the contract without the
//! convenience, or to write a model, see [`Device`]; [`registry`] lists every model.
//!
//! Models never see wall time, never hold payload bytes and never open a file: readers take a
//! [`std::io::Read`].

pub mod device;
mod drive;
pub mod elevator;
mod parts;
mod raid;
pub mod registry;

pub use config::Failure;
pub use drive::{Drive, DriveBuilder, PowerLoss};
pub use parts::parts;
pub use sim::{
    BadRequest, Bytes, Completion, Counters, Device, Lba, Limits, LostWrite, Nanos, Op, Request,
    RequestId,
};
