//! Sectors, each as often as it was added.

/// Ranges, which may overlap.
#[derive(Clone, Default, Debug)]
pub(super) struct Sectors {
    ranges: Vec<(u64, u64)>,
}

impl Sectors {
    pub(super) fn has(&self, sector: u64) -> bool {
        self.ranges.iter().any(|&(from, to)| (from..to).contains(&sector))
    }

    pub(super) fn add(&mut self, first: u64, end: u64) {
        self.ranges.push((first, end));
    }

    /// Each of these sectors once, where it is there.
    pub(super) fn remove(&mut self, first: u64, end: u64) {
        // What is still to be removed, in order.
        let mut wanted = vec![(first, end)];
        for (mut from, to) in std::mem::take(&mut self.ranges) {
            let mut missing = Vec::new();
            for (begin, stop) in wanted {
                let both = (begin.max(from), stop.min(to));
                if both.0 >= both.1 {
                    missing.push((begin, stop));
                    continue;
                }
                self.keep(from, both.0);
                from = both.1;
                let around = [(begin, both.0), (both.1, stop)];
                missing.extend(around.into_iter().filter(|(begin, stop)| begin < stop));
            }
            self.keep(from, to);
            wanted = missing;
        }
    }

    fn keep(&mut self, from: u64, to: u64) {
        if from < to {
            self.ranges.push((from, to));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(sectors: &Sectors) -> Vec<u64> {
        (0..30).filter(|&sector| sectors.has(sector)).collect()
    }

    #[test]
    fn what_is_taken_out_of_the_middle_leaves_both_ends() {
        let mut sectors = Sectors::default();
        sectors.add(0, 8);
        sectors.add(8, 16);
        sectors.remove(6, 12);
        assert_eq!(left(&sectors), [0, 1, 2, 3, 4, 5, 12, 13, 14, 15]);
    }

    #[test]
    fn what_was_added_twice_is_there_until_it_was_removed_twice() {
        let mut sectors = Sectors::default();
        sectors.add(4, 8);
        sectors.add(4, 8);
        sectors.remove(0, 30);
        assert_eq!(left(&sectors), [4, 5, 6, 7]);
        sectors.remove(5, 7);
        assert_eq!(left(&sectors), [4, 7]);
    }
}
