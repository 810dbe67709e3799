//! The time that the server ran. A server that is stopped, or starved by the machine, sees its
//! devices answer late; that is not the devices' doing.

use sim::Nanos;

use super::Rules;
use crate::mutant::planted;

/// While a request is out, the server wants to look at the clock this often.
pub const BEAT: Nanos = Nanos::from_millis(100);
/// It may be woken so much later than it wanted: more was not the devices' time.
pub const SLACK: Nanos = Nanos::from_millis(50);

/// A clock that stands still while the server does not run.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    rules: Rules,
    /// When it looked last.
    last: Nanos,
    /// When it wants to look next at the latest.
    until: Nanos,
    /// What is not counted.
    missed: Nanos,
}

impl Running {
    /// It begins to run; until it first sleeps it need not look.
    pub fn new(rules: Rules, now: Nanos) -> Running {
        Running { rules, last: now, until: Nanos::MAX, missed: Nanos::ZERO }
    }

    /// It looks at the clock, which says `now`: how long has it run?
    pub fn look(&mut self, now: Nanos) -> Nanos {
        let latest = self.until.max(self.last).saturating_add(SLACK);
        if !planted!(self.rules, PauseCounts) {
            self.missed += now.since(latest);
        }
        self.last = self.last.max(now);
        self.until = self.last;
        self.at(self.last)
    }

    /// What `now` on the clock is in its own time.
    pub fn at(&self, now: Nanos) -> Nanos {
        now.since(self.missed)
    }

    /// What a moment of its own time is on the clock.
    pub fn on_clock(&self, at: Nanos) -> Nanos {
        at.saturating_add(self.missed)
    }

    /// What it did not run, in all.
    pub fn missed(&self) -> Nanos {
        self.missed
    }

    /// It is going to sleep until `due` on the clock; `busy` while a device owes an answer. Returns
    /// when it must look.
    pub fn sleep(&mut self, due: Nanos, busy: bool) -> Nanos {
        let beat = self.last.saturating_add(BEAT);
        self.until = if busy { due.min(beat) } else { due };
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Mode;

    fn ms(time: u64) -> Nanos {
        Nanos::from_millis(time)
    }

    #[test]
    fn time_that_it_slept_on_purpose_counts() {
        let mut running = Running::new(Rules::new(Mode::Log), ms(1000));
        assert_eq!(running.look(ms(3000)), ms(3000));
        assert_eq!(running.sleep(ms(9000), false), ms(9000));
        assert_eq!(running.look(ms(9010)), ms(9010));
        assert_eq!(running.sleep(Nanos::MAX, false), Nanos::MAX);
        assert_eq!(running.look(ms(1_000_000)), ms(1_000_000));
        assert_eq!(running.missed(), Nanos::ZERO);
    }

    #[test]
    fn time_that_it_did_not_run_does_not() {
        let mut running = Running::new(Rules::new(Mode::Log), ms(1000));
        assert_eq!(running.sleep(ms(6000), true), ms(1100));
        // Stopped for six seconds in between.
        assert_eq!(running.look(ms(7090)), ms(1150));
        assert_eq!(running.missed(), ms(5940));
        assert_eq!(running.on_clock(ms(2000)), ms(7940));
        // And while it worked.
        assert_eq!(running.look(ms(9090)), ms(1200));
        // A little late is late.
        running.sleep(ms(9100), true);
        assert_eq!(running.look(ms(9140)), ms(1250));
    }
}
