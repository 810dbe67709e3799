//! What was measured of one disk: before and during the program, while its data was written back,
//! and after that.

use sim::{Counters, Nanos};

use crate::statistics::Statistics;

/// One of the four.
#[derive(Default)]
pub(super) struct Phase {
    pub(super) statistics: Statistics,
    /// With at least one request inside.
    pub(super) busy_ns: u64,
    /// What the device had counted at its end.
    pub(super) counters: Counters,
}

/// All four.
#[derive(Default)]
pub(super) struct Phases {
    pub(super) all: [Phase; 4],
    present: usize,
    /// Since when there are requests inside.
    busy_since: Option<Nanos>,
}

impl Phases {
    /// At `now` there are requests inside, or there are none.
    pub(super) fn set_busy(&mut self, now: Nanos, is_busy: bool) {
        if let Some(since) = self.busy_since.filter(|_| !is_busy) {
            self.all[self.present].busy_ns += now.since(since).0;
        }
        self.busy_since = is_busy.then(|| self.busy_since.unwrap_or(now));
    }

    /// The present phase ends at `now`, with what was measured in it; phase `next` begins.
    pub(super) fn end(
        &mut self,
        now: Nanos,
        measured: Statistics,
        counters: Counters,
        next: usize,
    ) {
        let is_busy = self.busy_since.is_some();
        self.set_busy(now, false);
        let present = &mut self.all[self.present];
        present.statistics.merge(&measured);
        present.counters = counters;
        self.present = next;
        self.set_busy(now, is_busy);
    }

    /// What the device counted while the program ran.
    pub(super) fn counted(&self) -> Counters {
        let [boot, program, ..] = &self.all;
        program.counters.since(&boot.counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_busy_while_there_is_anything_inside() {
        let mut phases = Phases::default();
        phases.set_busy(Nanos(10), true);
        phases.set_busy(Nanos(20), true);
        phases.set_busy(Nanos(25), false);
        phases.set_busy(Nanos(30), false);
        phases.set_busy(Nanos(40), true);
        let counted = |count| {
            let mut counters = Counters::default();
            counters.add("enqueued", count);
            counters
        };
        phases.end(Nanos(50), Statistics::default(), counted(3), 1);
        phases.set_busy(Nanos(57), false);
        phases.end(Nanos(60), Statistics::default(), counted(10), 2);
        phases.end(Nanos(70), Statistics::default(), counted(99), 2);
        assert_eq!(phases.counted().get("enqueued"), 7);
        assert_eq!(phases.all.map(|phase| phase.busy_ns), [25, 7, 0, 0]);
    }
}
