//! The phone book: every slot of models, wherever it lives.
//!
//! A slot is listed in its own folder. One line there gives a model its TOML name, its schema, its
//! `blocklab explain` text, its docs page and its run through the contract tests.

use config::parameters::{self, Row};

pub use crate::device::DeviceModel;
pub use crate::elevator::ElevatorPolicy;
pub use flash::ftl::allocation::Allocation;
pub use flash::ftl::gc::GcPolicy;
pub use flash::ftl::mapping::MappingScheme;
pub use flash::ftl::wear::WearPolicy;
pub use trace::TraceFormat;
pub use workload::WorkloadModel;
pub use workload::replay::Replay;

/// A slot of the registry: one choice that TOML makes by name.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Its name in paths such as `gc.greedy`.
    pub slot: &'static str,
    /// (name, source text) of every entry, in registry order.
    pub entries: &'static [(&'static str, &'static str)],
    /// JSON Schema of the choice, parameters included.
    pub schema: fn() -> schemars::Schema,
}

impl Slot {
    /// The slot of that name.
    pub fn named(name: &str) -> Option<&'static Slot> {
        SLOTS.iter().find(|slot| slot.slot == name)
    }

    /// The parameters of its entry called `name`.
    pub fn parameters(&self, name: &str) -> Vec<Row> {
        parameters::rows((self.schema)().as_value(), name)
    }
}

macro_rules! slots {
    ($( $model:ty ),+ $(,)?) => {
        &[ $( Slot {
            slot: <$model>::SLOT,
            entries: <$model>::ENTRIES,
            schema: || schemars::schema_for!($model),
        }, )+ ]
    };
}

/// Every slot, in the order of the documents: what `blocklab list` shows and `blocklab explain`
/// explains.
pub const SLOTS: &[Slot] = slots![
    DeviceModel,
    ElevatorPolicy,
    MappingScheme,
    Allocation,
    GcPolicy,
    WearPolicy,
    WorkloadModel,
    TraceFormat,
    Replay,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_null_device_has_its_three_parameters() {
        let rows = Slot::named("device").unwrap().parameters("null");
        let keys: Vec<&str> = rows.iter().map(|row| row.key.as_str()).collect();
        assert_eq!(keys, ["capacity", "latency", "queue_depth_max"]);
        assert_eq!(rows[1].default, "`10us`");
        assert_eq!(rows[1].value, "a duration with a unit, such as \"25us\"");
        assert!(rows[1].meaning.starts_with("Time from submission"));
    }
}
