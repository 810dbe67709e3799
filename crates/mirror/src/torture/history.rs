//! What the host saw, and whether it could have: linearizability per half-block, and what a crash
//! may leave.
//!
//! Every write has a value of its own, so the operations on a half-block fall into clusters: a
//! write and the reads that saw it. A cluster must come before another if one of its operations
//! ended before one of the other's began. The history is linearizable exactly if no two clusters
//! must come before each other (Gibbons and Korach, SIAM J. Comput. 26(4), 1997, for registers
//! with unique values).

/// A moment: operations are numbered, not timed.
pub type Moment = u64;

#[derive(Clone, Copy, Debug)]
struct Cluster {
    value: u32,
    /// When the write was acknowledged.
    acked: Moment,
    invoked: Moment,
    /// The earliest end of its operations.
    first_end: Moment,
    /// The latest beginning of its operations.
    last_begin: Moment,
    /// Its write was FUA, and acknowledged.
    durable: bool,
}

impl Cluster {
    fn before(&self, other: &Cluster) -> bool {
        self.first_end < other.last_begin
    }
}

/// What is wrong with a history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation(pub String);

/// The history of one run of the array, from one start to the next.
#[derive(Clone, Debug, Default)]
pub struct History {
    units: Vec<Vec<Cluster>>,
    moment: Moment,
    /// Writes acknowledged before this are durable.
    durable_before: Moment,
    /// When each flush was sent.
    flushes: Vec<Moment>,
}

impl History {
    /// Begin with what is there; it was always there.
    pub fn new(contents: impl Iterator<Item = u64>) -> History {
        let mut history = History { moment: 1, ..History::default() };
        history.restart(contents);
        history
    }

    /// Begin anew, keeping allocations.
    pub fn restart(&mut self, contents: impl Iterator<Item = u64>) {
        let mut units = std::mem::take(&mut self.units);
        let values = contents.flat_map(|content| [content as u32, (content >> 32) as u32]);
        for (count, value) in values.enumerate() {
            if count == units.len() {
                units.push(Vec::with_capacity(64));
            }
            units[count].clear();
            units[count].push(Cluster {
                value,
                acked: 0,
                invoked: 0,
                first_end: 0,
                last_begin: 0,
                durable: true,
            });
        }
        self.units = units;
        self.durable_before = 0;
        self.flushes.clear();
    }

    /// The next moment.
    pub fn tick(&mut self) -> Moment {
        self.moment += 1;
        self.moment
    }

    /// A write of `value` begins.
    pub fn write_begins(&mut self, unit: usize, value: u32, at: Moment) {
        self.units[unit].push(Cluster {
            value,
            acked: Moment::MAX,
            invoked: at,
            first_end: Moment::MAX,
            last_begin: at,
            durable: false,
        });
    }

    /// A unit may be lost from now on: then it reads as `value`. That is no write: no flush covers
    /// it.
    pub fn may_lose(&mut self, unit: usize, value: u32, at: Moment) {
        self.write_begins(unit, value, at);
        if let Some(lost) = self.units[unit].last_mut() {
            lost.invoked = 0;
        }
    }

    /// It is lost.
    pub fn lost(&mut self, unit: usize, value: u32, at: Moment) {
        let cluster = self.units[unit].iter_mut().rev().find(|cluster| cluster.value == value);
        if let Some(cluster) = cluster {
            cluster.first_end = cluster.first_end.min(at);
        }
    }

    /// A write is acknowledged.
    pub fn write_ends(&mut self, unit: usize, value: u32, fua: bool, at: Moment) {
        let cluster = self.units[unit].iter_mut().rev().find(|cluster| cluster.value == value);
        if let Some(cluster) = cluster {
            (cluster.acked, cluster.durable) = (at, fua);
            cluster.first_end = cluster.first_end.min(at);
        }
    }

    /// A read that began at `from` ends at `at`.
    pub fn read(
        &mut self,
        unit: usize,
        value: u32,
        from: Moment,
        at: Moment,
    ) -> Result<(), Violation> {
        let cluster = self.units[unit].iter_mut().rev().find(|cluster| cluster.value == value);
        let Some(cluster) = cluster else {
            return Err(Violation(format!(
                "block {} half {}: read {value:#x}, which nobody wrote there",
                unit / 2,
                unit % 2
            )));
        };
        cluster.first_end = cluster.first_end.min(at);
        cluster.last_begin = cluster.last_begin.max(from);
        Ok(())
    }

    /// A flush is sent.
    pub fn flush_begins(&mut self, at: Moment) {
        self.flushes.push(at);
    }

    /// A flush that was sent at `from` is acknowledged.
    pub fn flush_ends(&mut self, from: Moment) {
        self.durable_before = self.durable_before.max(from);
    }

    /// Is everything seen so far linearizable?
    pub fn check(&self) -> Result<(), Violation> {
        for (unit, clusters) in self.units.iter().enumerate() {
            for (nth, a) in clusters.iter().enumerate() {
                // A value that nobody saw end constrains nobody before it.
                if a.first_end == Moment::MAX {
                    continue;
                }
                for b in &clusters[nth + 1..] {
                    if a.before(b) && b.before(a) {
                        return Err(Violation(format!(
                            "block {} half {}: {:#x} and {:#x} each come before the other (I3, I6)",
                            unit / 2,
                            unit % 2,
                            a.value,
                            b.value
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    /// May a crash leave `value`? Not if it must come before a durable one.
    fn outdated(&self, unit: usize, value: u32, before: Moment, fua: bool) -> Option<u32> {
        let clusters = &self.units[unit];
        let found = clusters.iter().rev().find(|cluster| cluster.value == value)?;
        let durable = |cluster: &&Cluster| (fua && cluster.durable) || cluster.acked < before;
        let newer = clusters.iter().filter(durable);
        { newer }.find(|newer| found.before(newer) && newer.value != value).map(|c| c.value)
    }

    /// A value that was there before `value`, or 0.
    pub fn older(&self, unit: usize, value: u32) -> u32 {
        let clusters = self.units[unit].iter();
        let older = clusters.rev().skip_while(|cluster| cluster.value != value).nth(1);
        older.map_or(0, |cluster| cluster.value)
    }

    fn known(&self, unit: usize, value: u32) -> bool {
        self.units[unit].iter().any(|cluster| cluster.value == value)
    }

    /// May a crash leave these contents? Every value must have been written there, and nothing
    /// flushed may be lost (I1).
    pub fn check_survivors(&self, contents: &[u64]) -> Result<(), Violation> {
        for (unit, value) in halves(contents) {
            if !self.known(unit, value) {
                return Err(Violation(format!(
                    "block {} half {}: {value:#x} survived, which nobody wrote there",
                    unit / 2,
                    unit % 2
                )));
            }
            if let Some(newer) = self.outdated(unit, value, self.durable_before, true) {
                return Err(Violation(format!(
                    "block {} half {}: {value:#x} survived, but {newer:#x} was flushed (I1)",
                    unit / 2,
                    unit % 2
                )));
            }
        }
        Ok(())
    }

    /// May a survivor in relaxed mode have these contents? It is the state at some flush, with
    /// some of what came after that flush (I5), and lacks at most `blocks_max` flushed blocks
    /// (I7). `ordered`: the mode and the members were the same all along.
    pub fn check_prefix(
        &self,
        contents: &[u64],
        blocks_max: u64,
        ordered: bool,
    ) -> Result<(), Violation> {
        let found = |unit: usize, value: u32| {
            self.units[unit].iter().rev().find(|cluster| cluster.value == value)
        };
        let newest = halves(contents)
            .filter_map(|(unit, value)| found(unit, value))
            .map(|cluster| cluster.invoked)
            .max()
            .unwrap_or(0);
        let flushed = self.flushes.iter().copied().filter(|&at| at < newest).max().unwrap_or(0);
        let mut lost = 0;
        for (unit, value) in halves(contents) {
            if !self.known(unit, value) {
                let (block, half) = (unit / 2, unit % 2);
                return Err(Violation(format!(
                    "block {block} half {half}: {value:#x} survived, which nobody wrote there"
                )));
            }
            lost += u64::from(self.outdated(unit, value, self.durable_before, true).is_some());
            if ordered && let Some(newer) = self.outdated(unit, value, flushed, false) {
                return Err(Violation(format!(
                    "block {} half {}: {value:#x} survived, but not {newer:#x}, though a write \
                     after the flush that covers it did (I5)",
                    unit / 2,
                    unit % 2
                )));
            }
        }
        if lost > 2 * blocks_max {
            return Err(Violation(format!(
                "{} flushed blocks are lost, at most {blocks_max} may be (I7)",
                lost.div_ceil(2)
            )));
        }
        Ok(())
    }

    /// Operations in the history.
    pub fn len(&self) -> usize {
        self.units.iter().map(Vec::len).sum()
    }

    /// Nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn halves(contents: &[u64]) -> impl Iterator<Item = (usize, u32)> {
    contents.iter().enumerate().flat_map(|(block, &content)| {
        [(2 * block, content as u32), (2 * block + 1, (content >> 32) as u32)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> History {
        History::new([0].into_iter())
    }

    #[test]
    fn a_new_value_must_not_be_followed_by_an_old_one() {
        let mut h = history();
        h.write_begins(0, 1, 2);
        h.read(0, 1, 3, 4).unwrap();
        h.read(0, 0, 3, 9).unwrap();
        h.check().unwrap();
        h.read(0, 0, 5, 6).unwrap();
        assert!(h.check().unwrap_err().0.contains("each come before the other"));
    }

    #[test]
    fn an_acknowledged_write_must_be_read() {
        let mut h = history();
        h.write_begins(0, 1, 2);
        h.write_ends(0, 1, false, 3);
        h.read(0, 0, 4, 5).unwrap();
        assert!(h.check().is_err());
        assert!(h.read(0, 7, 4, 5).unwrap_err().0.contains("nobody wrote"));
    }

    #[test]
    fn a_crash_may_take_what_was_not_flushed_and_nothing_else() {
        let mut h = history();
        h.write_begins(0, 1, 2);
        h.write_ends(0, 1, false, 3);
        h.check_survivors(&[0]).unwrap();
        h.check_survivors(&[1]).unwrap();
        h.flush_begins(4);
        h.write_begins(0, 2, 5);
        h.flush_ends(4);
        assert!(h.check_survivors(&[0]).unwrap_err().0.contains("was flushed (I1)"));
        h.check_survivors(&[1]).unwrap();
        h.check_survivors(&[2]).unwrap();
        h.check_prefix(&[0], 1, true).unwrap();
        assert!(h.check_prefix(&[0], 0, true).unwrap_err().0.contains("(I7)"));
    }

    #[test]
    fn a_survivor_in_relaxed_mode_is_the_state_at_a_flush() {
        let mut h = History::new([0, 0].into_iter());
        h.write_begins(0, 1, 2);
        h.write_ends(0, 1, false, 3);
        h.flush_begins(4);
        h.write_begins(2, 2, 5);
        h.check_prefix(&[1, 2], 9, true).unwrap();
        h.check_prefix(&[1, 0], 9, true).unwrap();
        h.check_prefix(&[0, 0], 9, true).unwrap();
        assert!(h.check_prefix(&[0, 2], 9, true).unwrap_err().0.contains("(I5)"));
    }
}
