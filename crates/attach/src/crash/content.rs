//! A hash of what is on a medium that follows its changes: a cut changes little of what the one
//! before it left.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use sim::Digest;

use crate::order::{Command, Order};
use crate::patch::{BLOCK_BYTES, Patch};
use crate::store::Store;

/// The hashes of all blocks that are not zero.
#[derive(Default)]
pub(super) struct Content {
    blocks: BTreeMap<u64, u64>,
    sum: u64,
    /// Blocks that may have changed since they were hashed.
    stale: BTreeSet<u64>,
}

impl Content {
    /// Of what is on `store` already.
    pub(super) fn on(store: &Store) -> io::Result<Content> {
        let mut content = Content::default();
        store.for_each_written(|offset, data| {
            let end = (offset + data.len() as u64).div_ceil(BLOCK_BYTES);
            content.stale.extend(offset / BLOCK_BYTES..end);
            Ok(())
        })?;
        Ok(content)
    }

    /// Another request came.
    pub(super) fn sees(&mut self, order: &Order) {
        let end = (order.offset + u64::from(order.bytes)).div_ceil(BLOCK_BYTES);
        let range = order.offset / BLOCK_BYTES..end;
        match order.command {
            Command::Read | Command::Flush => {}
            Command::Write { .. } => self.stale.extend(range),
            // What is zero stays zero, and the range may be the whole device.
            Command::Discard | Command::WriteZeroes { .. } => {
                self.stale.extend(self.blocks.range(range).map(|(block, _)| block));
            }
        }
    }

    /// The hash of all of `store`, whose changes it has seen.
    pub(super) fn of(&mut self, store: &Store) -> io::Result<u64> {
        let mut buffer = vec![0; BLOCK_BYTES as usize];
        for block in std::mem::take(&mut self.stale) {
            let first = block * BLOCK_BYTES;
            buffer.resize(BLOCK_BYTES.min(store.bytes() - first) as usize, 0);
            store.read(first, &mut buffer)?;
            let hash = of_block(block, &buffer);
            let before = if hash == 0 {
                self.blocks.remove(&block)
            } else {
                self.blocks.insert(block, hash)
            };
            self.sum = self.sum.wrapping_sub(before.unwrap_or(0)).wrapping_add(hash);
        }
        Ok(self.sum)
    }

    /// The same with some blocks different.
    pub(super) fn with(&mut self, store: &Store, patch: &Patch) -> io::Result<u64> {
        let mut sum = self.of(store)?;
        for (block, bytes) in &patch.0 {
            let before = self.blocks.get(block).copied().unwrap_or(0);
            sum = sum.wrapping_sub(before).wrapping_add(of_block(*block, bytes));
        }
        Ok(sum)
    }
}

/// 0 for a block of zeroes.
fn of_block(block: u64, bytes: &[u8]) -> u64 {
    if bytes.iter().all(|byte| *byte == 0) {
        return 0;
    }
    let mut digest = Digest::default();
    digest.add(block);
    for word in bytes.chunks_exact(8) {
        digest.add(u64::from_le_bytes(word.try_into().expect("it has 8")));
    }
    digest.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Ticket;
    use crate::patch::{ByteStore, Patched};
    use sim::Bytes;

    fn write(content: &mut Content, store: &Store, offset: u64, data: &[u8]) {
        store.write(offset, data).unwrap();
        let command = Command::Write { fua: false };
        content.sees(&Order::new(Ticket::default(), command, offset, data.len() as u32));
    }

    #[test]
    fn media_are_equal_when_their_bytes_are() {
        let mut found = Vec::new();
        for writes in [
            &[][..],
            &[(8192, 0)][..],
            &[(8192, 1)],
            &[(12288, 1)],
            &[(12288, 1), (8192, 1), (12288, 0)],
        ] {
            let store = Store::memory(Bytes(1 << 20)).unwrap();
            let mut content = Content::default();
            for &(offset, byte) in writes {
                write(&mut content, &store, offset, &[byte; 512]);
            }
            found.push(content.of(&store).unwrap());
        }
        let [empty, zeroes, one, moved, again] = found[..] else { unreachable!() };
        assert_eq!((empty, one), (zeroes, again));
        assert!(one != empty && one != moved);
    }

    #[test]
    fn what_was_there_before_counts() {
        let store = Store::memory(Bytes(1 << 20)).unwrap();
        store.write(8192, &[7; 4096]).unwrap();
        let mut content = Content::on(&store).unwrap();
        let before = content.of(&store).unwrap();
        write(&mut content, &store, 8192, &[8; 512]);
        assert!(content.of(&store).unwrap() != before);
        write(&mut content, &store, 8192, &[7; 512]);
        assert_eq!(content.of(&store).unwrap(), before);
        store.clear(0, 1 << 20).unwrap();
        content.sees(&Order::new(Ticket::default(), Command::Discard, 0, 1 << 20));
        assert_eq!(content.of(&store).unwrap(), 0);
    }

    #[test]
    fn a_patch_and_a_discard_are_followed() {
        let store = Store::memory(Bytes(1 << 20)).unwrap();
        let mut content = Content::default();
        write(&mut content, &store, 0, &[7; 20480]);
        let whole = content.of(&store).unwrap();
        let mut patched = Patched { store: &store, patch: Patch::default() };
        patched.write(4096 + 512, &[8; 512]).unwrap();
        let other = content.with(&store, &patched.patch).unwrap();
        assert!(other != whole && content.of(&store).unwrap() == whole);
        write(&mut content, &store, 4096 + 512, &[8; 512]);
        assert_eq!(content.of(&store).unwrap(), other);
        store.clear(0, 1 << 20).unwrap();
        content.sees(&Order::new(Ticket::default(), Command::Discard, 0, 1 << 20));
        assert_eq!(content.of(&store).unwrap(), 0);
    }
}
