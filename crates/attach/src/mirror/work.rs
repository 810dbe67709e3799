//! What the devices are asked, and what became of it.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use mirror::core::Io;
use mirror::format::PAGE_BYTES;
use mirror::format::sums::BlockSums;
use mirror::{Block, Slot};

/// Nothing signals that there is room: it is tried so often.
pub(super) const RETRY: Duration = Duration::from_millis(500);

/// Some bytes of a shared buffer.
#[derive(Clone, Debug)]
pub(super) struct Bytes {
    pub(super) data: Arc<Vec<u8>>,
    pub(super) range: Range<usize>,
}

impl Bytes {
    pub(super) fn all(data: Vec<u8>) -> Bytes {
        let range = 0..data.len();
        Bytes { data: Arc::new(data), range }
    }

    pub(super) fn get(&self) -> &[u8] {
        &self.data[self.range.clone()]
    }

    /// `blocks` blocks after the first `offset` ones.
    pub(super) fn blocks(&self, offset: u32, blocks: u32) -> Bytes {
        let start = self.range.start + offset as usize * PAGE_BYTES;
        let range = start..start + blocks as usize * PAGE_BYTES;
        Bytes { data: Arc::clone(&self.data), range }
    }
}

/// One device request, at pages of the device.
#[derive(Debug)]
pub(super) enum Work {
    /// Read blocks of data, the first of which is `block`.
    Read {
        page: u64,
        block: Block,
        blocks: u32,
    },
    Write {
        page: u64,
        bytes: Bytes,
        durable: bool,
    },
    /// A write that ends durable by a flush after it: it is known then which of the two failed,
    /// and one that could not be written takes no earlier one along.
    WriteAndFlush {
        page: u64,
        bytes: Bytes,
    },
    Zero {
        page: u64,
        pages: u64,
        durable: bool,
        /// They must take room, so no hole is made.
        keep: bool,
    },
    Flush,
}

/// What a read read, with a checksum per block; nothing for anything else.
pub(super) type Outcome = io::Result<(Vec<u8>, Vec<u32>)>;

pub(super) const NOTHING: (Vec<u8>, Vec<u32>) = (Vec::new(), Vec::new());

/// A medium in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MediumId {
    pub(super) slot: Slot,
    /// Media that were in the slot before.
    pub(super) past: u32,
}

/// A device request ended.
pub(super) struct Done {
    pub(super) medium: MediumId,
    pub(super) io: Io,
    pub(super) outcome: Outcome,
}

pub(super) fn wake(wakeup: &OwnedFd) {
    // A counter that is full is signalled.
    let _ = rustix::io::write(wakeup, &1u64.to_ne_bytes());
}

/// The checksum of each block of `bytes`, the first of which is `block`.
pub(super) fn sums(of: BlockSums, block: Block, bytes: &[u8]) -> Vec<u32> {
    let blocks = (block..).zip(bytes.chunks(PAGE_BYTES));
    blocks.map(|(block, bytes)| of.sum(block, bytes)).collect()
}
