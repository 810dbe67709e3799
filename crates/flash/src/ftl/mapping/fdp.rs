//! Flexible data placement: a page map with the reclaim unit handles of NVMe FDP.
//!
//! ```text
//!   stream 0   stream 1   stream 2      moved by the collector
//!   +------+   +------+   +------+      +------+
//!   | open |   | open |   | open | ...  | open |    in every plane
//!   +------+   +------+   +------+      +------+
//! ```
//!
//! # What it models
//! The host marks each write with a placement handle; each handle fills a reclaim unit of its own,
//! here a block in each plane. With `initially` isolated handles the collector mixes what it moves;
//! `persistently` isolated ones keep moved pages among themselves, in reclaim units apart.
//!
//! The write path:
//! 1. a handle the drive does not have is handle 0;
//! 2. choose the plane as the page map does;
//! 3. take the next page of the handle's open block there;
//! 4. program it, mark the old page invalid, change the entry.
//!
//! # Equation
//! `RAM = page map`. Of H handles each plane keeps H + 1 blocks open, with persistent isolation
//! 2 H.
//!
//! # Parameters
//! `handles`, `isolation` (`initially` or `persistently`).
//!
//! # What it leaves out
//! Reclaim groups, events and statistics; a reclaim unit that spans planes and is reclaimed whole:
//! blocks of a handle are collected one by one.
//!
//! # Validated against
//! With one handle it is the page map, request for request. Two logs that go round at different
//! paces cost nothing to collect, where a page map moves the slower one. The NAND oracle.
//!
//! # References
//! NVM Express, TP4146 "Flexible Data Placement", 2022.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::page::{Handles, PageMap};
use super::{Built, Context};

/// What becomes of pages that the collector moves.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// They share reclaim units with those of other handles.
    #[default]
    Initially,
    /// They stay with their handle.
    Persistently,
}

/// Parameters of FDP.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Reclaim unit handles.
    pub handles: u8,
    /// What becomes of pages that the collector moves.
    pub isolation: Isolation,
}

impl Default for Params {
    fn default() -> Params {
        Params { handles: 8, isolation: Isolation::Initially }
    }
}

impl Params {
    /// Build the mapping.
    ///
    /// # Errors
    /// More handles than a plane has blocks to spare for.
    pub fn build(&self, context: &Context) -> Built {
        let isolated = self.isolation == Isolation::Persistently;
        let handles = Handles { count: self.handles, isolated };
        Ok(Box::new(PageMap::new(context, handles.check("handles", context)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::mapping::MappingScheme;
    use crate::ftl::mapping::multi_stream;
    use crate::ftl::mapping::tests::drive::{build, moved_by_logs, small};

    fn multi_stream(streams: u8) -> MappingScheme {
        MappingScheme::MultiStream(multi_stream::Params { streams })
    }

    fn moved(mapping: MappingScheme) -> u64 {
        moved_by_logs(build(&small(mapping, (1, 1), 80.0)).unwrap(), 8)
    }

    #[test]
    fn one_handle_is_the_page_map() {
        let page = moved(MappingScheme::Page(Default::default()));
        assert!(page > 0);
        assert_eq!(moved(multi_stream(1)), page);
    }

    #[test]
    fn logs_apart_cost_nothing_to_collect() {
        assert!(moved(MappingScheme::Page(Default::default())) > 10_000);
        assert_eq!(moved(multi_stream(2)), 0);
        for isolation in [Isolation::Initially, Isolation::Persistently] {
            assert_eq!(moved(MappingScheme::Fdp(Params { handles: 2, isolation })), 0);
        }
    }

    #[test]
    fn too_many_handles_are_refused() {
        for (streams, most) in [(0, 9), (40, 9)] {
            let error = build(&small(multi_stream(streams), (1, 1), 80.0)).map(drop).unwrap_err();
            assert_eq!(error.key, "mapping.multi-stream.streams");
            assert!(error.message.contains(&format!("expected 1 to {most}")), "{}", error.message);
        }
    }
}
