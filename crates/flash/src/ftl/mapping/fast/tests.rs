//! Closed forms and exact costs of FAST.

use crate::ftl::mapping::log_block::testing::{
    Drive, assert_order_switches_only, uniform_overwrites,
};

/// Measured over computed write amplification, less 1.
fn error(data: u32, logs: u32, b: u32, skip: impl Fn(u64) -> bool) -> f64 {
    // One more is the SW log block.
    let text = format!("mapping.fast.log_blocks = {}", logs + 1);
    let drive = Drive::one_plane(&text, data, b, data + logs + 3);
    // All logical blocks are merged once in D + L b writes.
    let waf = uniform_overwrites(drive, u64::from(4 * (data + logs * b)).max(200_000), skip);
    let (data, logs, b) = (f64::from(data), f64::from(logs), f64::from(b));
    waf / (1.0 + b * data / (data + logs * b)) - 1.0
}

#[test]
fn uniform_overwrites_amplify_as_computed() {
    let sizes =
        [(1000, 10, 64), (1000, 100, 64), (600, 12, 32), (4096, 32, 64), (30_720, 2048, 64)];
    for (data, logs, b) in sizes {
        // The closed form knows nothing of the SW log block, which page 0 opens.
        let error = error(data, logs, b, |lpn| lpn % u64::from(b) == 0);
        assert!(error.abs() < 0.03, "D={data} L={logs} b={b}: off by {error:+.4}");
    }
}

#[test]
fn writes_to_page_0_cost_partial_merges_on_top() {
    // Each closes an SW log block of one page: up to (b - 1) copies in b writes, less what the
    // merges of the RW log blocks save by it.
    for (data, logs, b) in [(1000, 10, 64), (1000, 100, 64)] {
        let error = error(data, logs, b, |_| false);
        assert!((0.0..0.06).contains(&error), "D={data} L={logs} b={b}: off by {error:+.4}");
    }
}

#[test]
fn overwriting_in_order_switches_only() {
    for striping in ["pages", "blocks"] {
        assert_order_switches_only(&format!("mapping.fast.striping = '{striping}'"), 30);
    }
}

#[test]
fn one_sequential_log_block_serves_one_plane_of_striped_pages_only() {
    let mut drive = Drive::planes(4, "mapping.fast.scope = 'naive_global'", 64, 8, 30);
    drive.fill();
    let counted = drive.counted(Drive::fill);
    assert_eq!(counted.merges()[0], 15, "every fourth; the last one waits for the next");
    assert!(counted.merges()[1] + counted.merges()[2] >= 45, "{:?}", counted.merges());
    let text = "mapping.fast = { scope = 'naive_global', striping = 'blocks' }";
    let mut drive = Drive::planes(4, text, 64, 8, 30);
    drive.fill();
    let counted = drive.counted(Drive::fill);
    assert_eq!(counted.merges(), [63, 0, 0], "the last one waits for the next");
}

#[test]
fn a_victim_costs_a_merge_for_each_logical_block_it_mixes() {
    let mut drive = Drive::one_plane("mapping.fast.log_blocks = 2", 8, 4, 16);
    drive.fill();
    // The RW log block takes pages of logical blocks 1, 2 and 3; the fifth update empties it.
    let update = |drive: &mut Drive, lpns: &[u64]| lpns.iter().for_each(|&lpn| drive.write(lpn));
    let filled = drive.counted(|drive| update(drive, &[5, 9, 13, 6]));
    assert_eq!((filled.copies(), filled.erases()), (0, 0));
    let emptied = drive.counted(|drive| update(drive, &[17]));
    assert_eq!((emptied.copies(), emptied.erases(), emptied.merges()), (12, 4, [0, 0, 3]));
    assert_eq!(emptied.get("log_victim_logical_blocks"), 3);
    assert_eq!(emptied.associativity_max(), 3);
}

#[test]
fn the_sequential_log_block_is_closed_by_the_cheapest_merge() {
    let mut drive = Drive::one_plane("mapping.fast.log_blocks = 3", 8, 4, 16);
    drive.fill();
    let partial = drive.counted(|drive| [0, 1, 4].into_iter().for_each(|lpn| drive.write(lpn)));
    assert_eq!((partial.copies(), partial.erases(), partial.merges()), (2, 1, [0, 1, 0]));
    // Page 4 is superseded by an RW log page, so the SW log block of 4 and 5 is no clean prefix.
    let full = drive.counted(|drive| [5, 4].into_iter().for_each(|lpn| drive.write(lpn)));
    assert_eq!(full.merges(), [0, 1, 0], "page 4 again opens an SW log block");
    let unclean = drive.counted(|drive| [5, 6, 5, 8].into_iter().for_each(|lpn| drive.write(lpn)));
    assert_eq!((unclean.copies(), unclean.erases(), unclean.merges()), (4, 2, [0, 0, 1]));
}

#[test]
fn a_broken_sequence_is_kept_or_merged() {
    let run = |rule: &str| {
        let text = format!("mapping.fast = {{ log_blocks = 3, sw_break = '{rule}' }}");
        let mut drive = Drive::one_plane(&text, 8, 4, 16);
        drive.fill();
        drive.counted(|drive| [0, 1, 3].into_iter().for_each(|lpn| drive.write(lpn))).merges()
    };
    assert_eq!((run("keep"), run("merge")), ([0, 0, 0], [0, 1, 0]));
}

#[test]
fn ram_and_limits() {
    let ram = |text| Drive::paper(text).ram();
    let logs = (131_072 * 21 + 2048 * 15) / 8;
    assert_eq!(ram("mapping.fast.log_blocks = 2048"), 27_856 * 15 / 8 + logs);
    assert_eq!(ram("mapping = 'fast'"), ram("mapping.fast.log_blocks = 2048"));
    let error = Drive::refused("mapping.fast.log_blocks = 0");
    assert!(error.starts_with("mapping.fast.log_blocks: expected 32 to 4896 ("), "{error}");
    let error = Drive::refused("mapping.fast = { scope = 'naive_global', log_blocks = 5000 }");
    assert!(error.contains("expected 2 to 4881"), "{error}");
    let error = Drive::refused("mapping = 'fast'\nover_provisioning.live_percent = 99.5");
    assert!(error.contains("expected 32 to 144 (the data blocks leave 9 spare"), "{error}");
}
