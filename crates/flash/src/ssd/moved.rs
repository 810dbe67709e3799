//! How many pages the collector moves for one of the host's.

use sim::snapshot_fields;

/// A mean over pages that were counted, of which the newer ones count more.
#[derive(Clone, Default, Debug)]
pub struct MovedForOne {
    /// Pages that were counted, and those moved for them.
    counted: u64,
    moved: u64,
    /// What had been moved when the present count began.
    before: u64,
}

snapshot_fields!(MovedForOne { counted, moved, before });

impl MovedForOne {
    /// Nothing was counted yet.
    pub fn is_empty(&self) -> bool {
        self.counted == 0
    }

    /// The first page comes: a drive that was filled before anybody looked has moved pages then.
    pub fn begin(&mut self, moved: u64) {
        self.before = moved;
    }

    /// A count ended with so many pages of the host, when `moved` had been moved since the drive
    /// began. Beyond `most` pages all that was counted is halved.
    pub fn count(&mut self, pages: u64, moved: u64, most: u64) {
        if pages > 0 {
            self.counted += pages;
            self.moved += moved - self.before;
        }
        if self.counted >= most {
            (self.counted, self.moved) = (self.counted / 2, self.moved / 2);
        }
        self.before = moved;
    }

    /// Pages moved for one; 0 where nothing was counted.
    pub fn mean(&self) -> f64 {
        self.moved as f64 / self.counted.max(1) as f64
    }
}
