//! A device without room for a write, as a file on a full file system: its writes wait for room,
//! as they would for a device that hangs, and everything else goes on.

use std::time::Duration;

use mirror::DEVICES;
use sim::Nanos;

use super::NAMES;
use super::engine::Array;

/// Nobody rings when there is room: it is tried so often.
pub(super) const RETRY: Duration = Duration::from_millis(500);

/// What is known of it.
#[derive(Default)]
pub(super) struct Room {
    lacking: [bool; DEVICES],
    /// When it is tried again.
    retry_at: Option<Nanos>,
}

impl Room {
    pub(super) fn retry_at(&self) -> Option<Nanos> {
        self.retry_at
    }
}

impl Array {
    /// Say who lacks room, and try again from time to time.
    pub(super) fn look_for_room(&mut self) {
        for (slot, name) in NAMES.into_iter().enumerate() {
            let full = self.workers.is_full(slot);
            let was = std::mem::replace(&mut self.room.lacking[slot], full);
            if full == was {
                continue;
            }
            let path = self.paths[slot].as_ref().map_or(String::new(), |p| p.display().to_string());
            let text = match full {
                true => format!(
                    "{name}: no space left for {path}, so writes to it wait: make room on its \
                     file system"
                ),
                false => format!("{name}: its writes wait no longer for room"),
            };
            self.history.changed(&text);
            self.notices.push(text);
        }
        let due = self.room.retry_at.is_some_and(|at| at <= self.latest);
        if due {
            self.workers.retry();
        }
        let lacking = self.room.lacking.contains(&true);
        let again = self.latest.saturating_add(Nanos(RETRY.as_nanos() as u64));
        self.room.retry_at = match self.room.retry_at {
            Some(at) if lacking && !due => Some(at),
            _ => lacking.then_some(again),
        };
    }
}
