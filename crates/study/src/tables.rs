//! The tables of a run.

use serde::{Deserialize, Serialize};
use sim::{Device, Nanos, Op};

use crate::observe::Series;
use crate::parquet::{Column, RowGroup, Schema};
use crate::recorder::Recorder;

/// The columns of each table but `run`, in the order of [`schemas`]; a run may have none.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tables(Vec<Vec<Column>>);

impl Tables {
    /// As row groups, of the run of that number.
    pub(crate) fn encode(self, run: u32) -> Vec<RowGroup> {
        let tables = self.0.into_iter().zip(schemas()).map(|(mut columns, (_, schema))| {
            let rows = columns.first().map_or(0, Column::rows);
            columns.insert(0, Column::U32(vec![run; rows]));
            RowGroup::encode(&schema, &columns)
        });
        tables.collect()
    }

    /// Whether they can be encoded; those that were read back need not.
    pub(crate) fn is_sound(&self) -> bool {
        let schemas = schemas();
        let sound = |(columns, (_, schema)): (&Vec<Column>, &(&str, Schema))| {
            schema.fits_behind(&Column::U32(Vec::new()), columns)
        };
        (self.0.is_empty() || self.0.len() == schemas.len())
            && self.0.iter().zip(&schemas).all(sound)
    }
}

/// (file stem, schema) of every table that has rows of single runs.
pub(crate) fn schemas() -> Vec<(&'static str, Schema)> {
    let (u32s, i64s) = (Column::U32(Vec::new()), Column::I64(Vec::new()));
    let (f64s, text) = (Column::F64(Vec::new()), Column::Text(Vec::new()));
    let schema = |columns: &[(&'static str, &Column)]| {
        Schema::new(columns.iter().map(|&(name, column)| (name, column.clone())))
    };
    let run = ("run", &u32s);
    vec![
        ("latency", schema(&[run, ("op", &text), ("latency_ns", &i64s), ("count", &i64s)])),
        (
            "series",
            schema(&[
                run,
                ("t_s", &f64s),
                ("op", &text),
                ("requests", &i64s),
                ("bytes", &i64s),
                ("p50_us", &f64s),
                ("p99_us", &f64s),
                ("max_us", &f64s),
            ]),
        ),
        ("heatmap", schema(&[run, ("t_s", &f64s), ("latency_us", &f64s), ("count", &i64s)])),
        (
            "units",
            schema(&[run, ("unit", &text), ("t_s", &f64s), ("what", &text), ("busy", &f64s)]),
        ),
        ("wear", schema(&[run, ("unit", &text), ("erases", &i64s), ("blocks", &i64s)])),
        ("counters", schema(&[run, ("t_s", &f64s), ("name", &text), ("value", &i64s)])),
    ]
}

/// Everything a run measured.
pub(crate) fn of_run(recorder: &Recorder, series: &Series, device: &dyn Device) -> Tables {
    Tables(vec![
        latency(recorder),
        time_series(recorder),
        heatmap(recorder),
        units(series),
        wear(device),
        counters(series),
    ])
}

fn latency(recorder: &Recorder) -> Vec<Column> {
    let (mut ops, mut lows, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for op in Op::ALL {
        for (low, count) in recorder.histogram(op).buckets() {
            ops.push(op.name());
            lows.push(low as i64);
            counts.push(count as i64);
        }
    }
    vec![Column::words(ops), Column::I64(lows), Column::I64(counts)]
}

fn time_series(recorder: &Recorder) -> Vec<Column> {
    let (mut t, mut ops) = (Vec::new(), Vec::new());
    let (mut requests, mut bytes) = (Vec::new(), Vec::new());
    let (mut p50, mut p99, mut max) = (Vec::new(), Vec::new(), Vec::new());
    for op in Op::ALL {
        for (start, bin) in recorder.timeline.bins(op as usize) {
            t.push(start.as_secs_f64());
            ops.push(op.name());
            requests.push(bin.requests as i64);
            bytes.push(bin.bytes as i64);
            p50.push(Nanos(bin.quantile(0.5)).as_micros_f64());
            p99.push(Nanos(bin.quantile(0.99)).as_micros_f64());
            max.push(Nanos(bin.latency_max).as_micros_f64());
        }
    }
    vec![
        Column::F64(t),
        Column::words(ops),
        Column::I64(requests),
        Column::I64(bytes),
        Column::F64(p50),
        Column::F64(p99),
        Column::F64(max),
    ]
}

fn heatmap(recorder: &Recorder) -> Vec<Column> {
    let (mut t, mut latency, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for (start, bin) in recorder.timeline.all() {
        for (low, count) in bin.heat() {
            t.push(start.as_secs_f64());
            latency.push(Nanos(low).as_micros_f64());
            counts.push(count as i64);
        }
    }
    vec![Column::F64(t), Column::F64(latency), Column::I64(counts)]
}

/// Busy shares per bin. A device may book an operation when it begins; what exceeds a bin is
/// carried into the next. What it takes back, as when a read suspends a program, is taken from the
/// bins that follow.
fn units(series: &Series) -> Vec<Column> {
    let (mut units, mut t, mut what, mut busy) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut column = series.base.counts.len();
    for unit in &series.base.units {
        for (kind, _) in &unit.busy {
            let mut carried = 0_i64;
            for (i, pair) in series.readings.windows(2).enumerate() {
                let (start, end) = (series.width.start(i as u64), series.width.start(i as u64 + 1));
                let length = end.min(series.last).saturating_sub(start).max(1);
                let booked = carried + pair[1][column].wrapping_sub(pair[0][column]) as i64;
                let within = booked.clamp(0, length as i64);
                carried = booked - within;
                units.push(unit.name.clone().into());
                t.push(Nanos(start).as_secs_f64());
                what.push(*kind);
                busy.push(within as f64 / length as f64);
            }
            column += 1;
        }
    }
    vec![Column::Text(units), Column::F64(t), Column::words(what), Column::F64(busy)]
}

fn counters(series: &Series) -> Vec<Column> {
    let (mut t, mut names, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for (i, reading) in series.readings.iter().enumerate() {
        let at = series.width.start(i as u64).min(series.last);
        let levels = &reading[reading.len() - series.base.levels.len()..];
        let counts = series.base.counts.iter().zip(reading);
        for ((name, _), value) in counts.chain(series.base.levels.iter().zip(levels)) {
            t.push(Nanos(at).as_secs_f64());
            names.push(name.clone().into());
            values.push(*value as i64);
        }
    }
    vec![Column::F64(t), Column::Text(names), Column::I64(values)]
}

fn wear(device: &dyn Device) -> Vec<Column> {
    let (mut units, mut erases, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
    for unit in device.wear() {
        for (count, n) in unit.blocks {
            units.push(unit.unit.clone().into());
            erases.push(i64::from(count));
            blocks.push(i64::from(n));
        }
    }
    vec![Column::Text(units), Column::I64(erases), Column::I64(blocks)]
}
