//! Multi-stream: a page map that writes each stream of the host to blocks of its own.
//!
//! ```text
//!   stream 0   stream 1   stream 2      moved by the collector
//!   +------+   +------+   +------+      +------+
//!   | open |   | open |   | open | ...  | open |    in every plane
//!   +------+   +------+   +------+      +------+
//! ```
//!
//! # What it models
//! The host marks each write with a stream, and pages of a stream share blocks, so that what is
//! written together and dies together is erased together. What the collector moves is mixed again.
//!
//! The write path:
//! 1. a stream beyond the drive's is stream 0;
//! 2. choose the plane as the page map does;
//! 3. take the next page of the stream's open block there;
//! 4. program it, mark the old page invalid, change the entry.
//!
//! # Equation
//! `RAM = page map`. Of S streams each plane keeps S + 1 blocks open.
//!
//! # Parameters
//! `streams`: open blocks for the host in each plane.
//!
//! # What it leaves out
//! Opening and closing streams by the host: a stream is open when it is used.
//!
//! # Validated against
//! With one handle it is the page map, request for request. Two logs that go round at different
//! paces cost nothing to collect, where a page map moves the slower one. The NAND oracle.
//!
//! # References
//! Kang, Hyun, Maeng, Cho, "The Multi-streamed Solid-State Drive", HotStorage 2014.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::page::{Handles, PageMap};
use super::{Built, Context};

/// Parameters of multi-stream.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Streams of the drive. NVMe drives with streams had 8 to 16.
    pub streams: u8,
}

impl Default for Params {
    fn default() -> Params {
        Params { streams: 8 }
    }
}

impl Params {
    /// Build the mapping.
    ///
    /// # Errors
    /// More handles than a plane has blocks to spare for.
    pub fn build(&self, context: &Context) -> Built {
        let handles = Handles { count: self.streams, isolated: false };
        Ok(Box::new(PageMap::new(context, handles.check("streams", context)?)))
    }
}
