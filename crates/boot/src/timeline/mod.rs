//! From process 1 to a unit: who computes, and who waits for the processor or for storage.
//!
//! `session` boots a root file system on a modelled device in virtual time and has it recorded by
//! the guest's program; `record` reads what that wrote, `ranking` sorts it, `bars` puts it on an
//! axis of time, `page` and `perfetto` draw that. `queue` has the requests, for other devices.

pub mod bars;
pub mod page;
pub mod perfetto;
mod queue;
pub mod ranking;
pub mod record;
pub mod root;
pub mod session;
