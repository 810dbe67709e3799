//! A run once more, without its program: up to any moment, and what a power cut leaves there.

use sim::{Bytes, Device, Digest, Nanos};
use study::Failure;

use crate::buffer_pool::BufferPool;
use crate::clock::{Timeline, Wall};
use crate::engine::Engine;
use crate::request_log::{RequestLog, Step};
use crate::store::Store;
use crate::travel::Disk;
use crate::volatile::{AtRisk, Fate};

use super::Media;

/// What a cut leaves.
pub(super) struct Medium {
    pub(super) disk: Disk,
    /// Of the data alone.
    pub(super) hash: u64,
    /// Writes that are lost: acknowledged ones that the device lost, or of a subset those that are
    /// not there whole.
    pub(super) lost_writes: usize,
}

/// The engine that does it again.
pub(super) struct Replay<'a> {
    engine: Engine,
    log: &'a RequestLog,
    next: usize,
    pool: BufferPool,
}

impl<'a> Replay<'a> {
    /// From the beginning of `log`, with the device as it was then; the data may take `limit` of
    /// this machine's disk.
    pub(super) fn new(
        device: Box<dyn Device>,
        log: &'a RequestLog,
        limit: Bytes,
        media: Media,
    ) -> Result<Replay<'a>, Failure> {
        let store = Store::temporary(device.limits().capacity, limit)?;
        let line = Timeline { start: Nanos(0), dilation: 1 };
        let mut engine = Engine::new(device, store, line, 0);
        engine.data().keep_volatile_log();
        if media != Media::Modelled {
            engine.data().keep_contract();
        }
        Ok(Replay { engine, log, next: 0, pool: BufferPool::default() })
    }

    /// Do all that was done up to and including `until`.
    fn advance(&mut self, until: Wall) -> Result<(), Failure> {
        let mut replies = Vec::new();
        while let Some(step) = self.log.steps().get(self.next).filter(|step| step.at() <= until) {
            match *step {
                Step::Advance(at) => self.engine.advance(at, &mut replies),
                Step::Submit { at, order, data } => {
                    let data = self.log.data(&order, data).map_err(|why| {
                        Failure::machine(format!("cannot read back what was recorded: {why}"))
                    })?;
                    let mut sink = None;
                    if !data.is_empty() {
                        sink = self.engine.begin_write(order.offset, order.bytes).ok();
                    }
                    if let Some(sink) = &mut sink {
                        self.engine.data().write(sink, &data, &mut self.pool);
                    }
                    self.engine.submit(at, order, sink, &mut self.pool);
                }
            }
            replies.drain(..).for_each(|reply| self.pool.put(reply.result.unwrap_or_default()));
            self.engine.tidy();
            self.next += 1;
        }
        Ok(())
    }

    /// Go on to `at`; never back.
    pub(super) fn advance_to(&mut self, at: Nanos) -> Result<(), Failure> {
        self.advance(Wall(at.0))
    }

    /// What a power cut at `at`, where the replay is, leaves: as the model says, or of the writes
    /// at risk what `fates` say.
    pub(super) fn cut(
        &mut self,
        at: Nanos,
        fates: Option<&[Fate]>,
        limit: Bytes,
    ) -> Result<Medium, Failure> {
        let left = self.engine.after_power_cut(fates, limit)?;
        let hash = hash(&left.store)?;
        let next_id = self.engine.next_id();
        let disk = Disk { device: left.device, store: left.store, at, next_id };
        Ok(Medium { disk, hash, lost_writes: left.lost_writes })
    }

    /// By the contract, the writes that are not safe now.
    pub(super) fn at_risk(&mut self) -> Vec<AtRisk> {
        self.engine.data().prune(&[]);
        self.engine.data().at_risk()
    }

    /// What is there in the end, with no cut at all.
    pub(super) fn without_cut(&mut self) -> Result<Medium, Failure> {
        self.advance(Wall::NEVER)?;
        let (device, at) = self.engine.at_rest();
        let store = self.engine.data().store().share()?;
        let hash = hash(&store)?;
        let disk = Disk { device, store, at, next_id: self.engine.next_id() };
        Ok(Medium { disk, hash, lost_writes: 0 })
    }
}

/// A hash of all that is not zero, and where it is.
fn hash(store: &Store) -> Result<u64, Failure> {
    const BLOCK_BYTES: usize = 4096;
    let mut digest = Digest::default();
    let mut add = |offset: u64, block: &[u8]| {
        if block.iter().all(|byte| *byte == 0) {
            return;
        }
        digest.add(offset);
        for word in block.chunks(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            digest.add(u64::from_le_bytes(bytes));
        }
    };
    let read = store.for_each_written(|offset, data| {
        let blocks = data.chunks(BLOCK_BYTES).enumerate();
        blocks.for_each(|(index, block)| add(offset + (index * BLOCK_BYTES) as u64, block));
        Ok(())
    });
    read.map_err(|why| Failure::machine(format!("cannot read a medium: {why}")))?;
    Ok(digest.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_are_equal_when_their_bytes_are() {
        let store = || Store::memory(Bytes(1 << 20)).unwrap();
        let (empty, zeroes, one, moved) = (store(), store(), store(), store());
        zeroes.write(8192, &[0; 4096]).unwrap();
        one.write(8192, &[1; 512]).unwrap();
        moved.write(12288, &[1; 512]).unwrap();
        let [empty, zeroes, one, moved] =
            [empty, zeroes, one, moved].map(|store| hash(&store).unwrap());
        assert_eq!(empty, zeroes);
        assert!(one != empty && one != moved);
    }
}
