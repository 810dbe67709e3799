//! The on-disk format, version 2. The drawings are in `docs/mirror-format.md`.
//!
//! Only bytes and their meaning: who reads or writes them is the shell's matter.

pub mod crc;
mod field;
pub mod layout;
pub mod maps;
pub mod page;
pub mod record;
pub mod sums;
pub mod superblock;

pub use layout::Layout;
pub use page::{Damage, PAGE_BYTES, PageAddress};
pub use superblock::{Geometry, Superblock};
