//! Devices: anything that implements the contract of [`sim::Device`].

pub mod hdd;
pub mod null;
pub mod ssd;

/// What a device is built with besides its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The root of this device's random streams.
    pub rng: sim::Rng,
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
