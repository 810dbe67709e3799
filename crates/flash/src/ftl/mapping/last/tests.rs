//! Exact costs of each buffer, and what telling hot from cold saves.

use crate::ftl::mapping::log_block::testing::Drive;

/// Three random log blocks and one sequential one; two pages are a sequential request.
const SMALL: &str =
    "mapping.last = { log_blocks = 4, sequential_blocks = 1, sequential_from = '1KiB' }";

fn write_all(drive: &mut Drive, lpns: &[u64]) {
    lpns.iter().for_each(|&lpn| drive.write(lpn));
}

fn small() -> Drive {
    let mut drive = Drive::one_plane(SMALL, 8, 4, 20);
    drive.fill();
    drive
}

#[test]
fn long_requests_switch_or_merge_partially() {
    let mut drive = small();
    let counted = drive.counted(|drive| (0..8).for_each(|block| drive.write_run(block * 4, 4)));
    assert_eq!((counted.copies(), counted.merges()), (0, [7, 0, 0]), "the last one waits");
    let counted = drive.counted(|drive| [0, 4].into_iter().for_each(|lpn| drive.write_run(lpn, 2)));
    assert_eq!((counted.copies(), counted.merges()), (2, [1, 1, 0]));
}

#[test]
fn hot_pages_die_together_and_cost_an_erase() {
    let mut drive = small();
    // Cold: pages of three logical blocks, and page 17 before it turns out to be hot.
    let counted = drive.counted(|drive| {
        write_all(drive, &[5, 9, 13, 17]);
        write_all(drive, &[17; 40]);
    });
    assert_eq!((counted.copies(), counted.merges()), (0, [0, 0, 0]));
    assert!((8..=9).contains(&counted.erases()), "{}", counted.erases());
    assert_eq!(counted.associativity_max(), 0);
}

#[test]
fn the_log_block_of_fewest_logical_blocks_is_emptied() {
    let mut drive = small();
    // Log blocks of 1, 2, 3; of 4 and 5; of 6, 7 and 0. The second is the cheapest.
    let lpns = [5, 9, 13, 6, 17, 21, 18, 22, 25, 29, 1, 26];
    let filled = drive.counted(|drive| write_all(drive, &lpns));
    assert_eq!((filled.copies(), filled.erases()), (0, 0));
    let emptied = drive.counted(|drive| write_all(drive, &[2]));
    assert_eq!((emptied.copies(), emptied.erases(), emptied.merges()), (8, 3, [0, 0, 2]));
}

#[test]
fn telling_hot_from_cold_saves_copies() {
    let run = |text: &str| {
        let mut drive = Drive::one_plane(text, 200, 32, 230);
        drive.fill();
        let mut rng = sim::Rng::new(5, "hot");
        let mut write = |drive: &mut Drive| {
            for _ in 0..20_000 {
                // Nine of ten writes go to a hundredth of the pages.
                let hot = rng.below(10) > 0;
                let lpn = if hot { rng.below(64) * 100 + 1 } else { rng.below(6_400) | 1 };
                drive.write(lpn);
            }
        };
        write(&mut drive);
        drive.counted(write).copies() as f64
    };
    let fast = run("mapping.fast.log_blocks = 20");
    let last = run("mapping.last = { log_blocks = 20, sequential_blocks = 1 }");
    assert!(last < 0.7 * fast, "{last} copies instead of {fast}");
}

#[test]
fn one_page_is_no_sequential_request_however_large_it_is() {
    let mut drive = Drive::build(
        "mapping.last = { log_blocks = 4, sequential_blocks = 1 }\ntiming = 'none'\n\
         over_provisioning.capacity = '512KiB'\ncollection.separate = false\n[geometry]\n\
         channels = 1\npackages_per_channel = 1\ndies_per_package = 1\nplanes_per_die = 1\n\
         blocks_per_plane = 20\npages_per_block = 4\npage = '16KiB'\n",
    );
    drive.fill();
    // 4 KiB in each of three logical blocks: one random log block takes them all.
    let counted =
        drive.counted(|drive| [5, 9, 13].into_iter().for_each(|p| drive.write_part(p, 8)));
    assert_eq!((counted.copies(), counted.merges()), (0, [0, 0, 0]));
}

#[test]
fn ram_and_limits() {
    let ram = Drive::paper("mapping.last = { log_blocks = 2048, sequential_blocks = 28 }").ram();
    let sequential = 16 * 28 * (15 + 64 * 6);
    assert_eq!(ram, (27_856 * 15 + sequential + 1600 * (15 + 64 * 21 + 33)) / 8);
    let error = Drive::refused("mapping.last.log_blocks = 0");
    assert!(error.starts_with("mapping.last.log_blocks: expected 48 to 4896 ("), "{error}");
    let error = Drive::refused("mapping.last = { log_blocks = 64, sequential_blocks = 3 }");
    assert!(error.contains("sequential_blocks: expected 1 to 2 (the log blocks of a"), "{error}");
    let error = Drive::refused("mapping.last.sequential_from = '2KiB'");
    assert!(
        error.starts_with("mapping.last.sequential_from: expected more than a page"),
        "{error}"
    );
}
