//! State tables by hand, and shares.

use sim::Nanos;

use super::Params;
use crate::elevator::Context;
use crate::elevator::ElevatorPolicy;
use crate::elevator::linux::tests::fair;
use crate::elevator::linux::tests::harness::{Medium, Rig};
use config::Duration;

fn policy() -> ElevatorPolicy {
    ElevatorPolicy::Bfq(Params { low_latency: false, ..Params::default() })
}

#[test]
fn the_device_waits_for_the_process_whose_turn_it_is() {
    fair::waits_for_whose_turn_it_is(&policy());
}

/// Two processes whose requests all wait, 1024 sectors each. The first budget is two thirds of
/// 16,384: ten requests. After that `max_budget` counts: four of one, then four of the other.
#[test]
fn a_turn_ends_with_its_budget() {
    let params = Params { max_budget: 4096, low_latency: false, ..Params::default() };
    let mut rig = Rig::new(&ElevatorPolicy::Bfq(params), Medium::fixed(1000));
    for n in 0..22 {
        rig.read(1, n * 10_000, 1024);
        rig.read(2, 1_000_000 + n * 10_000, 1024);
    }
    let order = rig.drain();
    let runs = order.chunk_by(|a, b| (*a < 1_000_000) == (*b < 1_000_000)).map(<[u64]>::len);
    assert_eq!(runs.collect::<Vec<_>>(), [10, 10, 4, 4, 4, 4, 4, 4]);
}

/// Requests take 10 ms, so a turn of 124 ms has thirteen: the one that begins at 120 ms is sent.
#[test]
fn a_turn_ends_with_its_time() {
    let mut rig = Rig::new(&policy(), Medium::fixed(10_000));
    for n in 0..30 {
        rig.read(1, n * 100, 8);
        rig.read(2, 1_000_000 + n * 100, 8);
    }
    let order = rig.drain();
    let first = order.iter().take_while(|&&lba| lba < 1_000_000).count();
    assert_eq!(first, 13);
}

#[test]
fn equal_readers_have_equal_shares() {
    fair::shares_equally(&policy(), [2, 4, 7], 38.0);
}

/// Weights are 80 and 10.
#[test]
fn levels_0_and_7_share_as_8_to_1() {
    fair::shares_by_level(&policy(), 7.2..8.8, &["none", "mq-deadline"]);
}

/// Of the 40 requests after one process has begun beside another, which asked for so much that its
/// weight is raised no longer: nearly all are of the new one, or about half.
#[test]
fn a_process_that_begins_is_raised() {
    let share = |low_latency| {
        let wr_max_time = Duration(Nanos::from_secs(1));
        let params = Params { low_latency, wr_max_time, ..Params::default() };
        let mut rig = Rig::new(&ElevatorPolicy::Bfq(params), Medium::fixed(20_000));
        (0..150).for_each(|n| rig.read(1, n * 100, 8));
        rig.until_us(2_000_000);
        let before = rig.order().len();
        (0..40).for_each(|n| rig.read(2, 10_000_000 + n * 100, 8));
        rig.until_us(2_000_000 + 40 * 20_000);
        rig.order()[before..].iter().filter(|&&lba| lba >= 10_000_000).count()
    };
    let (raised, equal) = (share(true), share(false));
    assert!(raised >= 36, "{raised} of 40");
    assert!((12..=28).contains(&equal), "{equal} of 40");
}

/// The turn of what nobody waits for ends when a reader asks. The negative control has no turns.
#[test]
fn a_reader_does_not_wait_for_write_back() {
    let place = |policy: &ElevatorPolicy| {
        let mut rig = Rig::new(policy, Medium::fixed(1000));
        (0..30).for_each(|n| rig.write(1, n * 10_000, 1024));
        rig.until_us(500);
        let before = rig.order().len();
        rig.read(2, 5_000_000, 8);
        let order = rig.drain();
        order[before..].iter().position(|&lba| lba == 5_000_000).unwrap()
    };
    assert_eq!(place(&policy()), 0);
    assert!(place(&ElevatorPolicy::from_name("none").unwrap()) >= 20);
}

#[test]
fn values_out_of_range_are_refused() {
    let context = Context { nr_requests: 256, rotational: true };
    let params = Params { timeout_sync: Duration(Nanos(0)), ..Params::default() };
    let error = params.build(&context).unwrap_err().to_string();
    assert_eq!(error, "timeout_sync: expected more than 0, got \"0ns\"");
}
