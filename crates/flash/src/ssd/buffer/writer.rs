//! A write of which data are in the buffer.

use sim::snapshot_fields;

#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Writer {
    pub(super) id: u64,
    pub(super) lba: u64,
    pub(super) sectors: u32,
}

snapshot_fields!(Writer { id, lba, sectors });

impl Writer {
    pub(super) fn end(&self) -> u64 {
        self.lba + u64::from(self.sectors)
    }

    /// Whether nothing of the other one is left.
    pub(super) fn covers(&self, other: &Writer) -> bool {
        self.lba <= other.lba && other.end() <= self.end()
    }
}
