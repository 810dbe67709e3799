//! An elevator that stands before a device without being named in its table.

use config::{Failure, names};
use models::registry::ElevatorPolicy;

use crate::tree::{Node, Origin};

/// The model that it is.
pub(crate) const ELEVATOR: &str = "elevator";
/// As many bios of a disk a guest can have on their way: what an elevator behind it has to take.
pub const BIOS_MAX: u16 = 4096;

/// A policy of this name.
pub(crate) fn check(policy: &str) -> Result<(), Failure> {
    if ElevatorPolicy::NAMES.contains(&policy) {
        return Ok(());
    }
    let known = ElevatorPolicy::NAMES.iter().copied();
    Err(Failure::input(format!("`{policy}` is no elevator"))
        .expected(names::expected(policy, known))
        .help("blocklab explain elevator"))
}

/// Put an elevator of this policy, named at `origin`, before the device.
pub(crate) fn put_before_device(root: &mut Node, policy: &str, origin: &Origin) {
    let origin = origin.clone();
    let (mut outer, mut elevator) = (Node::table(origin.clone()), Node::table(origin.clone()));
    let mut choice = Node::table(origin.clone());
    choice.put(policy, Node::table(origin));
    elevator.put("policy", choice);
    if let Some(device) = root.take("device") {
        elevator.put("device", device);
    }
    outer.put(ELEVATOR, elevator);
    root.put("device", outer);
}
