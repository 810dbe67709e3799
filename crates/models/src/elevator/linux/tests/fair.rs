//! What every policy with turns and shares does, each with its own numbers.

use std::ops::Range;

use sim::{Priority, PriorityClass};

use super::clients::{Client, run};
use super::harness::{Medium, Rig};
use crate::elevator::ElevatorPolicy;

pub(crate) fn level(level: u8) -> Priority {
    Priority::new(PriorityClass::BestEffort, level)
}

/// The process has its answer after 1 ms; 8 ms later the other one may go.
pub(crate) fn waits_for_whose_turn_it_is(policy: &ElevatorPolicy) {
    for (asks, expected) in [(None, (9000, 5_000_000)), (Some(3000), (3000, 700_000))] {
        let mut rig = Rig::new(policy, Medium::fixed(1000));
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

/// So many readers have equal shares of more than `mb_s` together.
pub(crate) fn shares_equally(policy: &ElevatorPolicy, counts: [u64; 3], mb_s: f64) {
    for readers in counts {
        let clients: Vec<Client> = (0..readers).map(Client::reader).collect();
        let out = run(policy, Medium::disk(), &clients, 30);
        let mean = out.mb_s.iter().sum::<f64>() / readers as f64;
        for share in &out.mb_s {
            assert!((share / mean - 1.0).abs() < 0.05, "{readers}: {:?}", out.mb_s);
        }
        assert!(mean * readers as f64 > mb_s, "{:?}", out.mb_s);
    }
}

/// Readers of the levels 0 and 7 share in a ratio `within`. The negative controls are elevators
/// that know no shares.
pub(crate) fn shares_by_level(policy: &ElevatorPolicy, within: Range<f64>, controls: &[&str]) {
    let with = |l| Client { priority: level(l), ..Client::reader(u64::from(l)) };
    let ratio = |policy: &ElevatorPolicy| {
        let out = run(policy, Medium::disk(), &[with(0), with(7)], 60);
        out.mb_s[0] / out.mb_s[1]
    };
    let shared = ratio(policy);
    assert!(within.contains(&shared), "{shared}");
    for other in controls {
        let other = ratio(&ElevatorPolicy::from_name(other).unwrap());
        assert!((0.8..1.25).contains(&other), "{other}");
    }
}
