//! Which of several images is looked at when.

use core::cmp::Reverse;

/// An image's place among those of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rank {
    /// When it was made.
    pub written: u64,
    /// The number of its disk.
    pub number: u32,
}

impl Rank {
    /// Newer ones come first, and of one time that on the disk with the lowest number.
    fn order(self) -> (Reverse<u64>, u32) {
        (Reverse(self.written), self.number)
    }

    /// Is it behind `before`, and before `next`, the best that is known to be there?
    pub fn comes_between(self, before: Option<Rank>, next: Option<Rank>) -> bool {
        before.is_none_or(|before| before.order() < self.order())
            && next.is_none_or(|next| self.order() < next.order())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern crate std;
    use std::vec::Vec;

    #[test]
    fn the_newest_image_is_first_and_each_is_looked_at_once() {
        let disks = [(0, 30), (1, 0), (2, 50), (3, 30), (4, 0)];
        let disks = disks.map(|(number, written)| Rank { written, number });
        let next = |before: Option<Rank>| {
            disks.into_iter().fold(None, |next: Option<Rank>, rank| {
                if rank.comes_between(before, next) { Some(rank) } else { next }
            })
        };
        let mut seen = Vec::new();
        let mut before = None;
        while let Some(rank) = next(before) {
            seen.push(rank.number);
            before = Some(rank);
        }
        assert_eq!(seen, [2, 0, 3, 1, 4]);
    }
}
