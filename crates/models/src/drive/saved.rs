//! A drive as bytes.

use std::sync::Arc;

use sim::{Completion, Digest, Loader, Nanos, RequestId, Saver, Snapshot, SnapshotError};

use super::Drive;

/// What begins a saved drive: magic, digest of what it was built from, digest and length of its
/// small stream and its blobs.
const MAGIC: u64 = u64::from_le_bytes(*b"bl-drv-1");
const HEAD_WORDS: usize = 5;

impl Drive {
    /// All of its state, requests inside included. [`DriveBuilder::restore`] makes it again, at the
    /// same moment.
    ///
    /// [`DriveBuilder::restore`]: crate::DriveBuilder::restore
    pub fn save(&self) -> Vec<u8> {
        let mut blobs = Vec::new();
        let mut saver = Saver::new(&mut blobs);
        self.now.save(&mut saver);
        self.next_id.save(&mut saver);
        self.held.save(&mut saver);
        self.open.save(&mut saver);
        let done: Vec<_> = self.out.done.iter().map(|done| (done.id, done.at)).collect();
        done.save(&mut saver);
        self.device.save(&mut saver);
        let small = saver.finish().expect("memory takes everything");
        let digest = digest(&small, &blobs);
        let head = [MAGIC, self.built_from, digest, small.len() as u64, blobs.len() as u64];
        let mut saved: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
        saved.extend(small);
        saved.extend(blobs);
        saved
    }

    /// Become what was saved. After an error it is good for nothing.
    pub(super) fn read(&mut self, saved: &[u8]) -> Result<(), SnapshotError> {
        let error = |why: &str| SnapshotError::Damaged(why.into());
        let short = || error("it ends too early");
        let (head, rest) = saved.split_at_checked(8 * HEAD_WORDS).ok_or_else(short)?;
        let mut words = head
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("a chunk has its size")));
        let mut word = || words.next().expect("the head has its words");
        let [magic, built_from, sum, small, blobs] = std::array::from_fn(|_| word());
        if magic != MAGIC {
            return Err(error("it is no drive"));
        }
        if built_from != self.built_from {
            return Err(error("it was built otherwise"));
        }
        let (small, rest) = usize::try_from(small)
            .ok()
            .and_then(|at| rest.split_at_checked(at))
            .ok_or_else(short)?;
        if rest.len() as u64 != blobs || digest(small, rest) != sum {
            return Err(error("it is damaged"));
        }
        let mut loader = Loader::new(small, Arc::new(rest.to_vec()));
        self.now.restore(&mut loader)?;
        self.next_id.restore(&mut loader)?;
        self.held.restore(&mut loader)?;
        self.open.restore(&mut loader)?;
        let mut done: Vec<(RequestId, Nanos)> = Vec::new();
        done.restore(&mut loader)?;
        self.out.done = done.into_iter().map(|(id, at)| Completion { id, at }).collect();
        self.device.restore(&mut loader)?;
        loader.finish()
    }
}

/// Of both streams and where one ends.
fn digest(small: &[u8], blobs: &[u8]) -> u64 {
    let mut digest = Digest::default();
    for stream in [small, blobs] {
        digest.add(stream.len() as u64);
        for chunk in stream.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            digest.add(u64::from_le_bytes(word));
        }
    }
    digest.0
}
