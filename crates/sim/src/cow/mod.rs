//! A large table that is cheap to create, to fork and to restore.

mod dense;

use std::sync::Arc;

use dense::Dense;

use crate::digest::Digest;
use crate::snapshot::{BlobSource, Loader, Saver, Snapshot, SnapshotError};

/// Entries per chunk. Large enough that the chunk table of a 1 TiB drive fits the second-level
/// cache, small enough that the first write to a shared chunk copies little.
const CHUNK: usize = 16 * 1024;
/// A table of which this share of the chunks was written moves into one piece of memory: one in so
/// many.
const DENSE_FROM: usize = 4;

/// Integers a [`CowVec`] can hold.
pub trait Word: bytemuck::Pod + Default + PartialEq + Send + Sync + std::fmt::Debug {
    /// Size in bytes.
    const BYTES: usize;
    /// Write this value to the front of `bytes`.
    fn put(self, bytes: &mut [u8]);
    /// Read a value from the front of `bytes`.
    fn get(bytes: &[u8]) -> Self;
}

macro_rules! words {
    ($($type:ty),*) => { $(
        impl Word for $type {
            const BYTES: usize = size_of::<$type>();
            #[inline(always)]
            fn put(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
            #[inline(always)]
            fn get(bytes: &[u8]) -> Self {
                <$type>::from_le_bytes(bytes.try_into().expect("one word"))
            }
        }
    )* };
}
words!(u8, u16, u32, u64);

/// What an entry is, by its index. In a box, so that a chunk stays two words: the table of chunks
/// is to fit a near cache.
type Formula<T> = Arc<Box<dyn Fn(usize) -> T + Send + Sync>>;

#[derive(Clone)]
enum Chunk<T> {
    /// This table's own memory.
    Owned(Box<[T; CHUNK]>),
    /// Memory shared with a fork; copied before the first write.
    Shared(Arc<[T; CHUNK]>),
    /// This chunk of a whole table that is shared with a fork.
    Part(Arc<Dense<T>>),
    /// Every entry has this value; takes no memory.
    Uniform(T),
    /// Every entry follows from its index; takes no memory.
    Computed(Formula<T>),
    /// Still in the saved image, at this blob offset.
    Stored(u64),
}

/// A table of `T` with copy-on-write chunks.
///
/// * a new table takes no memory until it is written, nor does one that follows a formula;
/// * after [`CowVec::freeze`] a clone costs one pointer per 16,384 entries;
/// * a restored table reads a chunk from the saved image when it is first touched;
/// * a table of which a quarter of the chunks is written moves into one piece of memory, on huge
///   pages where there are any.
#[derive(Clone)]
pub struct CowVec<T: Word> {
    /// All of it, once a quarter was written; `chunks` says nothing then.
    dense: Option<Dense<T>>,
    chunks: Vec<Chunk<T>>,
    /// Chunks that are this table's own memory.
    owned: usize,
    length: usize,
    source: Option<Arc<dyn BlobSource>>,
}

impl<T: Word> CowVec<T> {
    /// A table of `length` entries, all `value`.
    pub fn new(length: usize, value: T) -> CowVec<T> {
        let chunks = vec![Chunk::Uniform(value); length.div_ceil(CHUNK)];
        CowVec { dense: None, chunks, owned: 0, length, source: None }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.length
    }

    /// True when the table has no entries.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Entry `index`.
    ///
    /// # Panics
    /// When `index` lies beyond the table; with a [`SnapshotError`] as its payload when the saved
    /// state can no longer be read or is damaged.
    #[inline(always)]
    pub fn get(&mut self, index: usize) -> T {
        match &self.dense {
            Some(dense) => dense.get(index),
            None => self.get_in_chunks(index),
        }
    }

    #[inline]
    fn get_in_chunks(&mut self, index: usize) -> T {
        match &self.chunks[index / CHUNK] {
            Chunk::Owned(chunk) => chunk[index % CHUNK],
            Chunk::Shared(chunk) => chunk[index % CHUNK],
            Chunk::Part(dense) => dense.entries()[index],
            Chunk::Uniform(value) => *value,
            Chunk::Computed(formula) => formula(index),
            Chunk::Stored(_) => self.own(index / CHUNK)[index % CHUNK],
        }
    }

    /// Entry `index` will be asked for soon: fetch it into the cache, unless the table is in chunks
    /// still. Changes nothing.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        let part = || match self.chunks.get(index / CHUNK) {
            Some(Chunk::Part(dense)) => Some(&**dense),
            _ => None,
        };
        if let Some(dense) = self.dense.as_ref().or_else(part) {
            dense.prefetch(index);
        }
    }

    /// Set entry `index`.
    ///
    /// # Panics
    /// As [`CowVec::get`].
    #[inline]
    pub fn set(&mut self, index: usize, value: T) {
        self.update(index, |_| value);
    }

    /// Set entry `index` to what `change` makes of it.
    ///
    /// # Panics
    /// As [`CowVec::get`].
    #[inline]
    pub fn update(&mut self, index: usize, change: impl FnOnce(T) -> T) {
        match &mut self.dense {
            Some(dense) => dense.update(index, change),
            None => {
                let entry = &mut self.own(index / CHUNK)[index % CHUNK];
                *entry = change(*entry);
            }
        }
    }

    /// Set entries `from..from + count` to `value(0)`, `value(1)`, ...
    ///
    /// # Panics
    /// As [`CowVec::get`].
    pub fn fill_with(&mut self, from: usize, count: usize, mut value: impl FnMut(usize) -> T) {
        let mut done = 0;
        while done < count {
            let index = from + done;
            let take = (CHUNK - index % CHUNK).min(count - done);
            let chunk = self.own(index / CHUNK);
            for (offset, slot) in chunk[index % CHUNK..][..take].iter_mut().enumerate() {
                *slot = value(done + offset);
            }
            done += take;
        }
    }

    /// Set entries `from..from + count` to what `formula` says of their index. Whole chunks of them
    /// take no memory until one is written.
    ///
    /// # Panics
    /// As [`CowVec::get`].
    pub fn follow(
        &mut self,
        from: usize,
        count: usize,
        formula: impl Fn(usize) -> T + Send + Sync + 'static,
    ) {
        let (first, end) = (from.div_ceil(CHUNK), (from + count) / CHUNK);
        if first >= end {
            return self.fill_with(from, count, |i| formula(from + i));
        }
        let formula: Formula<T> = Arc::new(Box::new(formula));
        let (before, after) = (first * CHUNK - from, end * CHUNK);
        self.fill_with(from, before, |i| formula(from + i));
        if self.dense.is_some() {
            self.fill_with(first * CHUNK, after - first * CHUNK, |i| formula(first * CHUNK + i));
        } else {
            for chunk in &mut self.chunks[first..end] {
                self.owned -= usize::from(matches!(chunk, Chunk::Owned(_)));
                *chunk = Chunk::Computed(Arc::clone(&formula));
            }
        }
        self.fill_with(after, from + count - after, |i| formula(after + i));
    }

    /// Copy entries `from..from + to.len()` out.
    ///
    /// # Panics
    /// As [`CowVec::get`].
    pub fn copy_out(&mut self, from: usize, to: &mut [T]) {
        let mut done = 0;
        while done < to.len() {
            let (number, offset) = ((from + done) / CHUNK, (from + done) % CHUNK);
            let take = (CHUNK - offset).min(to.len() - done);
            let part = &mut to[done..done + take];
            if let Some(chunk) = self.written(number) {
                part.copy_from_slice(&chunk[offset..offset + take]);
            } else if let Chunk::Uniform(value) = self.chunks[number] {
                part.fill(value);
            } else {
                part.copy_from_slice(&self.own(number)[offset..offset + take]);
            }
            done += take;
        }
    }

    /// Copy `values` in, from entry `to` on.
    ///
    /// # Panics
    /// As [`CowVec::get`].
    pub fn copy_in(&mut self, to: usize, values: &[T]) {
        let mut done = 0;
        while done < values.len() {
            let (number, offset) = ((to + done) / CHUNK, (to + done) % CHUNK);
            let take = (CHUNK - offset).min(values.len() - done);
            self.own(number)[offset..offset + take].copy_from_slice(&values[done..done + take]);
            done += take;
        }
    }

    /// Share every chunk, so that the next clones copy no entries.
    pub fn freeze(&mut self) {
        if let Some(dense) = self.dense.take() {
            self.chunks.fill(Chunk::Part(Arc::new(dense)));
        }
        for chunk in &mut self.chunks {
            if let Chunk::Owned(owned) = chunk {
                let shared = Arc::from(std::mem::replace(owned, blank(T::default())));
                *chunk = Chunk::Shared(shared);
            }
        }
        self.owned = 0;
    }

    /// A chunk that is in memory.
    fn written(&self, number: usize) -> Option<&[T; CHUNK]> {
        match (&self.dense, &self.chunks[number]) {
            (Some(dense), _) => Some(dense.chunk(number)),
            (None, Chunk::Owned(chunk)) => Some(chunk),
            (None, Chunk::Shared(chunk)) => Some(chunk),
            (None, Chunk::Part(dense)) => Some(dense.chunk(number)),
            (None, Chunk::Uniform(_) | Chunk::Computed(_) | Chunk::Stored(_)) => None,
        }
    }

    /// Make chunk `number` this table's own memory.
    fn own(&mut self, number: usize) -> &mut [T; CHUNK] {
        if self.dense.is_none() && !matches!(self.chunks[number], Chunk::Owned(_)) {
            self.make_own(number);
        }
        match (&mut self.dense, &mut self.chunks[number]) {
            (Some(dense), _) => dense.chunk_mut(number),
            (None, Chunk::Owned(chunk)) => chunk,
            _ => unreachable!("the chunk was made owned above"),
        }
    }

    #[cold]
    fn make_own(&mut self, number: usize) {
        let mut fresh = blank(T::default());
        self.copy_chunk(number, &mut fresh);
        self.chunks[number] = Chunk::Owned(fresh);
        self.owned += 1;
        // Once: if there is no memory now, the table stays as it is.
        if self.owned == self.chunks.len().div_ceil(DENSE_FROM) {
            self.condense();
        }
    }

    /// Move every chunk into one piece of memory.
    fn condense(&mut self) {
        let Some(mut dense) = Dense::new(self.chunks.len()) else { return };
        for number in 0..self.chunks.len() {
            self.copy_chunk(number, dense.chunk_mut(number));
        }
        self.chunks.fill(Chunk::Uniform(T::default()));
        self.dense = Some(dense);
    }

    /// Copy a chunk out, wherever it is.
    fn copy_chunk(&self, number: usize, to: &mut [T; CHUNK]) {
        if let Some(chunk) = self.written(number) {
            return to.copy_from_slice(chunk);
        }
        match &self.chunks[number] {
            Chunk::Uniform(value) => to.fill(*value),
            Chunk::Computed(formula) => {
                to.iter_mut().enumerate().for_each(|(i, slot)| *slot = formula(number * CHUNK + i));
            }
            Chunk::Stored(offset) => self.load(*offset, to),
            Chunk::Owned(_) | Chunk::Shared(_) | Chunk::Part(_) => unreachable!("it is written"),
        }
    }

    fn load(&self, offset: u64, to: &mut [T; CHUNK]) {
        let mut bytes = vec![0; DIGEST_BYTES + CHUNK * T::BYTES];
        let source = self.source.as_ref().expect("a stored chunk has a source");
        if let Err(error) = source.read_at(offset, &mut bytes) {
            let what = format!("its table cannot be read at byte {offset}: {error}");
            broken(SnapshotError::Unread(what));
        }
        let (digest, words) = bytes.split_at(DIGEST_BYTES);
        if digest != digest_of(offset, words) {
            let what = format!("its table at byte {offset} does not match its digest");
            broken(SnapshotError::Damaged(what));
        }
        for (slot, word) in to.iter_mut().zip(words.chunks_exact(T::BYTES)) {
            *slot = T::get(word);
        }
    }
}

/// In front of every stored chunk.
const DIGEST_BYTES: usize = 8;

/// Digest of a chunk's bytes at their place. Four lanes, as one would wait for its own products.
fn digest_of(offset: u64, bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut lanes = [Digest::default(); 4];
    for block in bytes.chunks_exact(32) {
        for (lane, word) in lanes.iter_mut().zip(block.chunks_exact(8)) {
            lane.add(u64::get(word));
        }
    }
    let mut whole = Digest::default();
    whole.add(offset);
    lanes.iter().for_each(|lane| whole.add(lane.0));
    whole.0.to_le_bytes()
}

/// A chunk is read in the middle of a run, where nothing expects an error, so the run is unwound to
/// whoever started it. No message is printed on the way: that is for them.
fn broken(what: SnapshotError) -> ! {
    std::panic::resume_unwind(Box::new(what))
}

fn blank<T: Word>(value: T) -> Box<[T; CHUNK]> {
    // Through a Vec: a boxed array literal would pass over the stack.
    vec![value; CHUNK].into_boxed_slice().try_into().expect("the length is CHUNK")
}

/// The value of all entries, if it is one.
fn all_the_same<T: Word>(chunk: &[T; CHUNK]) -> Option<T> {
    let (first, rest) = chunk.split_first()?;
    rest.iter().all(|entry| entry == first).then_some(*first)
}

impl<T: Word> std::fmt::Debug for CowVec<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CowVec of {} entries", self.length)
    }
}

impl<T: Word> Snapshot for CowVec<T> {
    fn save(&self, to: &mut Saver) {
        self.length.save(to);
        let mut bytes = vec![0; DIGEST_BYTES + CHUNK * T::BYTES];
        let mut fresh = None;
        for number in 0..self.chunks.len() {
            let uniform = match (&self.dense, &self.chunks[number]) {
                (None, Chunk::Uniform(value)) => Some(*value),
                // What was never written need not be told apart while it runs, but in a file.
                (Some(dense), _) => all_the_same(dense.chunk(number)),
                _ => None,
            };
            if let Some(value) = uniform {
                to.bytes(&[0]);
                value.put(&mut bytes[..T::BYTES]);
                to.bytes(&bytes[..T::BYTES]);
                continue;
            }
            let words = self.written(number).unwrap_or_else(|| {
                let fresh = fresh.get_or_insert_with(|| blank(T::default()));
                self.copy_chunk(number, fresh);
                fresh
            });
            let (digest, slots) = bytes.split_at_mut(DIGEST_BYTES);
            for (word, slot) in words.iter().zip(slots.chunks_exact_mut(T::BYTES)) {
                word.put(slot);
            }
            digest.copy_from_slice(&digest_of(to.blob_bytes(), slots));
            let offset = to.blob(&bytes);
            to.bytes(&[1]);
            to.bytes(&offset.to_le_bytes());
        }
    }

    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        let mut length = 0usize;
        length.restore(from)?;
        if length != self.length {
            let expected = self.length;
            return Err(SnapshotError::Damaged(format!(
                "a table has {length} entries, not {expected}"
            )));
        }
        self.source = Some(Arc::clone(&from.source));
        (self.dense, self.owned) = (None, 0);
        for chunk in &mut self.chunks {
            *chunk = match from.take::<1>()? {
                [0] => {
                    let mut bytes = [0; 8];
                    for byte in &mut bytes[..T::BYTES] {
                        [*byte] = from.take()?;
                    }
                    Chunk::Uniform(T::get(&bytes[..T::BYTES]))
                }
                [1] => Chunk::Stored(u64::from_le_bytes(from.take()?)),
                [tag] => {
                    return Err(SnapshotError::Damaged(format!("a table chunk has the tag {tag}")));
                }
            };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> CowVec<u32> {
        let mut table = CowVec::new(3 * CHUNK + 5, u32::MAX);
        table.fill_with(CHUNK - 3, 10, |i| i as u32);
        table.set(3 * CHUNK + 4, 99);
        table
    }

    fn read(table: &mut CowVec<u32>) -> Vec<u32> {
        (0..table.len()).map(|i| table.get(i)).collect()
    }

    #[test]
    fn a_fork_is_independent() {
        let mut original = sample();
        let before = read(&mut original);
        original.freeze();
        let mut fork = original.clone();
        fork.set(CHUNK, 1_234);
        assert_eq!(read(&mut original), before);
        assert_eq!(fork.get(CHUNK), 1_234);
        assert_eq!(fork.get(CHUNK + 1), before[CHUNK + 1]);
    }

    #[test]
    fn a_formula_stands_for_whole_chunks_until_they_are_written() {
        let square = |i: usize| (i * i) as u32;
        let of_formula = |table: &CowVec<u32>| {
            table.chunks.iter().filter(|chunk| matches!(chunk, Chunk::Computed(_))).count()
        };
        for (from, count, whole) in
            [(5, 2 * CHUNK + 9, 1), (CHUNK, 2 * CHUNK, 2), (CHUNK + 1, CHUNK, 0), (3, 4, 0)]
        {
            let mut table = CowVec::new(16 * CHUNK + 20, 7);
            let mut filled = table.clone();
            table.follow(from, count, square);
            filled.fill_with(from, count, |i| square(from + i));
            assert_eq!(of_formula(&table), whole);
            assert_eq!(image(&table), image(&filled));
            assert_eq!(read(&mut table), read(&mut filled));
            table.set(CHUNK, 1);
            filled.set(CHUNK, 1);
            assert_eq!(of_formula(&table), whole.saturating_sub(1));
            assert_eq!(read(&mut table), read(&mut filled));
        }
    }

    /// A table of which a quarter was written, and one with the same entries in chunks.
    fn dense_and_sparse() -> (CowVec<u32>, CowVec<u32>) {
        let chunks = 65;
        let mut dense = CowVec::new(chunks * CHUNK - 7, 3u32);
        dense.follow(40 * CHUNK, CHUNK, |i| i as u32 ^ 5);
        let mut sparse = dense.clone();
        for number in 0..chunks.div_ceil(DENSE_FROM) {
            assert!(dense.dense.is_none());
            dense.set(number * CHUNK + number, number as u32 + 4);
            sparse.set(number * CHUNK + number, number as u32 + 4);
            sparse.owned = usize::MAX / 2;
        }
        assert!(dense.dense.is_some() && sparse.dense.is_none());
        (dense, sparse)
    }

    fn image(table: &CowVec<u32>) -> (Vec<u8>, Vec<u8>) {
        let mut blobs = Vec::new();
        let mut saver = Saver::new(&mut blobs);
        table.save(&mut saver);
        (saver.finish().unwrap(), blobs)
    }

    #[test]
    fn a_table_with_a_quarter_written_is_one_piece_of_memory() {
        let (mut dense, mut sparse) = dense_and_sparse();
        assert!(read(&mut dense) == read(&mut sparse));
        assert!(image(&dense) == image(&sparse));
        let change = |table: &mut CowVec<u32>| {
            table.follow(3 * CHUNK + 1, 2 * CHUNK, |i| i as u32);
            table.fill_with(9 * CHUNK - 3, 9, |i| 70 + i as u32);
            table.copy_in(60 * CHUNK - 2, &[1, 2, 3, 4]);
            table.set(table.len() - 1, 8);
        };
        // A copy, and a fork, which is in chunks until it has written a quarter.
        let before = read(&mut dense);
        let mut copy = dense.clone();
        dense.freeze();
        assert!(dense.dense.is_none());
        let mut fork = dense.clone();
        [&mut copy, &mut fork, &mut sparse].into_iter().for_each(change);
        let expected = read(&mut sparse);
        for table in [&mut copy, &mut fork] {
            assert!(read(table) == expected);
            let mut out = vec![0; 3 * CHUNK];
            table.copy_out(2 * CHUNK + 1, &mut out);
            assert!(out == expected[2 * CHUNK + 1..][..3 * CHUNK]);
        }
        (0..fork.len()).step_by(CHUNK).for_each(|index| fork.set(index, 1));
        (0..fork.len()).step_by(CHUNK).for_each(|index| sparse.set(index, 1));
        assert!(fork.dense.is_some());
        assert!(read(&mut fork) == read(&mut sparse));
        assert!(read(&mut dense) == before);
    }

    #[test]
    fn restoring_reads_chunks_on_demand() {
        let mut table = sample();
        let (small, blobs) = image(&table);
        let mut back = CowVec::new(table.len(), 0u32);
        back.restore(&mut Loader::new(&small, Arc::new(blobs))).unwrap();
        assert!(matches!(back.chunks[0], Chunk::Stored(_)));
        assert!(matches!(back.chunks[2], Chunk::Uniform(u32::MAX)));
        assert_eq!(read(&mut back), read(&mut table));
    }

    #[test]
    fn a_damaged_chunk_unwinds_with_its_place() {
        let table = sample();
        let (small, blobs) = image(&table);
        let second = DIGEST_BYTES + CHUNK * u32::BYTES;
        for (at, what) in [(second, "not match"), (2 * second - 1, "not match"), (0, "read")] {
            let mut bad = blobs.clone();
            bad[at] ^= 1;
            bad.truncate(if at == 0 { 2 * second - 1 } else { bad.len() });
            let mut back = CowVec::new(table.len(), 0u32);
            back.restore(&mut Loader::new(&small, Arc::new(bad))).unwrap();
            let read = std::panic::AssertUnwindSafe(|| back.get(CHUNK));
            let payload = std::panic::catch_unwind(read).unwrap_err();
            let error = payload.downcast::<SnapshotError>().unwrap();
            let words = error.to_string();
            assert!(words.contains(what) && words.contains("byte 65544"), "{words}");
            let unread = matches!(*error, SnapshotError::Unread(_));
            assert_eq!(unread, what == "read", "{words}");
        }
    }

    #[test]
    fn another_size_is_refused() {
        let table = sample();
        let (small, blobs) = image(&table);
        let mut other = CowVec::new(7, 0u32);
        let error = other.restore(&mut Loader::new(&small, Arc::new(blobs))).unwrap_err();
        assert!(error.to_string().contains("not 7"), "{error}");
    }
}
