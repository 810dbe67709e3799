//! State tables by hand, and shares.

use sim::{Nanos, Priority, PriorityClass};

use super::Params;
use crate::elevator::Context;
use crate::elevator::ElevatorPolicy;
use crate::elevator::linux::tests::clients::{Client, run};
use crate::elevator::linux::tests::harness::{Medium, Rig};
use config::Duration;

fn policy() -> ElevatorPolicy {
    ElevatorPolicy::Bfq(Params { low_latency: false, ..Params::default() })
}

fn level(level: u8) -> Priority {
    Priority::new(PriorityClass::BestEffort, level)
}

/// The process has its answer after 1 ms; 8 ms later the other one may go.
#[test]
fn the_device_waits_for_the_process_whose_turn_it_is() {
    for (asks, expected) in [(None, (9000, 5_000_000)), (Some(3000), (3000, 700_000))] {
        let mut rig = Rig::new(&policy(), Medium::fixed(1000));
        rig.read(1, 0, 8);
        rig.read(2, 5_000_000, 8);
        if let Some(us) = asks {
            rig.until_us(us);
            rig.read(1, 700_000, 8);
        }
        rig.until_us(20_000);
        assert_eq!(rig.times()[1], expected);
        assert_eq!(rig.count("anticipations_won"), u64::from(asks.is_some()));
    }
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
    for readers in [2, 4, 7] {
        let clients: Vec<Client> = (0..readers).map(Client::reader).collect();
        let out = run(&policy(), Medium::disk(), &clients, 30);
        let mean = out.mb_s.iter().sum::<f64>() / readers as f64;
        for share in &out.mb_s {
            assert!((share / mean - 1.0).abs() < 0.05, "{readers}: {:?}", out.mb_s);
        }
        assert!(mean * readers as f64 > 38.0, "{:?}", out.mb_s);
    }
}

/// Weights are 80 and 10. The negative control is an elevator that knows no shares.
#[test]
fn levels_0_and_7_share_as_8_to_1() {
    let with = |l| Client { priority: level(l), ..Client::reader(u64::from(l)) };
    let ratio = |policy: &ElevatorPolicy| {
        let out = run(policy, Medium::disk(), &[with(0), with(7)], 60);
        out.mb_s[0] / out.mb_s[1]
    };
    let bfq = ratio(&policy());
    assert!((7.2..8.8).contains(&bfq), "{bfq}");
    for other in ["none", "mq-deadline"] {
        let other = ratio(&ElevatorPolicy::from_name(other).unwrap());
        assert!((0.8..1.25).contains(&other), "{other}");
    }
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
