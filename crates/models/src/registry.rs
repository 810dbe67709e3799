//! The phone book: the only place where models are listed.
//!
//! One line here gives a model its TOML name, its schema, its `blocklab explain` text, its docs
//! page and its run through the contract tests.

use sim::Device;

use crate::config::ConfigError;
use crate::device::{Context, null};

sim::registry! {
    /// A block device.
    pub enum DeviceModel("device") in "device/":
        Context => Result<Box<dyn Device>, ConfigError> = {
        Null = "null" => null,
    }
}
