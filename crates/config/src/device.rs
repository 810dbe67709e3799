//! What every device is built with.

/// What a device is built with besides its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The root of this device's random streams.
    pub rng: sim::Rng,
}
