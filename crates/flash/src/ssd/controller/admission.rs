//! What is let in when: commands from the host's queues, pages into the buffer.

use super::*;

impl Controller {
    /// A command was answered: fetch another one, if one waits in the host's queues.
    #[inline]
    pub(super) fn fetch_next(&mut self, now: Nanos) {
        let Some(queues) = &mut self.queues.0 else { return };
        if let Some((slot, submitted)) = queues.answered() {
            let request = self.requests[slot as usize].request();
            let arrival = self.host.arrival(now.max(submitted), &request);
            self.events.push(arrival, Event::Fetched(slot).pack());
        }
    }

    /// A page of the host came in: what waits to is no write yet.
    #[inline]
    pub(super) fn taken_in(&mut self, part: &Waiting) {
        self.pages_written += 1;
        self.sectors_written += u64::from(part.sectors);
    }

    /// Put a host page into the buffer, or let it wait for room there.
    pub(super) fn buffer_page(&mut self, part: Waiting, now: Nanos) {
        self.requests[part.slot as usize].remaining += 1;
        if !self.unbuffered.is_empty() || !self.try_buffer(&part, now) {
            self.unbuffered.push_back(part);
            self.hold_for_waiting();
        }
    }

    /// Programs are not suspended while too many pages wait, if that is so here.
    fn hold_for_waiting(&mut self) {
        let Settings { hold_at_waiting, hold_when_full, .. } = self.settings;
        if hold_at_waiting > 0
            && hold_when_full
            && self.unbuffered.len() >= hold_at_waiting as usize
        {
            self.nand.hold_programs(true);
        }
    }

    /// What the drive did beside taking pages in.
    fn beside(&self) -> Beside {
        Beside {
            moved: self.plan.counts.programs(Cause::Gc),
            reads: self.pages_read - self.pages_read_unwritten,
        }
    }

    fn try_buffer(&mut self, part: &Waiting, now: Nanos) -> bool {
        let request = self.requests[part.slot as usize].request();
        let asks = self.pace.0.is_some() || self.throttle.0.is_some();
        let beside = if asks { self.beside() } else { Beside::default() };
        let buffer = self.buffer.0.as_mut().expect("there is a buffer to write to");
        let collectors = self.turns.is_collectors();
        let pace = self.pace.0.as_mut().filter(|pace| collectors || !pace.in_turns());
        let pace = pace.filter(|_| !buffer.merges(part.lpn));
        let paced = pace.as_ref().map_or(now, |pace| pace.earliest(now));
        let mut throttle = self.throttle.0.as_mut().filter(|_| !buffer.merges(part.lpn));
        let earliest =
            throttle.as_mut().map_or(paced, |throttle| throttle.earliest(now, beside).max(paced));
        let sectors = u32::from(part.sectors);
        if earliest <= now
            && buffer.offer(part.lpn, &request, Lba(part.lba), sectors) == Offer::Taken
        {
            if let Some(pace) = pace {
                pace.take(now, beside.moved);
            }
            if let Some(throttle) = throttle {
                throttle.take(now, beside);
            }
            self.events.push(now + buffer.access, Event::PageServed(part.slot).pack());
            self.taken_in(part);
            self.destage();
            return true;
        }
        if earliest > now {
            // One of them may have promised the same moment before, to be woken by the other.
            let new = pace.is_some_and(|pace| pace.promise(earliest));
            let other = throttle.is_some_and(|throttle| throttle.promise(earliest));
            if new || other {
                self.events.push(earliest, Event::Admit.pack());
            }
            // The buffer is not full; `hold_for_waiting` has the last word.
            if self.settings.hold_at_waiting > 0 {
                self.nand.hold_programs(false);
            }
        } else {
            self.nand.hold_programs(self.settings.hold_when_full);
        }
        // After a power failure a protected buffer is full while nothing is under way.
        self.destage();
        false
    }

    /// Let waiting pages into the buffer as far as there is room.
    pub(super) fn admit(&mut self, now: Nanos) {
        while let Some(part) = self.unbuffered.front().copied() {
            if !self.try_buffer(&part, now) {
                break;
            }
            self.unbuffered.pop_front();
            let last = self.unbuffered.front().is_none_or(|next| next.slot != part.slot);
            if last && self.requests[part.slot as usize].fua {
                self.wait_for_buffer(part.slot, now);
            }
        }
        match self.unbuffered.is_empty() {
            true => self.nand.hold_programs(false),
            false => self.hold_for_waiting(),
        }
    }
}
