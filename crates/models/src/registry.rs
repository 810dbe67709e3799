//! The phone book: every slot of models, wherever it lives.
//!
//! A slot is listed in its own folder. One line there gives a model its TOML name, its schema, its
//! `blocklab explain` text, its docs page and its run through the contract tests.

use config::parameters::{self, Row};
use sim::metric::{Counted, Declarations};

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
    /// What the entries count, in registry order.
    pub counted: &'static [Declarations],
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
            counted: <$model>::COUNTED,
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

/// What devices call the devices they are made of.
pub const PARTS: [&str; 6] = ["device", "fast", "slow", "witness", "first", "second"];

/// What models count and the metrics that follow, each table once, in the order of the slots.
pub fn counted() -> Vec<&'static Counted> {
    let mut all: Vec<&'static Counted> = Vec::new();
    for table in SLOTS.iter().flat_map(|slot| slot.counted).copied().flatten() {
        if !all.iter().any(|known| std::ptr::eq(*known, *table)) {
            all.push(table);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use config::device::Context;
    use flash::device::ssd;
    use flash::ssd::timing::PslcParams;
    use serde::Deserialize;
    use sim::Device;
    use sim::metric::stands_for;

    use super::*;
    use crate::device::elevator;

    /// A counter or a metric belongs to one table, and a metric reads what is declared.
    #[test]
    fn everything_counted_is_declared_once() {
        let all = counted();
        let mut names: Vec<&str> =
            all.iter().flat_map(|table| table.counters).map(|counter| counter.name).collect();
        for metric in all.iter().flat_map(|table| table.metrics) {
            for read in metric.formula.reads() {
                let known = names.iter().any(|name| *name == read || stands_for(name, read));
                assert!(known, "{} reads {read}, which no model declares", metric.name);
            }
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    /// What a device counts without saying so would be a column that nobody can look up.
    #[test]
    fn what_devices_count_is_declared() {
        let declared: Vec<&str> =
            counted().iter().flat_map(|table| table.counters).map(|c| c.name).collect();
        let check = |device: DeviceModel| {
            let built = device.build(&Context { rng: sim::Rng::new(1, "declared") }).unwrap();
            let mut counters = sim::Counters::default();
            built.counters(&mut counters);
            for (name, _) in counters.counts.iter().chain(&counters.levels) {
                let legs = counters.parts.iter().flat_map(|part| part.split('.'));
                legs.for_each(|leg| {
                    assert!(PARTS.contains(&leg), "{leg} is not in PARTS, registry.rs")
                });
                let part = counters.parts.iter().rev().find_map(|part| {
                    name.strip_prefix(part.as_str()).and_then(|rest| rest.strip_prefix('.'))
                });
                let own = part.unwrap_or(name);
                let known = declared.iter().any(|declared| stands_for(declared, own));
                assert!(known, "{}: {name} is not declared", device.name());
            }
        };
        DeviceModel::NAMES.iter().for_each(|name| check(DeviceModel::from_name(name).unwrap()));
        for name in ElevatorPolicy::NAMES {
            let policy = ElevatorPolicy::from_name(name).unwrap();
            check(DeviceModel::Elevator(elevator::Params { policy, ..Default::default() }));
        }
        for name in MappingScheme::NAMES {
            let mapping = MappingScheme::from_name(name).unwrap();
            let allocation = Allocation::from_name("static").unwrap();
            let mut params = ssd::Params { mapping, allocation, ..Default::default() };
            let (read, program) = (params.nand.read[0], params.nand.program[0]);
            params.nand.pslc = Some(PslcParams { read, program, bits_per_cell: 3 });
            check(DeviceModel::Ssd(params));
        }
    }

    /// What holds devices passes on what preconditioning asks of them, and tells what they count.
    #[test]
    fn held_devices_are_reached() {
        let mut holders = 0;
        for name in DeviceModel::NAMES {
            let context = Context { rng: sim::Rng::new(1, "held") };
            let (model, legs) = with_ssds(&DeviceModel::from_name(name).unwrap());
            if legs.is_empty() {
                continue;
            }
            holders += 1;
            let mut device = model.build(&context).unwrap();
            let counted = |device: &dyn Device| {
                let mut counters = sim::Counters::default();
                device.counters(&mut counters);
                counters.counts
            };
            let before = counted(&*device);
            for leg in legs {
                let own = format!("{leg}.flash_programs.host");
                assert!(before.iter().any(|(name, _)| *name == own), "{name}: no {own}");
                let of_leg = |wear: &sim::Wear| wear.unit.starts_with(&leg);
                assert!(device.wear().iter().any(of_leg), "{name}: {leg} has no wear");
            }
            device.apply(&sim::Request::write(sim::Lba(0), 2048));
            assert_ne!(counted(&*device), before, "{name}: nothing below was written");
        }
        assert!(holders >= 5, "{holders}");
    }

    /// The model with an SSD in place of each device that it holds, and what it calls these.
    fn with_ssds(model: &DeviceModel) -> (DeviceModel, Vec<String>) {
        let mut document = toml::Value::try_from(model).unwrap();
        let mut legs = Vec::new();
        let table = document.as_table_mut().and_then(|one| one.iter_mut().next()?.1.as_table_mut());
        for (key, value) in table.into_iter().flatten() {
            let names = value.as_table().map(|held| held.keys().map(String::as_str));
            if names.is_some_and(|mut names| names.any(|name| DeviceModel::NAMES.contains(&name))) {
                *value = toml::Table::from_iter([("ssd".into(), toml::Table::new().into())]).into();
                legs.push(key.clone());
            }
        }
        (document.try_into().unwrap(), legs)
    }

    /// A table that is given in part keeps its other defaults: setting one key to what the
    /// documents say it is changes nothing.
    #[test]
    fn a_default_that_is_set_changes_nothing() {
        macro_rules! check {
            ($( $model:ty ),+) => { $( for name in <$model>::NAMES {
                let model = <$model>::from_name(name).unwrap();
                let all = toml::Value::try_from(&model).unwrap();
                for one in keys_one_by_one(&all[name]) {
                    let alone = toml::Table::from_iter([(name.to_string(), one)]);
                    let read = <$model>::deserialize(alone.clone());
                    let read = read.unwrap_or_else(|error| panic!("{alone}: {error}"));
                    assert_eq!(read, model, "{alone}");
                }
            } )+ };
        }
        check!(DeviceModel, ElevatorPolicy, MappingScheme, Allocation, GcPolicy, WearPolicy);
        check!(WorkloadModel, TraceFormat, Replay);
    }

    /// The table with one of its keys at a time, those of tables within it, too.
    fn keys_one_by_one(value: &toml::Value) -> Vec<toml::Value> {
        let Some(table) = value.as_table() else { return vec![value.clone()] };
        let each = |(key, value): (&String, &toml::Value)| {
            let alone = |one| toml::Table::from_iter([(key.clone(), one)]).into();
            keys_one_by_one(value).into_iter().map(alone).collect::<Vec<_>>()
        };
        table.iter().flat_map(each).collect()
    }

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
