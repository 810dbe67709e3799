//! A run once more, without its program: up to any moment, and what a power cut leaves there.

use std::collections::BTreeSet;
use std::io;

use sim::{Bytes, Device, Nanos, RequestId};
use study::Failure;

use crate::buffer_pool::BufferPool;
use crate::clock::{Timeline, Wall};
use crate::data::WriteSink;
use crate::engine::{AfterCut, Engine};
use crate::order::{Order, Reply};
use crate::patch::Patch;
use crate::request_log::{EngineCall, RequestLog};
use crate::session::Start;
use crate::travel::Disk;
use crate::volatile::{AtRisk, Fate};

use super::Media;
use super::content::Content;

/// What a cut leaves, not yet as a disk.
pub(super) struct Left {
    device: Box<dyn Device>,
    patch: Patch,
    /// In the device's own time.
    at: Nanos,
    /// Of the data alone.
    pub(super) hash: u64,
    lost_writes: usize,
    unanswered: usize,
}

/// The disk that a cut leaves.
pub(super) struct Medium {
    pub(super) disk: Disk,
    /// Writes that are lost: acknowledged ones that the device lost, or of a subset those that are
    /// not there whole.
    pub(super) lost_writes: usize,
    /// Writes that the drive had been asked and had not answered.
    pub(super) unanswered: usize,
}

/// The engine that does it again.
pub(super) struct Replay<'a> {
    engine: Engine,
    log: &'a RequestLog,
    next: usize,
    pool: BufferPool,
    content: Content,
    media: Media,
    /// What the drive writes whole or not at all.
    atom_bytes: u64,
    line: Timeline,
    replies: Vec<Reply>,
}

/// A request that a step submitted.
pub(super) struct Submitted {
    pub(super) order: Order,
    /// The device's name for it, if the device sees it.
    pub(super) id: Option<RequestId>,
    pub(super) data: Vec<u8>,
}

impl<'a> Replay<'a> {
    /// From the beginning of `log`, with the disk as it was then, whose logical blocks are of
    /// `atom_bytes`; the data may take `limit` of this machine's disk.
    pub(super) fn new(
        disk: &Disk,
        log: &'a RequestLog,
        limit: Bytes,
        (media, atom_bytes): (Media, u64),
    ) -> Result<Replay<'a>, Failure> {
        let (device, Start { store, at, next_id }) = disk.fork(limit)?;
        let content = Content::on(&store).map_err(unreadable)?;
        let line = Timeline { start: at, dilation: 1 };
        let mut engine = Engine::new(device, store, line, next_id);
        engine.data().keep_volatile_log();
        let (next, pool, replies) = (0, BufferPool::default(), Vec::new());
        let mut replay =
            Replay { engine, log, next, pool, content, media, atom_bytes, line, replies };
        if matches!(media, Media::Subsets(_) | Media::Subset(_)) {
            replay.keep_contract();
        }
        Ok(replay)
    }

    /// From the first step on, know what a host may rely on.
    pub(super) fn keep_contract(&mut self) {
        let write_cache = self.engine.device().limits().write_cache;
        self.engine.data().keep_contract(write_cache, self.atom_bytes);
    }

    /// The next step, if it is not behind `until`.
    pub(super) fn upcoming(&self, until: Wall) -> Option<&'a EngineCall> {
        self.log.steps().get(self.next).filter(|step| step.at() <= until)
    }

    /// Do the next step: what it submits, and what the engine has answered by then.
    pub(super) fn step(&mut self) -> Result<(Option<Submitted>, &[Reply]), Failure> {
        self.replies.drain(..).for_each(|reply| self.pool.put(reply.result.unwrap_or_default()));
        let mut submitted = None;
        match self.log.steps()[self.next] {
            EngineCall::Advance(at) => self.engine.advance(at, &mut self.replies),
            EngineCall::Inject { at, rule } => {
                self.engine.inject(self.log.rules()[rule].clone(), at);
            }
            EngineCall::Lift { at, id } => {
                self.engine.lift(id, at);
            }
            EngineCall::Submit { at, order, data } => {
                let data = self.log.data(&order, data).map_err(|why| {
                    Failure::machine(format!("cannot read back what was recorded: {why}"))
                })?;
                submitted = Some(self.submit(at, order, data));
            }
        }
        self.engine.tidy();
        self.next += 1;
        Ok((submitted, &self.replies))
    }

    fn submit(&mut self, at: Wall, order: Order, data: Vec<u8>) -> Submitted {
        let mut sink = None;
        if !data.is_empty() {
            sink = self.engine.begin_write(order.offset, order.bytes).ok();
        }
        if let Some(sink) = &mut sink {
            self.engine.data().write(sink, &data, &mut self.pool);
        }
        let landed = sink.as_ref().map_or(order.offset, WriteSink::landed);
        self.content.sees(&Order { offset: landed, ..order });
        let next = self.engine.next_id();
        self.engine.submit(at, order, sink, &mut self.pool);
        let id = (self.engine.next_id() > next).then_some(RequestId(next));
        Submitted { order, id, data }
    }

    /// Do all that was done up to and including `until`.
    fn advance(&mut self, until: Wall) -> Result<(), Failure> {
        while self.upcoming(until).is_some() {
            self.step()?;
        }
        Ok(())
    }

    /// A hash of the data as it is now, with what a cut would lose.
    pub(super) fn content(&mut self) -> Result<u64, Failure> {
        self.content.of(self.engine.data().store()).map_err(unreadable)
    }

    /// What a cut leaves.
    pub(super) fn media(&self) -> Media {
        self.media
    }

    /// Where the step after this one is.
    pub(super) fn position(&self) -> usize {
        self.next
    }

    /// Answered writes, and some that were not, that a power cut now would undo.
    pub(super) fn exposed(&self) -> BTreeSet<RequestId> {
        match self.media {
            Media::Panicked => BTreeSet::new(),
            _ => self.engine.exposed(),
        }
    }

    /// Go on to `at`; never back.
    pub(super) fn advance_to(&mut self, at: Nanos) -> Result<(), Failure> {
        self.advance(Wall(at.0))
    }

    /// What a cut at `at`, where the replay is, leaves: as the model says, or of the writes at risk
    /// what `fates` say.
    pub(super) fn cut(&mut self, at: Nanos, fates: Option<&[Fate]>) -> Result<Left, Failure> {
        let (AfterCut { device, patch, lost_writes, unanswered }, at) = match self.media {
            Media::Panicked => {
                // The drive goes on: it does what it was asked.
                let (device, rested) = self.engine.at_rest();
                let patch = Patch::default();
                (AfterCut { device, patch, lost_writes: 0, unanswered: 0 }, rested)
            }
            _ => (self.engine.after_power_cut(fates)?, self.line.device(Wall(at.0))),
        };
        let hash = self.content.with(self.engine.data().store(), &patch).map_err(unreadable)?;
        Ok(Left { device, patch, at, hash, lost_writes, unanswered })
    }

    /// The medium of a cut at the present moment, which may take `limit` of this machine's disk.
    pub(super) fn medium(&mut self, left: Left, limit: Bytes) -> Result<Medium, Failure> {
        let Left { device, patch, at, lost_writes, unanswered, .. } = left;
        let store = self.engine.data().store().fork(limit)?;
        patch
            .apply(&store)
            .map_err(|why| if study::is_full(&why) { store.full() } else { unreadable(why) })?;
        let disk = Disk { device, store, at, next_id: self.engine.next_id() };
        Ok(Medium { disk, lost_writes, unanswered })
    }

    /// By the contract, the writes that are not safe now.
    pub(super) fn at_risk(&mut self) -> Vec<AtRisk> {
        self.engine.data().prune(&[]);
        self.engine.data().at_risk()
    }

    /// Whether there are any.
    pub(super) fn has_at_risk(&mut self) -> bool {
        self.engine.data().has_at_risk()
    }

    /// What is there in the end, with no cut at all.
    pub(super) fn without_cut(&mut self) -> Result<Medium, Failure> {
        self.advance(Wall::NEVER)?;
        let (device, at) = self.engine.at_rest();
        let store = self.engine.data().store().share()?;
        let disk = Disk { device, store, at, next_id: self.engine.next_id() };
        Ok(Medium { disk, lost_writes: 0, unanswered: 0 })
    }
}

fn unreadable(why: io::Error) -> Failure {
    Failure::machine(format!("cannot build a medium: {why}"))
}
