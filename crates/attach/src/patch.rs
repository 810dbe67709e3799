//! Changes of a store that are kept beside it.

use std::collections::BTreeMap;
use std::io;

use crate::store::Store;

/// Grain in bytes.
pub(crate) const BLOCK_BYTES: u64 = 4096;

/// Neighbouring blocks are written at once up to so many bytes.
const RUN_BYTES: usize = 1 << 20;

/// What bytes are read from and written to.
pub(crate) trait ByteStore {
    /// Fill `buffer` from byte `offset`.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Write `data` at byte `offset`.
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()>;
}

impl ByteStore for &Store {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        Store::read(self, offset, buffer)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        Store::write(self, offset, data)
    }
}

/// The blocks of a store that are to be different, by number.
#[derive(Default)]
pub(crate) struct Patch(pub(crate) BTreeMap<u64, Vec<u8>>);

/// A store with a patch before it, which takes all writes.
pub(crate) struct Patched<'a> {
    pub(crate) store: &'a Store,
    pub(crate) patch: Patch,
}

impl Patched<'_> {
    /// The parts of a range that lie in one block each: number, place in it, place in the range.
    fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
        let end = offset + length as u64;
        let blocks = offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES);
        blocks.map(move |block| {
            let from = offset.max(block * BLOCK_BYTES);
            let to = end.min((block + 1) * BLOCK_BYTES);
            let within = (from - block * BLOCK_BYTES) as usize;
            (block, within, (from - offset) as usize, (to - from) as usize)
        })
    }
}

impl ByteStore for Patched<'_> {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.store.read(offset, buffer)?;
        for (block, within, at, length) in Patched::parts(offset, buffer.len()) {
            if let Some(known) = self.patch.0.get(&block) {
                buffer[at..at + length].copy_from_slice(&known[within..within + length]);
            }
        }
        Ok(())
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        for (block, within, at, length) in Patched::parts(offset, data.len()) {
            if !self.patch.0.contains_key(&block) {
                let first = block * BLOCK_BYTES;
                let bytes = BLOCK_BYTES.min(self.store.bytes() - first);
                let mut before = vec![0; bytes as usize];
                // What is written over whole need not be read.
                if length as u64 != bytes {
                    self.store.read(first, &mut before)?;
                }
                self.patch.0.insert(block, before);
            }
            if let Some(known) = self.patch.0.get_mut(&block) {
                known[within..within + length].copy_from_slice(&data[at..at + length]);
            }
        }
        Ok(())
    }
}

impl Patch {
    /// Write it into a copy of the store that it is of.
    pub(crate) fn apply(&self, store: &Store) -> io::Result<()> {
        let (mut start, mut run) = (0, Vec::new());
        for (block, bytes) in &self.0 {
            let offset = block * BLOCK_BYTES;
            if start + run.len() as u64 != offset || run.len() >= RUN_BYTES {
                store.write(start, &run)?;
                run.clear();
                start = offset;
            }
            run.extend_from_slice(bytes);
        }
        store.write(start, &run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Bytes;

    #[test]
    fn a_patch_is_read_and_applied_as_if_it_were_written() {
        let plain = Store::memory(Bytes(6 * BLOCK_BYTES - 512)).unwrap();
        let (base, written) = (&plain, Store::memory(Bytes(6 * BLOCK_BYTES - 512)).unwrap());
        for store in [base, &written] {
            store.write(3000, &[9; 9000]).unwrap();
        }
        let mut patched = Patched { store: base, patch: Patch::default() };
        for (offset, length, byte) in [(512, 512, 1), (4000, 5000, 2), (4096, 512, 3)] {
            patched.write(offset, &vec![byte; length]).unwrap();
            written.write(offset, &vec![byte; length]).unwrap();
        }
        let end = 6 * BLOCK_BYTES - 1024;
        patched.write(end, &[4; 512]).unwrap();
        written.write(end, &[4; 512]).unwrap();
        let all = |read: &dyn Fn(&mut [u8])| {
            let mut buffer = vec![0; 6 * BLOCK_BYTES as usize - 512];
            read(&mut buffer);
            buffer
        };
        let wanted = all(&|buffer| written.read(0, buffer).unwrap());
        assert_eq!(all(&|buffer| patched.read(0, buffer).unwrap()), wanted);
        assert!(all(&|buffer| base.read(0, buffer).unwrap()) != wanted, "it is kept beside");
        patched.patch.apply(base).unwrap();
        assert_eq!(all(&|buffer| base.read(0, buffer).unwrap()), wanted);
    }
}
