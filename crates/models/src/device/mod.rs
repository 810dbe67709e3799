//! Devices: anything that implements the contract of [`sim::Device`].

use config::ConfigError;
use config::device::Context;
use sim::Device;

sim::registry! {
    /// A block device.
    pub enum DeviceModel("device"): Context => Result<Box<dyn Device>, ConfigError> = {
        Null = "null" => null,
        Ssd = "ssd" => ssd from flash::device,
        Hdd = "hdd" => hdd from disk,
        DisksimSsd = "disksim-ssd" => disksim_ssd from flash::device,
        Server = "server" => server,
        Iocost = "iocost" => iocost,
        Raid1 = "raid1" => raid1,
        MdWriteBehind = "md-write-behind" => md_write_behind,
        Mirror = "mirror" => mirror,
        Elevator = "elevator" => elevator,
        Cpu = "cpu" => cpu,
    }
}

impl DeviceModel {
    /// Build it as the leg `slot` of another device: that is how errors see it.
    fn build_leg(&self, slot: &str, context: &Context) -> Result<Box<dyn Device>, ConfigError> {
        self.build(context).map_err(|error| error.within(self.name()).within(slot))
    }
}

/// A queue of a mirror or a server.
///
/// # Errors
/// Names `queue_depth_max` when it is not from 1 to 1048576.
fn check_depth(queue_depth_max: u32) -> Result<(), ConfigError> {
    if (1..=1 << 20).contains(&queue_depth_max) {
        Ok(())
    } else {
        let message = format!("expected 1 to 1048576, got {queue_depth_max}");
        Err(ConfigError::new("queue_depth_max", message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
