//! mq-deadline: requests by sector in batches, by priority, but none waits for ever.
//!
//! # What it models
//! The rules of `deadline`, once per class of I/O priority, in the queue of today. A batch goes on
//! in the order of sectors wherever the next one lies, and after the other direction's turn a
//! direction goes on where it was: at the first request that does not begin before its last one
//! did (`by_position`, since Linux 6.5), or, before, at the one that stood behind that then. At the
//! end of the order, and when it has expired, the oldest goes. A class is served when none above it
//! has anything waiting or in the device; what waited longer than `prio_aging_expire` in a lower
//! class goes first. Writes, and what nobody waits for, may use `async_depth` requests of the pool.
//!
//! # Equation
//! A request that has expired is served within one batch of each direction per batch before it.
//!
//! # Parameters
//! `read_expire`, `write_expire`, `fifo_batch`, `writes_starved`, `front_merges`,
//! `prio_aging_expire`, `async_depth`, under the kernel's names and with its defaults, and
//! `by_position` and `hz`, which are no tunables but the kernel's version and its configuration; of
//! `async_depth` the default of 0 means all of `nr_requests`, as Linux 6.1.192 says in sysfs
//! (earlier kernels: three quarters).
//!
//! # What it leaves out
//! Zoned devices. A write with a flush before it (a journal's commit) is a flush and a write here;
//! in Linux the write goes before all that waits.
//!
//! # Validated against
//! State tables by hand from the description, in its tests. Recordings of Linux 6.18: 96.3 to 100 %
//! of its choices on nine programs; a reader before a writer, beside Linux 6.1 (without
//! `by_position`): within 0.1 % (`docs/measured/linux-io.md`).
//!
//! # References
//! Linux 6.1 and 6.5, `block/mq-deadline.c`; `Documentation/block/ioprio.rst`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Counters, Nanos, Op, PriorityClass, Request, snapshot_fields};

use super::counted::EXPIRY;
use super::linux::batches::{Batches, KeptPlace, Rules, Turn};
use super::linux::pool::{Piece, Pool};
use super::linux::tags::map::Words;
use super::{Built, Context, Kind, Policy, within};
use config::{ConfigError, Duration};

/// Classes of priority: real time, best effort, idle.
const CLASSES: usize = 3;

/// Parameters of the policy.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// A read should be served within this time.
    pub read_expire: Duration,
    /// A write should be served within this time.
    pub write_expire: Duration,
    /// Requests of a batch.
    pub fifo_batch: u32,
    /// Times that reads may go before writes.
    pub writes_starved: u32,
    /// Look for a request that begins where a bio ends.
    pub front_merges: bool,
    /// A request of a lower class waits for at most this long.
    pub prio_aging_expire: Duration,
    /// Requests that writes may use, and what nobody waits for; 0 for all.
    pub async_depth: u32,
    /// Each direction goes on by where its last request began, as since Linux 6.5; before, at the
    /// request that came next when that one left.
    pub by_position: bool,
    /// Ticks of the kernel in a second (`CONFIG_HZ`): deadlines are compared in them.
    pub hz: u32,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            read_expire: Duration(Nanos::from_millis(500)),
            write_expire: Duration(Nanos::from_secs(5)),
            fifo_batch: 16,
            writes_starved: 2,
            front_merges: true,
            prio_aging_expire: Duration(Nanos::from_secs(10)),
            async_depth: 0,
            by_position: true,
            hz: 250,
        }
    }
}

impl Params {
    /// What the policy counts.
    pub const COUNTED: sim::metric::Declarations = &[&EXPIRY];

    /// Build the policy.
    ///
    /// # Errors
    /// When a batch would have no request, or `async_depth` exceeds the pool.
    pub fn build(&self, context: &Context) -> Result<Built, ConfigError> {
        within("fifo_batch", self.fifo_batch, 1..=1 << 20)?;
        within("async_depth", self.async_depth, 0..=context.nr_requests)?;
        within("hz", self.hz, 10..=10_000)?;
        let rules = Rules {
            expire: [self.read_expire.0, self.write_expire.0],
            fifo_batch: self.fifo_batch,
            writes_starved: self.writes_starved,
            only_sequential: false,
            place: if self.by_position { KeptPlace::Position } else { KeptPlace::Request },
            tick: Nanos(1_000_000_000 / u64::from(self.hz)),
        };
        let words = Words::of(context.nr_requests);
        let depth = if self.async_depth == 0 { context.nr_requests } else { self.async_depth };
        let policy = MqDeadline {
            front_merges: self.front_merges,
            aging: self.prio_aging_expire.0,
            async_depth: (depth * words.requests).div_ceil(context.nr_requests),
            classes: std::array::from_fn(|_| Batches::new(rules)),
            turn: Turn::of_writes(),
            inside: [0; CLASSES],
            expired: 0,
            aged: 0,
        };
        Ok(Built { policy: Box::new(policy), kind: Kind::TODAY })
    }
}

#[derive(Clone)]
struct MqDeadline {
    front_merges: bool,
    aging: Nanos,
    async_depth: u32,
    classes: [Batches; CLASSES],
    turn: Turn,
    /// Requests of each class, waiting or in the device.
    inside: [u32; CLASSES],
    expired: u64,
    aged: u64,
}

snapshot_fields!(MqDeadline { classes, turn, inside, expired, aged });

fn class(what: &Request) -> usize {
    match what.priority.class() {
        PriorityClass::RealTime => 0,
        PriorityClass::None | PriorityClass::BestEffort => 1,
        PriorityClass::Idle => 2,
    }
}

impl MqDeadline {
    fn of(&self, pool: &Pool, rq: u32) -> &Batches {
        &self.classes[class(&pool[rq].what)]
    }

    fn of_mut(&mut self, pool: &Pool, rq: u32) -> &mut Batches {
        &mut self.classes[class(&pool[rq].what)]
    }

    /// A request of a class below the highest that waits since before `now - aging`.
    fn aged(&mut self, now: Nanos, pool: &Pool) -> Option<u32> {
        if self.inside.iter().filter(|&&inside| inside > 0).count() < 2 {
            return None;
        }
        // As Linux asks each lower class what would be next, its batch begins whether it goes or
        // not.
        let is_old = |rq: u32| pool[rq].allocated.saturating_add(self.aging) <= now;
        let (classes, turn) = (&mut self.classes[1..], &mut self.turn);
        classes.iter_mut().find_map(|class| {
            class.next(now, pool, turn).map(|(rq, _)| rq).filter(|&rq| is_old(rq))
        })
    }
}

impl Policy for MqDeadline {
    fn add(&mut self, now: Nanos, pool: &mut Pool, rq: u32) -> bool {
        self.inside[class(&pool[rq].what)] += 1;
        self.of_mut(pool, rq).add(now, pool, rq);
        false
    }

    fn is_empty(&self) -> bool {
        self.classes.iter().all(Batches::is_empty)
    }

    fn dispatch(&mut self, now: Nanos, pool: &mut Pool, out: &mut Vec<u32>) {
        let aged = self.aged(now, pool);
        self.aged += u64::from(aged.is_some());
        let chosen = aged.or_else(|| {
            let first = self.inside.iter().position(|&inside| inside > 0)?;
            let (rq, expired) = self.classes[first].next(now, pool, &mut self.turn)?;
            self.expired += u64::from(expired);
            Some(rq)
        });
        if let Some(rq) = chosen {
            self.turn.count();
            self.of_mut(pool, rq).take(pool, rq);
            out.push(rq);
        }
    }

    fn force(&mut self, _now: Nanos, pool: &mut Pool, rq: u32) -> bool {
        self.of_mut(pool, rq).take(pool, rq);
        true
    }

    fn passed(&mut self, what: &Request) {
        self.classes[class(what)].passed(what);
    }

    fn drain(&mut self, _now: Nanos, pool: &mut Pool, out: &mut Vec<u32>) {
        while let Some(rq) = self.classes.iter().find_map(Batches::oldest) {
            self.of_mut(pool, rq).take(pool, rq);
            out.push(rq);
        }
    }

    fn completed(&mut self, _now: Nanos, pool: &Pool, rq: u32) {
        self.inside[class(&pool[rq].what)] -= 1;
    }

    fn front(&self, _pool: &Pool, piece: &Piece) -> Option<u32> {
        self.classes[class(&piece.what)].front(piece).filter(|_| self.front_merges)
    }

    fn grown(&mut self, pool: &Pool, rq: u32, old: u64) {
        self.of_mut(pool, rq).grown(pool, rq, old);
    }

    fn latter(&self, pool: &Pool, rq: u32) -> Option<u32> {
        self.of(pool, rq).latter(pool, rq)
    }

    fn former(&self, pool: &Pool, rq: u32) -> Option<u32> {
        self.of(pool, rq).former(pool, rq)
    }

    fn joined(&mut self, pool: &mut Pool, first: u32, second: u32) {
        self.inside[class(&pool[second].what)] -= 1;
        self.of_mut(pool, first).joined(pool, first, second);
    }

    fn depth(&self, what: &Request) -> u32 {
        if what.op == Op::Read { u32::MAX } else { self.async_depth }
    }

    fn depth_min(&self) -> u32 {
        1
    }

    fn counters(&self, out: &mut Counters) {
        out.add("expired", self.expired);
        out.add("aged", self.aged);
    }

    fn clear(&mut self) {
        self.classes.iter_mut().for_each(Batches::clear);
        self.turn = Turn::of_writes();
        self.inside = [0; CLASSES];
    }

    fn boxed_clone(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elevator::ElevatorPolicy;
    use crate::elevator::linux::tests::harness::{Medium, Rig};
    use sim::{Lba, Priority};

    fn occupied(params: Params) -> Rig {
        let mut rig = Rig::new(&ElevatorPolicy::MqDeadline(params), Medium::fixed(1000));
        rig.read(9, 900_000, 8);
        rig.until_us(0);
        rig
    }

    fn read_as(class: PriorityClass, lba: u64) -> Request {
        let priority = Priority::new(class, 0);
        Request { process: 1, priority, ..Request::read(Lba(lba), 8) }
    }

    /// By hand: a batch goes on although the next request is far, so sixteen reads go by sector
    /// before writes are looked at; reads passed over them twice then, and the third batch is
    /// theirs.
    #[test]
    fn a_batch_goes_on_in_sector_order() {
        let mut rig = occupied(Params::default());
        for n in 0..40 {
            rig.read(1, 1000 * (n + 1), 8);
        }
        for n in 0..20 {
            rig.write(2, 500_000 + 1000 * n, 8);
        }
        let order = rig.drain();
        let writes: Vec<bool> = order[1..].iter().map(|&lba| lba >= 500_000).collect();
        let expected: Vec<bool> = [(false, 32), (true, 16), (false, 8), (true, 4)]
            .into_iter()
            .flat_map(|(write, n)| std::iter::repeat_n(write, n))
            .collect();
        assert_eq!(writes, expected);
        assert!(order[1..17].is_sorted(), "{order:?}");
    }

    /// By hand: a write goes behind two reads that pass it over. After 500,500 goes 500,600, which
    /// came since, by where that one began; by what stood behind it then, 500,700.
    #[test]
    fn each_direction_goes_on_where_it_was() {
        for (by_position, second) in [(true, 500_600), (false, 500_700)] {
            let params = Params { fifo_batch: 1, by_position, ..Params::default() };
            let mut rig = occupied(params);
            for lba in [500_500, 500_700] {
                rig.write(2, lba, 8);
            }
            for n in 0..6 {
                rig.read(1, 1000 * (n + 1), 8);
            }
            rig.until_us(3500);
            // Two reads and the oldest write have left the queue.
            rig.write(2, 500_600, 8);
            let order = rig.drain();
            let writes = order.iter().copied().filter(|lba| (500_000..600_000).contains(lba));
            assert_eq!(writes.take(2).collect::<Vec<_>>(), [500_500, second], "{order:?}");
        }
    }

    #[test]
    fn a_lower_class_waits_until_the_higher_ones_are_through() {
        let mut rig = occupied(Params::default());
        for (class, lba) in [
            (PriorityClass::Idle, 100),
            (PriorityClass::BestEffort, 200),
            (PriorityClass::RealTime, 900),
            (PriorityClass::RealTime, 300),
        ] {
            rig.submit(read_as(class, lba));
        }
        assert_eq!(rig.drain()[1..], [300, 900, 200, 100]);
    }

    /// The device has room, but a best-effort read is still in it.
    #[test]
    fn a_lower_class_waits_for_what_is_in_the_device() {
        let policy = ElevatorPolicy::MqDeadline(Params::default());
        let mut rig = Rig::new(&policy, Medium::fixed(1000).deep(4));
        rig.submit(read_as(PriorityClass::BestEffort, 100));
        rig.submit(read_as(PriorityClass::Idle, 200));
        rig.host.drain();
        assert_eq!(rig.times(), [(0, 100), (1000, 200)]);
    }

    /// Real-time reads without end: an idle one goes when it has waited for ten milliseconds.
    #[test]
    fn a_lower_class_ages() {
        let prio_aging_expire = Duration(Nanos::from_millis(10));
        let mut rig = occupied(Params { prio_aging_expire, ..Params::default() });
        rig.submit(read_as(PriorityClass::Idle, 100));
        for n in 0..30 {
            rig.submit(read_as(PriorityClass::RealTime, 1000 * (n + 1)));
        }
        rig.host.drain();
        let at = rig.times().into_iter().find(|&(_, lba)| lba == 100);
        assert_eq!((at, rig.count("aged")), (Some((10_000, 100)), 1));
    }

    /// The same where none of them waits: the device has them all, and always one.
    #[test]
    fn a_lower_class_ages_while_a_higher_one_is_in_the_device() {
        let prio_aging_expire = Duration(Nanos::from_millis(10));
        let params = Params { prio_aging_expire, ..Params::default() };
        let policy = ElevatorPolicy::MqDeadline(params);
        let mut rig = Rig::new(&policy, Medium::fixed(1000).deep(4));
        rig.submit(read_as(PriorityClass::RealTime, 1000));
        rig.submit(read_as(PriorityClass::Idle, 100));
        for n in 1..30 {
            rig.submit(read_as(PriorityClass::RealTime, 1000 * (n + 1)));
            rig.until_us(1000 * n - 500);
        }
        rig.host.drain();
        let at = rig.times().into_iter().find(|&(_, lba)| lba == 100);
        assert_eq!((at, rig.count("aged")), (Some((10_000, 100)), 1));
    }

    /// A write that has waited for long goes before a younger read of its class, as Linux asks the
    /// class for its next, and not for its oldest.
    #[test]
    fn a_write_of_a_lower_class_ages_beside_a_younger_read() {
        let prio_aging_expire = Duration(Nanos::from_millis(10));
        let mut rig = occupied(Params { prio_aging_expire, ..Params::default() });
        let write = Request::write(Lba(100), 8);
        rig.submit(Request { process: 1, ..write });
        for n in 0..30 {
            rig.submit(read_as(PriorityClass::RealTime, 1000 * (n + 1)));
        }
        rig.until_us(8500);
        rig.submit(read_as(PriorityClass::BestEffort, 200));
        rig.host.drain();
        let at = rig.times().into_iter().find(|&(_, lba)| lba == 100);
        assert!(at.is_some_and(|(us, _)| us <= 12_000), "{at:?}");
    }

    /// Deadlines are in ticks: of two that came in one, neither comes before the other, so the sum
    /// of both has the place of the one that took the other in.
    #[test]
    fn deadlines_of_one_tick_are_equal() {
        for (hz, expected) in [(250, [500, 292]), (10_000, [292, 500])] {
            let params = Params { hz, by_position: false, fifo_batch: 1, ..Params::default() };
            let mut rig = occupied(params);
            for (process, lba, until_us) in [(1, 308, 300), (2, 500, 600), (3, 292, 700)] {
                rig.write(process, lba, 8);
                rig.until_us(until_us);
            }
            rig.write(3, 300, 8);
            assert_eq!(rig.drain()[1..], expected, "{hz}");
        }
    }

    #[test]
    fn async_depth_leaves_reads_the_rest_of_the_pool() {
        let mut rig = occupied(Params { async_depth: 192, ..Params::default() });
        for n in 0..300 {
            rig.write(1, 1000 * n, 8);
        }
        // Of 256 requests 192 may be theirs, and one is in the device.
        assert_eq!(rig.count("waited_for_request"), 1);
        rig.read(2, 7, 8);
        rig.until_us(1000);
        assert_eq!(rig.order()[1], 7, "the read had a request at once");
        assert_eq!(rig.drain().len(), 302);
    }

    #[test]
    fn an_async_depth_beyond_the_pool_is_refused() {
        let params = Params { async_depth: 65, ..Params::default() };
        let context = Context { nr_requests: 64, rotational: true };
        let error = params.build(&context).unwrap_err().to_string();
        assert_eq!(error, "async_depth: expected 0 to 64, got 65");
    }
}
