//! The contract, with every policy over devices of every kind.

use sim::{Device, Rng};

use config::device::Context;
use disk::hdd;
use flash::device::ssd;

use crate::device::{elevator, null};
use crate::registry::{DeviceModel, ElevatorPolicy};
use config::Duration;

fn make(policy: &str, device: &DeviceModel, queue_depth: Option<u32>) -> Box<dyn Device> {
    let params = elevator::Params {
        device: Box::new(device.clone()),
        policy: ElevatorPolicy::from_name(policy).unwrap(),
        queue_depth,
        // Small, so that the pool runs out.
        nr_requests: Some(8),
        queue_depth_max: 64,
        ..elevator::Params::default()
    };
    params.build(&Context { rng: Rng::new(1, "elevator") }).unwrap()
}

#[test]
fn every_policy_obeys_the_laws_over_a_disk() {
    let disk = DeviceModel::Hdd(hdd::Params::default());
    for policy in ElevatorPolicy::NAMES {
        sim::laws::check_all(policy, &|| make(policy, &disk, Some(1)), 0..10);
        sim::laws::check_all(policy, &|| make(policy, &disk, None), 0..6);
    }
}

#[test]
fn every_policy_obeys_the_laws_over_flash() {
    let flash = DeviceModel::Ssd(ssd::Params::default());
    for policy in ElevatorPolicy::NAMES {
        sim::laws::check_all(policy, &|| make(policy, &flash, None), 0..6);
    }
}

#[test]
fn every_policy_obeys_the_laws_over_a_device_that_takes_no_time() {
    let latency = Duration(sim::Nanos(0));
    let nothing = DeviceModel::Null(null::Params { latency, ..null::Params::default() });
    for policy in ElevatorPolicy::NAMES {
        sim::laws::check_all(policy, &|| make(policy, &nothing, Some(2)), 0..6);
    }
}
