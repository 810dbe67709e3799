//! Discards: pages whose content nobody wants any more.

use super::*;

impl Controller {
    /// Forget the whole pages of a request.
    pub(super) fn discard(&mut self, slot: u32, pending: Pending, now: Nanos) {
        let size = u64::from(self.geometry.page_sectors);
        // Only whole pages can be forgotten.
        let first = pending.lba.div_ceil(size);
        let end = (pending.lba + u64::from(pending.sectors)) / size;
        for lpn in first..end {
            let lpn = lpn as u32;
            if let Some(buffer) = &mut self.buffer.0 {
                buffer.discard(lpn);
            }
            if self.settings.instant {
                self.discard_now(lpn);
                continue;
            }
            let (sectors, lba) = (size as u16, u64::from(lpn) * size);
            let part = Waiting { slot, lpn, sectors, stream: pending.stream, lba, index: 0, of: 1 };
            self.program_page(part);
        }
        // It may have taken the last page that a flush waits for.
        for flushed in self.flushed() {
            self.events.push(now, Event::PageServed(flushed).pack());
        }
        self.admit(now);
    }

    /// Forget a page; a scheme without the whole table in RAM may have to read and write flash.
    pub(super) fn plan_discard(&mut self, lpn: u32) -> Result<(), Full> {
        self.mapping.discard(&mut self.flash, lpn, &mut self.plan)?;
        if let Some(oracle) = &mut self.oracle.0 {
            oracle.discarded(lpn);
        }
        Ok(())
    }
}
