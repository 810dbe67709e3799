//! What `--set` took out of a study's grid: statements about it are left out.

use std::collections::BTreeSet;

use crate::axis_value::AxisValue;
use crate::tree::{Data, Node};

/// What the grid no longer has.
#[derive(Debug, Default)]
pub(crate) struct Gone {
    /// Axes that were set to one value.
    pub(crate) axes: Vec<String>,
    /// Values of axes that were given others.
    values: Vec<(String, AxisValue)>,
}

impl Gone {
    /// What the sweep after all settings lacks of the document's own.
    pub(crate) fn of(axes: Vec<String>, before: Option<&Node>, after: Option<&Node>) -> Gone {
        let (before, after) = (before.map(swept), after.map(swept));
        let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
        let mut values = Vec::new();
        for (name, list) in before {
            let Some((_, now)) = after.iter().find(|(other, _)| *other == name) else { continue };
            // As `AxisValue::same` has it: equal values have equal labels.
            let now: BTreeSet<String> = now.iter().map(AxisValue::label).collect();
            let lost = list.into_iter().filter(|old| !now.contains(&old.label()));
            values.extend(lost.map(|value| (name.to_string(), value)));
        }
        Gone { axes, values }
    }

    /// True when nothing was taken out.
    pub(crate) fn is_nothing(&self) -> bool {
        self.axes.is_empty() && self.values.is_empty()
    }

    /// True when the axis, or the wanted value or one of a list of them, is gone.
    pub(crate) fn is_in(&self, name: &String, wanted: &AxisValue) -> bool {
        let mut lost = self.values.iter().filter(|(axis, _)| axis == name);
        self.axes.contains(name) || lost.any(|(_, value)| value.among(wanted))
    }

    /// What a reader of the result must know.
    pub(crate) fn notes(&self) -> Vec<String> {
        let set = self.axes.iter().map(|axis| format!("{axis} is set and no longer swept"));
        let lost = self.values.iter();
        let lost = lost.map(|(axis, value)| format!("{axis} is swept without {}", value.label()));
        set.chain(lost).collect()
    }
}

/// The axes of a `[sweep]` with their values.
fn swept(sweep: &Node) -> Vec<(&str, Vec<AxisValue>)> {
    let axes = sweep.entries().iter().filter_map(|(name, node)| {
        let Data::Array(list) = &node.data else { return None };
        Some((name.as_str(), list.iter().map(|value| AxisValue(value.to_value())).collect()))
    });
    axes.collect()
}
