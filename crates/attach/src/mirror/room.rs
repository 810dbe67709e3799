//! A device without room for a write, as a file on a full file system: its writes wait for room,
//! as they would for a device that hangs, and everything else goes on.

use mirror::{DEVICES, Slot};
use sim::Nanos;

use super::work::RETRY;

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

    /// Which devices lack room now: those that did not before, and those that no longer do.
    pub(super) fn changed(&mut self, lacking: [bool; DEVICES]) -> Vec<(Slot, bool)> {
        let before = std::mem::replace(&mut self.lacking, lacking);
        (0..DEVICES).filter(|&it| before[it] != lacking[it]).map(|it| (it, lacking[it])).collect()
    }

    /// True when what found no room is to be tried again at `now`, which is due from time to time.
    pub(super) fn is_due(&mut self, now: Nanos) -> bool {
        let due = self.retry_at.is_some_and(|at| at <= now);
        let lacking = self.lacking.contains(&true);
        let again = now.saturating_add(Nanos(RETRY.as_nanos() as u64));
        self.retry_at = match self.retry_at {
            Some(at) if lacking && !due => Some(at),
            _ => lacking.then_some(again),
        };
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_room_is_tried_from_time_to_time() {
        let (mut room, retry) = (Room::default(), Nanos(RETRY.as_nanos() as u64));
        assert_eq!(room.changed([false, true, false]), [(1, true)]);
        assert_eq!(room.changed([false, true, false]), []);
        assert!(!room.is_due(Nanos(7)), "it has only just been found full");
        assert_eq!(room.retry_at(), Some(Nanos(7) + retry));
        assert!(!room.is_due(retry) && room.is_due(Nanos(7) + retry));
        assert_eq!(room.changed([false; DEVICES]), [(1, false)]);
        assert!(!room.is_due(Nanos(8) + retry));
        assert_eq!(room.retry_at(), None);
    }
}
