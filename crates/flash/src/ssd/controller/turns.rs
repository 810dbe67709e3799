//! Host and collector in turns: while one has the dies, the other waits.

use sim::snapshot_fields;

use super::*;

/// Whose turn it is.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    /// Host pages in a turn; 0 when there are no turns.
    pages: u32,
    /// Host pages left in this turn.
    left: u32,
    collectors: bool,
    /// Pages that each pool may still move in this turn.
    to_move: Vec<u32>,
}

snapshot_fields!(Turns { left, collectors, to_move });

impl Turns {
    pub(super) fn new(pages: u32, pools: u32) -> Turns {
        Turns { pages, left: pages, collectors: false, to_move: vec![0; pools as usize] }
    }

    /// The host's pages have to wait, or come at a pace.
    #[inline]
    pub(super) fn is_collectors(&self) -> bool {
        self.collectors
    }

    pub(super) fn clear(&mut self) {
        (self.left, self.collectors) = (self.pages, false);
        self.to_move.fill(0);
    }
}

impl Controller {
    /// Whether pages of the buffer are programmed: in the collector's turn, if they come at a pace.
    #[inline]
    pub(super) fn hosts_pages_go_on(&self) -> bool {
        !self.turns.collectors || self.pace.0.as_ref().is_some_and(Pace::in_turns)
    }

    /// A page of the host was planned: perhaps the last one of its turn.
    #[inline]
    pub(super) fn page_of_the_host(&mut self) {
        if self.turns.pages == 0 || self.turns.collectors {
            return;
        }
        self.turns.left = self.turns.left.saturating_sub(1);
        if self.turns.left > 0 {
            return;
        }
        self.turns.left = self.turns.pages;
        self.turns.collectors = true;
        self.turns.to_move.fill(self.collector.rules.step_pages);
        (0..self.collector.pools()).for_each(|pool| self.pump(pool));
        if self.in_step.iter().all(|&ops| ops == 0) {
            self.end_turn();
        }
    }

    fn end_turn(&mut self) {
        self.turns.collectors = false;
        self.turns.to_move.fill(0);
    }

    /// How many pages a pool that is being collected may move in this turn: `None` where there are
    /// no turns.
    #[inline]
    pub(super) fn to_move(&self, pool: u32) -> Option<u32> {
        (self.turns.pages > 0).then(|| self.turns.to_move[pool as usize])
    }

    /// The present plan is a step of this pool in its turn.
    pub(super) fn count_moves(&mut self, pool: u32) {
        let moves = self.plan.ops.iter().filter(|op| op.kind() != Kind::Read).count() as u32;
        let left = &mut self.turns.to_move[pool as usize];
        *left = left.saturating_sub(moves);
    }

    /// A pool's step ended: with the last one the host has its turn again.
    pub(super) fn step_ended(&mut self, now: Nanos) {
        if self.turns.collectors && self.in_step.iter().all(|&ops| ops == 0) {
            self.end_turn();
            self.admit(now);
            self.destage();
        }
    }
}
