//! The tables of a run.

use serde::{Deserialize, Serialize};
use sim::{Nanos, Op, Wear};

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
pub(crate) fn of_run(recorder: &Recorder, series: &Series, worn: &[Wear]) -> Tables {
    Tables(vec![
        latency(recorder),
        time_series(recorder),
        heatmap(recorder),
        units(series),
        wear(worn),
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
/// bins that follow. A unit does one thing after the other: all kinds share a bin's length.
fn units(series: &Series) -> Vec<Column> {
    let (mut units, mut t, mut what, mut busy) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut column = series.base.counts.len();
    for unit in &series.base.units {
        let columns = column..column + unit.busy.len();
        column = columns.end;
        let mut carried = vec![0; columns.len()];
        let mut shares = vec![Vec::new(); columns.len()];
        for (i, pair) in series.readings.windows(2).enumerate() {
            let (start, end) = (series.width.start(i as u64), series.width.start(i as u64 + 1));
            let length = end.min(series.last).saturating_sub(start).max(1);
            let rises = columns.clone().map(|at| pair[1][at].wrapping_sub(pair[0][at]) as i64);
            let within = within(&mut carried, &rises.collect::<Vec<_>>(), length as i64);
            for (of_kind, within) in shares.iter_mut().zip(within) {
                of_kind.push((start, within as f64 / length as f64));
            }
        }
        for ((kind, _), shares) in unit.busy.iter().zip(shares) {
            for (start, share) in shares {
                units.push(unit.name.clone().into());
                t.push(Nanos(start).as_secs_f64());
                what.push(*kind);
                busy.push(share);
            }
        }
    }
    vec![Column::Text(units), Column::F64(t), Column::words(what), Column::F64(busy)]
}

/// How much of each kind a unit did in a bin of this length, of what was carried into it and what
/// was booked in it; the rest is carried on. What was carried began earlier, and so comes first.
fn within(carried: &mut [i64], booked: &[i64], length: i64) -> Vec<i64> {
    let mut room = length;
    let mut take = |amount: i64| {
        let taken = amount.clamp(0, room);
        room -= taken;
        taken
    };
    let owed: Vec<i64> = carried.iter().zip(booked).map(|(old, new)| old + new).collect();
    let mut done: Vec<i64> =
        carried.iter().zip(&owed).map(|(&old, &owed)| take(old.min(owed))).collect();
    for ((done, owed), carried) in done.iter_mut().zip(owed).zip(carried) {
        *done += take(owed - *done);
        *carried = owed - *done;
    }
    done
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

fn wear(worn: &[Wear]) -> Vec<Column> {
    let (mut units, mut erases, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
    for unit in worn {
        for &(count, n) in &unit.blocks {
            units.push(unit.unit.clone().into());
            erases.push(i64::from(count));
            blocks.push(i64::from(n));
        }
    }
    vec![Column::Text(units), Column::I64(erases), Column::I64(blocks)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Width;
    use sim::{Counters, Unit};

    /// Two movements of an arm, each booked as it begins: 1.5 bins of seeking and as much of
    /// rotation, then a rest, then a bin of both.
    #[test]
    fn a_unit_is_busy_for_no_more_than_the_bin() {
        let arm = |seek: u64, rotate: u64| {
            let busy = vec![("seek", Nanos(seek)), ("rotate", Nanos(rotate))];
            Counters { units: vec![Unit::medium("arm", busy)], ..Counters::default() }
        };
        let mut series = Series::between(arm(0, 0), arm(200, 200), Nanos(600));
        series.width = Width::only(100);
        let readings = [(0, 0), (150, 150), (150, 150), (150, 150), (150, 150), (200, 200)];
        series.readings = readings.map(|(seek, rotate)| vec![seek, rotate]).to_vec();
        series.readings.push(vec![200, 200]);
        let columns = units(&series);
        let (Column::F64(starts), Column::F64(busy)) = (&columns[1], &columns[3]) else {
            panic!("{columns:?}");
        };
        assert_eq!(starts[..6], starts[6..]);
        assert_eq!(busy[..6], [1.0, 0.5, 0.0, 0.0, 0.5, 0.0], "seek");
        assert_eq!(busy[6..], [0.0, 0.5, 1.0, 0.0, 0.5, 0.0], "rotate");
    }

    #[test]
    fn what_a_unit_takes_back_is_taken_from_what_follows() {
        let mut carried = [0, 0];
        // A program of 300; a read suspends it in the second bin, and it goes on later.
        assert_eq!(within(&mut carried, &[0, 300], 100), [0, 100]);
        assert_eq!(within(&mut carried, &[50, -150], 100), [50, 50]);
        assert_eq!(carried, [0, 0]);
        assert_eq!(within(&mut carried, &[0, -20], 100), [0, 0]);
        assert_eq!(within(&mut carried, &[0, 60], 100), [0, 40]);
    }
}
