//! The state machine: turns, budgets, waiting for a process, and raised weights.

use sim::{Counters, Nanos, Op, Priority, PriorityClass, Request, snapshot_fields};

use super::Params;
use super::service::{Entity, choose, span};
use crate::elevator::linux::idling::Idling;
use crate::elevator::linux::owners::Owners;
use crate::elevator::linux::pool::{Fifo, NONE, Piece, Pool};
use crate::elevator::linux::sorted::{OneWay, Sorted};
use crate::elevator::{Context, Kind, Policy};

/// Classes of priority: real time, best effort, idle.
const CLASSES: usize = 3;
/// Budget in sectors until the rate of the device is known.
const BUDGET: u64 = 16 * 1024;
/// The least budget is this part of the largest.
const BUDGET_PARTS: u64 = 32;
/// What nobody waits for counts so many times.
const ASYNC_CHARGE: u64 = 3;
const RAISE: u64 = 30;
/// A queue that was empty for so long is raised.
const RAISE_AFTER: Nanos = Nanos::from_secs(2);
const SEEKY_IDLE: Nanos = Nanos::from_millis(2);
/// It seeks when its mean distance is more sectors than this.
const SEEKY: u64 = 8 * 1024;
/// Shorter turns do not tell the rate of the device.
const RATE_TIME: Nanos = Nanos::from_millis(20);

/// Why a turn ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// Its process did not come back.
    Idle,
    Timeout,
    /// The budget is used.
    Used,
    Empty,
}

/// Requests that are served together.
#[derive(Clone, Debug)]
struct Turn {
    entity: Entity,
    sync: bool,
    priority: Priority,
    /// The number of its process.
    owner: u32,
    sorted: Sorted,
    fifo: Fifo,
    next: u32,
    dispatched: u32,
    /// Sectors of the running turn.
    service: u64,
    idles: bool,
    fifo_checked: bool,
    raised_until: Nanos,
    left: Nanos,
}

snapshot_fields!(Turn {
    entity,
    sync,
    priority,
    owner,
    sorted,
    fifo,
    next,
    dispatched,
    service,
    idles,
    fifo_checked,
    raised_until,
    left,
});

impl Default for Turn {
    fn default() -> Turn {
        Turn {
            entity: Entity::default(),
            sync: false,
            priority: Priority::NONE,
            owner: NONE,
            sorted: Sorted::default(),
            fifo: Fifo::default(),
            next: NONE,
            dispatched: 0,
            service: 0,
            idles: false,
            fifo_checked: false,
            raised_until: Nanos::ZERO,
            left: Nanos::ZERO,
        }
    }
}

impl Turn {
    fn class(&self) -> usize {
        match self.priority.class() {
            PriorityClass::RealTime => 0,
            PriorityClass::None | PriorityClass::BestEffort => 1,
            PriorityClass::Idle => 2,
        }
    }

    fn weigh(&mut self, now: Nanos) {
        let plain = 10 * u64::from(Priority::LEVELS - self.priority.level());
        self.entity.weight = if now < self.raised_until { plain * RAISE } else { plain };
    }
}

#[derive(Clone, Debug)]
pub(super) struct Bfq {
    params: Params,
    nr_requests: u32,
    rotational: bool,
    turns: Vec<Turn>,
    owners: Owners,
    /// Virtual time, per class.
    clocks: [u64; CLASSES],
    active: u32,
    began: Nanos,
    idling: Idling,
    position: u64,
    /// Sectors a second, of whole turns.
    rate: u64,
    raised: u32,
}

snapshot_fields!(Bfq { turns, owners, clocks, active, began, idling, position, rate, raised });

impl Bfq {
    pub(super) fn new(params: Params, context: &Context) -> Bfq {
        Bfq {
            params,
            nr_requests: context.nr_requests.unwrap_or(Kind::TODAY.nr_requests),
            rotational: context.rotational,
            turns: Vec::new(),
            owners: Owners::default(),
            clocks: [0; CLASSES],
            active: NONE,
            began: Nanos::ZERO,
            idling: Idling::default(),
            position: 0,
            rate: 0,
            raised: 0,
        }
    }

    fn way(&self) -> OneWay {
        let Params { back_seek_max, back_seek_penalty, .. } = self.params;
        OneWay { last: self.position, back_max: back_seek_max * 2, penalty: back_seek_penalty }
    }

    fn max_budget(&self) -> u64 {
        match (self.params.max_budget, self.rate) {
            (0, 0) => BUDGET,
            (0, rate) => (rate * (self.params.timeout_sync.0.0 / 1_000_000) / 1000).max(BUDGET),
            (budget, _) => budget,
        }
    }

    /// The queue of a request by the process of this number.
    fn of(&mut self, now: Nanos, what: &Request, owner: u32) -> u32 {
        if let Some(known) = self.owners.queue(what, owner) {
            return known;
        }
        let sync = what.is_sync();
        let queue = self.turns.len() as u32;
        let entity = Entity::new(self.max_budget());
        let idles = sync && what.priority.class() != PriorityClass::Idle;
        // Whoever is new was long away.
        let raised_until = if sync && self.params.low_latency {
            now.saturating_add(self.params.wr_max_time.0)
        } else {
            Nanos::ZERO
        };
        let priority = what.priority;
        self.turns.push(Turn {
            entity,
            sync,
            priority,
            owner,
            idles,
            raised_until,
            ..Turn::default()
        });
        self.owners.assign(what, owner, queue);
        queue
    }

    /// The turn of the active queue is over.
    fn end_turn(&mut self, now: Nanos, end: End) {
        if self.active == NONE {
            return;
        }
        self.idling.stop(now);
        let (max, took) = (self.max_budget(), now.since(self.began));
        let turn = &mut self.turns[self.active as usize];
        let mut charge = turn.service;
        if end == End::Timeout {
            // A queue that was slow had its time.
            let time =
                (max * took.0.min(self.params.timeout_sync.0.0)) / self.params.timeout_sync.0.0;
            charge = charge.max(time);
        }
        let least = max / BUDGET_PARTS;
        let budget = match end {
            _ if !turn.sync => max,
            End::Idle if turn.entity.budget > 5 * least => turn.entity.budget - 4 * least,
            End::Idle => least,
            End::Timeout => turn.entity.budget * 2,
            End::Used => turn.entity.budget * 4,
            End::Empty => turn.service,
        };
        turn.entity.budget = budget.clamp(least.max(1), max);
        turn.entity.served(charge);
        turn.weigh(now);
        turn.entity.active = !turn.sorted.is_empty();
        if turn.entity.active {
            turn.entity.plan();
        }
        let (service, class) = (turn.service, turn.class());
        turn.service = 0;
        // It took part in the turn that ends, whether it has more to ask for or not.
        let own = self.active;
        let shares = (0..)
            .zip(&self.turns)
            .filter(|(queue, turn)| turn.class() == class && (turn.entity.active || *queue == own));
        let weights: u64 = shares.map(|(_, turn)| turn.entity.weight).sum();
        self.clocks[class] += span(charge, weights.max(1));
        if took >= RATE_TIME && service > least && end != End::Idle {
            let rate = service * 1_000_000 / (took.0 / 1000).max(1);
            self.rate = if self.rate == 0 { rate } else { (7 * self.rate + rate) / 8 };
        }
        self.active = NONE;
    }

    fn begin_turn(&mut self, now: Nanos) -> Option<u32> {
        let raised = self.turns.iter().filter(|t| t.entity.active && now < t.raised_until);
        self.raised = raised.count() as u32;
        for class in 0..CLASSES {
            let all = (0..).zip(self.turns.iter());
            let own = all.filter(|(_, turn)| turn.class() == class);
            let own = own.map(|(queue, turn)| (queue, &turn.entity));
            if let Some(queue) = choose(own, &mut self.clocks[class]) {
                self.active = queue;
                self.began = now;
                self.turns[queue as usize].fifo_checked = false;
                return Some(queue);
            }
        }
        None
    }

    /// The queue that may send one request.
    fn select(&mut self, now: Nanos, pool: &Pool) -> Option<u32> {
        if self.active != NONE {
            let turn = &self.turns[self.active as usize];
            let over = now.since(self.began) >= self.params.timeout_sync.0;
            let used =
                || turn.service > 0 && turn.service + charge(pool, turn.next) > turn.entity.budget;
            let end = if turn.sorted.is_empty() {
                // Even when its time is over: a queue that left empty-handed would lose its place.
                let returns = turn.dispatched > 0 && turn.idles && self.may_idle();
                if returns || self.idling.is_on() {
                    return None;
                }
                if over { End::Timeout } else { End::Empty }
            } else if over {
                End::Timeout
            } else if used() {
                End::Used
            } else {
                return Some(self.active);
            };
            self.end_turn(now, end);
        }
        self.begin_turn(now)
    }

    /// Without an arm it only helps while some are to get more than others.
    fn may_idle(&self) -> bool {
        let mut weights = self.turns.iter().filter(|t| t.entity.active).map(|t| t.entity.weight);
        let first = weights.next();
        self.params.slice_idle.0 > Nanos::ZERO
            && (self.rotational || weights.any(|weight| Some(weight) != first))
    }

    fn learn(&mut self, now: Nanos, pool: &Pool, rq: u32) {
        let (what, idle) = (pool[rq].what, self.params.slice_idle.0);
        let habits = self.owners.habits(pool[rq].owner);
        let think = now.since(habits.answered).min(Nanos(2 * idle.0));
        habits.think.add(think.0);
        habits.seek_to(what.lba.0);
        habits.position = what.end().0;
        let think = habits.think;
        let turn = &mut self.turns[pool[rq].queue as usize];
        if turn.sync && turn.class() != 2 && think.is_valid() {
            turn.idles = think.mean <= idle.0;
        }
    }

    fn leave_order(&mut self, pool: &Pool, rq: u32) {
        let way = self.way();
        let turn = &mut self.turns[pool[rq].queue as usize];
        if turn.next == rq {
            turn.next = turn.sorted.neighbour(pool, rq, &way).unwrap_or(NONE);
        }
        turn.sorted.remove(pool, rq);
    }

    /// A request leaves for the device.
    fn take(&mut self, now: Nanos, pool: &mut Pool, rq: u32, out: &mut Vec<u32>) {
        let queue = pool[rq].queue;
        self.turns[queue as usize].fifo.remove(pool, rq);
        self.leave_order(pool, rq);
        let turn = &mut self.turns[queue as usize];
        turn.dispatched += 1;
        turn.service += charge(pool, rq);
        if turn.sorted.is_empty() {
            turn.left = now;
            if queue != self.active {
                turn.entity.active = false;
            }
        }
        out.push(rq);
    }
}

/// What a request counts, in sectors.
fn charge(pool: &Pool, rq: u32) -> u64 {
    let sectors = u64::from(pool[rq].what.sectors);
    if pool[rq].is_sync() { sectors } else { sectors * ASYNC_CHARGE }
}

impl Policy for Bfq {
    fn add(&mut self, now: Nanos, pool: &mut Pool, rq: u32) -> bool {
        let what = pool[rq].what;
        let owner = self.owners.number(what.process);
        let queue = self.of(now, &what, owner);
        (pool[rq].queue, pool[rq].owner) = (queue, owner);
        pool[rq].time = now;
        let (way, clocks) = (self.way(), self.clocks);
        let (low_latency, raise) = (self.params.low_latency, self.params.wr_max_time.0);
        let turn = &mut self.turns[queue as usize];
        if turn.sorted.is_empty() && queue != self.active {
            let away = turn.sync && turn.dispatched == 0;
            if low_latency && away && now.since(turn.left) > RAISE_AFTER {
                turn.raised_until = now.saturating_add(raise);
            }
            if turn.sync {
                turn.priority = what.priority;
            }
            turn.weigh(now);
            turn.entity.activate(clocks[turn.class()]);
        }
        turn.sorted.insert(pool, rq);
        turn.fifo.push(pool, rq);
        let old = Some(turn.next).filter(|&next| next != NONE);
        turn.next = way.choose(pool, old, Some(rq)).unwrap_or(NONE);
        self.learn(now, pool, rq);
        if queue == self.active {
            self.idling.won(now);
        }
        false
    }

    fn is_empty(&self) -> bool {
        self.turns.iter().all(|turn| turn.fifo.is_empty())
    }

    fn dispatch(&mut self, now: Nanos, pool: &mut Pool, out: &mut Vec<u32>) {
        let Some(queue) = self.select(now, pool) else { return };
        self.idling.stop(now);
        let turn = &mut self.turns[queue as usize];
        let expire = if turn.sync {
            self.params.fifo_expire_sync.0
        } else {
            self.params.fifo_expire_async.0
        };
        let checked = std::mem::replace(&mut turn.fifo_checked, true);
        let oldest = turn.fifo.head().filter(|&rq| !checked && now >= pool[rq].time + expire);
        let rq = oldest.unwrap_or(turn.next);
        self.take(now, pool, rq, out);
    }

    fn drain(&mut self, now: Nanos, pool: &mut Pool, out: &mut Vec<u32>) {
        for queue in 0..self.turns.len() {
            while let Some(rq) = self.turns[queue].fifo.head() {
                self.take(now, pool, rq, out);
            }
        }
    }

    fn started(&mut self, _now: Nanos, pool: &Pool, rq: u32) {
        self.position = pool[rq].end();
    }

    fn completed(&mut self, now: Nanos, pool: &Pool, rq: u32) {
        let (queue, what) = (pool[rq].queue, pool[rq].what);
        self.turns[queue as usize].dispatched -= 1;
        if what.is_sync() {
            self.owners.habits(pool[rq].owner).answered = now;
        }
        let turn = &self.turns[queue as usize];
        let waits = queue == self.active && turn.sorted.is_empty() && turn.dispatched == 0;
        if waits && turn.idles && self.may_idle() {
            let (owner, idle) = (turn.owner, self.params.slice_idle.0);
            let seek = self.owners.habits(owner).seek;
            let seeks = seek.is_valid() && seek.mean > SEEKY;
            self.idling.start(now, if seeks { idle.min(SEEKY_IDLE) } else { idle });
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.idling.is_on().then_some(self.idling.until())
    }

    fn timer(&mut self, now: Nanos, _pool: &Pool) {
        if now >= self.idling.until() {
            self.idling.lost(now);
            self.end_turn(now, End::Idle);
        }
    }

    fn may_merge(&self, pool: &Pool, rq: u32, piece: &Piece) -> bool {
        self.owners.find(&piece.what) == Some(pool[rq].queue)
    }

    fn front(&self, _pool: &Pool, piece: &Piece) -> Option<u32> {
        let queue = self.owners.find(&piece.what)?;
        self.turns[queue as usize].sorted.at(piece.what.end().0)
    }

    fn grown(&mut self, pool: &Pool, rq: u32, old: u64) {
        let way = self.way();
        let turn = &mut self.turns[pool[rq].queue as usize];
        turn.sorted.moved(pool, rq, old);
        turn.next = way.choose(pool, Some(turn.next), Some(rq)).unwrap_or(rq);
    }

    fn latter(&self, pool: &Pool, rq: u32) -> Option<u32> {
        self.turns[pool[rq].queue as usize].sorted.after(pool, rq)
    }

    fn former(&self, pool: &Pool, rq: u32) -> Option<u32> {
        self.turns[pool[rq].queue as usize].sorted.before(pool, rq)
    }

    fn joined(&mut self, pool: &mut Pool, first: u32, second: u32) {
        self.turns[pool[first].queue as usize].fifo.join(pool, first, second);
        self.leave_order(pool, second);
    }

    fn depth(&self, what: &Request) -> u32 {
        let share = match (what.op, what.sync) {
            (Op::Read | Op::Flush, _) => return u32::MAX,
            (_, true) => 3 * self.nr_requests / 4,
            (_, false) => self.nr_requests / 2,
        };
        (if self.raised > 0 { share / 2 } else { share }).max(1)
    }

    fn counters(&self, out: &mut Counters) {
        self.idling.counters(out);
        out.level("max_budget_sectors", self.max_budget());
    }

    fn clear(&mut self) {
        let idling = self.idling.cleared();
        let context = Context { nr_requests: Some(self.nr_requests), rotational: self.rotational };
        *self = Bfq { idling, ..Bfq::new(self.params.clone(), &context) };
    }

    fn boxed_clone(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}
