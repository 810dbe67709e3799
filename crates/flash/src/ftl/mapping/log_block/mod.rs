//! What the schemes of block granularity share: data blocks, log blocks and their merges.
//!
//! A logical block has at most one *data block* (its home), where a page can only be at its own
//! offset. Pages that their home cannot take go to *log blocks*, and a *merge* brings them home.
//! A scheme ([`Logs`]) says which log block takes a page and what to merge when log blocks run
//! out; [`Hybrid`] does the rest.
//!
//! ```text
//!   logical block 7          home of 7           a log block         after the merge
//!   +--+--+--+--+        +--+--+--+--+        +--+--+--+--+          +--+--+--+--+
//!   |28|29|30|31|        |28| x|30| x|        |31|12|29| . |   ->    |28|29|30|31|
//!   +--+--+--+--+        +--+--+--+--+        +--+--+--+--+          +--+--+--+--+
//! ```

mod associative;
mod dead;
mod hybrid;
mod layout;
mod merge;
mod recovery;
mod store;
mod tally;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use associative::Associative;
pub(crate) use dead::Dead;
pub(crate) use hybrid::{Hybrid, Logs, Update};
pub(crate) use layout::{Budget, Layout, Striping, in_range};
pub(crate) use merge::plan_copies;
pub(crate) use recovery::StoredLog;
pub(crate) use store::{Job, Store};
pub(crate) use tally::MERGES;
