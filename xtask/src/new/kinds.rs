//! The kinds of models that can be started: one entry each.

/// One kind of model.
pub(super) struct Kind {
    /// What it is called on the command line.
    pub(super) word: &'static str,
    pub(super) about: &'static str,
    /// Where its file goes.
    pub(super) folder: &'static str,
    /// The same place as a module path.
    pub(super) module: &'static str,
    /// The registry's enum.
    pub(super) registry: &'static str,
    /// The model's source, with `@name@`, `@module@` and `@Variant@` to fill in.
    pub(super) source: &'static str,
    /// A study that runs it.
    pub(super) study: &'static str,
    /// What the study reads, if anything: a small trace.
    pub(super) trace: Option<&'static str>,
}

pub(super) const KINDS: [Kind; 6] = [
    Kind {
        word: "device",
        about: "a block device",
        folder: "crates/models/src/device",
        module: "crate::device",
        registry: "DeviceModel",
        source: include_str!("../../templates/device.rs.txt"),
        study: include_str!("../../templates/device.toml"),
        trace: None,
    },
    Kind {
        word: "ftl-gc",
        about: "which block the collector empties next",
        folder: "crates/models/src/ftl/gc",
        module: "crate::ftl::gc",
        registry: "GcPolicy",
        source: include_str!("../../templates/ftl-gc.rs.txt"),
        study: include_str!("../../templates/ftl-gc.toml"),
        trace: None,
    },
    Kind {
        word: "ftl-mapping",
        about: "which flash page holds which logical page",
        folder: "crates/models/src/ftl/mapping",
        module: "crate::ftl::mapping",
        registry: "MappingScheme",
        source: include_str!("../../templates/ftl-mapping.rs.txt"),
        study: include_str!("../../templates/ftl-mapping.toml"),
        trace: None,
    },
    Kind {
        word: "ftl-wear",
        about: "which cold block is moved to level wear",
        folder: "crates/models/src/ftl/wear",
        module: "crate::ftl::wear",
        registry: "WearPolicy",
        source: include_str!("../../templates/ftl-wear.rs.txt"),
        study: include_str!("../../templates/ftl-wear.toml"),
        trace: None,
    },
    Kind {
        word: "trace",
        about: "a format of recorded requests",
        folder: "crates/models/src/trace",
        module: "crate::trace",
        registry: "TraceFormat",
        source: include_str!("../../templates/trace.rs.txt"),
        study: include_str!("../../templates/trace.toml"),
        trace: Some(include_str!("../../templates/trace.txt")),
    },
    Kind {
        word: "workload",
        about: "anything that issues requests",
        folder: "crates/models/src/workload",
        module: "crate::workload",
        registry: "WorkloadModel",
        source: include_str!("../../templates/workload.rs.txt"),
        study: include_str!("../../templates/workload.toml"),
        trace: None,
    },
];
