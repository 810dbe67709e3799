//! Which block has the fewest valid pages.

use super::{Flash, GROUP, HIDDEN};

impl Flash {
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
