//! Requests by sector, and the two of them that a one-way elevator would go to next.

use std::cell::Cell;

use sim::snapshot_fields;

use super::pool::Pool;

/// Requests in the order of their first sectors. A list: a pool has few hundred requests, and what
/// stands beside one is asked for more often than any is added.
#[derive(Clone, Default, Debug)]
pub(crate) struct Sorted {
    by_sector: Vec<(u64, u32)>,
    /// The place that was looked for last: mostly what is looked for next, as a bio that finds
    /// nobody is inserted there, and whose neighbour was asked for goes.
    last: Cell<usize>,
}

snapshot_fields!(Sorted { by_sector });

impl Sorted {
    pub(crate) fn is_empty(&self) -> bool {
        self.by_sector.is_empty()
    }

    /// Where an entry stands, or would.
    fn place(&self, entry: (u64, u32)) -> usize {
        let place = self.by_sector.partition_point(|&other| other < entry);
        self.last.set(place);
        place
    }

    /// The same where it may well be the last place.
    fn place_again(&self, entry: (u64, u32)) -> usize {
        let last = self.last.get();
        let not_before = last == 0 || self.by_sector.get(last - 1).is_some_and(|e| *e < entry);
        let not_behind = self.by_sector.get(last).is_none_or(|e| *e >= entry);
        if not_before && not_behind { last } else { self.place(entry) }
    }

    fn place_of(&self, pool: &Pool, rq: u32) -> usize {
        let place = self.place((pool[rq].start(), rq));
        debug_assert_eq!(self.by_sector.get(place).map(|e| e.1), Some(rq), "it is in the order");
        place
    }

    fn get(&self, place: usize) -> Option<u32> {
        self.by_sector.get(place).map(|&(_, rq)| rq)
    }

    pub(crate) fn insert(&mut self, pool: &Pool, rq: u32) {
        let entry = (pool[rq].start(), rq);
        self.by_sector.insert(self.place_again(entry), entry);
    }

    pub(crate) fn remove(&mut self, pool: &Pool, rq: u32) {
        let place = self.place_again((pool[rq].start(), rq));
        debug_assert_eq!(self.get(place), Some(rq), "it is in the order");
        self.by_sector.remove(place);
    }

    /// It began at `old` before a bio was put before it. True when that made it pass another one.
    pub(crate) fn moved(&mut self, pool: &Pool, rq: u32, old: u64) -> bool {
        let place = self.place((old, rq));
        self.by_sector.remove(place);
        let entry = (pool[rq].start(), rq);
        let new = self.place_again(entry);
        self.by_sector.insert(new, entry);
        new < place
    }

    /// The next one up.
    pub(crate) fn after(&self, pool: &Pool, rq: u32) -> Option<u32> {
        self.get(self.place_of(pool, rq) + 1)
    }

    /// The next one down.
    pub(crate) fn before(&self, pool: &Pool, rq: u32) -> Option<u32> {
        self.get(self.place_of(pool, rq).checked_sub(1)?)
    }

    /// One that begins exactly there.
    pub(crate) fn at(&self, sector: u64) -> Option<u32> {
        let next = self.by_sector.get(self.place((sector, 0)));
        next.filter(|(start, _)| *start == sector).map(|&(_, rq)| rq)
    }

    /// The first that does not begin before a sector.
    pub(crate) fn from(&self, sector: u64) -> Option<u32> {
        self.get(self.place_again((sector, 0)))
    }

    /// The neighbour of `rq` to go on with: the next one up or, at the top, the lowest, against
    /// the next one down.
    pub(crate) fn neighbour(&self, pool: &Pool, rq: u32, way: &OneWay) -> Option<u32> {
        let place = self.place_of(pool, rq);
        let up = self.get(place + 1).or_else(|| self.get(0).filter(|&first| first != rq));
        way.choose(pool, up, place.checked_sub(1).and_then(|before| self.get(before)))
    }
}

/// Where a one-way elevator is, and how far back it may go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OneWay {
    /// The sector behind the last request.
    pub(crate) last: u64,
    /// Sectors it may go back.
    pub(crate) back_max: u64,
    /// What a way back costs, in ways forward.
    pub(crate) penalty: u64,
}

impl OneWay {
    /// What it costs to go there; `None` when it is too far behind.
    fn cost(&self, sector: u64) -> Option<u64> {
        match sector >= self.last {
            true => Some(sector - self.last),
            false if self.last - sector <= self.back_max => {
                Some((self.last - sector).saturating_mul(self.penalty))
            }
            false => None,
        }
    }

    /// The better of two requests: the nearer one; of two that are too far behind, the lower; of
    /// equals the higher.
    pub(crate) fn choose(&self, pool: &Pool, a: Option<u32>, b: Option<u32>) -> Option<u32> {
        let (Some(one), Some(other)) = (a, b) else { return a.or(b) };
        let (s1, s2) = (pool[one].start(), pool[other].start());
        let first = match (self.cost(s1), self.cost(s2)) {
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => s1 <= s2,
            (Some(d1), Some(d2)) => d1 < d2 || d1 == d2 && s1 >= s2,
        };
        Some(if first { one } else { other })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elevator::linux::pool::{NONE, Piece};
    use sim::{Lba, Nanos, Request};

    #[test]
    fn the_nearer_one_wins_and_back_costs_double() {
        let mut pool = Pool::new();
        let mut at = |lba| {
            let what = Request::read(Lba(lba), 8);
            pool.allocate(Nanos(0), &Piece { what, split: NONE })
        };
        let (low, below, above, far) = (at(10), at(940), at(1100), at(1200));
        let way = OneWay { last: 1000, back_max: 100, penalty: 2 };
        for (a, b, best) in [
            (above, far, above),
            // 60 sectors back cost 120, more than 100 forward; half of 200 forward.
            (below, above, above),
            (below, far, below),
            // Further back than allowed: everything else goes first.
            (low, far, far),
            (low, low, low),
        ] {
            assert_eq!(way.choose(&pool, Some(a), Some(b)), Some(best));
            assert_eq!(way.choose(&pool, Some(b), Some(a)), Some(best));
        }
        assert_eq!(way.choose(&pool, None, Some(low)), Some(low));
        let wrapped = OneWay { last: 5000, back_max: 100, penalty: 2 };
        assert_eq!(wrapped.choose(&pool, Some(above), Some(below)), Some(below));
    }

    #[test]
    fn neighbours_wrap_at_the_top() {
        let (mut pool, mut sorted) = (Pool::new(), Sorted::default());
        let rqs: Vec<u32> = [300, 100, 200]
            .map(|lba| {
                let what = Request::read(Lba(lba), 8);
                pool.allocate(Nanos(0), &Piece { what, split: NONE })
            })
            .to_vec();
        rqs.iter().for_each(|&rq| sorted.insert(&pool, rq));
        assert_eq!(sorted.after(&pool, rqs[1]), Some(rqs[2]));
        assert_eq!(sorted.before(&pool, rqs[1]), None);
        assert_eq!((sorted.at(200), sorted.at(201)), (Some(rqs[2]), None));
        let way = OneWay { last: 308, back_max: 0, penalty: 2 };
        assert_eq!(sorted.neighbour(&pool, rqs[0], &way), Some(rqs[1]));
        pool.prepend(rqs[0], &Piece { what: Request::read(Lba(50), 250), split: NONE });
        sorted.moved(&pool, rqs[0], 300);
        assert_eq!(sorted.after(&pool, rqs[0]), Some(rqs[1]));
    }
}
