//! Programs and erases that are pushed aside for reads.

use sim::{EventHeap, Nanos};

use super::{Kind, Nand, State};

impl Nand {
    /// What it takes to push an operation aside, if it can be.
    #[inline]
    pub(super) fn suspends(&self, kind: Kind) -> Option<Nanos> {
        match kind {
            Kind::Read => None,
            Kind::Program | Kind::CopyBack => self.timing.program_suspend,
            Kind::Erase => self.timing.erase_suspend,
        }
    }

    /// A read waits while the die programs or erases: push that aside if it is allowed and pays.
    pub(super) fn try_suspend(&mut self, index: u32, now: Nanos, events: &mut EventHeap) {
        let kind = self.dies[index as usize].current.kind;
        let held = self.programs_hold && matches!(kind, Kind::Program | Kind::CopyBack);
        let cost = self.suspends(kind).filter(|_| !held);
        let die = &mut self.dies[index as usize];
        let remaining = die.array_end.since(now);
        // It goes on until it can be suspended: that much less remains.
        let early = (die.array_start + self.timing.suspend_after).0.saturating_sub(now.0);
        let pays = |&cost: &Nanos| die.suspended.is_none() && cost.0 + early < remaining.0;
        let Some(cost) = cost.filter(pays) else {
            return;
        };
        // The read's phase begins now: the time until it can be suspended counts as a part of that.
        die.busy[die.current.kind as usize] -= remaining.0;
        die.suspended = Some((die.current, Nanos(remaining.0 - early)));
        die.generation = die.generation.wrapping_add(1);
        die.penalty = cost + Nanos(early);
        die.state = State::Idle;
        self.dispatch(index, now, events);
    }
}
