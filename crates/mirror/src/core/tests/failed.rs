//! The last leg that has everything dies.

use super::*;

/// Its writes are forgotten, and the other leg's queue and the copies to it name them no more.
#[test]
fn a_member_that_dies_while_the_other_leg_is_filled_fails_requests_only() {
    let mut ends = 0;
    for steps in 0..60 {
        let mut bench = Bench::new(Config::new(Mode::Log));
        bench.filled();
        bench.replace(SLOW);
        bench.until(|bench| bench.is(SLOW, State::Filling));
        for _ in 0..steps {
            bench.step();
        }
        if !bench.is(SLOW, State::Filling) {
            break;
        }
        bench.legs[FAST].refuses = true;
        let writes = [1, 2].map(|value| bench.write(Span::new(3, 1), value, true));
        let flush = bench.flush();
        bench.until(|bench| bench.said(Notice::Failed) == 1);
        for id in writes {
            assert_eq!(bench.ends(id).1, Err(IoError), "after {steps}");
        }
        // What was asked of the leg that was filled still ends, and nothing is kept for it.
        while !bench.flying.is_empty() {
            bench.step();
        }
        assert!(bench.replies.contains_key(&flush) && bench.buffers.is_empty(), "after {steps}");
        let late = [bench.write(Span::new(5, 1), 9, false), bench.flush()];
        assert_eq!(late.map(|id| bench.ends(id).1), [Err(IoError); 2]);
        ends += 1;
    }
    assert!(ends > 5, "{ends}");
}
