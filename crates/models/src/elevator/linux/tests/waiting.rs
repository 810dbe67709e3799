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
