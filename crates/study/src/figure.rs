//! Figures of a study's own: a metric over the grid, as the document describes it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::axis_value::AxisValue;

/// A figure of the report: one metric of the selected points of the grid.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Its name for `blocklab report DIR --figure NAME`: small letters, digits and hyphens.
    #[schemars(regex(pattern = "^[a-z0-9][a-z0-9-]*$"))]
    pub name: String,
    /// What it shows, in words.
    pub title: String,
    /// How it is drawn. Without it: points over a metric, lines over an axis of numbers, else bars.
    pub kind: Option<Kind>,
    /// An axis of the grid, or a metric.
    pub x: String,
    /// The metric it is about.
    pub y: String,
    /// Divide `y` by this metric of the same run.
    pub per: Option<String>,
    /// The axis whose values have a colour each. Without it: all axes that are left.
    pub series: Option<String>,
    /// The axis with a panel per value.
    pub panels: Option<String>,
    /// Which runs: the value, or a list of values, of each named axis. Without it: all.
    #[serde(default, rename = "where")]
    pub which: BTreeMap<String, AxisValue>,
    /// Divide `y` by that of the same point with these values on these axes instead.
    #[serde(default)]
    pub relative_to: BTreeMap<String, AxisValue>,
    /// What stands under the horizontal axis. Without it: the name of `x`.
    pub x_label: Option<String>,
    /// What stands at the vertical axis. Without it: the name of `y`.
    pub y_label: Option<String>,
    /// A logarithmic horizontal axis.
    #[serde(default)]
    pub x_log: bool,
    /// A logarithmic vertical axis.
    #[serde(default)]
    pub y_log: bool,
    /// Mark the points that no other one beats in both directions. Only over a metric.
    pub front: Option<Front>,
    /// What was measured elsewhere, such as on a real drive, drawn beside the study's own points:
    /// pairs of what is across and up. Only over numbers, in a figure without panels.
    #[serde(default)]
    pub measured: Vec<[f64; 2]>,
}

/// How a figure is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A line through the points of each series, from left to right.
    Lines,
    /// A bar per value of the axis `x` and series.
    Bars,
    /// A dot per point.
    Points,
}

/// Which corner of a figure is the best.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Front {
    /// The most of `y` for the least of `x`.
    HighLeft,
    /// The least of `y` for the least of `x`.
    LowLeft,
}
