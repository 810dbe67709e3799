//! Reads of the host: what the write buffer has of a page, and what flash has.

use super::*;

impl Controller {
    #[inline]
    pub(super) fn read_page(&mut self, part: Waiting, now: Nanos) {
        self.pages_read += 1;
        if self.settings.instant {
            self.read_now(self.host_page(&part));
            return;
        }
        if let Some(buffer) = &self.buffer.0 {
            let sectors = u32::from(part.sectors);
            let held = buffer.has(part.lpn, Lba(part.lba), sectors);
            if held > 0 {
                self.requests[part.slot as usize].remaining += 1;
                self.events.push(now + buffer.access, Event::PageServed(part.slot).pack());
            }
            if held == sectors {
                return;
            }
        }
        self.plan_read(self.host_page(&part));
        if let Some(oracle) = &self.oracle.0 {
            let answered = oracle.answered(part.lpn, &self.plan.ops);
            answered.unwrap_or_else(|wrong| panic!("wrong plan: {wrong}"));
        }
        self.submit_plan(Waiter::Request(part.slot), part.lpn, false);
        self.check_planned();
    }

    /// Make the plan of a read.
    #[inline]
    pub(super) fn plan_read(&mut self, page: HostPage) {
        self.plan.clear();
        let before = self.plan.counts.get(Kind::Read, Cause::Host);
        self.mapping.read(&mut self.flash, page, &mut self.plan);
        let touched = self.plan.counts.get(Kind::Read, Cause::Host) > before;
        self.pages_read_unwritten += u64::from(!touched);
    }
}
