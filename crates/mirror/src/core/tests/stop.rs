//! A stop in order.

use super::*;
use crate::core::{Regions, Table};
use crate::format::maps::{HOT_MAX, SUMS_PER_PAGE};

/// Of 16 MiB each, so that there are eight or nine pages of checksums to each.
const EXTENT: u64 = 4096;

/// All that may be hot is, and metadata takes as long as on a disk. Without a leg the pages of the
/// bitmap are written, too.
fn stop_takes(alone: bool) -> (Nanos, usize) {
    let mut bench = Bench::opened(Config::new(Mode::Log), false, |opened| {
        let blocks = HOT_MAX as u64 * EXTENT;
        let geometry = &mut opened.superblock.geometry;
        (geometry.blocks, geometry.extent_blocks) = (blocks, EXTENT as u32);
        opened.table = Table::new(blocks);
        (0..blocks).step_by(SUMS_PER_PAGE as usize).for_each(|b| opened.table.set(b, 1, 1));
        opened.out_of_sync = [(); LEGS].map(|()| Regions::new(blocks, 16));
    });
    if alone {
        bench.tell(Event::Command(Command::Fail(SLOW)));
    }
    for extent in 0..HOT_MAX as u64 {
        bench.write(Span::new(extent * EXTENT, 1), 7, false);
    }
    let id = bench.flush();
    bench.ends(id).1.unwrap();
    bench.settled();
    bench.legs.iter_mut().for_each(|leg| leg.takes = Nanos::from_millis(8));
    let began = bench.now;
    bench.tell(Event::Command(Command::Stop));
    bench.until(|bench| bench.stopped);
    assert_eq!(bench.core.stats().checkpoints, HOT_MAX as u64);
    (bench.now.since(began), bench.legs[FAST].pages_max)
}

#[test]
fn a_stop_cools_many_extents_at_a_time() {
    for alone in [false, true] {
        let (took, pages) = stop_takes(alone);
        assert!(took < Nanos::from_secs(4) && pages <= 64, "{took}, {pages} pages at once");
    }
}
