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
}

pub(super) const KINDS: [Kind; 1] = [Kind {
    word: "device",
    about: "a block device",
    folder: "crates/models/src/device",
    module: "crate::device",
    registry: "DeviceModel",
    source: include_str!("../../templates/device.rs.txt"),
    study: include_str!("../../templates/device.toml"),
}];
