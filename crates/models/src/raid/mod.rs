//! Devices made of devices: what all of them share.

pub(crate) mod counted;
pub(crate) mod legs;
pub(crate) mod md;
