//! Which block has the fewest valid pages.

use super::{Flash, Frontier, GROUP, HIDDEN};

impl Flash {
    /// True when a full block holds too many valid map pages to be a victim.
    pub(super) fn is_to_be_withheld(&self, block: u32) -> bool {
        let too_many = |most| self.valid(block) > most;
        self.blocks[block as usize].frontier() == Frontier::MAP
            && self.map_victim_pages.is_some_and(too_many)
    }

    /// Offer a full block to victim selection, now or later.
    #[cold]
    pub(super) fn seal(&mut self, block: u32) {
        self.seals += 1;
        self.blocks[block as usize].sealed_at = self.seals;
        if self.is_to_be_withheld(block) {
            self.blocks[block as usize].withheld = true
        } else {
            self.offer(block)
        }
    }

    /// Withdraw a block from victim selection because it is being collected.
    pub fn begin_collection(&mut self, block: u32) {
        self.valid[block as usize] |= HIDDEN;
        self.refresh_group(block);
    }

    /// Offer a full block to victim selection.
    pub(super) fn offer(&mut self, block: u32) {
        self.blocks[block as usize].withheld = false;
        let valid = &mut self.valid[block as usize];
        *valid &= !HIDDEN;
        let group = &mut self.group_least[block as usize / GROUP];
        *group = (*group).min(*valid);
        self.newly_sealed.push(block);
    }

    /// Offer the withheld blocks of a plane, too: it has no other victim. False when it has none.
    pub fn offer_withheld(&mut self, plane: u32) -> bool {
        let blocks = self.geometry.blocks_of_plane(plane);
        let withheld: Vec<u32> =
            blocks.filter(|&block| self.blocks[block as usize].withheld).collect();
        withheld.iter().for_each(|&block| self.offer(block));
        !withheld.is_empty()
    }

    /// Look at every full block anew, because what is valid was found out just now.
    pub(super) fn withhold_all(&mut self) {
        for block in 0..self.geometry.blocks() {
            let withhold = self.is_to_be_withheld(block);
            if self.blocks[block as usize].withheld && !withhold {
                self.offer(block);
            } else if self.is_sealed(block) && withhold {
                self.blocks[block as usize].withheld = true;
                self.begin_collection(block);
            }
        }
    }

    pub(super) fn refresh_group(&mut self, block: u32) {
        let group = block as usize / GROUP;
        let end = (group * GROUP + GROUP).min(self.valid.len());
        let least = self.valid[group * GROUP..end].iter().min();
        self.group_least[group] = *least.expect("a group has blocks");
    }

    /// The sealed block with the fewest valid pages in the range, the lowest-numbered of several;
    /// `None` when no block is sealed.
    pub fn least_valid(&self, blocks: std::ops::Range<u32>) -> Option<u32> {
        let (start, end) = (blocks.start as usize, blocks.end as usize);
        let groups_start = start.next_multiple_of(GROUP).min(end);
        let groups_end = (end - end % GROUP).max(groups_start);
        let least_of = |range: &[u16]| range.iter().copied().min().unwrap_or(HIDDEN);
        let head = least_of(&self.valid[start..groups_start]);
        let tail = least_of(&self.valid[groups_end..end]);
        let groups = groups_start / GROUP..groups_end / GROUP;
        let body = least_of(&self.group_least[groups.clone()]);
        let least = head.min(body).min(tail);
        if least >= HIDDEN {
            return None;
        }
        let search = |from: usize, to: usize| {
            self.valid[from..to].iter().position(|&v| v == least).map(|i| (from + i) as u32)
        };
        if head == least {
            return search(start, groups_start);
        }
        if body == least {
            let group = groups.start + self.group_least[groups].iter().position(|&v| v == least)?;
            return search(group * GROUP, group * GROUP + GROUP);
        }
        search(groups_end, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::flash::tests::flash;

    #[test]
    fn a_block_of_map_pages_is_a_victim_when_it_is_nearly_empty() {
        let mut flash = flash();
        flash.map_victim_pages = Some(1);
        for frontier in [Frontier::MAP, Frontier::MAP, Frontier::HOST] {
            (0..4).for_each(|id| assert!(flash.allocate(0, frontier, id, 0).is_some()));
        }
        assert_eq!(flash.newly_sealed, [2], "the block of the host's pages");
        (0..2).for_each(|ppn| flash.invalidate(ppn));
        assert_eq!(flash.least_valid(0..150), Some(2), "not the first, which is half empty");
        flash.invalidate(2);
        assert_eq!(flash.least_valid(0..150), Some(0));
        assert_eq!((flash.is_sealed(0), flash.is_sealed(1)), (true, false));
        // Nothing else would do.
        assert!(flash.offer_withheld(0) && flash.is_sealed(1) && !flash.offer_withheld(0));
        assert_eq!(flash.newly_sealed, [2, 0, 1]);
    }
}
