//! Settings of what an axis chooses: they hold at the points that choose it.
//!
//! A study sweeps `device.elevator.policy` over names, and
//! `device.elevator.policy.deadline.fifo_batch` is set: the axis stays, and its `deadline` has that
//! batch.

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

impl Within {
    /// A setting below `axis`, if one of its values chooses what is set.
    pub(crate) fn of(sweep: &Node, axis: &str, path: &[String], value: &Node) -> Option<Within> {
        let depth = axis.split('.').count();
        let mut values = sweep.get(axis)?.items().iter();
        let found = values.any(|value| chooses(value, &path[depth]));
        found.then(|| Within { path: path.to_vec(), axis: depth, value: value.clone() })
    }

    /// Lay it over the document of a point that chooses it.
    pub(crate) fn lay_over(&self, tree: &mut Node) {
        let chosen = tree.find(&self.path[..self.axis]);
        if chosen.depth == self.axis && chooses(chosen.node, &self.path[self.axis]) {
            tree.assign(&self.path, self.value.clone());
        }
    }
}
