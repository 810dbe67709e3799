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

/// The policy of this name, with its defaults.
pub(crate) fn named(policy: &str, origin: &Origin) -> Node {
    let mut choice = Node::table(origin.clone());
    choice.put(policy, Node::table(origin.clone()));
    choice
}

/// Put an elevator of this policy before the device.
pub(crate) fn put_before_device(root: &mut Node, policy: Node) {
    let origin = policy.value.clone();
    let (mut outer, mut elevator) = (Node::table(origin.clone()), Node::table(origin));
    elevator.put("policy", policy);
    if let Some(device) = root.take("device") {
        elevator.put("device", device);
    }
    outer.put(ELEVATOR, elevator);
    root.put("device", outer);
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::files::Files;
    use crate::tree::Text;
    use crate::{grid, load};

    /// The policy before the device of each point, and what `travel.elevator` says.
    fn points(study: &str, sets: &[&str]) -> Result<Vec<(String, serde_json::Value)>, Failure> {
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        let text = format!("[device.null]\n[travel]\ncommand = 'true'\n{study}");
        let loaded = load::lay("t", &Text::new("t", text), PathBuf::new(), &sets)?;
        let files = Files::new(Path::new(""));
        let points = grid::points(&loaded, &grid::axes(&loaded)?, &files)?;
        let of = |point: grid::GridPoint| {
            let device = serde_json::to_value(&point.point.device).unwrap();
            let name = point.point.travel.unwrap().elevator.unwrap();
            (name, device["elevator"]["policy"].clone())
        };
        Ok(points.into_iter().map(of).collect())
    }

    #[test]
    fn an_elevator_of_a_study_that_travels_has_parameters() {
        let sweep = "[sweep]\n'travel.elevator' = ['noop', 'cfq']\n";
        let set = points(sweep, &["travel.elevator.cfq.slice_idle=0us"]).unwrap();
        assert_eq!((&*set[0].0, &*set[1].0), ("noop", "cfq"));
        let plain = points(sweep, &[]).unwrap();
        assert_eq!(set[0], plain[0]);
        let idle =
            |points: &[(String, serde_json::Value)]| points[1].1["cfq"]["slice_idle"].clone();
        assert_ne!(idle(&set), idle(&plain));
        let table = points("[travel.elevator.cfq]\nslice_idle = '0us'\n", &[]).unwrap();
        assert_eq!(table[0], set[1]);
        for (wrong, said) in [
            ("travel.elevator=cqf", "`cqf` is no elevator"),
            ("travel.elevator.cfq.slice_idel=0us", "slice_idel"),
            ("travel.elevator={ cfq = {}, noop = {} }", "only one policy"),
            ("travel.elevator={}", "travel.elevator"),
        ] {
            let failure = points("", &[wrong]).unwrap_err().to_string();
            assert!(failure.contains(said) && failure.contains("--set:1:"), "{wrong}: {failure}");
        }
    }
}
