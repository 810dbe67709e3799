//! Processes that slept for a request and go on.

use sim::Nanos;

use super::Queue;
use crate::elevator::linux::tags::{Sleeper, Waiting};
use crate::elevator::mutant::planted;

impl Queue {
    /// Whoever was woken goes on.
    #[cold]
    pub(super) fn wake(&mut self, now: Nanos) {
        self.wakes_at = Nanos::MAX;
        if planted!(self, ForgetWaiting) {
            return;
        }
        while let Some(sleeper) = self.tags.next_woken(now) {
            self.go_on(now, sleeper);
        }
    }

    /// As far as there are requests. What it asked for at another moment has another plug.
    fn go_on(&mut self, now: Nanos, mut sleeper: Sleeper) {
        let mut lucky = false;
        let mut plugged = None;
        while let Some(&Waiting { piece, came, tried }) = sleeper.pieces.front() {
            if plugged.replace(came).is_some_and(|before| before != came) {
                self.hand_over(now, piece.what.process);
            }
            if tried.is_some() || !self.merge(now, &piece) {
                let depth = tried.unwrap_or_else(|| self.policy.depth(&piece.what));
                if !self.become_request(now, &piece, depth) {
                    sleeper.pieces[0].tried = Some(depth);
                    self.sleeps_at = self.sleeps_at.min(now);
                    return if lucky {
                        self.tags.fall_asleep(sleeper)
                    } else {
                        self.tags.sleep_on(sleeper)
                    };
                }
            }
            lucky = true;
            sleeper.pieces.pop_front();
        }
    }

    /// The plug of a process.
    fn hand_over(&mut self, now: Nanos, process: u32) {
        if let Some(list) = self.plugs.hand_over_of(process) {
            self.insert_all(now, list);
            self.run(now);
        }
    }
}
