//! The NAND model: executes flash operations on channels, dies and planes in time.
//!
//! A die does one thing at a time (or one multi-plane group). Every operation goes through up to
//! three phases: command and data on the channel, the array (tR, tPROG, tBERS), data out on the
//! channel. Reads of the host and of mapping tables come first, then writes and erases in the
//! order they were planned, then background reads. The order of writes on a die never changes, so
//! the pages of a block are programmed in order.

use sim::{Completions, EventHeap, Nanos, Span, snapshot_fields};

use super::ageing::Ageing;
use super::event::Event;
use super::geometry::{Geometry, PLANES_PER_DIE_MAX};
use super::plan::{Cause, FlashOp, Kind, Rebuilt};
use super::timing::{MultiPlane, Phases, Timing};

mod cache;
mod channel;
mod queue;
mod suspend;
#[cfg(test)]
mod tests;

use channel::{Channel, Transfer};
use queue::{Entry, List, NIL, Slab};

/// Who is told when an operation ends; the NAND model does not look at it.
pub type Target = u32;

/// Where an operation waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Reads that somebody waits for.
    Read,
    /// Programs, copy-backs and erases; in planned order.
    Write,
    /// Reads nobody waits for.
    BackgroundRead,
}

/// An operation that ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Finished {
    /// The operation.
    pub op: FlashOp,
    /// Who planned it.
    pub target: Target,
}

/// What a die is doing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum State {
    #[default]
    Idle,
    /// Command and data in: waiting for the channel or on it.
    In,
    /// Reading, programming or erasing until `array_end`.
    Array,
    /// Data out: waiting for the channel or on it.
    Out,
    /// Read, while the cache register still has the data of the reads before.
    Held,
}

/// The operations a die works on: entries of the slab, linked.
#[derive(Clone, Copy, Debug)]
struct Group {
    head: u32,
    kind: Kind,
    cause: Cause,
    /// Time of the array phase: that of the longest operation.
    array: Nanos,
    /// Time to transfer out the data of `head`.
    bus_out: Nanos,
}

impl Default for Group {
    fn default() -> Group {
        let (kind, cause) = (Kind::Read, Cause::Host);
        Group { head: NIL, kind, cause, array: Nanos::ZERO, bus_out: Nanos::ZERO }
    }
}

impl Group {
    fn is_empty(&self) -> bool {
        self.head == NIL
    }
}

snapshot_fields!(Group { head, kind, cause, array, bus_out });

#[derive(Clone, Default, Debug)]
struct Die {
    state: State,
    /// Events of earlier generations are stale: the array phase was suspended.
    generation: u8,
    reads: List,
    writes: List,
    background: List,
    current: Group,
    /// Reads whose data are in the cache register on their way out ([`Timing::cache_read`]).
    sending: Group,
    /// When the command of the present array phase, and its data, began to come in; the start of
    /// that phase when the channel told of it itself.
    sent: Nanos,
    array_start: Nanos,
    array_end: Nanos,
    /// What a read pushed aside, and its remaining array time.
    suspended: Option<(Group, Nanos)>,
    /// Added to the next array phase: the time a suspend takes.
    penalty: Nanos,
    /// Array time by kind, in nanoseconds.
    busy: [u64; 4],
}

sim::snapshot_enum!(State { Idle, In, Array, Out, Held });

snapshot_fields!(Die {
    state,
    generation,
    reads,
    writes,
    background,
    current,
    sending,
    sent,
    array_start,
    array_end,
    suspended,
    penalty,
    busy
});

/// The flash array in time.
#[derive(Clone, Debug)]
pub struct Nand {
    geometry: Geometry,
    timing: Timing,
    slab: Slab,
    dies: Vec<Die>,
    channels: Vec<Channel>,
    /// Programs are not suspended now.
    programs_hold: bool,
    ageing: Ageing,
}

snapshot_fields!(Nand { slab, dies, channels, programs_hold, ageing });

/// Lanes of the event queue: these events mostly come in rising order.
const READ_LANE: usize = 0;
const PROGRAM_LANE: usize = 1;
const BUS_LANE: usize = 2;

impl Nand {
    /// An idle array.
    pub fn new(geometry: Geometry, timing: Timing) -> Nand {
        Nand {
            slab: Slab::default(),
            dies: vec![Die::default(); geometry.dies() as usize],
            channels: vec![Channel::default(); geometry.channels as usize],
            ageing: Ageing::new(&geometry, timing.retry),
            geometry,
            timing,
            programs_hold: false,
        }
    }

    /// From now on programs are suspended for reads, or not.
    #[inline]
    pub fn hold_programs(&mut self, hold: bool) {
        self.programs_hold = hold;
    }

    /// The timing table.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// True when the die has nothing to do and nothing waiting.
    #[inline]
    pub fn is_idle(&self, die: u32) -> bool {
        let die = &self.dies[die as usize];
        die.state == State::Idle
            && die.reads.is_empty()
            && die.writes.is_empty()
            && die.suspended.is_none()
            && die.sending.is_empty()
    }

    /// True when no operation is inside.
    pub fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// Hand over an operation; returns its slot. A blocked one keeps its place in the queue but
    /// does not start before [`Nand::unblock`].
    #[inline]
    pub fn enqueue(&mut self, op: FlashOp, target: Target, class: Class, blocked: bool) -> u32 {
        let plane = self.geometry.plane_of(op.ppn());
        let die = self.geometry.die_of_plane(plane);
        let slot = self.slab.insert(op, target, (plane % PLANES_PER_DIE_MAX) as u8, blocked);
        let die = &mut self.dies[die as usize];
        let list = match class {
            Class::Read => &mut die.reads,
            Class::Write => &mut die.writes,
            Class::BackgroundRead => &mut die.background,
        };
        list.push(&mut self.slab, slot);
        slot
    }

    /// Let a blocked operation start; returns its die, which the caller kicks.
    pub fn unblock(&mut self, slot: u32) -> u32 {
        self.slab[slot].blocked = false;
        self.geometry.die_of_plane(self.geometry.plane_of(self.slab[slot].op.ppn()))
    }

    /// The power failed. Programs and erases whose array phase has begun end: a drive holds its
    /// energy that long. Everything else is forgotten. Returns both, each oldest first.
    pub fn power_fail(&mut self, now: Nanos) -> (Vec<FlashOp>, Vec<FlashOp>) {
        let mut ending = Vec::new();
        for die in &mut self.dies {
            let begun = die.state == State::Array && die.array_start <= now;
            let running = (begun && die.current.kind != Kind::Read).then_some(die.current);
            for group in running.into_iter().chain(die.suspended.map(|(group, _)| group)) {
                let mut slot = group.head;
                while slot != NIL {
                    let next = self.slab[slot].next;
                    ending.push(self.slab.remove(slot).0);
                    slot = next;
                }
            }
            let busy = die.busy;
            *die = Die { busy, ..Die::default() };
        }
        self.channels.iter_mut().for_each(Channel::clear);
        self.programs_hold = false;
        (ending, self.slab.drain())
    }

    /// How long a rebuild takes when every die works all the time, one operation after another.
    pub fn rebuild_time(&self, rebuilt: Rebuilt) -> Nanos {
        let all = self.timing.rebuild_ns(rebuilt, self.geometry.page_sectors);
        Nanos(all / u64::from(self.geometry.dies()))
    }

    /// Start what the die can start now.
    #[inline]
    pub fn kick(&mut self, die: u32, now: Nanos, events: &mut EventHeap) {
        match self.dies[die as usize].state {
            State::Idle => self.dispatch(die, now, events),
            State::Array if !self.dies[die as usize].reads.is_empty() => {
                self.try_suspend(die, now, events);
            }
            _ => {}
        }
    }

    fn dispatch(&mut self, die_index: u32, now: Nanos, events: &mut EventHeap) {
        let die = &mut self.dies[die_index as usize];
        let list = if !die.reads.is_empty() {
            &mut die.reads
        } else if !die.sending.is_empty() {
            // Only reads leave the cache register to what is in it.
            return;
        } else if let Some((group, remaining)) = die.suspended.take() {
            die.current = group;
            self.start_array(die_index, remaining, now, events);
            return;
        } else if die.writes.ready(&self.slab) {
            &mut die.writes
        } else if !die.background.is_empty() {
            &mut die.background
        } else {
            return;
        };
        let slot = list.pop(&mut self.slab);
        let op = self.slab[slot].op;
        let Phases { mut bus_in, mut array, bus_out } = self.timing.phases(&self.geometry, op);
        let reads_at_once = self.timing.planes_as_one > 1 && op.kind() == Kind::Read;
        if self.timing.multi_plane != MultiPlane::Off || reads_at_once {
            let (geometry, timing) = (&self.geometry, &self.timing);
            let more = gather(list, &mut self.slab, geometry, timing, slot);
            bus_in += more.bus_in;
            array = array.max(more.array);
        }
        if self.ageing.is_on() {
            array = with_retries(&mut self.ageing, &self.slab, &self.geometry, &self.timing, slot);
        }
        let (array, bus_out) = (Nanos(array), Nanos(bus_out));
        die.current = Group { head: slot, kind: op.kind(), cause: op.cause(), array, bus_out };
        if bus_in > 0 {
            die.state = State::In;
            self.request_bus(die_index, Nanos(bus_in), false, now, events);
        } else {
            self.start_array(die_index, array, now, events);
        }
    }

    /// The array phase of what the die has begun starts at `start`.
    fn start_array(&mut self, index: u32, time: Nanos, start: Nanos, events: &mut EventHeap) {
        let die = &mut self.dies[index as usize];
        let time = time + std::mem::take(&mut die.penalty);
        die.state = State::Array;
        (die.sent, die.array_start) = (start, start);
        die.array_end = start + time;
        die.busy[die.current.kind as usize] += time.0;
        let payload = Event::Array { die: index, generation: die.generation }.pack();
        match die.current.kind {
            Kind::Read => events.push_lane(READ_LANE, die.array_end, payload),
            Kind::Program => events.push_lane(PROGRAM_LANE, die.array_end, payload),
            _ => events.push(die.array_end, payload),
        }
    }

    /// [`Event::Array`]: ended operations go to `finished`. Returns the die that became idle, which
    /// the caller kicks after it has looked at `finished`.
    #[inline]
    pub fn array_ended(
        &mut self,
        (index, generation): (u32, u8),
        now: Nanos,
        events: &mut EventHeap,
        finished: &mut Vec<Finished>,
        out: &mut Completions,
    ) -> Option<u32> {
        let die = &mut self.dies[index as usize];
        // Counts come again after 256: what was pushed aside that long ago is known by its time.
        let is_stale = die.generation != generation || die.array_end != now;
        if is_stale || die.state != State::Array {
            return None;
        }
        let Group { kind, cause, .. } = die.current;
        let (sent, start) = (die.sent, die.array_start);
        if sent < start {
            let unit = self.dies.len() as u32 + self.geometry.channel_of_die(index);
            out.span(|| transferred(unit, sent, start));
        }
        out.span(|| Span { unit: index, what: kind.name(), cause: cause.name(), start, end: now });
        let die = &mut self.dies[index as usize];
        if kind == Kind::Read {
            if self.timing.cache_read {
                return self.read_behind_a_cache(index, now, events);
            }
            die.state = State::Out;
            let time = die.current.bus_out;
            self.request_bus(index, time, true, now, events);
            return None;
        }
        Some(self.group_ended(index, finished))
    }

    fn group_ended(&mut self, index: u32, finished: &mut Vec<Finished>) -> u32 {
        let die = &mut self.dies[index as usize];
        die.state = State::Idle;
        let mut slot = die.current.head;
        while slot != NIL {
            let next = self.slab[slot].next;
            let (op, target) = self.slab.remove(slot);
            finished.push(Finished { op, target });
            slot = next;
        }
        index
    }

    fn request_bus(
        &mut self,
        die: u32,
        time: Nanos,
        out: bool,
        now: Nanos,
        events: &mut EventHeap,
    ) {
        let index = self.geometry.channel_of_die(die);
        let channel = &mut self.channels[index as usize];
        if channel.is_free(now) {
            self.transfer(index, (die, time, out), now, events);
        } else if let Some(end) = channel.wait(die, time, out) {
            events.push_lane(BUS_LANE, end, Event::Transfer(index).pack());
        }
    }

    /// Begin a transfer on a free channel. What comes meanwhile pushes aside only programs and
    /// erases: of all else it is known now when the array phase starts, so that the end of the
    /// transfer needs no event of its own.
    fn transfer(
        &mut self,
        channel: u32,
        (index, time, out): (u32, Nanos, bool),
        now: Nanos,
        events: &mut EventHeap,
    ) {
        let Group { kind, array, .. } = self.dies[index as usize].current;
        let transfer = if out {
            Transfer::Out
        } else if self.suspends(kind).is_some() {
            Transfer::In
        } else {
            self.start_array(index, array, now + time, events);
            self.dies[index as usize].sent = now;
            Transfer::Foreseen
        };
        if let Some(end) = self.channels[channel as usize].start(index, time, transfer, now) {
            events.push_lane(BUS_LANE, end, Event::Transfer(channel).pack());
        }
    }

    /// [`Event::Transfer`], as [`Nand::array_ended`].
    pub fn transfer_ended(
        &mut self,
        index: u32,
        now: Nanos,
        events: &mut EventHeap,
        finished: &mut Vec<Finished>,
        out: &mut Completions,
    ) -> Option<u32> {
        let dies = self.dies.len() as u32;
        let channel = &mut self.channels[index as usize];
        let (die, transfer, start) = channel.ended();
        if let Some(next) = channel.next() {
            self.transfer(index, next, now, events);
        }
        if transfer == Transfer::Foreseen {
            return None;
        }
        out.span(|| transferred(dies + index, start, now));
        if transfer == Transfer::Out && self.timing.cache_read {
            return self.sent_from_the_cache(die, now, events, finished);
        }
        if transfer == Transfer::In {
            let array = self.dies[die as usize].current.array;
            self.start_array(die, array, now, events);
            // A read may have come while the data went in.
            if !self.dies[die as usize].reads.is_empty() {
                self.try_suspend(die, now, events);
            }
            return None;
        }
        if !self.first_is_out(die, false, now, events, finished) {
            return None;
        }
        self.dies[die as usize].state = State::Idle;
        Some(die)
    }

    /// The data of the first read that a die sends are out, of those in its cache register or of
    /// its current ones. True when it was the last.
    #[inline]
    fn first_is_out(
        &mut self,
        index: u32,
        cached: bool,
        now: Nanos,
        events: &mut EventHeap,
        finished: &mut Vec<Finished>,
    ) -> bool {
        let die = &mut self.dies[index as usize];
        let group = if cached { &mut die.sending } else { &mut die.current };
        let slot = group.head;
        group.head = self.slab[slot].next;
        let (op, target) = self.slab.remove(slot);
        finished.push(Finished { op, target });
        if group.is_empty() {
            return true;
        }
        let next = self.slab[group.head].op;
        group.bus_out = Nanos(self.timing.phases(&self.geometry, next).bus_out);
        let time = group.bus_out;
        self.request_bus(index, time, true, now, events);
        false
    }

    /// Large tables become shared.
    pub fn freeze(&mut self) {
        self.ageing.freeze();
    }

    /// Busy time of every die (by kind) and channel.
    pub fn counters(&self, out: &mut sim::Counters) {
        self.ageing.counters(out);
        for (index, die) in self.dies.iter().enumerate() {
            let channel = self.geometry.channel_of_die(index as u32);
            let in_channel = index as u32 - channel * self.geometry.dies_per_channel.get();
            let mut busy: Vec<_> =
                Kind::ALL.iter().map(|k| (k.name(), Nanos(die.busy[*k as usize]))).collect();
            // A phase that is still running was counted in full when it began.
            busy.retain(|&(name, _)| name != "copyback");
            busy[1].1 += Nanos(die.busy[Kind::CopyBack as usize]);
            out.units.push(sim::Unit::medium(format!("channel{channel}.die{in_channel}"), busy));
        }
        for (index, channel) in self.channels.iter().enumerate() {
            let busy = vec![("transfer", channel.busy())];
            out.units.push(sim::Unit::medium(format!("channel{index}"), busy));
        }
    }
}

/// A transfer on the channel of this unit.
fn transferred(unit: u32, start: Nanos, end: Nanos) -> Span {
    Span { unit, what: "transfer", cause: "host", start, end }
}

/// The longest array time of the group that begins at `slot`, with its retries.
fn with_retries(
    ageing: &mut Ageing,
    slab: &Slab,
    geometry: &Geometry,
    timing: &Timing,
    mut slot: u32,
) -> u64 {
    let mut longest = 0;
    while slot != NIL {
        let op = slab[slot].op;
        longest = longest.max(timing.phases(geometry, op).array + ageing.begins(geometry, op));
        slot = slab[slot].next;
    }
    longest
}

/// Link operations of other planes behind the group's first one, oldest first; returns the sum of
/// their bus times in and the longest array time. An operation never overtakes an older one of its
/// plane. Where planes are one, reads of the host share what is sensed of a page of the flash.
fn gather(
    list: &mut List,
    slab: &mut Slab,
    geometry: &Geometry,
    timing: &Timing,
    first: u32,
) -> Phases {
    let (mode, ppn) = (slab[first].op.mode(), slab[first].op.ppn());
    let page = geometry.block_page(ppn).1;
    let as_one = timing.planes_as_one;
    let alone = as_one > 1 && slab[first].op.kind() == Kind::Read;
    let plane_bit = |plane: u8, ppn| {
        let within = if alone { timing.plane_within(geometry.block_page(ppn).1) } else { 0 };
        1_u64 << (u32::from(plane) * as_one + within)
    };
    let shares = alone && slab[first].op.cause() == Cause::Host;
    let is_sensed = |other: FlashOp| {
        let same = timing.flash_page(other.ppn()) == timing.flash_page(ppn);
        shares && same && other.cause() == Cause::Host
    };
    let mut planes_seen = plane_bit(slab[first].plane, ppn);
    let mut more = Phases { bus_in: 0, array: 0, bus_out: 0 };
    let (mut previous, mut slot, mut last) = (NIL, list.head(), first);
    // Two rounds over the planes, or their pages: further back nothing fits in practice.
    let each = if shares { timing.units() } else { as_one };
    for _ in 0..2 * geometry.planes_per_die.get() * each {
        if slot == NIL {
            break;
        }
        let Entry { op, blocked, plane, next, .. } = slab[slot];
        let plane_bit = plane_bit(plane, op.ppn());
        let same_page = alone
            || timing.multi_plane == MultiPlane::AnyPage
            || geometry.block_page(op.ppn()).1 == page;
        let fits = op.mode() == mode && same_page && !blocked;
        if fits && (planes_seen & plane_bit == 0 || is_sensed(op)) {
            list.unlink_after(slab, previous);
            slab[last].next = slot;
            last = slot;
            let phases = timing.phases(geometry, op);
            more.bus_in += phases.bus_in;
            more.array = more.array.max(phases.array);
        } else {
            previous = slot;
        }
        planes_seen |= plane_bit;
        slot = next;
    }
    more
}
