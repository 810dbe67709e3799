//! The shell around the protocol core: its actions become requests to the legs, their completions
//! become its events.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mirror::core::{Action, Config, Content, Core, Event, HostId, Io, Opened, Stats};
use mirror::format::{Geometry, Layout};
use mirror::{LEGS, Mode, Slot, Span, WITNESS};
use sim::{
    Busy, Bytes, Completions, Counters, Device, Lba, Limits, LostWrite, Nanos, Op, Request,
    RequestId, Survivors, snapshot_fields,
};

use crate::raid::legs::Legs;

/// Bytes of the mirror's blocks and metadata pages.
pub(super) const PAGE: u64 = 4096;
const PAGE_SECTORS: u64 = PAGE / sim::SECTOR_BYTES;
/// The most blocks that go through the core as one request.
const PIECE: u64 = 1024;

/// A host request on its way, and the piece of it that the core has: sectors `from` to `to`.
#[derive(Clone, Copy, Default, Debug)]
struct HostRequest {
    request: Request,
    from: u64,
    to: u64,
    end: u64,
}

snapshot_fields!(HostRequest { request, from, to, end });

impl HostRequest {
    /// The blocks that the piece touches.
    fn span(&self) -> Span {
        let (first, end) = (self.from / PAGE_SECTORS, self.to.div_ceil(PAGE_SECTORS));
        Span::new(first, (end - first) as u32)
    }

    /// Are these all the sectors of its blocks?
    fn is_whole(&self) -> bool {
        self.from.is_multiple_of(PAGE_SECTORS) && self.to.is_multiple_of(PAGE_SECTORS)
    }
}

/// A request that is out on a leg.
#[derive(Clone, Copy, Default, Debug)]
struct Out {
    io: Io,
    /// Blocks whose checksums the core wants.
    blocks: u32,
}

snapshot_fields!(Out { io, blocks });

/// The mirror as a device.
#[derive(Clone)]
pub(super) struct Mirror {
    legs: Legs,
    core: Core,
    config: Config,
    geometry: Geometry,
    limits: Limits,
    layouts: [Layout; 2],
    /// Legs that lose what they completed when the power goes.
    volatile: [bool; LEGS],
    discards: [bool; LEGS],
    out: BTreeMap<u64, Out>,
    hosts: BTreeMap<HostId, HostRequest>,
    /// Writes that the core has answered and not forgotten: when, in order, and what.
    acked: BTreeMap<HostId, (u64, Request)>,
    answers: u64,
    ready: VecDeque<(Nanos, RequestId)>,
    inside: u32,
    next_out: u64,
    next_host: u64,
    /// What earlier starts counted.
    earlier: Stats,
    failed: u64,
    /// The checksums of data that is not there.
    sums: Vec<u32>,
    done: Vec<(usize, RequestId)>,
}

snapshot_fields!(Mirror {
    legs,
    core,
    out,
    hosts,
    acked,
    answers,
    ready,
    inside,
    next_out,
    next_host,
    earlier,
    failed,
});

impl Mirror {
    pub(super) fn new(
        legs: Legs,
        geometry: Geometry,
        config: Config,
        mode: Mode,
        queue_depth_max: u32,
    ) -> Mirror {
        let both = [legs.limits(0), legs.limits(1)];
        let limits = Limits {
            capacity: Bytes(geometry.blocks * PAGE),
            block_bytes: PAGE as u32,
            queue_depth_max,
            rotational: false,
            // A plain write may be on one leg only.
            write_cache: mode != Mode::Strict || both.iter().any(|leg| leg.write_cache),
            discard: true,
        };
        let mut mirror = Mirror {
            core: open(&config, geometry, &legs, Nanos::ZERO),
            legs,
            config,
            geometry,
            limits,
            layouts: [Layout::leg(&geometry), Layout::witness(&geometry)],
            volatile: both.map(|leg| leg.write_cache),
            discards: both.map(|leg| leg.discard),
            out: BTreeMap::new(),
            hosts: BTreeMap::new(),
            acked: BTreeMap::new(),
            answers: 0,
            ready: VecDeque::new(),
            inside: 0,
            next_out: 0,
            next_host: 0,
            earlier: Stats::default(),
            failed: 0,
            sums: vec![0; (PIECE + 1) as usize],
            done: Vec::new(),
        };
        mirror.act(Nanos::ZERO);
        mirror
    }

    fn layout(&self, slot: Slot) -> &Layout {
        &self.layouts[usize::from(slot == WITNESS)]
    }

    /// Do what the core wants.
    fn act(&mut self, now: Nanos) {
        loop {
            let actions: Vec<Action> = self.core.actions().collect();
            if actions.is_empty() {
                return;
            }
            for action in actions {
                self.act_one(now, action);
            }
        }
    }

    fn act_one(&mut self, now: Nanos, action: Action) {
        match action {
            Action::Read { io, slot, span } => {
                let request = self.home(slot, Op::Read, span);
                self.send(now, slot, Out { io, blocks: span.blocks }, request);
            }
            Action::Write { io, slot, span, content, fua, .. } => {
                let zeros = content == Content::Zeros && self.discards[slot];
                let op = if zeros { Op::Discard } else { Op::Write };
                let request = Request { fua, ..self.home(slot, op, span) };
                self.send(now, slot, Out { io, blocks: 0 }, request);
            }
            Action::Record { io, slot, page, record, .. } => {
                let pages = 1 + u64::from(record.payload_pages());
                let request = metadata(self.layout(slot).log + page, pages);
                self.send(now, slot, Out { io, blocks: 0 }, request);
            }
            Action::Meta { io, slot, meta } => {
                let pages = meta.pages(self.layout(slot));
                let request = metadata(pages.start, pages.end - pages.start);
                self.send(now, slot, Out { io, blocks: 0 }, request);
            }
            Action::Flush { io, slot } => {
                self.send(now, slot, Out { io, blocks: 0 }, Request::flush());
            }
            Action::Merge { id } => {
                if let Some(host) = self.hosts.get(&id) {
                    let blocks = host.span().blocks;
                    let sums = std::mem::take(&mut self.sums);
                    self.core.handle(now, Event::Merged { id, sums: &sums[..blocks as usize] });
                    self.sums = sums;
                }
            }
            Action::Reply { id, result } => {
                self.failed += u64::from(result.is_err());
                self.replied(now, id);
            }
            Action::Free { id } => drop(self.acked.remove(&id)),
            Action::Deliver { .. } | Action::Drop { .. } => {}
            Action::Notice(_) | Action::Stopped => {}
        }
    }

    /// A request to blocks of data.
    fn home(&self, slot: Slot, op: Op, span: Span) -> Request {
        let lba = (self.layout(slot).data + span.start) * PAGE_SECTORS;
        Request::new(op, Lba(lba), span.blocks * PAGE_SECTORS as u32)
    }

    fn send(&mut self, now: Nanos, slot: Slot, out: Out, request: Request) {
        let id = self.next_out;
        self.next_out += 1;
        self.out.insert(id, out);
        self.legs.submit(now, slot, Request { id: RequestId(id), ..request });
    }

    /// The core answered a request, or a piece of one.
    fn replied(&mut self, now: Nanos, id: HostId) {
        let Some(host) = self.hosts.remove(&id) else { return };
        let HostRequest { request, from, to, end } = host;
        if request.op == Op::Write {
            let piece = Request { lba: Lba(from), sectors: (to - from) as u32, ..request };
            self.answers += 1;
            self.acked.insert(id, (self.answers, piece));
        }
        if to == end {
            self.ready.push_back((now, request.id))
        } else {
            self.piece(now, HostRequest { from: to, ..host })
        }
    }

    /// Give the core the piece of a request that begins at `from`.
    fn piece(&mut self, now: Nanos, mut host: HostRequest) {
        let Request { op, fua, .. } = host.request;
        host.to = host.end.min((host.from / PAGE_SECTORS + PIECE) * PAGE_SECTORS);
        let id = self.next_host;
        self.next_host += 1;
        self.hosts.insert(id, host);
        let sums = std::mem::take(&mut self.sums);
        let (span, whole) = (host.span(), host.is_whole());
        let event = match op {
            Op::Read => Event::Read { id, span },
            Op::Flush => Event::Flush { id },
            // What it touches only in part is read and merged first.
            Op::Write if !whole => Event::WritePart { id, span, fua },
            Op::Write | Op::Discard => {
                let content = if op == Op::Write { Content::Data } else { Content::Zeros };
                Event::Write { id, span, content, fua, sums: &sums[..span.blocks as usize] }
            }
        };
        self.core.handle(now, event);
        self.sums = sums;
    }

    /// A leg answered.
    fn answered(&mut self, now: Nanos, id: RequestId) {
        let Some(Out { io, blocks }) = self.out.remove(&id.0) else { return };
        let sums = std::mem::take(&mut self.sums);
        self.core.handle(now, Event::Done { io, result: Ok(&sums[..blocks as usize]) });
        self.sums = sums;
        self.act(now);
    }

    fn stats(&self) -> Stats {
        let mut stats = self.earlier;
        stats.add(self.core.stats());
        stats
    }
}

/// A write of metadata, durable when it completes.
fn metadata(page: u64, pages: u64) -> Request {
    Request::write(Lba(page * PAGE_SECTORS), (pages * PAGE_SECTORS) as u32).with_fua()
}

/// A new array on these legs.
fn open(config: &Config, geometry: Geometry, legs: &Legs, now: Nanos) -> Core {
    let opened = Opened::fresh(geometry, config.rules.mode, legs.count() > WITNESS);
    Core::new(config.clone(), opened, now)
}

impl Device for Mirror {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Busy> {
        if self.inside >= self.limits.queue_depth_max {
            return Err(Busy);
        }
        self.inside += 1;
        let (mut from, mut end) = (request.lba.0, request.end().0);
        if request.op == Op::Discard {
            // Whole blocks only: what is left of the others is still data.
            from = from.next_multiple_of(PAGE_SECTORS);
            end = end / PAGE_SECTORS * PAGE_SECTORS;
        }
        if from < end || request.op == Op::Flush {
            self.piece(now, HostRequest { request, from, to: from, end })
        } else {
            self.ready.push_back((now, request.id))
        }
        self.act(now);
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        let ready = self.ready.front().map(|&(at, _)| at);
        [ready, self.legs.next_event(), self.core.next_timer()].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos, out: &mut Completions) {
        loop {
            let mut done = std::mem::take(&mut self.done);
            self.legs.advance(now, out, &mut done);
            let idle = done.is_empty();
            for (_, id) in done.drain(..) {
                self.answered(now, id);
            }
            self.done = done;
            if idle {
                if self.core.next_timer().is_none_or(|at| at > now) {
                    break;
                }
                self.core.handle(now, Event::Tick);
                self.act(now);
            }
        }
        for (at, id) in self.ready.drain(..) {
            self.inside -= 1;
            out.complete(id, at);
        }
    }

    fn power_fail(&mut self, now: Nanos) -> Survivors {
        let open_requests = self.hosts.values().map(|host| host.request.id);
        let unreported: BTreeSet<RequestId> =
            open_requests.chain(self.ready.iter().map(|&(_, id)| id)).collect();
        let losable = self.core.losable(self.volatile);
        let mut lost: Vec<(u64, Request)> =
            losable.iter().filter_map(|id| self.acked.get(id).copied()).collect();
        lost.retain(|(_, request)| !unreported.contains(&request.id));
        lost.sort_unstable_by_key(|&(answer, _)| answer);
        self.legs.power_fail(now);
        self.earlier = self.stats();
        self.core = open(&self.config, self.geometry, &self.legs, now);
        self.out.clear();
        self.hosts.clear();
        self.acked.clear();
        self.ready.clear();
        self.inside = 0;
        self.act(now);
        let lost = lost.into_iter().map(|(_, Request { id, lba, sectors, .. })| LostWrite {
            id,
            lba,
            sectors,
        });
        Survivors { lost: lost.collect() }
    }

    fn apply(&mut self, request: &Request) {
        for leg in 0..LEGS {
            let lba = Lba(request.lba.0 + self.layouts[0].data * PAGE_SECTORS);
            self.legs.apply(leg, &Request { lba, ..*request });
        }
    }

    fn counters(&self, out: &mut Counters) {
        let stats = self.stats();
        out.add("early_acks", stats.early_acks);
        out.add("logged_acks", stats.logged_acks);
        out.add("log_records", stats.records);
        out.add("hedges", stats.hedges);
        out.add("leg_reads", stats.leg_reads);
        out.add("freezes", stats.freezes);
        out.add("drops", stats.drops);
        out.add("joins", stats.joins);
        out.add("copied_blocks", stats.copied_blocks);
        out.add("checkpoints", stats.checkpoints);
        out.add("failed_requests", self.failed);
        let owed = self.core.owed();
        out.level("exposed_bytes", self.core.exposed().0 * PAGE);
        out.level("exposed_bytes_max", stats.exposed_max * PAGE);
        out.level("ram_bytes_max", stats.ram_max * PAGE);
        out.level("fast_owes_bytes", owed[0] * PAGE);
        out.level("slow_owes_bytes", owed[1] * PAGE);
        self.legs.counters(out);
    }

    fn wear(&self) -> Vec<sim::Wear> {
        self.legs.wear()
    }

    fn freeze(&mut self) {
        self.legs.freeze();
    }

    fn boxed_clone(&self) -> Box<dyn Device> {
        Box::new(self.clone())
    }
}
