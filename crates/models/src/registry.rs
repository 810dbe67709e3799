//! The phone book: the only place where models are listed.
//!
//! One line here gives a model its TOML name, its schema, its `blocklab explain` text, its docs
//! page and its run through the contract tests.

use sim::{Device, Workload};

use crate::config::ConfigError;
use crate::device::{Context, null, ssd};
use crate::ftl::allocation::{self, Allocator, dynamic, static_};
use crate::ftl::gc::{self, Gc, cost_benefit, d_choices, fifo, greedy, random, windowed};
use crate::ftl::mapping::{self, page};
use crate::ftl::wear::{self, Wear, none, wear_dynamic, wear_static};
use crate::workload::{self, uniform};

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

sim::registry! {
    /// Something that issues requests.
    pub enum WorkloadModel("workload") in "workload/":
        workload::Context<'_> => Result<Box<dyn Workload + Send>, ConfigError> = {
        Uniform = "uniform" => uniform,
    }
}

/// A slot: its name, and (name, source text) of every model in it.
pub type Slot = (&'static str, &'static [(&'static str, &'static str)]);

/// Every slot: what `blocklab list` shows and `blocklab explain` explains.
pub const SLOTS: &[Slot] = &[
    (DeviceModel::SLOT, DeviceModel::ENTRIES),
    (MappingScheme::SLOT, MappingScheme::ENTRIES),
    (Allocation::SLOT, Allocation::ENTRIES),
    (GcPolicy::SLOT, GcPolicy::ENTRIES),
    (WearPolicy::SLOT, WearPolicy::ENTRIES),
    (WorkloadModel::SLOT, WorkloadModel::ENTRIES),
];

#[cfg(test)]
mod tests {
    #[test]
    fn no_slot_is_forgotten() {
        let declared = include_str!("registry.rs").matches("\nsim::registry! {").count();
        assert_eq!(super::SLOTS.len(), declared);
    }
}
