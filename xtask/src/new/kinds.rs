//! The kinds of models that can be started: one entry each.

/// One kind of model.
pub(super) struct Kind {
    /// What it is called on the command line.
    pub(super) word: &'static str,
    pub(super) about: &'static str,
    /// The package it becomes a part of.
    pub(super) package: &'static str,
    /// Where its file goes.
    pub(super) folder: &'static str,
    /// The file in that folder that lists the models of its slot.
    pub(super) slot: &'static str,
    /// The slot's enum.
    pub(super) registry: &'static str,
    /// The model's source, with `@name@`, `@module@` and `@Variant@` to fill in.
    pub(super) source: &'static str,
    /// A study that runs it.
    pub(super) study: &'static str,
    /// What the study reads, if anything: a small trace.
    pub(super) trace: Option<&'static str>,
}

pub(super) const KINDS: [Kind; 7] = [
    Kind {
        word: "device",
        about: "a block device",
        package: "blocklab-models",
        folder: "crates/models/src/device",
        slot: "mod.rs",
        registry: "DeviceModel",
        source: include_str!("../../templates/device.rs.txt"),
        study: include_str!("../../templates/device.toml"),
        trace: None,
    },
    Kind {
        word: "elevator",
        about: "the order in which requests go to a device",
        package: "blocklab-models",
        folder: "crates/models/src/elevator",
        slot: "mod.rs",
        registry: "ElevatorPolicy",
        source: include_str!("../../templates/elevator.rs.txt"),
        study: include_str!("../../templates/elevator.toml"),
        trace: None,
    },
    Kind {
        word: "ftl-gc",
        about: "which block the collector empties next",
        package: "blocklab-flash",
        folder: "crates/flash/src/ftl/gc",
        slot: "mod.rs",
        registry: "GcPolicy",
        source: include_str!("../../templates/ftl-gc.rs.txt"),
        study: include_str!("../../templates/ftl-gc.toml"),
        trace: None,
    },
    Kind {
        word: "ftl-mapping",
        about: "which flash page holds which logical page",
        package: "blocklab-flash",
        folder: "crates/flash/src/ftl/mapping",
        slot: "mod.rs",
        registry: "MappingScheme",
        source: include_str!("../../templates/ftl-mapping.rs.txt"),
        study: include_str!("../../templates/ftl-mapping.toml"),
        trace: None,
    },
    Kind {
        word: "ftl-wear",
        about: "which cold block is moved to level wear",
        package: "blocklab-flash",
        folder: "crates/flash/src/ftl/wear",
        slot: "mod.rs",
        registry: "WearPolicy",
        source: include_str!("../../templates/ftl-wear.rs.txt"),
        study: include_str!("../../templates/ftl-wear.toml"),
        trace: None,
    },
    Kind {
        word: "trace",
        about: "a format of recorded requests",
        package: "blocklab-trace",
        folder: "crates/trace/src",
        slot: "lib.rs",
        registry: "TraceFormat",
        source: include_str!("../../templates/trace.rs.txt"),
        study: include_str!("../../templates/trace.toml"),
        trace: Some(include_str!("../../templates/trace.txt")),
    },
    Kind {
        word: "workload",
        about: "anything that issues requests",
        package: "blocklab-workload",
        folder: "crates/workload/src",
        slot: "lib.rs",
        registry: "WorkloadModel",
        source: include_str!("../../templates/workload.rs.txt"),
        study: include_str!("../../templates/workload.toml"),
        trace: None,
    },
];
