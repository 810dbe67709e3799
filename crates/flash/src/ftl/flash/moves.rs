//! Moving pages of a block, many at once: page by page, the books of both blocks would be opened
//! and closed for each.

use super::{Flash, Frontier};
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
    /// Take the valid pages of a victim from page `cursor` on, `most` of them at most: they are no
    /// longer valid there. They go to the end of `moves`. Returns the page to go on with.
    pub fn take_valid(
        &mut self,
        victim: u32,
        mut cursor: u32,
        most: u32,
        moves: &mut Vec<Move>,
    ) -> u32 {
        let written = u32::from(self.blocks[victim as usize].written);
        let first = self.geometry.first_ppn(victim);
        let most = most.min(self.valid(victim));
        let mut left = most;
        while left > 0 && cursor < written {
            let (word, bit) = ((first + cursor) / 64, (first + cursor) % 64);
            let pages = (64 - bit).min(written - cursor);
            let mask = u64::MAX >> (64 - pages) << bit;
            let bits = self.live.get(word as usize);
            let mut rest = bits & mask;
            cursor += pages;
            while rest != 0 && left > 0 {
                let from = word * 64 + rest.trailing_zeros();
                moves.push(Move { id: self.spare.get(from as usize), from, to: NONE });
                rest &= rest - 1;
                left -= 1;
                if left == 0 {
                    cursor = from + 1 - first;
                }
            }
            self.live.set(word as usize, bits & !mask | rest);
        }
        self.valid[victim as usize] -= (most - left) as u16;
        if self.valid(victim) == 0 { written } else { cursor }
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
            if here.len() == room {
                self.open[place] = NONE;
                self.seal(block);
            }
            left = rest;
        }
    }

    /// Hand out the next pages of a block, which has that many.
    fn hand_out_all(&mut self, block: u32, moves: &mut [Move]) {
        let record = &mut self.blocks[block as usize];
        if record.written == 0 {
            record.opened_at = self.clock;
        }
        let (page, age) = (u32::from(record.written), self.clock - record.opened_at);
        let count = moves.len();
        record.written += count as u16;
        self.clock += count as u64;
        self.valid[block as usize] += count as u16;
        let first = self.geometry.first_ppn(block) + page;
        for (to, page) in (first..).zip(moves.iter_mut()) {
            page.to = to;
        }
        let age_of = |i| (age + i as u64).min(u64::from(u32::MAX)) as u32;
        self.spare.fill_with(first as usize, count, |i| moves[i].id);
        self.age.fill_with(first as usize, count, age_of);
        let (mut next, end) = (first, first + count as u32);
        while next < end {
            let (word, bit) = ((next / 64) as usize, next % 64);
            let pages = (64 - bit).min(end - next);
            let bits = self.live.get(word);
            self.live.set(word, bits | u64::MAX >> (64 - pages) << bit);
            next += pages;
        }
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
            pages.map(|ppn| (flash.owner(ppn), flash.age.get(ppn as usize))).collect();
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
            let next = flash.take_valid(victim, 0, most, &mut moves);
            flash.allocate_all(0, Frontier::MOVED, &mut moves);
            assert_eq!(moves, moved);
            assert!(next >= cursor && (cursor..next).all(|page| flash.owner(first + page) == NONE));
            assert_eq!(books(&mut flash), books(&mut single));
        }
    }
}
