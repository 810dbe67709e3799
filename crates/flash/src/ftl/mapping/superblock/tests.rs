//! Exact costs, and the page map at one end.

use super::Params;
use crate::ftl::allocation::{self, static_};
use crate::ftl::flash::Flash;
use crate::ftl::mapping::log_block::testing::Drive;
use crate::ftl::mapping::{Context, HostPage};
use crate::ssd::geometry::GeometryParams;
use crate::ssd::plan::{NONE, Plan};

/// Two superblocks of two logical blocks and up to four blocks, four pages each.
const SMALL: &str = "mapping.superblock = { group_blocks = 2, fan_out = 4 }";

fn small(changes: &str) -> Drive {
    let mut drive = Drive::one_plane(changes, 4, 4, 16);
    drive.fill();
    drive
}

fn write_all(drive: &mut Drive, lpns: &[u64]) {
    lpns.iter().for_each(|&lpn| drive.write(lpn));
}

#[test]
fn a_block_without_valid_pages_is_exchanged() {
    let mut drive = small(SMALL);
    // Twice in order: each time the oldest blocks hold nothing any more.
    let counted = drive.counted(|drive| (0..4).for_each(|_| write_all(drive, &[0, 1, 2, 3])));
    assert_eq!((counted.copies(), counted.erases()), (0, 2));
    assert_eq!(counted.get("superblock_victims.exchanged"), 2);
}

#[test]
fn the_block_with_the_fewest_valid_pages_is_collected() {
    let mut drive = small(SMALL);
    // Blocks: 0 1 2 3 | 4 5 6 7 | 0 1 2 4 | 5 0 1 2, so 1, 2, 1 and 4 valid pages.
    let counted = drive.counted(|drive| write_all(drive, &[0, 1, 2, 4, 5, 0, 1, 2]));
    assert_eq!((counted.copies(), counted.erases()), (0, 0));
    // The first goes to a block for moved pages, which makes no room; the third follows it.
    let counted = drive.counted(|drive| drive.write(3));
    assert_eq!((counted.copies(), counted.erases()), (2, 2));
    assert_eq!(counted.get("superblock_victims.copied"), 2);
    let mut drive =
        small("mapping.superblock = { group_blocks = 2, separate = false, fan_out = 4 }");
    write_all(&mut drive, &[0, 1, 2, 4, 5, 0, 1, 2]);
    // Without a block of their own, the host goes on behind the moved pages at once.
    let counted = drive.counted(|drive| drive.write(3));
    assert_eq!((counted.copies(), counted.erases()), (1, 1));
}

#[test]
fn a_superblock_gives_up_a_block_for_another() {
    // Four superblocks of one logical block, four spare blocks of which each may want two.
    let text = "mapping.superblock = { group_blocks = 1, fan_out = 4 }";
    let mut drive = Drive::one_plane(text, 4, 4, 9);
    drive.fill();
    let counted = drive.counted(|drive| write_all(drive, &[0, 4, 5, 8, 0, 0, 0]));
    assert_eq!(counted.erases(), 0);
    assert_eq!(counted.get("superblock_evictions"), 0);
    // The first superblock's third block is the last free one; the fourth has to take one away.
    let counted = drive.counted(|drive| write_all(drive, &[0, 12]));
    assert_eq!(counted.get("superblock_evictions"), 1);
    assert!(counted.erases() >= 1);
}

#[test]
fn a_table_that_is_not_cached_costs_reads_of_spare_areas() {
    let text = "mapping.superblock = { group_blocks = 2, fan_out = 4, cache_tables = 1 }";
    let mut drive = small(text);
    let reads =
        |drive: &mut Drive, lpn| drive.counted(|drive| drive.write(lpn)).get("flash_reads.map");
    // The last page written of the superblock has its middle directory.
    assert_eq!(reads(&mut drive, 15), 0, "its table is in RAM");
    assert_eq!(reads(&mut drive, 0), 2, "the directory is with page 7");
    assert_eq!(reads(&mut drive, 8), 2, "the directory is with page 15");
    assert_eq!(reads(&mut drive, 1), 1, "the directory is with page 0, and so is its table");
}

#[test]
fn a_write_in_part_reads_the_tables_before_the_rest_of_the_page() {
    let params = GeometryParams {
        channels: 1,
        packages_per_channel: 1,
        dies_per_package: 1,
        planes_per_die: 1,
        blocks_per_plane: 16,
        pages_per_block: 4,
        ..GeometryParams::default()
    };
    let geometry = params.check().unwrap();
    let allocator = static_::Params::default().build(&allocation::Context { geometry }).unwrap();
    let (logical_pages, reserve, copy_back) = (16, 1, true);
    let context =
        Context { geometry, allocator, logical_pages, reserve, copy_back, pslc_pages: None };
    let params = Params { group_blocks: Some(2), fan_out: 4, cache_tables: 1, ..Params::default() };
    let mut mapping = params.build(&context).unwrap();
    let mut flash = Flash::new(geometry, mapping.needs().frontiers, false);
    let mut write = |page| {
        let mut plan = Plan::default();
        mapping.write(&mut flash, page, &mut plan).unwrap();
        let programmed = plan.ops.last().expect("it ends with a program").ppn();
        flash.programmed(programmed, NONE);
        plan.stage_ends
    };
    let whole = |lpn| HostPage::whole(lpn, geometry.page_sectors, 0, 1);
    (0..16).for_each(|lpn| drop(write(whole(lpn))));
    // Two spare areas, then the rest; without a rest only the spare areas.
    assert_eq!(write(HostPage { whole: false, sectors: 1, ..whole(0) }), [2, 3]);
    assert_eq!(write(whole(8)), [2]);
}

#[test]
fn one_superblock_amplifies_as_a_page_map() {
    let run = |text: &str| {
        let mut drive = Drive::one_plane(text, 80, 32, 102);
        drive.fill();
        let mut rng = sim::Rng::new(7, "uniform");
        let mut write = |drive: &mut Drive| {
            (0..3 * drive.pages()).for_each(|_| drive.write(rng.below(drive.pages())));
        };
        write(&mut drive);
        let counted = drive.counted(write);
        let copies = counted.copies() + counted.get("flash_programs.gc");
        1.0 + copies as f64 / counted.get("flash_programs.host") as f64
    };
    let page = run("mapping = 'page'\ncollection.start_free_percent = 0");
    let text = "mapping.superblock = { group_blocks = 80, update_blocks = 20, separate = false }";
    let superblock = run(text);
    assert!((superblock / page - 1.0).abs() < 0.05, "{superblock} instead of {page}");
}

#[test]
fn overwriting_in_order_copies_nothing() {
    let mut drive = Drive::planes(4, "mapping = 'superblock'", 64, 8, 40);
    (0..3).for_each(|_| drive.fill());
    let counted = drive.counted(Drive::fill);
    assert_eq!((counted.copies(), counted.erases()), (0, 64));
}

#[test]
fn ram_and_limits() {
    let text = "mapping.superblock = { group_blocks = 8, cache_tables = 1000 }";
    // 218 superblocks on each of 16 planes, two middle directories each.
    let directories = 218 * 16 * 2 * 21;
    let tables = 1000 * (16 * 10 + 17);
    assert_eq!(Drive::paper(text).ram(), (32_768u64 * 15 + directories + tables).div_ceil(8));
    let refused = |keys: &str| Drive::refused(&format!("mapping.superblock = {{ {keys} }}"));
    assert_eq!(
        refused("group_blocks = 5"),
        "mapping.superblock.group_blocks: expected at least 6 (each of a plane's superblocks needs \
         one of its 306 spare blocks), got 5"
    );
    assert!(
        refused("update_blocks = 1").contains("expected 2 to 1741 with separate = true, got 1")
    );
    assert!(refused("fan_out = 1").contains("expected 2 to 256, got 1"));
    assert!(refused("cache_tables = 0").contains("expected at least 1, got 0"));
}
