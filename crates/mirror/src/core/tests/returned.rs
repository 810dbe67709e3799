//! A leg leaves and comes back while writes are live.

use super::*;
use crate::core::writes::OnLeg;
use crate::core::{Regions, Table};

/// Behind the first 16 TiB.
const FAR: u64 = (1 << 32) + 5;

/// A write is durable on the slow leg, which leaves and comes back while the fast one still has not
/// answered it: it need not be written again, and waits for nothing else.
#[test]
fn what_is_durable_on_a_leg_that_comes_back_still_is() {
    for block in [5, FAR] {
        let mut config = Config::new(Mode::Strict);
        config.lag.slow = None;
        let mut bench = Bench::opened(config, false, |opened| {
            let blocks = FAR.next_multiple_of(BLOCKS);
            let geometry = &mut opened.superblock.geometry;
            (geometry.blocks, geometry.region_blocks) = (blocks, 1 << 20);
            opened.table = Table::new(blocks);
            opened.out_of_sync = [(); LEGS].map(|()| Regions::new(blocks, 1 << 20));
        });
        let span = Span::new(block, 1);
        let first = bench.write(span, 1, false);
        bench.ends(first).1.unwrap();
        bench.legs[FAST].takes = Nanos::from_secs(3);
        let id = bench.write(span, 2, false);
        bench.legs[FAST].takes = Nanos::from_millis(1);
        // What is in a cache is flushed after a second.
        bench.until(|bench| {
            let writes = &bench.core.writes;
            writes.indices().iter().all(|&index| writes.get(index).legs[SLOW] == OnLeg::Durable)
        });
        bench.tell(Event::Command(Command::Fail(SLOW)));
        bench.until(|bench| bench.is(SLOW, State::Out));
        bench.tell(Event::Returned(SLOW));
        bench.until(|bench| bench.is(SLOW, State::Member));
        assert!(!bench.replies.contains_key(&id), "the fast leg has answered");
        bench.ends(id).1.unwrap();
    }
}
