//! The core at devices that always take the same time, cannot read some blocks, or answer no read.

mod failed;
mod joiner;
mod late;
mod lost;
mod returned;
mod stop;

use std::collections::{BTreeMap, BTreeSet};

use sim::Nanos;

use super::event::{Action, Command, Content, Event, HostId, Io, IoError, Meta, Notice, Source};
use super::{Config, Core, Opened, State};
use crate::format::Geometry;
use crate::format::maps::LOST;
use crate::types::{FAST, LEGS, Mode, SLOW, Slot, Span};

const BLOCKS: u64 = 64;

fn sum(block: u64, content: u64) -> u32 {
    sim::mix64(content ^ block << 32) as u32
}

/// A device: what it holds, and what is wrong with it.
struct Leg {
    takes: Nanos,
    /// By the block's number within [`BLOCKS`].
    data: Vec<u64>,
    unreadable: BTreeSet<u64>,
    /// It tries so long to read one of them.
    tries_for: Nanos,
    /// It answers no read of data with anything but an error.
    blind: bool,
    /// It answers no write of data with anything but an error.
    refuses: bool,
    /// Reads of each block that were asked for alone.
    reads: BTreeMap<u64, u32>,
    /// Its page of the table on media.
    table: Vec<(u32, u32)>,
    /// It writes one page of the table after the other, each as long; until when it does.
    pages_take: Nanos,
    pages_until: Nanos,
    /// The most of them that it had at once.
    pages_max: usize,
    /// Its hot extents were written to it.
    has_activity: bool,
}

enum Op {
    Read(Span),
    Write(Span, Vec<u64>),
    Table(Vec<(u32, u32)>),
    Other,
}

struct Bench {
    core: Core,
    now: Nanos,
    legs: Vec<Leg>,
    flying: BTreeMap<(Nanos, Io), (Slot, Op)>,
    buffers: BTreeMap<Io, Vec<u64>>,
    hosts: BTreeMap<HostId, Vec<u64>>,
    next_id: HostId,
    replies: BTreeMap<HostId, (Nanos, Result<(), IoError>)>,
    notices: Vec<Notice>,
    stopped: bool,
}

impl Bench {
    fn new(config: Config) -> Bench {
        Bench::with(config, false)
    }

    fn with(config: Config, witness: bool) -> Bench {
        Bench::opened(config, witness, |_| {})
    }

    /// Start with what `changed` makes of a mirror that is new.
    fn opened(config: Config, witness: bool, changed: impl FnOnce(&mut Opened)) -> Bench {
        let (extent_blocks, region_blocks) = (8, 16);
        let geometry = Geometry { blocks: BLOCKS, extent_blocks, region_blocks, log_pages: 64 };
        let mut opened = Opened::fresh(geometry, config.rules.mode, witness);
        changed(&mut opened);
        let leg = || Leg {
            takes: Nanos::from_millis(1),
            data: vec![0; BLOCKS as usize],
            unreadable: BTreeSet::new(),
            tries_for: Nanos::ZERO,
            blind: false,
            refuses: false,
            reads: BTreeMap::new(),
            table: vec![(0, 0); BLOCKS as usize],
            pages_take: Nanos::ZERO,
            pages_until: Nanos::ZERO,
            pages_max: 0,
            has_activity: false,
        };
        let mut bench = Bench {
            core: Core::new(config, opened, Nanos::ZERO),
            now: Nanos::ZERO,
            legs: vec![leg(), leg(), leg()],
            flying: BTreeMap::new(),
            buffers: BTreeMap::new(),
            hosts: BTreeMap::new(),
            next_id: 0,
            replies: BTreeMap::new(),
            notices: Vec::new(),
            stopped: false,
        };
        bench.act();
        bench
    }

    fn tell(&mut self, event: Event<'_>) {
        self.core.handle(self.now, event);
        self.act();
    }

    fn act(&mut self) {
        let actions: Vec<Action> = self.core.actions().collect();
        for action in actions {
            match action {
                Action::Read { io, slot, span } => {
                    if span.blocks == 1 {
                        *self.legs[slot].reads.entry(span.start).or_default() += 1;
                    }
                    self.send(io, slot, Op::Read(span));
                }
                Action::Write { io, slot, span, from, .. } => {
                    let content = (0..span.blocks).map(|nth| self.content(from, nth)).collect();
                    self.send(io, slot, Op::Write(span, content));
                }
                Action::Meta { io, slot, meta: Meta::Table(page) } => {
                    self.send(io, slot, Op::Table(page.sums));
                }
                Action::Meta { io, slot, meta: Meta::Activity(_) } => {
                    self.legs[slot].has_activity = true;
                    self.send(io, slot, Op::Other);
                }
                Action::Record { io, slot, .. }
                | Action::Meta { io, slot, .. }
                | Action::Flush { io, slot } => self.send(io, slot, Op::Other),
                Action::Deliver { id, offset, blocks, from } => {
                    for nth in 0..blocks {
                        let content = self.content(from, nth);
                        self.hosts.get_mut(&id).unwrap()[(offset + nth) as usize] = content;
                    }
                }
                Action::Reply { id, result } => drop(self.replies.insert(id, (self.now, result))),
                Action::Drop { io } => drop(self.buffers.remove(&io)),
                Action::Notice(notice) => self.notices.push(notice),
                Action::Stopped => self.stopped = true,
                Action::Merge { .. } | Action::Free { .. } => {}
            }
        }
    }

    fn content(&self, from: Source, nth: u32) -> u64 {
        match from {
            Source::Host { id, offset } => self.hosts[&id][(offset + nth) as usize],
            Source::Read { io, offset } => self.buffers[&io][(offset + nth) as usize],
        }
    }

    fn send(&mut self, io: Io, slot: Slot, op: Op) {
        let leg = &mut self.legs[slot];
        let mut at = self.now + leg.takes;
        if let Op::Read(span) = &op
            && span.iter().any(|block| leg.unreadable.contains(&block))
        {
            at += leg.tries_for;
        }
        if matches!(op, Op::Table(_)) {
            if leg.pages_take > Nanos::ZERO {
                leg.pages_until = leg.pages_until.max(self.now) + leg.pages_take;
                at = leg.pages_until;
            }
            let pages = |flying: &&(Slot, Op)| flying.0 == slot && matches!(flying.1, Op::Table(_));
            leg.pages_max = leg.pages_max.max(1 + self.flying.values().filter(pages).count());
        }
        self.flying.insert((at, io), (slot, op));
    }

    /// Go to the next thing that happens; false when nothing will.
    fn step(&mut self) -> bool {
        let timer = self.core.next_timer();
        let next = self.flying.first_key_value().map(|(&(at, _), _)| at);
        let Some(at) = timer.into_iter().chain(next).min() else { return false };
        self.now = at;
        if next != Some(at) {
            self.tell(Event::Tick);
            return true;
        }
        let ((_, io), (slot, op)) = self.flying.pop_first().unwrap();
        let leg = &mut self.legs[slot];
        match op {
            Op::Read(span) => {
                let bad = |block: u64| leg.blind || leg.unreadable.contains(&block);
                if span.iter().any(bad) {
                    self.tell(Event::Done { io, result: Err(IoError) });
                    return true;
                }
                let content: Vec<u64> =
                    { span.iter() }.map(|block| leg.data[(block % BLOCKS) as usize]).collect();
                let sums: Vec<u32> = span
                    .iter()
                    .zip(&content)
                    .map(|(block, &content)| sum(block, content))
                    .collect();
                self.buffers.insert(io, content);
                self.tell(Event::Done { io, result: Ok(&sums) });
            }
            Op::Write(..) if leg.refuses => self.tell(Event::Done { io, result: Err(IoError) }),
            Op::Write(span, content) => {
                for (block, content) in span.iter().zip(content) {
                    leg.data[(block % BLOCKS) as usize] = content;
                    leg.unreadable.remove(&block);
                }
                self.tell(Event::Done { io, result: Ok(&[]) });
            }
            Op::Table(sums) => {
                leg.table = sums;
                self.tell(Event::Done { io, result: Ok(&[]) });
            }
            Op::Other => self.tell(Event::Done { io, result: Ok(&[]) }),
        }
        true
    }

    fn run_to(&mut self, end: Nanos) {
        while self.now < end && self.step() {}
        self.now = self.now.max(end);
    }

    /// Run until something is so, and for no more than an hour of its time.
    fn until(&mut self, so: impl Fn(&Bench) -> bool) {
        let end = self.now + Nanos::from_secs(3600);
        while !so(self) {
            assert!(self.now < end && self.step(), "in vain: {:?}", self.core.states());
        }
    }

    fn host(&mut self, blocks: u32, value: u64) -> HostId {
        self.next_id += 1;
        self.hosts.insert(self.next_id, vec![value; blocks as usize]);
        self.next_id
    }

    /// Begin a write of `value`.
    fn write(&mut self, span: Span, value: u64, fua: bool) -> HostId {
        let id = self.host(span.blocks, value);
        let sums: Vec<u32> = span.iter().map(|block| sum(block, value)).collect();
        self.tell(Event::Write { id, span, content: Content::Data, fua, sums: &sums });
        id
    }

    fn flush(&mut self) -> HostId {
        let id = self.host(0, 0);
        self.tell(Event::Flush { id });
        id
    }

    /// How long a request takes, and what comes of it.
    fn ends(&mut self, id: HostId) -> (Nanos, Result<(), IoError>) {
        let began = self.now;
        self.until(|bench| bench.replies.contains_key(&id));
        let (at, result) = self.replies[&id];
        (at.since(began), result)
    }

    /// Read, and what is there.
    fn read(&mut self, span: Span) -> Result<Vec<u64>, IoError> {
        let id = self.host(span.blocks, 0);
        self.tell(Event::Read { id, span });
        self.ends(id).1.map(|()| self.hosts[&id].clone())
    }

    /// Write every block, `block + 1000` to each, and wait until both legs have it.
    fn filled(&mut self) {
        for block in 0..BLOCKS {
            self.write(Span::new(block, 1), block + 1000, false);
        }
        let id = self.flush();
        self.ends(id).1.unwrap();
        self.until(|bench| bench.core.quiet());
    }

    fn settled(&mut self) {
        self.until(|bench| bench.core.quiet());
    }

    /// The leg has a new medium.
    fn replace(&mut self, leg: Slot) {
        self.legs[leg].data = vec![0; BLOCKS as usize];
        self.flying.retain(|_, (slot, _)| *slot != leg);
        self.tell(Event::Command(Command::Replace(leg)));
    }

    fn is(&self, leg: Slot, state: State) -> bool {
        self.core.states()[leg] == state
    }

    fn scrub(&mut self) {
        self.tell(Event::Command(Command::Scrub));
        self.settled();
    }

    fn said(&self, what: Notice) -> usize {
        self.notices.iter().filter(|&&notice| notice == what).count()
    }
}
