//! The contract of blocklab: **a storage device is a pure state machine in time**.
//!
//! Nothing here knows a clock, a thread, a file or a socket. Start at [`Device`]; its laws are in
//! [`laws`]; [`simulate`] is the virtual clock and [`Stepper`] the hand-cranked one.

mod counters;
mod cow;
mod device;
mod digest;
mod driver;
mod heap;
mod histogram;
pub mod laws;
mod log_buckets;
pub mod metric;
mod priority;
mod probe;
mod registry;
mod request;
mod rng;
mod snapshot;
mod span;
mod stepper;
pub mod testing;
mod units;
mod workload;

pub use counters::{Counters, Unit, UnitKind, Wear};
pub use cow::{CowVec, Word};
pub use device::{BadRequest, Busy, Completion, Completions, Device, Limits, LostWrite, Survivors};
pub use digest::Digest;
pub use driver::{Outcome, RunError, Stop, simulate};
pub use heap::EventHeap;
pub use histogram::Histogram;
pub use log_buckets::LogBuckets;
pub use prefetch_index::prefetch_index;
pub use priority::{Priority, PriorityClass};
pub use probe::{NoProbe, Probe};
pub use request::{Op, Request, RequestId};
pub use rng::{Rng, mix64};
pub use snapshot::{BlobSource, Loader, Part, Saver, Snapshot, SnapshotError};
pub use span::Span;
pub use stepper::Stepper;
pub use units::{Bytes, Lba, Nanos, SECTOR_BYTES};
pub use workload::{AHEAD, Demand, Workload, WorkloadError};
