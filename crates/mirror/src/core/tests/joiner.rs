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
