//! The bound on a write's wait, and exact costs.

use crate::ftl::mapping::log_block::testing::{Drive, assert_order_switches_only};

const READ: u64 = 25_000;
const PROGRAM: u64 = 200_000;
const ERASE: u64 = 2_000_000;

/// Time of the merges that the worst write waits for: K (b c + E) + E.
fn bound(k: u64, b: u64) -> u64 {
    k * (b * (READ + PROGRAM) + ERASE) + ERASE
}

#[test]
fn the_bound_of_64_pages_is_the_one_of_the_paper() {
    assert_eq!(bound(1, 64) - ERASE, 16_400_000);
}

#[test]
fn no_write_waits_for_more_merges_than_the_bound_and_some_for_as_many() {
    for k in [1, 2, 4] {
        let text = format!("mapping.kast = {{ log_blocks = 4, associativity = {k} }}");
        let mut drive = Drive::timed(&text, 32, 16, 40);
        (0..drive.pages()).for_each(|lpn| drive.write(lpn));
        let alone = drive.timed_write(1).0;
        assert!((PROGRAM..PROGRAM + 50_000).contains(&alone), "{alone}");
        let mut rng = sim::Rng::new(1, "bound");
        let mut worst = 0;
        for _ in 0..3_000 {
            // Pages 0 are left out half of the time: they are for the SW log blocks.
            let lpn = rng.below(drive.pages());
            let lpn = if rng.below(2) == 0 { lpn | 1 } else { lpn };
            worst = worst.max(drive.timed_write(lpn).0);
        }
        let counted = drive.counted(|_| ());
        assert_eq!(counted.associativity_max(), k);
        let merges = worst - alone;
        let error = merges as f64 / bound(k, 16) as f64 - 1.0;
        assert!(error.abs() < 0.01, "K={k}: {merges} ns instead of {} ns", bound(k, 16));
    }
}

fn write_all(drive: &mut Drive, lpns: &[u64]) {
    lpns.iter().for_each(|&lpn| drive.write(lpn));
}

#[test]
fn logical_blocks_are_dealt_to_log_blocks_with_fewest() {
    let text = "mapping.kast = { log_blocks = 2, associativity = 2, sequential_blocks = 1 }";
    let mut drive = Drive::one_plane(text, 8, 4, 16);
    drive.fill();
    // Two RW log blocks of K = 2: logical blocks 0 and 2 share one, 1 and 3 the other.
    let counted = drive.counted(|drive| write_all(drive, &[1, 5, 9, 13, 2]));
    assert_eq!((counted.copies(), counted.erases()), (0, 0));
    // A fifth logical block fits nowhere: the older one is emptied, at two merges.
    let counted = drive.counted(|drive| write_all(drive, &[17]));
    assert_eq!((counted.copies(), counted.erases(), counted.merges()), (8, 3, [0, 0, 2]));
    assert_eq!(counted.get("log_victim_logical_blocks"), 2);
}

#[test]
fn streams_switch_and_a_broken_one_becomes_random() {
    let text = "mapping.kast = { log_blocks = 4, associativity = 2, sequential_blocks = 2 }";
    let mut drive = Drive::one_plane(text, 8, 4, 16);
    drive.fill();
    // Two streams side by side, each a data block by switch when the next needs its log block.
    let both = [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15];
    let counted = drive.counted(|drive| write_all(drive, &both));
    assert_eq!((counted.copies(), counted.erases(), counted.merges()), (0, 2, [2, 0, 0]));
    // Stream 16 is closed by a partial merge after two pages.
    let partial = drive.counted(|drive| write_all(drive, &[16, 17, 20, 24]));
    assert_eq!((partial.copies(), partial.erases(), partial.merges()), (2, 3, [2, 1, 0]));
    // Page 22 is not the one after 20: the log block of 20 becomes random and takes page 29 too.
    let broken = drive.counted(|drive| write_all(drive, &[22, 1, 29, 23]));
    assert_eq!((broken.copies(), broken.erases(), broken.merges()), (0, 0, [0, 0, 0]));
}

#[test]
fn overwriting_in_order_switches_only() {
    assert_order_switches_only("mapping = 'kast'", 30);
}

#[test]
fn ram_and_limits() {
    let ram = Drive::paper("mapping.kast = { log_blocks = 2048, associativity = 4 }").ram();
    assert_eq!(ram, (27_856 * 15 + 2048 * (64 * 21 + 15 + 4 * 15)) / 8);
    let error = Drive::refused("mapping.kast.log_blocks = 0");
    assert!(error.starts_with("mapping.kast.log_blocks: expected 32 to 4896 ("), "{error}");
    let error = Drive::refused("mapping.kast.associativity = 0");
    assert_eq!(error, "mapping.kast.associativity: expected 1 to 64 (the pages of a block), got 0");
    let error = Drive::refused("mapping.kast = { log_blocks = 32, sequential_blocks = 2 }");
    assert!(error.contains("expected 1 to 1 (the log blocks of a plane less one)"), "{error}");
}
