//! The end: no leg is left.

use super::Core;
use super::event::{Action, IoError};
use super::writes::Waiting;

impl Core {
    /// No leg is left: fail everything.
    pub(super) fn fail_all(&mut self) {
        self.failed = true;
        self.forget_copies();
        for Waiting { id, .. } in std::mem::take(&mut self.waiting) {
            self.out.push(Action::Reply { id, result: Err(IoError) });
            self.out.push(Action::Free { id });
        }
        for index in self.writes.indices() {
            let write = self.writes.remove(index);
            if write.copy.is_none() {
                if !write.acked {
                    self.out.push(Action::Reply { id: write.id, result: Err(IoError) });
                }
                self.out.push(Action::Free { id: write.id });
            }
        }
        // A leg that was being filled is still there, and all that it lists is gone.
        for member in &mut self.members {
            member.disown_all();
        }
        self.writes.recheck.clear();
        self.writes.exposed.clear();
        self.writes.unanswered.clear();
        self.writes.roomless.clear();
        (self.writes.exposed_blocks, self.writes.starved) = (0, 0);
        self.writes.live_blocks = 0;
        self.fail_flushes();
        self.fail_reads();
    }
}
