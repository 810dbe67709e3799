//! Reading a device's counters at regular moments of a run.

use std::collections::BTreeMap;

use sim::{
    Busy, Completions, Counters, Device, Limits, Loader, Nanos, Request, Saver, Snapshot,
    SnapshotError, Survivors,
};

use crate::timeline::Width;

/// Counters at one moment: counts, then busy times, then levels, each in the device's order.
type Reading = Vec<u64>;

/// Cumulative readings at equal distances; the distance doubles when the run gets long.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    bins_max: usize,
    pub(crate) width: Width,
    /// The counters when measuring began.
    pub(crate) base: Counters,
    /// Reading `i` was taken `width.start(i)` after that; the last one at `last`.
    pub(crate) readings: Vec<Reading>,
    /// The counters at the end.
    pub(crate) end: Counters,
    /// When the run ended, counted from the beginning of the measurement.
    pub(crate) last: u64,
    /// Of all readings at the whole width, those that were thrown away included.
    peaks: Vec<Peak>,
}

/// The largest sum so far of some levels at one moment.
#[derive(Clone, Debug)]
struct Peak {
    /// One level, or those that all parts of the device have under one name.
    of: Vec<usize>,
    largest: u64,
}

impl Peak {
    /// Of each level, and of those that are the same in several parts.
    fn all(base: &Counters) -> Vec<Peak> {
        let mut by_name = BTreeMap::<&str, Vec<usize>>::new();
        for (index, (name, _)) in base.levels.iter().enumerate() {
            by_name.entry(own_name(name, &base.parts)).or_default().push(index);
        }
        let single = (0..base.levels.len()).map(|index| vec![index]);
        let together = by_name.into_values().filter(|of| of.len() > 1);
        single.chain(together).map(|of| Peak { of, largest: 0 }).collect()
    }
}

/// The name of a level without the innermost of `parts` that it is of.
fn own_name<'a>(name: &'a str, parts: &[String]) -> &'a str {
    let within = |part: &String| name.strip_prefix(part.as_str())?.strip_prefix('.');
    parts.iter().filter_map(within).min_by_key(|own| own.len()).unwrap_or(name)
}

impl Series {
    /// What was counted in so much time, read at its beginning and at its end.
    pub(crate) fn between(base: Counters, end: Counters, time: Nanos) -> Series {
        let width = Width::only(time.0.max(1));
        let mut series = Series { end, last: time.0, ..Series::new(2, width, base) };
        let ends = [series.base.clone(), series.end.clone()];
        ends.iter().for_each(|counters| series.read(counters));
        series
    }

    /// No reading yet; the measurement begins with `base`.
    fn new(bins_max: usize, width: Width, base: Counters) -> Series {
        let (end, peaks) = (base.clone(), Peak::all(&base));
        Series { bins_max, width, base, readings: Vec::new(), end, last: 0, peaks }
    }

    fn read(&mut self, counters: &Counters) {
        let since = counters.since(&self.base);
        let busy = since.units.iter().flat_map(|unit| unit.busy.iter().map(|(_, time)| time.0));
        let counts = since.counts.iter().map(|&(_, count)| count);
        let levels = since.levels.iter().map(|&(_, level)| level);
        let is_whole = self.readings.len().is_multiple_of(self.width.per_whole());
        self.readings.push(counts.chain(busy).chain(levels).collect());
        // What is read more often of a run that ends early is for its tables.
        if !is_whole {
            return;
        }
        for peak in &mut self.peaks {
            let sum = peak.of.iter().filter_map(|&index| Some(since.levels.get(index)?.1)).sum();
            peak.largest = peak.largest.max(sum);
        }
    }

    /// Every second reading goes when there are too many.
    fn thin_out(&mut self) {
        if self.readings.len() > self.bins_max {
            let mut index = 0;
            self.readings.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.width.double();
        }
    }

    /// Mean over time and maximum of the sum of some levels, if the device has one of them.
    pub(crate) fn level(&self, wanted: impl Fn(&str) -> bool) -> Option<(f64, f64)> {
        let names = self.end.levels.iter().enumerate();
        let of: Vec<usize> =
            names.filter(|(_, (n, _))| wanted(n)).map(|(index, _)| index).collect();
        let sum = |reading: &Reading| {
            let levels = &reading[reading.len() - self.end.levels.len()..];
            of.iter().map(|&index| levels[index]).sum::<u64>() as f64
        };
        let per_whole = self.width.per_whole();
        let last = self.readings.len().saturating_sub(1);
        let ends_between = (!last.is_multiple_of(per_whole)).then(|| &self.readings[last]);
        let read = self.readings.iter().step_by(per_whole).chain(ends_between);
        let values = read.map(sum);
        let peak = self.peaks.iter().find(|peak| peak.of == of);
        let largest = peak.map_or(0.0, |peak| peak.largest as f64);
        let max = values.clone().fold(largest, f64::max);
        let count = values.clone().count() as f64;
        (!of.is_empty()).then(|| (values.sum::<f64>() / count, max))
    }

    /// What was counted from the beginning of the measurement to its end.
    pub(crate) fn total(&self) -> Counters {
        self.end.since(&self.base)
    }
}

/// A device that has its counters read just before each multiple of a width.
pub(crate) struct Observed<'a> {
    device: &'a mut dyn Device,
    /// When measuring begins.
    origin: Nanos,
    /// When the next reading is due.
    due: Nanos,
    series: Option<Series>,
    bins_max: usize,
    width: Width,
}

impl<'a> Observed<'a> {
    pub(crate) fn new(
        device: &'a mut dyn Device,
        origin: Nanos,
        bins_max: usize,
        expected: Option<Nanos>,
    ) -> Observed<'a> {
        let width = Width::first(bins_max, expected);
        Observed { device, origin, due: origin, series: None, bins_max, width }
    }

    #[inline]
    fn tick(&mut self, now: Nanos) {
        if now >= self.due {
            self.read_until(now);
        }
    }

    #[cold]
    fn read_until(&mut self, now: Nanos) {
        let counters = counters_of(self.device);
        let (bins_max, width) = (self.bins_max, self.width);
        let series =
            self.series.get_or_insert_with(|| Series::new(bins_max, width, counters.clone()));
        // Nothing changed since the last event, so every moment up to now reads the same.
        while self.due <= now {
            series.read(&counters);
            series.thin_out();
            self.due = self.origin + Nanos(series.width.start(series.readings.len() as u64));
        }
    }

    /// Everything that was read; the run ended at `end`.
    pub(crate) fn finish(mut self, end: Nanos) -> Series {
        self.read_until(end.max(self.origin));
        let counters = counters_of(self.device);
        let mut series = self.series.take().expect("a reading was just taken");
        series.end = counters;
        series.last = end.since(self.origin).0;
        if series.last > series.width.start(series.readings.len() as u64 - 1) {
            let end = series.end.clone();
            series.read(&end);
        }
        series
    }
}

fn counters_of(device: &dyn Device) -> Counters {
    let mut counters = Counters::default();
    device.counters(&mut counters);
    counters
}

impl Snapshot for Observed<'_> {
    fn save(&self, to: &mut Saver) {
        self.device.save(to);
    }
    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        self.device.restore(from)
    }
}

impl Device for Observed<'_> {
    fn limits(&self) -> Limits {
        self.device.limits()
    }
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Busy> {
        self.tick(now);
        self.device.submit(now, request)
    }
    fn next_event(&self) -> Option<Nanos> {
        self.device.next_event()
    }
    fn advance(&mut self, now: Nanos, out: &mut Completions) {
        self.tick(now);
        self.device.advance(now, out);
    }
    fn advance_until(&mut self, until: Nanos, out: &mut Completions) -> Option<Nanos> {
        let next = self.device.next_event().filter(|&next| next <= until)?;
        self.tick(next);
        // The next reading is later than that.
        self.device.advance_until(until.min(Nanos(self.due.0 - 1)), out)
    }
    fn power_fail(&mut self, now: Nanos) -> Survivors {
        self.device.power_fail(now)
    }
    fn apply(&mut self, request: &Request) {
        self.device.apply(request);
    }
    fn prefetch(&mut self, request: &Request) {
        self.device.prefetch(request);
    }
    fn counters(&self, out: &mut Counters) {
        self.device.counters(out);
    }
    fn wear(&self) -> Vec<sim::Wear> {
        self.device.wear()
    }
    fn freeze(&mut self) {
        self.device.freeze();
    }
    fn boxed_clone(&self) -> Box<dyn Device> {
        self.device.boxed_clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device of a part of its own, each with a level.
    fn counted(outer: u64, inner: u64) -> Counters {
        let mut counters = Counters::default();
        counters.level("ram", outer);
        let mut own = Counters::default();
        own.level("ram", inner);
        counters.nest("fast", own);
        counters
    }

    /// Whatever the tables have: the means and peaks are of the readings at the whole width.
    #[test]
    fn more_readings_of_a_short_run_move_no_level() {
        let levels = [3, 8, 1, 9, 4, 5, 2, 7];
        for end in 2..=levels.len() {
            let read = |width: Width, every: usize| {
                let mut series = Series::new(100, width, counted(0, 0));
                let at_grid = (0..end).step_by(every);
                at_grid.for_each(|at| series.read(&counted(levels[at], 0)));
                if !(end - 1).is_multiple_of(every) {
                    series.read(&counted(levels[end - 1], 0));
                }
                series.level(|name| name == "ram").unwrap()
            };
            let fine = Width::first(1, Some(Nanos(4_000)));
            assert_eq!(fine.per_whole(), 4);
            assert_eq!(read(fine, 1), read(Width::only(4_063), 4), "{end}");
        }
    }

    #[test]
    fn a_peak_outlives_the_reading_that_saw_it() {
        let mut series = Series::new(4, Width::only(1), counted(0, 0));
        for (outer, inner) in [(1, 0), (9, 1), (1, 0), (5, 7), (1, 0)] {
            series.read(&counted(outer, inner));
        }
        series.thin_out();
        assert_eq!(series.readings.len(), 3);
        assert_eq!(series.level(|name| name == "ram").unwrap(), (1.0, 9.0));
        assert_eq!(series.level(|name| name == "fast.ram").unwrap(), (0.0, 7.0));
        // At one moment: 5 + 7, and not 9 + 7.
        assert_eq!(series.level(|_| true).unwrap(), (1.0, 12.0));
        assert_eq!(series.level(|name| name == "none"), None);
    }
}
