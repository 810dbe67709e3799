//! Lists in order of use over numbered things, without allocation.

use sim::snapshot_fields;

use crate::ssd::plan::NONE;

/// Doubly linked lists over the numbers `0..count`; a number is in one list at most.
#[derive(Clone, Debug)]
pub struct Lists {
    /// (towards the head, towards the tail) of each number.
    links: Vec<(u32, u32)>,
    /// (head: most recently used, tail) of each list.
    ends: Vec<(u32, u32)>,
    lengths: Vec<u32>,
}

snapshot_fields!(Lists { links, ends, lengths });

impl Lists {
    /// `lists` empty lists over `count` numbers.
    pub fn new(count: u32, lists: u32) -> Lists {
        Lists {
            links: vec![(NONE, NONE); count as usize],
            ends: vec![(NONE, NONE); lists as usize],
            lengths: vec![0; lists as usize],
        }
    }

    /// Make room for one number more.
    pub fn grow(&mut self) {
        self.links.push((NONE, NONE));
    }

    /// Numbers in a list.
    #[inline]
    pub fn len(&self, list: u32) -> u32 {
        self.lengths[list as usize]
    }

    /// The number at the head.
    #[inline]
    pub fn head(&self, list: u32) -> Option<u32> {
        Some(self.ends[list as usize].0).filter(|&number| number != NONE)
    }

    /// The number at the tail: the least recently used.
    #[inline]
    pub fn tail(&self, list: u32) -> Option<u32> {
        Some(self.ends[list as usize].1).filter(|&number| number != NONE)
    }

    /// The next number towards the head.
    #[inline]
    pub fn newer(&self, number: u32) -> Option<u32> {
        Some(self.links[number as usize].0).filter(|&number| number != NONE)
    }

    /// The next number towards the tail.
    #[inline]
    pub fn older(&self, number: u32) -> Option<u32> {
        Some(self.links[number as usize].1).filter(|&number| number != NONE)
    }

    /// Put a number that is in no list at the head of one.
    #[inline]
    pub fn push(&mut self, list: u32, number: u32) {
        let (head, _) = self.ends[list as usize];
        self.links[number as usize] = (NONE, head);
        match head {
            NONE => self.ends[list as usize].1 = number,
            _ => self.links[head as usize].0 = number,
        }
        self.ends[list as usize].0 = number;
        self.lengths[list as usize] += 1;
    }

    /// Take a number out of the list it is in.
    #[inline]
    pub fn remove(&mut self, list: u32, number: u32) {
        let (newer, older) = self.links[number as usize];
        match newer {
            NONE => self.ends[list as usize].0 = older,
            _ => self.links[newer as usize].1 = older,
        }
        match older {
            NONE => self.ends[list as usize].1 = newer,
            _ => self.links[older as usize].0 = newer,
        }
        self.lengths[list as usize] -= 1;
    }

    /// Move a number of a list to its head.
    #[inline]
    pub fn touch(&mut self, list: u32, number: u32) {
        if self.ends[list as usize].0 != number {
            self.remove(list, number);
            self.push(list, number);
        }
    }

    /// Empty every list.
    pub fn clear(&mut self) {
        self.ends.fill((NONE, NONE));
        self.lengths.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_the_order_of_use() {
        let mut lists = Lists::new(6, 2);
        (0..4).for_each(|number| lists.push(0, number));
        lists.push(1, 5);
        lists.touch(0, 1);
        lists.touch(0, 1);
        lists.remove(0, 2);
        let order = std::iter::successors(lists.tail(0), |&number| lists.newer(number));
        assert_eq!(order.collect::<Vec<_>>(), [0, 3, 1]);
        assert_eq!((lists.head(0), lists.len(0), lists.tail(1)), (Some(1), 3, Some(5)));
        (0..4).filter(|&n| n != 2).for_each(|number| lists.remove(0, number));
        assert_eq!((lists.head(0), lists.tail(0), lists.len(0)), (None, None, 0));
    }
}
