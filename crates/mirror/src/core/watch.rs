//! Time: freezes, stuck devices, late reads, and when to look again.

use sim::Nanos;

use super::Core;
use super::event::{Action, Notice, Why};
use super::io::Out;
use super::member::State;
use crate::policy::lag::{self, Pace};
use crate::policy::slow;
use crate::types::{DEVICES, LEGS, Slot, other};

impl Core {
    /// A request was answered: learn what is normal.
    pub(super) fn learn(&mut self, out: &Out) {
        let member = &mut self.members[out.slot];
        member.outstanding -= 1;
        let time = self.now.since(out.issued);
        let late = time > self.config.lag.late_after(member.expected.p95(out.class));
        member.pace.on_time = if late { 0 } else { member.pace.on_time.saturating_add(1) };
        member.expected.learn(out.class, time);
    }

    /// Since when the oldest request of a leg has been older than a slow leg's may be, and `now` if
    /// it is not. What was before the last event is counted already.
    fn slow_since(&self, leg: Slot, over: Nanos, now: Nanos) -> Nanos {
        let mut waiting = self.members[leg].waiting.iter();
        let oldest = waiting.find(|&&(io, ..)| self.ios.get(io).is_some());
        let over = oldest.map_or(now, |&(_, issued, _)| issued.saturating_add(over));
        over.max(self.now).min(now)
    }

    /// Time passes up to `now`: was one leg slow alone?
    pub(super) fn account(&mut self, now: Nanos) {
        let Some(rules) = self.config.lag.slow else { return };
        if now == self.now || (0..LEGS).any(|leg| self.members[leg].state != State::Member) {
            return;
        }
        let since = std::array::from_fn(|leg| self.slow_since(leg, rules.over, now));
        if let Some((leg, from, to)) = slow::alone(since) {
            self.members[leg].slowness.add(&rules, from, to);
        }
    }

    /// When a leg has been slow alone for too much of the time, if it goes on as now.
    fn too_slow(&self, leg: Slot) -> Option<Nanos> {
        let rules = self.config.lag.slow?;
        let (member, beside) = (&self.members[leg], &self.members[other(leg)]);
        if member.state != State::Member || beside.state != State::Member {
            return None;
        }
        let total = member.slowness.total(&rules, self.now);
        if total >= rules.limit() {
            return Some(self.now);
        }
        let &(_, issued, _) = member.waiting.front()?;
        let begins = issued.saturating_add(rules.over).max(self.now);
        Some(begins.saturating_add(Nanos(rules.limit().0 - total.0)))
    }

    /// Look at the clock.
    pub(super) fn watch(&mut self) {
        for slot in 0..DEVICES {
            self.look_at(slot);
        }
        for slot in 0..DEVICES {
            if self.stuck(slot).is_some_and(|at| at <= self.now) {
                self.leave(slot, Why::Stuck);
            }
        }
        if let Some(slot) = self.watch_flushes() {
            self.leave(slot, Why::HeldBack);
        }
        for leg in 0..LEGS {
            if self.too_slow(leg).is_some_and(|at| at <= self.now) {
                self.leave(leg, Why::Slow);
            }
        }
        let low = self.config.exposed_blocks_max / 10;
        let paces: [Pace; LEGS] = std::array::from_fn(|leg| {
            let member = &self.members[leg];
            Pace { backlog: member.queue.len() as u64, ..member.pace }
        });
        let frozen = lag::frozen(&self.config.lag, paces, low);
        for (leg, frozen) in frozen.into_iter().enumerate() {
            let pace = &mut self.members[leg].pace;
            if pace.lagging != frozen {
                pace.lagging = frozen;
                self.stats.freezes += u64::from(frozen);
                self.out.push(Action::Notice(Notice::Frozen(leg, frozen)));
                self.writes.recheck_all = true;
                self.again = true;
            }
        }
        if self.reads.hedge_next().is_some_and(|at| at <= self.now) {
            self.hedge();
        }
        let due = |at: Option<Nanos>| at.is_some_and(|at| at <= self.now);
        self.again |= due(self.copies.retry_at())
            || due(self.age_due())
            || due(self.tail_due())
            || (0..LEGS).any(|leg| due(self.cache_due(leg)));
    }

    /// Is the oldest request of a device late?
    fn look_at(&mut self, slot: Slot) {
        let member = &mut self.members[slot];
        while member.waiting.front().is_some_and(|&(io, ..)| self.ios.get(io).is_none()) {
            member.waiting.pop_front();
        }
        member.pace.late = member.waiting.front().is_some_and(|&(_, issued, class)| {
            let after = self.config.lag.late_after(member.expected.p95(class));
            self.now.since(issued) > after
        });
    }

    /// When a device that does not answer is to be left out. Never the last leg: then waiting is
    /// all there is.
    fn stuck(&self, slot: Slot) -> Option<Nanos> {
        let member = &self.members[slot];
        let spare = slot >= LEGS
            || (self.members[other(slot)].state == State::Member
                && !self.members[other(slot)].pace.late);
        let &(_, issued, _) = member.waiting.front()?;
        (spare && member.state.is_used()).then(|| issued + self.config.lag.stuck_after)
    }

    /// When the oldest exposed write calls for a flush of the legs.
    fn age_due(&self) -> Option<Nanos> {
        let wait = Nanos(self.config.exposed_age_max.0 / 2 + 1);
        self.aging_since().map(|since| since + wait)
    }

    /// When a log that nothing is appended to should say what is retired.
    fn tail_due(&self) -> Option<Nanos> {
        let members = (0..DEVICES).filter(|&slot| self.members[slot].state == State::Member);
        let owing = members.filter(|&slot| self.logs[slot].owes_tail());
        owing.map(|slot| self.members[slot].tail_moved + Nanos::from_secs(1)).min()
    }

    /// When the core wants a tick if nothing happens before.
    pub fn next_timer(&self) -> Option<Nanos> {
        let late = |slot: Slot| {
            let member = &self.members[slot];
            let &(_, issued, class) = member.waiting.front()?;
            let after = self.config.lag.late_after(member.expected.p95(class));
            (!member.pace.late).then(|| issued + after + Nanos(1))
        };
        let devices = (0..DEVICES).flat_map(|slot| [late(slot), self.stuck(slot)]);
        let others =
            [self.reads.hedge_next(), self.copies.retry_at(), self.age_due(), self.tail_due()];
        let legs = (0..LEGS).flat_map(|leg| [self.cache_due(leg), self.too_slow(leg)]);
        // What is due already waits for something else to happen.
        let all = devices.chain(others).chain(legs).chain([self.flush_due()]);
        all.flatten().filter(|&at| at > self.now).min()
    }
}
