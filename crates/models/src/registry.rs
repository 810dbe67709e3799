//! The phone book: the only place where models are listed.
//!
//! One line here gives a model its TOML name, its schema, its `blocklab explain` text, its docs
//! page and its run through the contract tests.

use sim::Device;

use crate::config::ConfigError;
use crate::device::{Context, null, ssd};
use crate::ftl::allocation::{self, Allocator, dynamic, static_};
use crate::ftl::gc::{self, Gc, cost_benefit, d_choices, fifo, greedy, random, windowed};
use crate::ftl::mapping::{self, page};
use crate::ftl::wear::{self, Wear, none, wear_dynamic, wear_static};

sim::registry! {
    /// A block device.
    pub enum DeviceModel("device") in "device/":
        Context => Result<Box<dyn Device>, ConfigError> = {
        Null = "null" => null,
        Ssd = "ssd" => ssd,
    }
}

sim::registry! {
    /// How an FTL finds pages.
    pub enum MappingScheme("mapping") in "ftl/mapping/":
        mapping::Context => mapping::Built = {
        Page = "page" => page,
    }
}

sim::registry! {
    /// Which plane takes the next page.
    pub enum Allocation("allocation") in "ftl/allocation/":
        allocation::Context => Result<Allocator, ConfigError> = {
        Static = "static" => static_,
        Dynamic = "dynamic" => dynamic,
    }
}

sim::registry! {
    /// Which block the collector empties next.
    pub enum GcPolicy("gc") in "ftl/gc/": gc::Context => Box<dyn Gc> = {
        Greedy = "greedy" => greedy,
        Fifo = "fifo" => fifo,
        Random = "random" => random,
        DChoices = "d-choices" => d_choices,
        Windowed = "windowed" => windowed,
        CostBenefit = "cost-benefit" => cost_benefit,
    }
}

sim::registry! {
    /// How wear is levelled.
    pub enum WearPolicy("wear") in "ftl/wear/": wear::Context => Box<dyn Wear> = {
        None = "none" => none,
        Dynamic = "dynamic" => wear_dynamic,
        Static = "static" => wear_static,
    }
}

/// A slot of the registry: one choice that TOML makes by name.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Its name in paths such as `gc.greedy`.
    pub slot: &'static str,
    /// (name, source text) of every entry, in registry order.
    pub entries: &'static [(&'static str, &'static str)],
    /// JSON Schema of the choice, parameters included.
    pub schema: schemars::Schema,
}

macro_rules! slots {
    ($( $model:ty ),+ $(,)?) => {
        vec![ $( Slot {
            slot: <$model>::SLOT,
            entries: <$model>::ENTRIES,
            schema: schemars::schema_for!($model),
        }, )+ ]
    };
}

/// Every slot, in the order of the documents.
pub fn slots() -> Vec<Slot> {
    slots![DeviceModel, MappingScheme, Allocation, GcPolicy, WearPolicy]
}
