//! The world of one run: three devices, virtual time, the core, and what the host saw of it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::rc::Rc;

use sim::{Digest, Nanos, Rng};

use super::disk::{self, Disk, Effect};
use super::history::{History, Violation};
use super::host::Request;
use super::older::{Aside, Kept};
use super::plan::TorturePlan;
use super::{Report, SPAN_MAX};
use crate::core::{Action, Content, Core, Event, HostId, Io, IoError, Meta, Notice, Source, State};
use crate::policy::running::Running;
use crate::types::{DEVICES, Slot, Span};

/// A device and its moods.
#[derive(Clone, Debug)]
pub(super) struct Device {
    /// It answers nothing before this.
    pub(super) stalled_until: u64,
    /// It was stalled for long: not a freeze but a hang.
    pub(super) hung: bool,
    /// Every request ends with an error.
    pub(super) failing: bool,
    /// The next requests end with errors.
    pub(super) errors: u32,
    /// It answers no read of data with anything but an error before this.
    pub(super) blind_until: u64,
    /// Requests take so much longer, before that moment.
    pub(super) slow: (u64, u64),
    /// When it was stalled or slow last, in the time that the server ran.
    pub(super) late_at: Option<Nanos>,
    /// The next read of data returns another block's content first.
    pub(super) misreads: bool,
    /// It is not there.
    pub(super) absent: bool,
    /// What comes back in its place is a new medium.
    pub(super) blank: bool,
    /// What a request takes, in nanoseconds.
    base_ns: u64,
}

impl Device {
    /// Does it answer with errors, or not for long?
    pub(super) fn is_broken(&self) -> bool {
        self.failing || self.hung || self.errors > 0
    }
}

#[derive(Clone, Debug)]
pub(super) enum Op {
    Read(Span),
    Write(Effect),
    Flush(u32),
}

#[derive(Clone, Debug)]
pub(super) struct Flying {
    pub(super) slot: Slot,
    pub(super) io: Io,
    pub(super) op: Op,
}

/// A copy that is wrong, and that something must find before it may matter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latent {
    pub(super) slot: Slot,
    pub(super) block: u64,
    pub(super) right: u64,
}

pub(super) struct World<'p> {
    pub(super) plan: &'p TorturePlan,
    pub(super) rng: Rng,
    pub(super) now: u64,
    pub(super) core: Core,
    pub(super) disks: [Disk; DEVICES],
    pub(super) devices: [Device; DEVICES],
    pub(super) events: BinaryHeap<Reverse<(u64, u64, u32)>>,
    sequence: u64,
    pub(super) flying: Vec<Option<Flying>>,
    pub(super) free: Vec<u32>,
    pub(super) buffers: BTreeMap<Io, [u64; SPAN_MAX * 4]>,
    pub(super) requests: BTreeMap<HostId, Request>,
    pub(super) next_id: u32,
    pub(super) outstanding: usize,
    /// Values of zeros by their checksum.
    pub(super) zeros: BTreeMap<u32, u64>,
    /// Partial writes to be merged.
    pub(super) merges: VecDeque<HostId>,
    pub(super) history: History,
    pub(super) latent: Vec<Latent>,
    /// Both copies of this block are wrong alike, until a read of it fails.
    pub(super) alike: Option<u64>,
    /// What a device once was.
    pub(super) kept: Option<Kept>,
    /// Such a thing is in a device's place.
    pub(super) aside: Option<Aside>,
    /// What has been read of a block that may be lost, if it is: by block.
    pub(super) may_lose: BTreeMap<u64, u32>,
    /// Blocks that could not be read at some time.
    pub(super) were_unreadable: BTreeSet<(Slot, u64)>,
    /// A leg that is alone could not read what may be lost; requests up to this one may fail.
    pub(super) failed_requests: HostId,
    pub(super) running: Running,
    /// A read was misdirected; requests up to this one may still be at it.
    pub(super) misread_until: HostId,
    /// At the last power cut the device was being left out.
    pub(super) leaving: [bool; DEVICES],
    /// Devices that were out before the last event.
    pub(super) out_before: [bool; DEVICES],
    /// Neither the mode nor the membership changed since the start.
    pub(super) steady: bool,
    pub(super) stopped: bool,
    pub(super) scrubbed: bool,
    pub(super) report: Report,
    pub(super) digest: Digest,
    pub(super) trouble: Option<Violation>,
    /// Who wants to read what happens.
    pub(super) log: Option<Log<'p>>,
}

/// Takes what happens, a line at a time.
pub type Log<'p> = &'p mut dyn FnMut(std::fmt::Arguments<'_>);

impl<'p> World<'p> {
    pub(super) fn new(plan: &'p TorturePlan, log: Option<Log<'p>>) -> Result<World<'p>, Violation> {
        let mut rng = Rng::new(plan.seed, "world");
        let mut disks: [Disk; DEVICES] = std::array::from_fn(|_| Disk::new(&plan.geometry));
        super::restart::create(plan, &mut disks);
        let opened = super::restart::open(plan, &mut disks)?;
        let device = |slot: usize, rng: &mut Rng| Device {
            stalled_until: 0,
            hung: false,
            failing: false,
            errors: 0,
            blind_until: 0,
            slow: (0, 0),
            late_at: None,
            misreads: false,
            absent: slot == 2 && !plan.witness,
            blank: false,
            base_ns: [20_000, 4_000_000, 30_000][slot] + rng.below(1_000_000),
        };
        let devices = [device(0, &mut rng), device(1, &mut rng), device(2, &mut rng)];
        let core = Core::new(plan.config.clone(), opened, Nanos::ZERO);
        let history = History::new(disks[0].data.iter().copied());
        let mut world = World {
            plan,
            rng,
            now: 0,
            core,
            disks,
            devices,
            events: BinaryHeap::new(),
            sequence: 0,
            flying: Vec::new(),
            free: Vec::new(),
            buffers: BTreeMap::new(),
            requests: BTreeMap::new(),
            next_id: 1,
            outstanding: 0,
            zeros: BTreeMap::new(),
            merges: VecDeque::new(),
            history,
            latent: Vec::new(),
            alike: None,
            kept: None,
            aside: None,
            may_lose: BTreeMap::new(),
            were_unreadable: BTreeSet::new(),
            failed_requests: 0,
            running: Running::new(plan.config.rules, Nanos::ZERO),
            misread_until: 0,
            leaving: [false; DEVICES],
            out_before: [false; DEVICES],
            steady: true,
            stopped: false,
            scrubbed: false,
            report: Report::default(),
            digest: Digest::default(),
            trouble: None,
            log,
        };
        world.act();
        Ok(world)
    }

    /// Tell the core something and do what it wants.
    pub(super) fn tell(&mut self, event: Event<'_>) {
        self.say(format_args!("> {event:?}"));
        let time = self.running.look(Nanos(self.now));
        self.out_before = self.core.states().map(|state| state == State::Out);
        self.core.handle(time, event);
        self.act();
        let cap = self.plan.config.exposed_blocks_max;
        let exposed = self.core.exposed().0;
        if exposed > cap {
            let text = format!("{exposed} blocks are exposed, at most {cap} may be (I7)");
            self.trouble.get_or_insert(Violation(text));
        }
    }

    pub(super) fn act(&mut self) {
        loop {
            let actions: Vec<Action> = self.core.actions().collect();
            for action in actions {
                self.do_one(action);
            }
            let Some(id) = self.merges.pop_front() else { return };
            self.merge(id);
        }
    }

    /// One line for whoever replays a seed.
    pub(super) fn say(&mut self, what: std::fmt::Arguments<'_>) {
        if let Some(log) = &mut self.log {
            log(format_args!("{:>12} us {what}", self.now / 1000));
        }
    }

    fn do_one(&mut self, action: Action) {
        self.say(format_args!("< {action:?}"));
        match action {
            Action::Read { io, slot, span } => {
                if self.out_before[slot] && self.core.states()[slot] == State::Out {
                    let text = format!("{slot} is read though it is out");
                    self.trouble.get_or_insert(Violation(text));
                }
                self.send(slot, io, Op::Read(span));
            }
            Action::Write { io, slot, span, from, fua, .. } => {
                let effect = self.data(span, from, fua);
                self.send(slot, io, Op::Write(effect));
            }
            Action::Record { io, slot, page, record, payload } => {
                let mut pages = Vec::new();
                for piece in payload {
                    let request = &self.requests[&piece.id];
                    pages.extend(&request.content[..piece.span.blocks as usize]);
                }
                let record = Rc::new(*record);
                self.send(slot, io, Op::Write(Effect::Record { page, record, payload: pages }));
            }
            Action::Meta { io, slot, meta } => {
                self.check_bytes(slot, &meta);
                self.check_slots(slot, &meta);
                self.send(slot, io, Op::Write(Effect::Meta(Rc::new(meta))));
            }
            Action::Flush { io, slot } => {
                let stamp = self.disks[slot].flush_begins();
                self.send(slot, io, Op::Flush(stamp));
            }
            Action::Deliver { id, offset, blocks, from } => {
                for nth in 0..blocks {
                    let content = self.content(from, nth);
                    if let Some(request) = self.requests.get_mut(&id) {
                        request.read[(offset + nth) as usize] = content;
                    }
                }
            }
            Action::Merge { id } => self.merges.push_back(id),
            Action::Reply { id, result } => self.reply(id, result),
            Action::Free { id } => drop(self.requests.remove(&id)),
            Action::Drop { io } => drop(self.buffers.remove(&io)),
            Action::Notice(notice) => self.notice(notice),
            Action::Stopped => self.stopped = true,
        }
    }

    fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Failed => {
                let text = "no leg is left, though one device at a time was in trouble".into();
                self.trouble.get_or_insert(Violation(text));
            }
            Notice::Left(slot, why) => {
                self.steady = false;
                // Nothing looks further back than a window.
                let window = self.plan.config.lag.slow.unwrap_or_default().window;
                let now = self.running.at(Nanos(self.now));
                let recently = |at: Nanos| at + window + Nanos::from_secs(10) >= now;
                if why.is_late() && !self.devices[slot].late_at.is_some_and(recently) {
                    let text = format!("{slot} is left out ({why:?}) though it was never late");
                    self.trouble.get_or_insert(Violation(text));
                }
            }
            Notice::Filling(_) | Notice::Joined(_) => self.steady = false,
            Notice::Scrubbed => self.scrubbed = true,
            Notice::Undecided(block) if self.alike == Some(block) => {}
            Notice::Undecided(block) => {
                let on = [0, 1].map(|leg: usize| self.disks[leg].data[block as usize]);
                let latent = self.latent.clone();
                self.say(format_args!("! undecided {block}: {on:x?}, {latent:x?}"));
                let text = format!("block {block}: the copies differ and nothing decides");
                self.trouble.get_or_insert(Violation(text));
            }
            Notice::Lost(block) => self.lost(block),
            Notice::Mismatch(leg, block) => {
                let rates = self.plan.rates;
                let only = rates.error + rates.corrupt + rates.vanish == 0
                    && self.devices.iter().all(|device| device.blind_until == 0);
                if only && !self.were_unreadable.contains(&(leg, block)) {
                    let text = format!("block {block} of {leg} is condemned, but was never bad");
                    self.trouble.get_or_insert(Violation(text));
                }
            }
            Notice::Frozen(..) | Notice::Unreadable(_) => {}
        }
    }

    /// One run in sixteen sends every metadata page through its bytes.
    fn check_bytes(&mut self, slot: Slot, meta: &Meta) {
        if self.plan.seed.is_multiple_of(16) && !super::media::survives_its_bytes(slot, meta) {
            let text = format!("{meta:?} is not what its bytes say");
            self.trouble.get_or_insert(Violation(text));
        }
    }

    /// While one slot of a page of the table is being written, the other holds the newest one.
    fn check_slots(&mut self, slot: Slot, meta: &Meta) {
        let Meta::Table(page) = meta else { return };
        let out = self.flying.iter().flatten().filter(|flying| flying.slot == slot);
        let twice = { out }.any(|flying| match &flying.op {
            Op::Write(Effect::Meta(out)) => {
                matches!(&**out, Meta::Table(other) if other.index == page.index)
            }
            _ => false,
        });
        if twice && self.core.states()[slot] == State::Member {
            let text = format!("both slots of page {} of the table are out on {slot}", page.index);
            self.trouble.get_or_insert(Violation(text));
        }
    }

    fn content(&self, from: Source, nth: u32) -> u64 {
        match from {
            Source::Host { id, offset } => self.requests[&id].content[(offset + nth) as usize],
            Source::Read { io, offset } => self.buffers[&io][(offset + nth) as usize],
        }
    }

    fn data(&self, span: Span, from: Source, fua: bool) -> Effect {
        let mut content = [0; SPAN_MAX];
        for nth in 0..span.blocks {
            content[nth as usize] = self.content(from, nth);
        }
        Effect::Data { start: span.start, content, blocks: span.blocks, fua }
    }

    fn send(&mut self, slot: Slot, io: Io, op: Op) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.flying.push(None);
            self.flying.len() as u32 - 1
        });
        self.flying[index as usize] = Some(Flying { slot, io, op });
        let device = &mut self.devices[slot];
        let mut service = device.base_ns / 2 + self.rng.below(device.base_ns);
        if self.now < device.slow.1 {
            service += device.slow.0;
            device.late_at = Some(self.running.at(Nanos(self.now + service)));
        }
        let at = self.now.max(device.stalled_until) + service;
        self.schedule(at, index);
    }

    pub(super) fn schedule(&mut self, at: u64, index: u32) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, index)));
    }

    /// Go to the next thing that happens. False when nothing will.
    pub(super) fn step(&mut self) -> bool {
        let event = self.events.peek().map(|Reverse((at, ..))| *at);
        let timer = self.core.next_timer().map(|at| self.running.on_clock(at).0);
        if let Some(next) = event.into_iter().chain(timer).min() {
            self.running.sleep(Nanos(next), false);
        }
        match (event, timer) {
            (None, None) => return false,
            (event, Some(timer)) if event.is_none_or(|event| timer < event) => {
                self.now = self.now.max(timer);
                self.tell(Event::Tick);
                return true;
            }
            _ => {}
        }
        let Some(Reverse((at, _, index))) = self.events.pop() else { return false };
        self.now = self.now.max(at);
        self.digest.add(at ^ u64::from(index) << 48);
        let Some(Flying { slot, .. }) = &self.flying[index as usize] else { return true };
        let device = &self.devices[*slot];
        if device.stalled_until > self.now {
            let at = device.stalled_until + self.rng.below(device.base_ns);
            self.schedule(at, index);
            return true;
        }
        self.land(index);
        true
    }

    /// A device request completes.
    fn land(&mut self, index: u32) {
        let Some(Flying { slot, io, op }) = self.flying[index as usize].take() else { return };
        self.free.push(index);
        let device = &mut self.devices[slot];
        device.hung &= device.stalled_until > self.now;
        let unreadable = match &op {
            Op::Read(span) => {
                let bad = &self.disks[slot].unreadable;
                let blind = device.blind_until > self.now;
                let losable =
                    |block: u64| bad.contains(&block) && self.may_lose.contains_key(&block);
                if blind || span.iter().any(losable) {
                    self.failed_requests = self.next_id.into();
                }
                blind || span.iter().any(|block| bad.contains(&block))
            }
            _ => false,
        };
        let failed = device.failing || device.absent || device.errors > 0 || unreadable;
        device.errors = device.errors.saturating_sub(1);
        if failed {
            // A request that failed may have done its work all the same.
            if let (Op::Write(effect), false) = (&op, device.absent || self.rng.below(2) == 0) {
                self.apply(slot, effect);
            }
            return self.tell(Event::Done { io, result: Err(IoError) });
        }
        match op {
            Op::Read(span) => {
                let mut content = [0; SPAN_MAX * 4];
                let mut sums = [0; SPAN_MAX * 4];
                let misread = std::mem::take(&mut self.devices[slot].misreads);
                if misread {
                    self.misread_until = self.next_id.into();
                }
                for (nth, block) in span.iter().enumerate() {
                    let from = if misread && nth == 0 {
                        (block + 1) % self.plan.geometry.blocks
                    } else {
                        block
                    };
                    content[nth] = self.disks[slot].data[from as usize];
                    sums[nth] = disk::sum(block, content[nth]);
                }
                self.buffers.insert(io, content);
                let sums = &sums[..span.blocks as usize];
                self.tell(Event::Done { io, result: Ok(sums) });
            }
            Op::Write(effect) => {
                self.apply(slot, &effect);
                self.tell(Event::Done { io, result: Ok(&[]) });
            }
            Op::Flush(stamp) => {
                self.disks[slot].flush_ends(stamp);
                self.tell(Event::Done { io, result: Ok(&[]) });
            }
        }
    }

    fn apply(&mut self, slot: Slot, effect: &Effect) {
        self.disks[slot].apply(effect);
        if let (Effect::Data { start, blocks, .. }, false) = (effect, self.latent.is_empty()) {
            let span = Span::new(*start, *blocks);
            let written = |l: &Latent| l.slot == slot && span.iter().contains(&l.block);
            for latent in self.latent.extract_if(.., |latent| written(latent)) {
                // Should a power cut take the write, the wrong copy must not be back: that would
                // be two faults at once.
                self.disks[slot].keep_under(latent.block, latent.right);
            }
        }
    }

    /// The value of a new write; zeros have one, too, so that they can be told apart.
    pub(super) fn value(&mut self, content: Content, span: Span) -> [u64; SPAN_MAX] {
        let id = u64::from(self.next_id);
        let value = id << 32 | id;
        if content == Content::Zeros {
            for block in span.iter() {
                self.zeros.insert(disk::sum(block, value), value);
            }
        }
        [value; SPAN_MAX]
    }
}
