//! From process 1 to a unit: who computes, and who waits for the processor or for storage.
//!
//! `session` boots a root file system on a modelled device in virtual time and has it recorded by
//! the guest's program; `record` reads what that wrote, `ranking` and `units` sort it, `bars` puts
//! it on an axis of time, `page` and `perfetto` draw that. `queue` has the requests, for other
//! devices. `foreign` reads what other tools wrote.

pub mod bars;
pub mod difference;
pub mod foreign;
pub mod page;
pub mod perfetto;
mod queue;
pub mod ranking;
pub mod record;
pub mod root;
pub mod session;
pub mod units;
