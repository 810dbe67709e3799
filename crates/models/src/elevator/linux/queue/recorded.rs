//! An elevator beside a recording of a real one: it is given the same requests, its plugs are
//! handed over when the real ones were, and it may send as much as the real one sent by then. What
//! it joins, and in which order it sends, is its own; but what the real one has had answered it
//! has sent, too, as what comes next may have waited for that answer.

use std::collections::{BTreeMap, BTreeSet};

mod sectors;
#[cfg(test)]
mod tests;

use sim::{Completions, Nanos, Op, Request, RequestId};
use trace::{QueueAction, QueueEvent};

use super::super::cut::Cut;
use super::super::pool::State;
use super::{PLACE_BITS, Queue};
use sectors::Sectors;

/// Choices are looked for so many places away: an early difference shifts all that follow.
const NEAR: usize = 1024;

/// What one side sent, and in which order.
#[derive(Clone, Default, Debug)]
pub struct Sent {
    /// (operation, first sector, sectors) of every request that could have been joined.
    pub requests: Vec<(Op, u64, u32)>,
}

impl Sent {
    /// Requests of an operation.
    pub fn count(&self, op: Op) -> usize {
        self.requests.iter().filter(|request| request.0 == op).count()
    }

    /// Mean size in KiB; 0 for none.
    pub fn mean_kib(&self) -> f64 {
        let sectors: u64 = self.requests.iter().map(|request| u64::from(request.2)).sum();
        sectors as f64 / 2.0 / self.requests.len().max(1) as f64
    }

    /// Mean distance from the end of a request to the begin of the next, in sectors.
    pub fn mean_seek_sectors(&self) -> f64 {
        let pairs = self.requests.windows(2);
        let seeks = pairs.map(|pair| (pair[0].1 + u64::from(pair[0].2)).abs_diff(pair[1].1));
        let sum: u128 = seeks.map(u128::from).sum();
        sum as f64 / self.requests.len().saturating_sub(1).max(1) as f64
    }

    /// Half the sum of the differences between two distributions of sizes, 0 to 1.
    pub fn size_distance(&self, other: &Sent) -> f64 {
        let mut shares: BTreeMap<u32, f64> = BTreeMap::new();
        for (side, sign) in [(self, 1.0), (other, -1.0)] {
            for request in &side.requests {
                *shares.entry(request.2).or_default() += sign / side.requests.len() as f64;
            }
        }
        shares.values().map(|share| share.abs()).sum::<f64>() / 2.0
    }
}

/// What an elevator made of a recorded stream.
#[derive(Clone, Default, Debug)]
pub struct BesideRecording {
    /// Requests that came in and could be joined.
    pub queued: usize,
    /// Flushes, and what goes with one, which nothing joins: left out on both sides.
    pub alone: usize,
    /// What was recorded.
    pub recorded: Sent,
    /// What the model sent.
    pub modelled: Sent,
    /// How many of the recorded choices the model made: it sent the same two requests one after the
    /// other.
    pub same_choices: usize,
    /// Recorded choices that the model had before it when more than one request waited.
    pub real_choices: usize,
    /// How many of these it made.
    pub same_real_choices: usize,
}

/// Give an elevator what was recorded.
pub(crate) fn beside(mut queue: Queue, events: &[QueueEvent]) -> BesideRecording {
    // Nothing goes without leave.
    queue.settings.depth = 0;
    let mut model = Model::new(queue, most_inside(events));
    let (premature, last) = (premature_unplugs(events), last_requests(events));
    let zeroing = zeroing(events, model.queue.extent.piece_sectors());
    for (index, event) in events.iter().enumerate() {
        let alone = event.alone || zeroing[index];
        model.event(&QueueEvent { alone, ..*event }, premature[index]);
        if last[index] {
            model.ending.push((event.request.process, event.request.lba.0));
        }
    }
    model.credit = i64::MAX;
    model.send(model.now);
    model.timers(Nanos(Nanos::MAX.0 - 1));
    let Model { mut result, had_choice, .. } = model;
    result.compare(&had_choice);
    result
}

/// The most requests that were in the device at once.
fn most_inside(events: &[QueueEvent]) -> u32 {
    let (mut inside, mut most) = (0u32, 0);
    for event in events {
        match event.action {
            QueueAction::Dispatched => inside += 1,
            QueueAction::Completed => inside = inside.saturating_sub(1),
            _ => {}
        }
        most = most.max(inside);
    }
    most
}

/// Which events hand over a plug before the request that was just queued goes into it: the task's
/// next event says that its plug is begun anew.
fn premature_unplugs(events: &[QueueEvent]) -> Vec<bool> {
    let mut next: BTreeMap<u32, QueueAction> = BTreeMap::new();
    let mut premature = vec![false; events.len()];
    for (index, event) in events.iter().enumerate().rev() {
        use QueueAction::{Plugged, Queued, Unplugged};
        if let Queued | Plugged | Unplugged = event.action {
            let before = next.insert(event.request.process, event.action);
            premature[index] = event.action == Unplugged && before == Some(Plugged);
        }
    }
    premature
}

/// Which events are writes that are longer than any may be and were not cut: they say what is to
/// be zero, nothing joins them, and `blktrace` has the same letters for them.
fn zeroing(events: &[QueueEvent], longest: u32) -> Vec<bool> {
    let mut taken: BTreeMap<u32, Request> = BTreeMap::new();
    let mut zeroing = vec![false; events.len()];
    for (index, QueueEvent { action, request, .. }) in events.iter().enumerate().rev() {
        if *action == QueueAction::Taken {
            taken.insert(request.process, *request);
        } else if *action == QueueAction::Queued && request.sectors > longest {
            let whole = |taken: &Request| taken.lba == request.lba && taken.end() == request.end();
            let uncut = taken.get(&request.process).is_some_and(whole);
            zeroing[index] = uncut && request.op == Op::Write;
        }
    }
    zeroing
}

/// Which events are the last request of a process.
fn last_requests(events: &[QueueEvent]) -> Vec<bool> {
    let mut seen = BTreeSet::new();
    let last = |event: &QueueEvent| {
        event.action == QueueAction::Queued && seen.insert(event.request.process)
    };
    let mut last: Vec<bool> = events.iter().rev().map(last).collect();
    last.reverse();
    last
}

struct Model {
    queue: Queue,
    /// Requests that were in the device, and how many it has room for.
    inside: u32,
    room: u32,
    /// Sectors that it may send.
    credit: i64,
    /// Requests that nothing joins and that were not sent yet: first sector and sectors.
    alone: Vec<(u64, u32)>,
    /// Those of them that are in the device.
    alone_out: Vec<(u64, u32)>,
    /// What is left of requests that are cut, by process: a piece comes when the one before it has
    /// gone where it goes.
    cut: Vec<(u32, Cut)>,
    /// What is in the device: where it ends and its name, by first sector.
    out: BTreeMap<u64, (u64, RequestId)>,
    /// When what is in the real device went there, by first sector.
    really_out: BTreeMap<u64, Nanos>,
    /// Processes that ask for nothing more, and where what they asked for last begins.
    ending: Vec<(u32, u64)>,
    /// It has leave to send, but waits for somebody.
    holds_back: bool,
    /// What was completed before the model sent it.
    early: Sectors,
    /// For each request that was sent: did another one wait as well?
    had_choice: Vec<bool>,
    /// Time does not go back, whatever the recording says.
    now: Nanos,
    result: BesideRecording,
}

/// Does an event tell that the next piece has come?
fn is_begun(cut: &Cut, action: QueueAction, request: &Request) -> bool {
    use QueueAction::{Dispatched, Inserted, Taken};
    let range = request.lba.0..request.end().0;
    matches!(action, Taken | Inserted | Dispatched) && range.contains(&cut.next_sector())
}

impl Model {
    fn new(queue: Queue, room: u32) -> Model {
        Model {
            queue,
            room,
            inside: 0,
            credit: 0,
            alone: Vec::new(),
            alone_out: Vec::new(),
            cut: Vec::new(),
            out: BTreeMap::new(),
            really_out: BTreeMap::new(),
            ending: Vec::new(),
            holds_back: false,
            early: Sectors::default(),
            had_choice: Vec::new(),
            now: Nanos::ZERO,
            result: BesideRecording::default(),
        }
    }

    fn event(&mut self, event: &QueueEvent, premature: bool) {
        let QueueEvent { action, request, alone, .. } = *event;
        let time = self.now.max(event.time);
        self.timers(time);
        self.now = time;
        self.pieces_before(time, event);
        match action {
            QueueAction::Queued if request.sectors == 0 => {}
            QueueAction::Queued if alone => {
                self.result.alone += 1;
                self.alone.push((request.lba.0, request.sectors));
            }
            QueueAction::Queued => {
                self.result.queued += 1;
                self.queue.inside += 1;
                let mut cut = self.queue.cut(request);
                if let Some(first) = cut.next() {
                    self.queue.enter_piece(time, first);
                }
                self.cut.push((request.process, cut));
            }
            QueueAction::Taken => {}
            QueueAction::Plugged => {}
            // The model's plug has the rule by which this one was full.
            QueueAction::Unplugged if premature => {}
            QueueAction::Unplugged => {
                if let Some(list) = self.queue.plugs.hand_over_of(request.process) {
                    self.queue.insert_all(time, list);
                }
            }
            QueueAction::Inserted => self.hand_over(time, request),
            QueueAction::Dispatched => self.dispatched(time, request),
            QueueAction::Completed => {
                self.completed(time, request);
                self.end_processes(time, request);
            }
        }
        // Whom it waits for may have come.
        if self.holds_back {
            self.send(time);
        }
        self.choose_ahead(time);
    }

    /// Pieces that came by now: the one that the event is about, and all of a process that goes on
    /// to its next request.
    fn pieces_before(&mut self, now: Nanos, event: &QueueEvent) {
        let QueueEvent { action, request, .. } = *event;
        let goes_on = action == QueueAction::Queued;
        let mut cuts = std::mem::take(&mut self.cut);
        for (process, cut) in &mut cuts {
            let all = goes_on && *process == request.process;
            while !cut.is_over() && (all || is_begun(cut, action, &request)) {
                let piece = cut.next().expect("there is one before it is over");
                self.queue.enter_piece(now, piece);
            }
        }
        cuts.retain(|(_, cut)| !cut.is_over());
        self.cut = cuts;
    }

    /// What the policy waits for until now: it may send afterwards, if it has leave to.
    fn timers(&mut self, until: Nanos) {
        while let Some(at) = self.queue.policy.next_event().filter(|&at| at <= until) {
            let at = at.max(self.now);
            self.queue.policy.timer(at, &self.queue.pool);
            self.send(at);
        }
    }

    /// A request without a plug around it, or one that went past the scheduler.
    fn hand_over(&mut self, now: Nanos, request: Request) {
        let Some(rq) = self.queue.pool.plugged_at(request.lba.0) else { return };
        self.queue.plugs.remove(rq);
        if !self.queue.merge_at_insert(now, rq) {
            self.queue.insert(now, rq);
        }
    }

    /// The drivers of what is recorded have no budget.
    fn choose_ahead(&mut self, now: Nanos) {
        if self.inside == self.room && self.credit <= 0 {
            self.queue.choose(now);
        }
    }

    fn dispatched(&mut self, now: Nanos, request: Request) {
        self.inside += 1;
        let (first, sectors) = (request.lba.0, request.sectors);
        let alone = self.alone.iter().position(|&alone| alone == (first, sectors));
        if let Some(index) = alone {
            let alone = self.alone.swap_remove(index);
            self.alone_out.push(alone);
            if sectors > 0 {
                self.queue.policy.passed(&request);
            }
        } else if sectors > 0 {
            self.really_out.insert(first, now);
            self.result.recorded.requests.push((request.op, first, sectors));
            self.hand_over(now, request);
            self.credit += i64::from(sectors);
            self.send(now);
        }
    }

    /// Send what the real one has sent by now.
    fn send(&mut self, now: Nanos) {
        while self.credit > 0 {
            let waiting = self.queue.pool.count(State::Queued);
            let Some(rq) = self.queue.next(now) else { break };
            self.goes_out(now, rq, waiting > 1);
        }
        self.holds_back = self.credit > 0 && !self.queue.policy.is_empty();
    }

    /// A request goes to the device, chosen among others or not.
    fn goes_out(&mut self, now: Nanos, rq: u32, had_choice: bool) {
        self.queue.start(now, rq);
        let what = self.queue.pool[rq].what;
        self.credit -= i64::from(what.sectors);
        self.had_choice.push(had_choice);
        self.result.modelled.requests.push((what.op, what.lba.0, what.sectors));
        let name = RequestId(self.queue.sequence << PLACE_BITS | u64::from(rq));
        let (first, end) = (what.lba.0, what.end().0);
        // Whoever writes a place again does so after the first time.
        self.finish(now, first);
        self.out.insert(first, (end, name));
        let early = self.early.has(end - 1);
        self.early.remove(first, end);
        if early {
            self.finish(now, first);
        }
    }

    /// What the real one has had an answer to, and the model has not sent yet, goes. A choice that
    /// differs so costs itself; else all that its process asks for afterwards would differ.
    fn catch_up(&mut self, now: Nanos, first: u64, end: u64, until: Nanos) {
        for rq in self.queue.pool.waiting_in(first, end, until) {
            let waiting = self.queue.pool.count(State::Queued);
            let chosen = self.queue.dispatch.iter().position(|&other| other == rq);
            if let Some(at) = chosen {
                self.queue.dispatch.remove(at);
            } else if self.queue.policy.force(now, &mut self.queue.pool, rq) {
                self.queue.leave_policy(rq);
            } else {
                return;
            }
            self.goes_out(now, rq, waiting > 1);
        }
    }

    /// Processes that have had their last answer.
    fn end_processes(&mut self, now: Nanos, answered: Request) {
        let range = answered.lba.0..answered.end().0;
        let over = |&(_, lba): &(u32, u64)| range.contains(&lba);
        while let Some(index) = self.ending.iter().position(over) {
            let (process, _) = self.ending.swap_remove(index);
            self.queue.policy.ended(now, &self.queue.pool, process);
        }
    }

    fn completed(&mut self, now: Nanos, request: Request) {
        self.inside = self.inside.saturating_sub(1);
        if request.sectors == 0 {
            return;
        }
        let known = (request.lba.0, request.sectors);
        if let Some(index) = self.alone_out.iter().position(|&alone| alone == known) {
            self.alone_out.swap_remove(index);
            return;
        }
        // Of the model's requests all are completed that end in this one: it may have sent them in
        // other pieces.
        let (first, end) = (request.lba.0, request.end().0);
        self.early.add(first, end);
        let touched = self.out.range(..end).filter(|&(_, &(other_end, _))| other_end > first);
        let touched: Vec<(u64, u64)> = touched.map(|(&from, &(to, _))| (from, to)).collect();
        for (from, to) in touched {
            self.early.remove(from.max(first), to.min(end));
            if to <= end {
                self.finish(now, from);
            }
        }
        let until = self.really_out.remove(&first).unwrap_or(now);
        self.catch_up(now, first, end, until);
    }

    fn finish(&mut self, now: Nanos, first: u64) {
        if let Some((_, name)) = self.out.remove(&first) {
            self.queue.finish(now, name, &mut Completions::new());
            self.queue.wake(now);
        }
    }
}

impl BesideRecording {
    /// Recorded choices: requests that follow another one.
    pub fn choices(&self) -> usize {
        self.recorded.requests.len().saturating_sub(1)
    }

    /// Look for each recorded pair of neighbours among those of the model.
    fn compare(&mut self, had_choice: &[bool]) {
        let mut pairs: BTreeMap<[(bool, u64); 2], Vec<usize>> = BTreeMap::new();
        let place = |&(op, first, _): &(Op, u64, u32)| (op == Op::Read, first);
        for (at, pair) in self.modelled.requests.windows(2).enumerate() {
            pairs.entry([place(&pair[0]), place(&pair[1])]).or_default().push(at);
        }
        for (at, pair) in self.recorded.requests.windows(2).enumerate() {
            let found = pairs.get_mut(&[place(&pair[0]), place(&pair[1])]);
            let near = found.and_then(|places| {
                let index = places.iter().position(|place| place.abs_diff(at) <= NEAR)?;
                Some(places.swap_remove(index))
            });
            let choice = near.is_none_or(|place| had_choice[place + 1]);
            self.same_choices += usize::from(near.is_some());
            self.real_choices += usize::from(choice);
            self.same_real_choices += usize::from(choice && near.is_some());
        }
    }
}
