//! Devices: anything that implements the contract of [`sim::Device`].

pub mod disksim_ssd;
pub mod elevator;
pub mod hdd;
pub mod md_write_behind;
pub mod mirror;
pub mod null;
pub mod raid1;
pub mod server;
pub mod ssd;

use crate::config::ConfigError;

/// What a device is built with besides its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The root of this device's random streams.
    pub rng: sim::Rng,
}

/// A queue of a mirror or a server.
///
/// # Errors
/// Names `queue_depth_max` when it is not from 1 to 1048576.
fn check_depth(queue_depth_max: u32) -> Result<(), ConfigError> {
    match (1..=1 << 20).contains(&queue_depth_max) {
        true => Ok(()),
        false => {
            let message = format!("expected 1 to 1048576, got {queue_depth_max}");
            Err(ConfigError::new("queue_depth_max", message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::DeviceModel;

    /// Registration alone subjects a device to the laws of the contract.
    #[test]
    fn every_registered_device_obeys_the_laws() {
        for name in DeviceModel::NAMES {
            let model = DeviceModel::from_name(name).unwrap();
            let make = || model.build(&Context { rng: sim::Rng::new(1, name) }).unwrap();
            sim::laws::check_all(name, &make, 0..12);
        }
    }
}
