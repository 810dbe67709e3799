//! A leg leaves while the witness comes back.

use super::*;
use crate::Mutant;
use crate::types::WITNESS;

/// The witness was out and writes that it is a member again, which takes long, when the slow leg
/// fails. How the leg stands when everybody else has long answered.
fn while_the_witness_joins(mutant: Option<Mutant>) -> (Bench, State) {
    let mut config = Config::new(Mode::Log);
    config.rules.mutant = mutant;
    let mut bench = Bench::with(config, true);
    bench.filled();
    bench.tell(Event::Command(Command::Fail(WITNESS)));
    bench.until(|bench| bench.is(WITNESS, State::Out));
    bench.tell(Event::Returned(WITNESS));
    bench.until(|bench| bench.core.superblocks.joining(WITNESS));
    bench.legs[WITNESS].takes = Nanos::from_millis(500);
    bench.until(|bench| bench.core.superblocks.writing(WITNESS));
    bench.tell(Event::Command(Command::Fail(SLOW)));
    bench.run_to(bench.now + Nanos::from_millis(100));
    let state = bench.core.states()[SLOW];
    (bench, state)
}

/// Else these two would start without the leg that went on, and agree that nothing is missing.
#[test]
fn a_leg_has_not_left_before_the_joining_witness_knows() {
    let (mut bench, state) = while_the_witness_joins(None);
    assert_eq!(state, State::Leaving);
    bench.until(|bench| bench.is(SLOW, State::Out) && bench.is(WITNESS, State::Member));
    let (_, planted) = while_the_witness_joins(Some(Mutant::JoinerUntold));
    assert_eq!(planted, State::Out, "the planted bug");
}

/// A write that must be durable at once is, on the fast leg and in the witness's log. Then the
/// witness gets a new medium. Does the slow leg hold the write when the witness is a member again?
fn slow_leg_holds_it_when_the_new_witness_joins(mutant: Option<Mutant>) -> bool {
    let mut config = Config::new(Mode::Log);
    (config.lag.slow, config.lag.flush_deadline) = (None, None);
    config.rules.mutant = mutant;
    let mut bench = Bench::with(config, true);
    bench.filled();
    bench.legs[SLOW].takes = Nanos::from_secs(2);
    let id = bench.write(Span::new(5, 1), 77, true);
    assert!(bench.ends(id).0 < Nanos::from_secs(1), "with the witness's log");
    // Only that write is still out.
    bench.legs[SLOW].takes = Nanos::from_millis(1);
    bench.replace(WITNESS);
    bench.until(|bench| bench.is(WITNESS, State::Member));
    bench.legs[SLOW].data[5] == 77
}

/// Else a start without the fast leg would trust the witness, whose log is new.
#[test]
fn a_new_witness_joins_when_what_the_old_one_promised_is_safe() {
    assert!(slow_leg_holds_it_when_the_new_witness_joins(None));
    let early = Some(Mutant::JoinEarly);
    assert!(!slow_leg_holds_it_when_the_new_witness_joins(early), "the planted bug");
}

/// Replaced at rest and filled while the host writes nothing: a start that finds no hot extents on
/// a member takes that for damage, and compares everything.
#[test]
fn a_leg_that_starts_as_filling_is_no_member_without_its_hot_extents() {
    let mut bench = Bench::opened(Config::new(Mode::Log), false, |opened| {
        opened.state[SLOW] = State::Filling;
    });
    bench.until(|bench| bench.is(SLOW, State::Member));
    assert!(bench.legs[SLOW].has_activity);
}

/// A leg whose table takes longer to write than it may be silent: it is given a few pages at a
/// time, since those that wait in its own queue are as old as the moment it was given them.
#[test]
fn a_leg_with_a_large_table_joins() {
    const PAGES: u64 = 3000;
    let mut config = Config::new(Mode::Log);
    config.hot_max = 16;
    let mut bench = Bench::opened(config, false, |opened| {
        let blocks = PAGES * crate::format::maps::SUMS_PER_PAGE;
        opened.superblock.geometry.blocks = blocks;
        opened.out_of_sync = [(); LEGS].map(|()| crate::core::Regions::new(blocks, 16));
        opened.table = crate::core::Table::new(blocks);
        (0..blocks).step_by(500).for_each(|block| opened.table.set(block, 1, 1));
        opened.state[SLOW] = State::Out;
    });
    bench.legs[SLOW].pages_take = Nanos::from_millis(5);
    bench.tell(Event::Returned(SLOW));
    // The host goes on, and what it writes goes cold meanwhile.
    let mut turn = 0;
    while !bench.is(SLOW, State::Member) {
        turn += 1;
        bench.write(Span::new(turn * 97 % (PAGES * 500), 1), turn, false);
        bench.run_to(bench.now + Nanos::from_millis(20));
        assert!(bench.now < Nanos::from_secs(60), "{:?}", bench.core.states());
    }
    let stats = bench.core.stats();
    assert_eq!((stats.drops, stats.joins, stats.checkpoints > 20), (0, 1, true));
    let most = bench.legs[SLOW].pages_max;
    assert!(most <= 40 && bench.now > Nanos::from_secs(14), "{most} at once until {}", bench.now);
}
