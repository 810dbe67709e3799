//! A figure's points, which only need to be drawn.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::expect::{Runs, Selection, name};
use crate::figure::{Figure, Front, Kind};

/// A figure with its numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Drawing {
    /// Its name.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// How it is drawn.
    pub kind: Kind,
    /// The axis or metric across.
    pub x: String,
    /// True when `x` is an axis of the grid.
    pub x_is_axis: bool,
    /// The metric it is about.
    pub y: String,
    /// True when `y` is divided by that of another point.
    pub relative: bool,
    /// The axes whose values tell the series apart.
    pub series: Vec<String>,
    /// The axis with a panel per value.
    pub panels: Option<String>,
    /// What stands under the horizontal axis.
    pub x_label: String,
    /// What stands at the vertical axis.
    pub y_label: String,
    /// A logarithmic horizontal axis.
    pub x_log: bool,
    /// A logarithmic vertical axis.
    pub y_log: bool,
    /// Which corner is the best.
    pub front: Option<Front>,
    /// One per selected point of the grid, in its order.
    pub points: Vec<Dot>,
    /// What was measured elsewhere: pairs of what is across and up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<[f64; 2]>,
}

/// A point of the grid in a figure, repeats averaged.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Dot {
    /// The value on every axis.
    pub params: Map<String, Value>,
    /// The value on the axis `x`, or of the metric.
    pub x: Value,
    /// The value of the metric; nothing where it is undefined.
    pub y: Option<f64>,
    /// No point of its panel beats it in both directions.
    pub front: bool,
}

impl Figure {
    pub(crate) fn selection(&self) -> Selection<'_> {
        let Figure { y, per, which, relative_to, .. } = self;
        Selection { metric: y, per: per.as_deref(), which, relative_to }
    }

    /// How it is drawn; `numbers` says whether `x` is an axis of numbers, if it is an axis.
    fn kind(&self, numbers: Option<bool>) -> Kind {
        self.kind.unwrap_or(match numbers {
            None => Kind::Points,
            Some(true) => Kind::Lines,
            Some(false) => Kind::Bars,
        })
    }

    /// The figure with the numbers of `runs`; `axes` are those of the grid.
    pub(crate) fn draw(&self, axes: &[String], runs: &Runs) -> Drawing {
        let x_is_axis = axes.contains(&self.x);
        let points = self.points(x_is_axis, runs);
        let numbers = x_is_axis.then(|| points.iter().all(|point| point.x.is_number()));
        let taken = |axis: &&String| **axis == self.x || Some(*axis) == self.panels.as_ref();
        let varies = |axis: &&String| {
            points.iter().any(|point| point.params[*axis] != points[0].params[*axis])
        };
        let left = || -> Vec<String> {
            let left = axes.iter().filter(|axis| !taken(axis) && varies(axis)).cloned();
            let left: Vec<String> = left.collect();
            // A line over a metric goes along the one axis there is: its points are no series each.
            let along = !x_is_axis && self.kind == Some(Kind::Lines) && left.len() == 1;
            if along { Vec::new() } else { left }
        };
        let label = |own: &Option<String>, name: String| own.clone().unwrap_or(name);
        Drawing {
            name: self.name.clone(),
            title: self.title.clone(),
            kind: self.kind(numbers),
            x: self.x.clone(),
            x_is_axis,
            y: self.y.clone(),
            relative: !self.relative_to.is_empty() || self.per.is_some(),
            series: self.series.as_ref().map_or_else(left, |axis| vec![axis.clone()]),
            panels: self.panels.clone(),
            x_label: label(&self.x_label, self.x.clone()),
            y_label: label(&self.y_label, name(self.selection())),
            x_log: self.x_log,
            y_log: self.y_log,
            front: self.front,
            points,
            measured: self.measured.clone(),
        }
    }

    fn points(&self, x_is_axis: bool, runs: &Runs) -> Vec<Dot> {
        let as_is = BTreeMap::new();
        let across =
            Selection { metric: &self.x, per: None, which: &self.which, relative_to: &as_is };
        let across = (!x_is_axis).then(|| across.points(runs));
        let mut points = Vec::new();
        for (index, (params, y)) in self.selection().points(runs).into_iter().enumerate() {
            let params: Map<String, Value> =
                params.iter().map(|(axis, value)| (axis.clone(), value.json())).collect();
            let x = match &across {
                Some(across) => across[index].1.into(),
                None => params[&self.x].clone(),
            };
            points.push(Dot { params, x, y, front: false });
        }
        if let Some(front) = self.front {
            self.mark(front, &mut points);
        }
        points
    }

    /// Mark the front of each panel.
    fn mark(&self, front: Front, points: &mut [Dot]) {
        let sign = if front == Front::HighLeft { -1.0 } else { 1.0 };
        let panel = |point: &Dot| self.panels.as_ref().map(|axis| point.params[axis].clone());
        let cost = |point: &Dot| Some((point.x.as_f64()?, sign * point.y?));
        let costs: Vec<_> = points.iter().map(|point| (panel(point), cost(point))).collect();
        for (point, (panel, own)) in points.iter_mut().zip(&costs) {
            let Some((x, y)) = *own else { continue };
            let mut others = costs.iter().filter(|(other, _)| other == panel);
            let beats = |(a, b): (f64, f64)| a <= x && b <= y && (a < x || b < y);
            point.front = !others.any(|(_, other)| other.is_some_and(beats));
        }
    }
}
