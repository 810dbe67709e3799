//! Who waits for a request of the pool, and for how many of the others' before.

use super::harness::{Medium, Rig};
use crate::elevator::ElevatorPolicy;

/// A process with ten requests in flight sleeps for the second one: another process waits for that
/// one, not for nine. In a kernel of today with one request for its driver a reader has a third of
/// the requests so (`docs/measured/linux-io.md`, small queues).
#[test]
fn a_process_that_has_much_in_flight_waits_once() {
    let none = ElevatorPolicy::from_name("none").unwrap();
    let mut rig = Rig::with(&none, Medium::fixed(1000), |settings| settings.nr_requests = 1);
    (0..10).for_each(|n| rig.write_sync(1, 1000 * n, 8));
    rig.read(2, 7, 8);
    rig.read(2, 50_007, 8);
    rig.host.drain();
    assert_eq!(rig.order()[..5], [0, 1000, 7, 2000, 50_007]);
    assert_eq!(rig.count("waited_for_request"), 2);
    assert_eq!(rig.order().len(), 12);
}

/// By hand, in a device that takes one: a driver without a budget has 500 already when 300 comes,
/// which is nearer.
#[test]
fn a_driver_without_a_budget_takes_one_ahead() {
    let policy = ElevatorPolicy::from_name("mq-deadline").unwrap();
    for (budget, order) in [(true, [100, 300, 500]), (false, [100, 500, 300])] {
        let mut rig = Rig::with(&policy, Medium::fixed(1000), |settings| settings.budget = budget);
        for lba in [100, 500, 300] {
            rig.read(1, lba, 8);
            rig.until_us(0);
        }
        assert_eq!(rig.drain(), order, "{budget}");
    }
}

/// Two neighbours that a process asks for asleep: at one moment they meet in its plug, at two the
/// first has left that before the second comes.
#[test]
fn what_was_asked_for_asleep_at_another_moment_has_another_plug() {
    let none = ElevatorPolicy::from_name("none").unwrap();
    for (at_us, got) in [(0, vec![(100, 8), (7000, 16)]), (9, vec![(100, 8), (7000, 8), (7008, 8)])]
    {
        let mut rig = Rig::with(&none, Medium::fixed(1000), |settings| settings.nr_requests = 1);
        rig.read(9, 100, 8);
        rig.read(1, 7000, 8);
        rig.until_us(at_us);
        rig.read(1, 7008, 8);
        rig.drain();
        assert_eq!(rig.got(), got, "{at_us}");
    }
}
