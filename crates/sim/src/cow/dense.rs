//! A table's entries in one piece of memory, on huge pages where the system gives them.
//!
//! A random access to a table of a gigabyte waits longer for the walk of the processor's page
//! tables than for the memory itself; pages of 2 MiB need few and short walks. Systems give them to
//! all memory, or, like Debian, to what asks for them, and safe Rust asks through `memmap2`.

use memmap2::MmapMut;
use prefetch_index::prefetch_index;

use super::{CHUNK, Word};

/// Memory for whole chunks. Takes none of the machine's until it is written.
pub(super) struct Dense<T> {
    memory: MmapMut,
    entries: std::marker::PhantomData<T>,
}

impl<T: Word> Dense<T> {
    /// Memory of `chunks` chunks, or none if the system has none to give.
    pub(super) fn new(chunks: usize) -> Option<Dense<T>> {
        let memory = MmapMut::map_anon(chunks * CHUNK * T::BYTES).ok()?;
        // A wish: without it, or where it is refused, only the time differs.
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::HugePage);
        Some(Dense { memory, entries: std::marker::PhantomData })
    }

    /// Entry `index`.
    #[inline]
    pub(super) fn get(&self, index: usize) -> T {
        let at = index * T::BYTES;
        bytemuck::pod_read_unaligned(&self.memory[at..at + T::BYTES])
    }

    /// Set entry `index` to what `change` makes of it.
    #[inline]
    pub(super) fn update(&mut self, index: usize, change: impl FnOnce(T) -> T) {
        // As bytes: a view of all as entries asks each time how they lie and how many they are.
        let at = index * T::BYTES;
        let entry = &mut self.memory[at..at + T::BYTES];
        let value = change(bytemuck::pod_read_unaligned(entry));
        entry.copy_from_slice(bytemuck::bytes_of(&value));
    }

    /// Fetch entry `index` into the processor's cache.
    #[inline]
    pub(super) fn prefetch(&self, index: usize) {
        prefetch_index(&self.memory[..], index * T::BYTES);
    }

    #[inline]
    pub(super) fn entries(&self) -> &[T] {
        bytemuck::cast_slice(&self.memory)
    }

    #[inline]
    pub(super) fn entries_mut(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.memory)
    }

    /// The entries of one chunk.
    #[inline]
    pub(super) fn chunk(&self, number: usize) -> &[T; CHUNK] {
        self.entries()[number * CHUNK..].first_chunk().expect("memory is whole chunks")
    }

    /// The entries of one chunk.
    #[inline]
    pub(super) fn chunk_mut(&mut self, number: usize) -> &mut [T; CHUNK] {
        self.entries_mut()[number * CHUNK..].first_chunk_mut().expect("memory is whole chunks")
    }
}

impl<T: Word> Clone for Dense<T> {
    fn clone(&self) -> Dense<T> {
        let mut copy = Dense::new(self.entries().len() / CHUNK).expect("memory for a copy");
        copy.entries_mut().copy_from_slice(self.entries());
        copy
    }
}
