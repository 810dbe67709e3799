//! Faults that are injected and lifted while the device is in use.
//!
//! A fault watches a range of bytes and some operations. Those of the data (torn, lost,
//! misdirected, stale, rot) never change what the host is told. Those of the answer (error, hang,
//! slow) leave the data alone, but what fails is not done.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use config::Duration;
use sim::{Nanos, Op, Rng, SECTOR_BYTES, mix64};

use crate::clock::Wall;

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The request fails with an I/O error, and nothing of it is done.
    Error,
    /// The request is answered only when the fault is lifted.
    Hang,
    /// The request takes this many nanoseconds of wall time longer.
    Slow(u64),
    /// Only the first part of a write reaches the medium.
    Torn,
    /// A write does not reach the medium.
    Lost,
    /// A write lands this many bytes further on.
    Misdirected(u64),
    /// Reads give what was there when the fault was injected.
    Stale,
    /// Reads find one bit per sector flipped.
    Rot,
}

impl Kind {
    /// The names, as the control socket takes them.
    pub const NAMES: [&'static str; 8] =
        ["error", "hang", "slow", "torn", "lost", "misdirected", "stale", "rot"];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Error => "error",
            Kind::Hang => "hang",
            Kind::Slow(_) => "slow",
            Kind::Torn => "torn",
            Kind::Lost => "lost",
            Kind::Misdirected(_) => "misdirected",
            Kind::Stale => "stale",
            Kind::Rot => "rot",
        }
    }

    /// The operations it makes sense for.
    pub(crate) fn operations(self) -> &'static [Op] {
        match self {
            Kind::Error | Kind::Hang | Kind::Slow(_) => &Op::ALL,
            Kind::Torn | Kind::Lost | Kind::Misdirected(_) => &[Op::Write],
            Kind::Stale | Kind::Rot => &[Op::Read],
        }
    }
}

/// When and where a fault strikes.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// What goes wrong.
    pub kind: Kind,
    /// Bytes of the device it watches.
    pub range: Range<u64>,
    /// Only this operation; `None` for all the kind is about.
    pub op: Option<Op>,
    /// So many matching requests come first.
    pub after: u64,
    /// Then it strikes one in so many; 1 strikes each.
    pub one_in: u64,
    /// It strikes at most so often; `None` for ever.
    pub count: Option<u64>,
}

impl Rule {
    /// It strikes whatever its kind is about in `range`, for ever.
    pub fn always(kind: Kind, range: Range<u64>) -> Rule {
        Rule { kind, range, op: None, after: 0, one_in: 1, count: None }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind.name())?;
        match self.range {
            Range { start: 0, end: u64::MAX } => {}
            Range { start, end } => write!(f, " range={start}+{}", end - start)?,
        }
        match self.kind {
            Kind::Slow(by) => write!(f, " by={}", Duration(Nanos(by)))?,
            Kind::Misdirected(by) => write!(f, " by={by}")?,
            _ => {}
        }
        if let Some(op) = self.op {
            write!(f, " op={}", op.name())?;
        }
        if self.after > 0 {
            write!(f, " after={}", self.after)?;
        }
        if self.one_in > 1 {
            write!(f, " one-in={}", self.one_in)?;
        }
        match self.count {
            Some(count) => write!(f, " count={count}"),
            None => Ok(()),
        }
    }
}

/// Names an injected fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FaultId(pub u32);

#[derive(Debug)]
struct Fault {
    id: FaultId,
    rule: Rule,
    /// Matching requests so far.
    seen: u64,
    hits: u64,
    /// Of a stale range: sectors as they were before they were written.
    old: BTreeMap<u64, Box<[u8; SECTOR_BYTES as usize]>>,
}

impl Fault {
    fn touches(&self, op: Op, offset: u64, bytes: u64) -> bool {
        let Range { start, end } = self.rule.range;
        let here = op == Op::Flush || (offset < end && offset + bytes > start);
        let kinds = self.rule.kind.operations();
        here && kinds.contains(&op) && self.rule.op.is_none_or(|only| only == op)
    }

    fn strikes(&mut self, rng: &mut Rng) -> bool {
        self.seen += 1;
        if self.seen <= self.rule.after {
            return false;
        }
        let left = self.rule.count.is_none_or(|count| self.hits < count);
        let strikes = left && (self.rule.one_in <= 1 || rng.below(self.rule.one_in) == 0);
        self.hits += u64::from(strikes);
        strikes
    }
}

/// What becomes of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Verdict {
    /// It is an I/O error.
    pub error: bool,
    /// It waits until this fault is lifted.
    pub hang: Option<FaultId>,
    /// It comes this many nanoseconds of wall time later.
    pub slow_ns: u64,
}

impl Verdict {
    /// The answer's moment.
    pub fn due(&self, due: Wall) -> Wall {
        due.plus(self.slow_ns)
    }
}

/// What becomes of the data of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Where its first byte lands.
    pub offset: u64,
    /// How many of its bytes are kept.
    pub keep: u64,
}

/// Every injected fault.
#[derive(Debug)]
pub struct Faults {
    list: Vec<Fault>,
    next: u32,
    rng: Rng,
}

impl Faults {
    /// No faults; chances are drawn from `rng`.
    pub fn new(rng: Rng) -> Faults {
        Faults { list: Vec::new(), next: 1, rng }
    }

    /// True when no fault is injected.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Inject a fault.
    pub fn inject(&mut self, rule: Rule) -> FaultId {
        let id = FaultId(self.next);
        self.next += 1;
        self.list.push(Fault { id, rule, seen: 0, hits: 0, old: BTreeMap::new() });
        id
    }

    /// Lift a fault; false when there is none of that name.
    pub fn lift(&mut self, id: FaultId) -> bool {
        let before = self.list.len();
        self.list.retain(|fault| fault.id != id);
        self.list.len() < before
    }

    /// True while a fault is injected.
    pub fn holds(&self, id: FaultId) -> bool {
        self.list.iter().any(|fault| fault.id == id)
    }

    /// Every fault: its name, its rule, how often it struck.
    pub fn list(&self) -> impl Iterator<Item = (FaultId, &Rule, u64)> {
        self.list.iter().map(|fault| (fault.id, &fault.rule, fault.hits))
    }

    /// What becomes of the answer to a request.
    pub fn verdict(&mut self, op: Op, offset: u64, bytes: u64) -> Verdict {
        let mut verdict = Verdict::default();
        for fault in self.list.iter_mut().filter(|fault| fault.touches(op, offset, bytes)) {
            if !matches!(fault.rule.kind, Kind::Error | Kind::Hang | Kind::Slow(_)) {
                continue;
            }
            if !fault.strikes(&mut self.rng) {
                continue;
            }
            match fault.rule.kind {
                Kind::Error => verdict.error = true,
                Kind::Hang => verdict.hang = Some(fault.id),
                Kind::Slow(by) => verdict.slow_ns += by,
                _ => {}
            }
        }
        verdict
    }

    /// What becomes of the data of a write of `bytes` bytes at `offset` of a device of
    /// `device_bytes`.
    pub fn place(&mut self, offset: u64, bytes: u64, device_bytes: u64) -> Placement {
        let mut placement = Placement { offset, keep: bytes };
        for fault in self.list.iter_mut().filter(|fault| fault.touches(Op::Write, offset, bytes)) {
            let about_data =
                matches!(fault.rule.kind, Kind::Torn | Kind::Lost | Kind::Misdirected(_));
            if !about_data || !fault.strikes(&mut self.rng) {
                continue;
            }
            match fault.rule.kind {
                // A tear is between sectors, and something is missing.
                Kind::Torn => {
                    let sectors = bytes.div_ceil(SECTOR_BYTES);
                    placement.keep = self.rng.below(sectors.max(1)) * SECTOR_BYTES;
                }
                Kind::Lost => placement.keep = 0,
                Kind::Misdirected(by) => {
                    let last = device_bytes.saturating_sub(bytes);
                    placement.offset = (offset.saturating_add(by)).min(last);
                }
                _ => {}
            }
        }
        placement
    }

    /// True when a write at this range must first show what it replaces, to [`Faults::replaced`].
    pub fn wants_replaced(&self, offset: u64, bytes: u64) -> bool {
        let mut stale = self.list.iter().filter(|fault| fault.rule.kind == Kind::Stale);
        stale.any(|fault| offset < fault.rule.range.end && offset + bytes > fault.rule.range.start)
    }

    /// A write is about to replace `before` at `offset`; both are whole sectors.
    pub fn replaced(&mut self, offset: u64, before: &[u8]) {
        for fault in self.list.iter_mut().filter(|fault| fault.rule.kind == Kind::Stale) {
            let sectors = before.as_chunks::<{ SECTOR_BYTES as usize }>().0.iter();
            for (index, sector) in sectors.enumerate() {
                let at = offset + index as u64 * SECTOR_BYTES;
                if fault.rule.range.contains(&at) {
                    fault.old.entry(at).or_insert_with(|| Box::new(*sector));
                }
            }
        }
    }

    /// Change what a read at `offset` found.
    pub fn spoil(&mut self, offset: u64, data: &mut [u8]) {
        for fault in &mut self.list {
            let bytes = data.len() as u64;
            let about_reads = matches!(fault.rule.kind, Kind::Stale | Kind::Rot);
            if !about_reads || !fault.touches(Op::Read, offset, bytes) {
                continue;
            }
            if !fault.strikes(&mut self.rng) {
                continue;
            }
            match fault.rule.kind {
                Kind::Stale => go_back(&fault.old, offset, data),
                _ => flip(&fault.rule.range, u64::from(fault.id.0), offset, data),
            }
        }
    }
}

/// Put old sectors over `data`, which was read at `offset`.
fn go_back(old: &BTreeMap<u64, Box<[u8; SECTOR_BYTES as usize]>>, offset: u64, data: &mut [u8]) {
    let end = offset + data.len() as u64;
    let first = offset / SECTOR_BYTES * SECTOR_BYTES;
    for (&at, sector) in old.range(first..end) {
        let (from, to) = (at.max(offset), (at + SECTOR_BYTES).min(end));
        let source = &sector[(from - at) as usize..(to - at) as usize];
        data[(from - offset) as usize..(to - offset) as usize].copy_from_slice(source);
    }
}

/// Flip the same bit of a sector at every read.
fn flip(range: &Range<u64>, seed: u64, offset: u64, data: &mut [u8]) {
    let end = (offset + data.len() as u64).min(range.end);
    let mut sector = offset.max(range.start) / SECTOR_BYTES * SECTOR_BYTES;
    while sector < end {
        let bit = mix64(sector ^ mix64(seed)) % (SECTOR_BYTES * 8);
        let at = sector + bit / 8;
        if (offset..end).contains(&at) {
            data[(at - offset) as usize] ^= 1 << (bit % 8);
        }
        sector += SECTOR_BYTES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(kind: Kind) -> (Faults, FaultId) {
        let mut faults = Faults::new(Rng::new(1, "faults"));
        let id = faults.inject(Rule::always(kind, 4096..8192));
        (faults, id)
    }

    #[test]
    fn a_fault_strikes_inside_its_range_only() {
        let (mut faults, id) = faults(Kind::Error);
        assert!(faults.verdict(Op::Read, 8191, 1).error);
        assert!(faults.verdict(Op::Write, 0, 4097).error);
        assert!(!faults.verdict(Op::Read, 8192, 512).error);
        assert!(!faults.verdict(Op::Read, 0, 4096).error);
        assert!(faults.verdict(Op::Flush, 0, 0).error);
        assert!(faults.lift(id) && !faults.lift(id));
        assert!(!faults.verdict(Op::Flush, 0, 0).error);
    }

    #[test]
    fn count_and_chance_bound_it() {
        let mut faults = Faults::new(Rng::new(1, "faults"));
        let rule = Rule::always(Kind::Slow(5), 0..4096);
        faults.inject(Rule { one_in: 4, count: Some(3), ..rule });
        let slow = (0..1000).filter(|_| faults.verdict(Op::Read, 0, 512).slow_ns == 5).count();
        assert_eq!(slow, 3);
        let mut later = Faults::new(Rng::new(1, "faults"));
        later.inject(Rule { after: 2, count: Some(1), ..Rule::always(Kind::Error, 0..4096) });
        let struck: Vec<bool> = (0..4).map(|_| later.verdict(Op::Read, 0, 512).error).collect();
        assert_eq!(struck, [false, false, true, false]);
    }

    #[test]
    fn writes_are_torn_lost_and_misdirected() {
        let place = |kind| faults(kind).0.place(4096, 4096, 1 << 20);
        assert_eq!(place(Kind::Lost), Placement { offset: 4096, keep: 0 });
        assert_eq!(place(Kind::Misdirected(512)), Placement { offset: 4608, keep: 4096 });
        let far = place(Kind::Misdirected(u64::MAX));
        assert_eq!(far, Placement { offset: (1 << 20) - 4096, keep: 4096 });
        let torn = place(Kind::Torn);
        assert!(torn.keep < 4096 && torn.keep % 512 == 0);
        assert_eq!(faults(Kind::Rot).0.place(4096, 512, 8192).keep, 512);
    }

    #[test]
    fn stale_reads_go_back_and_rot_flips_one_bit_a_sector() {
        let (mut stale, _) = faults(Kind::Stale);
        assert!(stale.wants_replaced(4096, 512) && !stale.wants_replaced(8192, 512));
        stale.replaced(4096, &[1; 512]);
        stale.replaced(4096, &[2; 512]);
        let mut data = [9; 1024];
        stale.spoil(4000, &mut data);
        assert!(data[..96].iter().all(|&b| b == 9) && data[96..608].iter().all(|&b| b == 1));
        let (mut rot, _) = faults(Kind::Rot);
        let (mut once, mut halves) = ([0; 8192], [0; 8192]);
        rot.spoil(0, &mut once);
        let (low, high) = halves.split_at_mut(5000);
        rot.spoil(0, low);
        rot.spoil(5000, high);
        assert_eq!(once, halves);
        assert_eq!(once.iter().map(|b: &u8| b.count_ones()).sum::<u32>(), 8);
    }
}
