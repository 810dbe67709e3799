//! A key-value store as a log: a record is a sector, and the last one of a key is its value.

use std::collections::BTreeMap;

use crate::disk::{Disk, SECTOR};

/// When a `put` is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sync {
    /// When the drive has acknowledged the write.
    Never,
    /// When the drive has flushed it.
    Always,
}

pub struct Log {
    disk: Disk,
    sync: Sync,
    next: u64,
    values: BTreeMap<u64, u64>,
}

impl Log {
    /// Read the log from its begin to the first sector that is no record of it.
    pub async fn open(disk: Disk, sync: Sync) -> Log {
        let mut log = Log { disk, sync, next: 0, values: BTreeMap::new() };
        while let Some((key, value)) = parse(&log.disk.read(log.next).await, log.next) {
            log.values.insert(key, value);
            log.next += 1;
        }
        log
    }

    pub async fn put(&mut self, key: u64, value: u64) {
        self.disk.write(self.next, &record(self.next, key, value)).await;
        if self.sync == Sync::Always {
            self.disk.flush().await;
        }
        self.next += 1;
        self.values.insert(key, value);
    }

    pub fn get(&self, key: u64) -> Option<u64> {
        self.values.get(&key).copied()
    }
}

fn record(place: u64, key: u64, value: u64) -> [u8; SECTOR] {
    let mut sector = [0; SECTOR];
    let words = [place + 1, key, value, check(place, key, value)];
    for (bytes, word) in sector.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    sector
}

fn parse(sector: &[u8; SECTOR], place: u64) -> Option<(u64, u64)> {
    let mut words = sector.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap()));
    let [number, key, value, sum] = std::array::from_fn(|_| words.next().unwrap());
    (number == place + 1 && sum == check(place, key, value)).then_some((key, value))
}

fn check(place: u64, key: u64, value: u64) -> u64 {
    [place, key, value].iter().fold(0x9e37_79b9_7f4a_7c15, |sum: u64, word| {
        (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
    })
}
