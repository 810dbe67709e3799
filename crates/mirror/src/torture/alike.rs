//! Both copies of a block change to the same wrong content, as when both legs lose one write: the
//! recorded checksum must not be outvoted, and the next write heals.

use super::disk;
use super::history::Violation;
use super::world::World;
use crate::core::{Command, Content, Event};
use crate::format::maps::SUMS_PER_PAGE;
use crate::types::{LEGS, Span};

impl World<'_> {
    /// Let it happen to a block that is at rest, and look whether anybody notices.
    pub(super) fn change_alike(&mut self) -> Result<(), Violation> {
        if !self.all_well() {
            return Ok(());
        }
        self.drain()?;
        let block = self.rng.below(self.plan.geometry.blocks);
        let right = self.disks[0].data[block as usize];
        let known = (0..LEGS).all(|leg| {
            let page = self.disks[leg].table();
            page.is_some_and(|page| {
                page.sums[(block % SUMS_PER_PAGE) as usize].0 == disk::sum(block, right)
            })
        });
        if !self.all_well() || !known || self.disks[1].data[block as usize] != right {
            return Ok(());
        }
        self.say(format_args!("! both copies of {block} change alike"));
        for leg in 0..LEGS {
            self.disks[leg].set(block, right ^ 1);
        }
        self.alike = Some(block);
        self.tell(Event::Command(Command::Scrub));
        self.drain()?;
        self.issue_read(Span::new(block, 1));
        self.drain()?;
        if self.alike.take().is_some() {
            let text = format!("block {block}: both copies are wrong, and are read as right");
            return Err(Violation(text));
        }
        self.issue_write(Span::new(block, 1), Content::Data, false);
        self.drain()?;
        self.issue_read(Span::new(block, 1));
        self.drain()
    }
}
