//! Snapshot boot, as far as it needs no machine: what an image looks like on a device, where its
//! pages go, and what the processor is told before the jump. Its shells are the suspend tool in
//! `guest` and the loader in `boot/loader`.
//!
//! A suspend writes: no mark; data; run table; checksums; header; flush; the mark. A resume reads
//! them the other way round, and erases the mark before it jumps. The format is described in
//! `docs/snapshot-format.md`.
#![no_std]

mod bytes;
mod checksum;
mod group;
mod header;
pub mod kernel;
pub mod lz4;
pub mod lzo;
pub mod machine;
mod page_tables;
mod plan;
mod rank;
mod refusal;
mod room;
mod run;
mod stream;
pub mod swsusp;

pub use checksum::{DataSum, checksum, crc32c, superblock_sum};
pub use group::{Group, Groups};
pub use header::{
    Disk, FRAMES_MAX, HEADER_MAGIC, HEADER_SECTOR, Header, Layout, MARK_SECTOR, Mark,
};
pub use page_tables::{PageTables, frames_needed};
pub use plan::{Buffers, LoadPlan, Moved, Parts, Piece, Transfer, taken};
pub use rank::Rank;
pub use refusal::Refusal;
pub use room::Room;
pub use run::{Kind, RUN_BYTES, Run, Runs};
pub use stream::Runner;

/// Bytes of a page and of a frame.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of a sector.
pub const SECTOR_BYTES: usize = 512;
/// Sectors of a page.
pub const PAGE_SECTORS: u64 = (PAGE_BYTES / SECTOR_BYTES) as u64;
/// Pages of data under one checksum, which may be packed together.
pub const SUMMED_PAGES: u64 = 256;
/// Bytes of these in the table of checksums.
pub const ENTRY_BYTES: usize = 16;
