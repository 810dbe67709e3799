//! Moving pages of a block, many at once: page by page, the books of both blocks would be opened
//! and closed for each.

use super::{Flash, Frontier, spare_entry};
use crate::ssd::plan::NONE;

/// A page that moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// What owns it.
    pub id: u32,
    /// Where it was.
    pub from: u32,
    /// Where it goes; [`NONE`] until [`Flash::allocate_all`].
    pub to: u32,
}

impl Flash {
    /// Take the first valid pages of a victim, `most` of them at most: they are no longer valid
    /// there. They go to the end of `moves`.
    pub fn take_valid(&mut self, victim: u32, most: u32, moves: &mut Vec<Move>) {
        let mut left = most.min(self.valid(victim));
        self.valid[victim as usize] -= left as u16;
        let mut page = self.geometry.first_ppn(victim);
        while left > 0 {
            // A block may begin within a word, behind pages of the one before it.
            let (word, before) = (page / 64, page % 64);
            let bits = self.live.get(word as usize);
            let mut rest = bits >> before << before;
            while rest != 0 && left > 0 {
                let from = word * 64 + rest.trailing_zeros();
                moves.push(Move { id: self.spare(from), from, to: NONE });
                rest &= rest - 1;
                left -= 1;
            }
            self.live.set(word as usize, bits & !(u64::MAX << before) | rest);
            page += 64 - before;
        }
    }

    /// Hand out the next pages of `frontier` in the plane for what moves, all of it.
    ///
    /// # Panics
    /// When the plane has no room: a victim is chosen when its valid pages fit, and their room is
    /// kept.
    pub fn allocate_all(&mut self, plane: u32, frontier: Frontier, moves: &mut [Move]) {
        let place = self.open_block(plane, frontier);
        let mut left = moves;
        while !left.is_empty() {
            if self.open[place] == NONE {
                assert!(self.free_blocks(plane) > 0, "plane {plane} has no room for moved pages");
                self.open[place] = self.take_free(plane, frontier);
            }
            let block = self.open[place];
            let room = self.room_in(block) as usize;
            let (here, rest) = left.split_at_mut(room.min(left.len()));
            self.hand_out_all(block, here);
            self.close_if_full(place);
            left = rest;
        }
    }

    /// Hand out the next pages of a block, which has that many.
    fn hand_out_all(&mut self, block: u32, moves: &mut [Move]) {
        let count = moves.len();
        let page = u32::from(self.blocks[block as usize].written);
        let (first, age) = self.book(block, page, count as u32);
        for (to, page) in (first..).zip(moves.iter_mut()) {
            page.to = to;
        }
        let entry = |i: usize| spare_entry(moves[i].id, age + i as u64);
        self.spare.fill_with(first as usize, count, entry);
        self.set_live_range(first, count as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::flash;
    use super::*;

    /// What the books say of each page and block.
    fn books(flash: &mut Flash) -> String {
        let pages = 0..flash.geometry.pages();
        let pages: Vec<_> =
            pages.map(|ppn| (flash.owner(ppn), flash.spare.get(ppn as usize))).collect();
        format!("{pages:?} {:?} {:?} {:?}", flash.blocks, flash.valid, flash.newly_sealed)
    }

    #[test]
    fn many_at_once_are_as_one_by_one() {
        let mut rng = sim::Rng::new(1, "moves");
        let mut flash = flash();
        (0..200).for_each(|id| assert!(flash.allocate(0, Frontier::HOST, id, 0).is_some()));
        (0..200).filter(|_| rng.below(3) == 0).for_each(|ppn| flash.invalidate(ppn));
        for victim in 0..40 {
            let (first, most) = (flash.geometry.first_ppn(victim), 1 + rng.below(4) as u32);
            flash.begin_collection(victim);
            let mut single = flash.clone();
            let (mut cursor, mut moved) = (0, Vec::new());
            while cursor < 4 && (moved.len() as u32) < most {
                let (from, id) = (first + cursor, single.owner(first + cursor));
                cursor += 1;
                if id != NONE {
                    let (to, _) = single.allocate(0, Frontier::MOVED, id, 0).unwrap();
                    single.invalidate(from);
                    moved.push(Move { id, from, to });
                }
            }
            let mut moves = Vec::new();
            flash.take_valid(victim, most, &mut moves);
            flash.allocate_all(0, Frontier::MOVED, &mut moves);
            assert_eq!(moves, moved);
            assert_eq!(books(&mut flash), books(&mut single));
        }
    }
}
