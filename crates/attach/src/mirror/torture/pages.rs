//! What a medium says of itself, read by the format alone.

use mirror::format::maps::{Activity, Bitmap, TablePage};
use mirror::format::{Layout, PageAddress, Superblock};
use mirror::{LEGS, Slot};
use sim::Rng;

use super::medium::{Medium, Page};
use crate::mirror::media::layout_of;

/// What it says it is, if anything: the newest copy that can be read, wherever it is.
pub(super) fn superblock(medium: &Medium, slot: Slot) -> Option<Superblock> {
    let device = slot as u8;
    let found = medium.written().filter_map(|(page, bytes)| {
        Superblock::decode(PageAddress { device, page }, &bytes[..]).ok()
    });
    found.max_by_key(|superblock| superblock.update)
}

/// Pages of which the newest version counts: where each such group is, and how to read a version.
type Version = fn(u128, PageAddress, &Page) -> Option<u64>;

fn groups(layout: &Layout) -> Vec<(std::ops::Range<u64>, Version)> {
    let activity: Version =
        |array, place, page| Some(Activity::decode(array, place, &page[..]).ok()?.version);
    let bitmap: Version =
        |array, place, page| Some(Bitmap::decode(array, place, &page[..]).ok()?.version);
    let table: Version =
        |array, place, page| Some(TablePage::decode(array, place, &page[..]).ok()?.version);
    let pairs = |from: u64, to: u64, version| {
        (from..to).step_by(2).map(move |page| (page..page + 2, version))
    };
    let blocks = layout.blocks.div_ceil(mirror::format::maps::SUMS_PER_PAGE);
    let mut groups = vec![(layout.activity..layout.bitmap, activity)];
    groups.extend(pairs(layout.bitmap, layout.table, bitmap));
    groups.extend(pairs(layout.table, layout.table + 2 * blocks, table));
    groups
}

fn newest(
    medium: &Medium,
    own: (u128, Slot),
    group: &(std::ops::Range<u64>, Version),
) -> Option<u64> {
    let (array, slot) = own;
    let found = group.0.clone().filter_map(|page| {
        group.1(array, PageAddress { device: slot as u8, page }, medium.kept(page)?)
    });
    found.max()
}

/// Whatever was durable of the maps of a leg is there, or something newer.
pub(super) fn none_lost(before: &Medium, after: &Medium, leg: Slot) -> Result<(), String> {
    let Some(superblock) = superblock(before, leg) else { return Ok(()) };
    for group in groups(&layout_of(leg, &superblock.geometry)) {
        let own = (superblock.array, leg);
        let (was, is) = (newest(before, own, &group), newest(after, own, &group));
        if was > is {
            let pages = &group.0;
            return Err(format!(
                "of pages {pages:?} of leg {leg}, version {was:?} is gone: {is:?}"
            ));
        }
    }
    Ok(())
}

/// One of the two copies of the newest activity log rots; the last copy would be a second fault.
pub(super) fn rot_activity(medium: &mut Medium, leg: Slot, rng: &mut Rng) {
    let Some(superblock) = superblock(medium, leg) else { return };
    let layout = layout_of(leg, &superblock.geometry);
    let (pages, version) = groups(&layout).swap_remove(0);
    let of = |page: u64| {
        let place = PageAddress { device: leg as u8, page };
        version(superblock.array, place, medium.kept(page)?).map(|version| (version, page))
    };
    let Some((newest, page)) = pages.clone().filter_map(of).max() else { return };
    let second = pages.start + ((page - pages.start) ^ 1);
    match (of(second), medium.kept(second)) {
        (Some((version, _)), _) if version == newest => {
            medium.rot([page, second][rng.below(2) as usize]);
        }
        // Both pairs of pages were written before, but this second one never was.
        (None, None) if newest > 2 => medium.rot(page),
        _ => {}
    }
}

/// Is the data of both legs the same? If not, a block in which it is not.
pub(super) fn alike(legs: &[Medium; LEGS], blocks: u64) -> Result<(), u64> {
    let superblock = superblock(&legs[0], 0).ok_or(0_u64)?;
    let data = layout_of(0, &superblock.geometry).data;
    let zeros: Page = std::sync::Arc::new([0; 4096]);
    let differs = |page: &u64| {
        let [a, b] = legs.each_ref().map(|leg| leg.kept(*page).unwrap_or(&zeros));
        a != b
    };
    (data..data + blocks).find(differs).map_or(Ok(()), |page| Err(page - data))
}

#[cfg(test)]
mod tests {
    use mirror::FAST;

    use super::super::world::{TorturePlan, World};
    use super::*;

    #[test]
    fn copies_at_the_end_count() {
        let world = World::new(TorturePlan::new(0));
        let mut medium = world.machine.medium(world.slots[FAST].0);
        let whole = superblock(&medium, FAST);
        assert!(whole.is_some());
        (0..2).for_each(|page| medium.rot(page));
        assert_eq!(superblock(&medium, FAST), whole);
    }
}
