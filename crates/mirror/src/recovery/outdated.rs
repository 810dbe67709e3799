//! What a leg that is filled still has of maps.

use super::{Media, Recovery};
use crate::format::maps::SUMS_PER_PAGE;
use crate::types::Slot;

impl<M: Media> Recovery<'_, M> {
    /// A leg that is filled has pages of its maps from before. What is written to it from now on
    /// must be newer, and what it alone has is written over when it joins: else that would be
    /// believed at a later start.
    pub(super) fn read_outdated(&mut self, leg: Slot) -> Result<(), M::Error> {
        if let Some(activity) = self.media.activity(leg)? {
            self.version = self.version.max(activity.version);
            self.activity[leg] = activity.version;
        }
        for index in 0..self.bitmap_pages() {
            let version = self.media.bitmap(leg, index)?.map_or(0, |page| page.version);
            self.version = self.version.max(version);
        }
        for index in 0..self.table.pages() {
            let Some(page) = self.media.table(leg, index)? else { continue };
            self.version = self.version.max(page.version);
            if self.table.page(index).is_none() {
                self.table.load(index, &[(0, 0); SUMS_PER_PAGE as usize]);
            }
        }
        Ok(())
    }
}
