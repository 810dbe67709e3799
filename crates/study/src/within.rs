//! Settings of what an axis chooses: they hold at the points that choose it.
//!
//! A study sweeps `device.elevator.policy` over names, and
//! `device.elevator.policy.deadline.fifo_batch` is set: the axis stays, and its `deadline` has that
//! batch. A setting of `device.ssd` holds for those labelled devices that are an `ssd`.

use config::{Failure, names};
use models::registry::{DeviceModel, WorkloadModel};

use crate::tree::{Data, Node};

/// A setting below an axis.
#[derive(Clone, Debug)]
pub(crate) struct Within {
    path: Vec<String>,
    /// Segments of the path that are the axis.
    axis: usize,
    value: Node,
}

/// The axis that a path lies below.
pub(crate) fn axis_above(sweep: &Node, path: &[String]) -> Option<String> {
    let above = |axis: &&String| (1..path.len()).any(|end| path[..end].join(".") == **axis);
    let axes = sweep.entries().iter().map(|(axis, _)| axis);
    axes.filter(above).max_by_key(|axis| axis.len()).cloned()
}

/// Is this what a value of an axis chooses: a name, or a table of that name?
fn chooses(value: &Node, name: &str) -> bool {
    match &value.data {
        Data::Leaf(leaf) => leaf.as_str() == Some(name),
        _ => value.get(name).is_some(),
    }
}

/// The model that a setting of all labelled devices, or workloads, is of.
fn model_of(path: &[String]) -> Option<&str> {
    let [one, model, ..] = path else { return None };
    let models = if one == "device" { DeviceModel::NAMES } else { WorkloadModel::NAMES };
    models.contains(&model.as_str()).then_some(model)
}

/// Refuse a setting of one labelled device, or workload, where an axis sets that key of all. What
/// is set of a name that an axis chooses stays: see [`Node::choose`].
pub(crate) fn check_label(tree: &Node, path: &[String], value: &Node) -> Result<(), Failure> {
    let [several @ ("devices" | "workloads"), _, below @ ..] =
        &path.iter().map(String::as_str).collect::<Vec<_>>()[..]
    else {
        return Ok(());
    };
    let one = several.trim_end_matches('s');
    let set = [&[one], below].concat().join(".");
    let covers = |axis: &str| {
        let inside = axis.strip_prefix(&set).and_then(|rest| rest.strip_prefix('.'));
        let inside = inside.map(|keys| keys.split('.').map(String::from).collect::<Vec<_>>());
        let given = inside.is_some_and(|keys| value.find(&keys).depth == keys.len());
        given || axis == set
    };
    let axes = tree.get("sweep").map(Node::entries).unwrap_or_default();
    let Some((axis, _)) = axes.iter().find(|(axis, _)| covers(axis)) else { return Ok(()) };
    Err(Failure::input(format!("{}: `{axis}` is swept over all {several}", path.join(".")))
        .at(value.key.place())
        .expected("a key that is not swept")
        .help(format!("--set {axis}=... sets it of all, and ends the sweep")))
}

/// Refuse settings of labels that the study does not have: another device would be in it, with
/// everything else as it is by default. One that is wanted is set as a whole table first.
pub(crate) fn check_names(tree: &Node, sets: &[(Vec<String>, Node)]) -> Result<(), Failure> {
    let mut wanted: Vec<&str> = Vec::new();
    for (path, value) in sets {
        let [several @ ("devices" | "workloads"), label, below @ ..] =
            &path.iter().map(String::as_str).collect::<Vec<_>>()[..]
        else {
            continue;
        };
        let Some(there) = tree.get(several).filter(|there| !there.entries().is_empty()) else {
            continue;
        };
        let known = there.get(label).is_some() || wanted.contains(label);
        if !known && below.len() <= 1 && matches!(value.data, Data::Table(_)) {
            wanted.extend(path.get(1).map(String::as_str));
        } else if !known {
            let labels = there.entries().iter().map(|(label, _)| label.as_str());
            let labels = labels.chain(wanted.iter().copied());
            let what = format!("{}: no `{label}` among the {several}", path.join("."));
            let help = format!("another one is a whole table: --set '{several}.{label}={{ ... }}'");
            return Err(Failure::input(what)
                .at(value.key.place())
                .expected(names::expected(label, labels))
                .help(help));
        }
    }
    Ok(())
}

/// Whether a setting of all labelled devices, or workloads, holds for the one of this point.
pub(crate) fn holds(tree: &Node, path: &[String]) -> bool {
    let Some(model) = model_of(path) else { return true };
    tree.get(&path[0]).is_none_or(|chosen| chosen.get(model).is_some())
}

/// The document with the settings of all labelled devices, or workloads, at each that they are of:
/// it can be run again without them.
pub(crate) fn at_each(tree: &Node, late: &[(Vec<String>, Node)]) -> Node {
    let mut all = tree.clone();
    for (path, value) in late {
        let several = format!("{}s", path[0]);
        let labelled = tree.get(&several).map(Node::entries).unwrap_or_default();
        for (label, one) in labelled {
            if model_of(path).is_none_or(|model| one.get(model).is_some()) {
                let at = [&[several.clone(), label.clone()], &path[1..]].concat();
                all.assign(&at, value.clone());
            }
        }
    }
    all
}

/// What a reader must know of a setting of all labelled devices, or workloads: that it is not of
/// all.
///
/// # Errors
/// When it is of none.
pub(crate) fn of_some(
    tree: &Node,
    path: &[String],
    value: &Node,
) -> Result<Option<String>, Failure> {
    let several = format!("{}s", path[0]);
    let (Some(model), Some(labelled)) = (model_of(path), tree.get(&several)) else {
        return Ok(None);
    };
    let (of_it, others): (Vec<_>, Vec<_>) =
        labelled.entries().iter().partition(|(_, one)| one.get(model).is_some());
    if of_it.is_empty() {
        let inside = |(label, one): &&(String, Node)| {
            one.entries().first().map(|(other, _)| format!("{several}.{label}.{other}"))
        };
        let known: Vec<String> = others.iter().filter_map(inside).collect();
        let what = format!("{}: none of the {several} is of the model `{model}`", path.join("."));
        return Err(Failure::input(what)
            .at(value.key.place())
            .expected(format!("a key of what there is: {}", known.join(", "))));
    }
    let names = |all: &[&(String, Node)]| {
        all.iter().map(|(label, _)| label.as_str()).collect::<Vec<_>>().join(", ")
    };
    Ok((!others.is_empty()).then(|| {
        let (path, of_it, others) = (path.join("."), names(&of_it), names(&others));
        format!("{path} is set of {of_it}; of another model, and as it was: {others}")
    }))
}

impl Within {
    /// A setting below `axis`, if one of its values chooses what is set.
    pub(crate) fn of(sweep: &Node, axis: &str, path: &[String], value: &Node) -> Option<Within> {
        let depth = axis.split('.').count();
        let mut values = sweep.get(axis)?.items().iter();
        let found = values.any(|value| chooses(value, &path[depth]));
        found.then(|| Within { path: path.to_vec(), axis: depth, value: value.clone() })
    }

    /// Refuse it where a later setting of the axis chooses something else only; `late` are those of
    /// labelled devices.
    pub(crate) fn check(&self, tree: &Node, late: &[(Vec<String>, Node)]) -> Result<(), Failure> {
        let (axis, name) = (&self.path[..self.axis], &self.path[self.axis]);
        let chosen = match tree.get("sweep").and_then(|sweep| sweep.get(&axis.join("."))) {
            Some(list) => list.items().iter().any(|value| chooses(value, name)),
            None => {
                let mut late = late.iter().rev().filter(|(path, _)| path == axis);
                let found = tree.find(axis);
                let single = (found.depth == axis.len()).then_some(found.node);
                late.next().map(|(_, value)| value).or(single).is_some_and(|one| chooses(one, name))
            }
        };
        if chosen {
            return Ok(());
        }
        let (path, axis) = (self.path.join("."), axis.join("."));
        Err(Failure::input(format!("{path}: `{axis}` is set to what is no `{name}`"))
            .at(self.value.key.place())
            .expected(format!("one of the two, or `{name}` among the values of `{axis}`")))
    }

    /// Lay it over the document of a point that chooses it.
    pub(crate) fn lay_over(&self, tree: &mut Node) {
        let chosen = tree.find(&self.path[..self.axis]);
        if chosen.depth == self.axis && chooses(chosen.node, &self.path[self.axis]) {
            tree.assign(&self.path, self.value.clone());
        }
    }
}
