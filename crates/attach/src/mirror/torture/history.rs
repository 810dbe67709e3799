//! What the host wrote to each sector, what it was promised, and what it may read.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

pub(super) const SECTOR: usize = 512;

/// What a sector may hold: values by rising number, the newest last.
struct Sector {
    values: VecDeque<(u64, u64)>,
    /// The number of the newest write that was acknowledged.
    acked: u64,
}

/// A value per sector; 0 are zeros.
pub(super) struct History {
    sectors: Vec<Sector>,
    /// Sectors that no leg could read for a while: the mirror may hold them lost.
    perhaps_lost: BTreeSet<u64>,
    number: u64,
}

/// What had been acknowledged of each sector at some moment.
pub(super) struct Acked(Vec<u64>);

/// A sector that holds what it must not.
pub(super) struct Wrong {
    pub(super) sector: u64,
    what: String,
}

impl Wrong {
    /// In words, with what is known of the sector.
    pub(super) fn say(self, about: &str) -> String {
        format!("sector {} {}\n{about}", self.sector, self.what)
    }
}

/// A value as a sector holds it.
pub(super) fn fill(sector: &mut [u8], value: u64) {
    sector.chunks_mut(8).for_each(|word| word.copy_from_slice(&value.to_le_bytes()));
}

impl History {
    pub(super) fn new(sectors: u64) -> History {
        let sector = || Sector { values: VecDeque::from([(0, 0)]), acked: 0 };
        let sectors = (0..sectors).map(|_| sector()).collect();
        History { sectors, perhaps_lost: BTreeSet::new(), number: 0 }
    }

    pub(super) fn sectors(&self) -> u64 {
        self.sectors.len() as u64
    }

    /// A write begins; its number, which is its value unless it writes zeros.
    pub(super) fn begin(&mut self, range: Range<u64>, zeros: bool) -> u64 {
        self.number += 1;
        let value = if zeros { 0 } else { self.number };
        for sector in &mut self.sectors[range.start as usize..range.end as usize] {
            sector.values.push_back((self.number, value));
        }
        self.number
    }

    /// The write of that number is acknowledged, and must stay when `durable`.
    pub(super) fn acked(&mut self, range: Range<u64>, number: u64, durable: bool) {
        for sector in &mut self.sectors[range.start as usize..range.end as usize] {
            sector.acked = number;
            if durable {
                sector.stays(number);
            }
        }
    }

    /// An error is an answer there, too.
    pub(super) fn may_be_lost(&mut self, range: Range<u64>) {
        self.perhaps_lost.extend(range);
    }

    pub(super) fn is_perhaps_lost(&self, range: Range<u64>) -> bool {
        self.perhaps_lost.range(range).next().is_some()
    }

    /// Losses were accepted: what is read next is what there is.
    pub(super) fn forget(&mut self) {
        self.sectors.iter_mut().for_each(|sector| sector.values.clear());
    }

    /// What a flush that begins now covers.
    pub(super) fn covered(&self) -> Acked {
        Acked(self.sectors.iter().map(|sector| sector.acked).collect())
    }

    pub(super) fn flushed(&mut self, covered: &Acked) {
        self.sectors.iter_mut().zip(&covered.0).for_each(|(sector, &number)| sector.stays(number));
    }

    /// Nothing is out, and this was read of the sectors from `start` on. After a start it may be
    /// anything that was not taken back by a promise, and that is what it stays.
    pub(super) fn read(&mut self, start: u64, data: &[u8], after_start: bool) -> Result<(), Wrong> {
        for (nth, bytes) in (start..).zip(data.chunks(SECTOR)) {
            let value = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
            if bytes.chunks(8).any(|word| word != value.to_le_bytes()) {
                return Err(Wrong { sector: nth, what: "is a mixture".into() });
            }
            let sector = &mut self.sectors[nth as usize];
            let allowed = |&(_, known): &(u64, u64)| known == value;
            let fits = if after_start {
                sector.values.is_empty() || sector.values.iter().any(allowed)
            } else {
                sector.values.back().is_some_and(allowed)
            };
            if !fits {
                let newest = sector.values.iter().rev().take(8).collect::<Vec<_>>();
                let what = format!("holds {value}, not one of {newest:?}");
                return Err(Wrong { sector: nth, what });
            }
            if after_start {
                sector.values = VecDeque::from([(self.number, value)]);
                sector.acked = self.number;
            }
        }
        Ok(())
    }
}

impl Sector {
    /// Nothing older than that number may be read after a power cut.
    fn stays(&mut self, number: u64) {
        while self.values.front().is_some_and(|&(known, _)| known < number) {
            self.values.pop_front();
        }
    }
}
