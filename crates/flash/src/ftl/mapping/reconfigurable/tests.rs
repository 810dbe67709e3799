//! The schemes it contains, and exact costs.

use crate::ftl::mapping::log_block::testing::{
    Drive, assert_order_switches_only, uniform_overwrites,
};

#[test]
fn one_log_block_for_one_logical_block_is_bast() {
    let run = |text: &str| {
        let mut drive = Drive::planes(2, text, 64, 8, 60);
        drive.fill();
        let mut rng = sim::Rng::new(3, "bast");
        drive.counted(|drive| {
            for _ in 0..5_000 {
                let lpn = rng.below(drive.pages());
                // Half of the writes are runs, so that there are merges of every kind.
                let run = if rng.below(8) == 0 { 16 } else { 1 };
                (lpn..(lpn + run).min(drive.pages())).for_each(|lpn| drive.write(lpn));
            }
        })
    };
    let bast = run("mapping.bast.log_blocks = 16");
    let same =
        run("mapping.reconfigurable = { group_blocks = 1, group_logs = 1, log_blocks = 16 }");
    assert!(bast.merges().iter().all(|&count| count > 20), "{:?}", bast.merges());
    assert_eq!(same.merges(), bast.merges());
    assert_eq!((same.copies(), same.erases()), (bast.copies(), bast.erases()));
    assert_eq!(same.get("update_pure"), bast.get("update_pure"));
}

#[test]
fn one_group_of_everything_amplifies_as_fast_does() {
    for (data, logs, b) in [(1000, 10, 64), (1000, 100, 64), (600, 12, 32)] {
        let text = format!(
            "mapping.reconfigurable = \
             {{ group_blocks = {data}, group_logs = {logs}, log_blocks = {logs} }}"
        );
        let drive = Drive::one_plane(&text, data, b, data + logs + 3);
        let waf = uniform_overwrites(drive, 200_000, |_| false);
        let (data, logs, b) = (f64::from(data), f64::from(logs), f64::from(b));
        let error = waf / (1.0 + b * data / (data + logs * b)) - 1.0;
        assert!(error.abs() < 0.03, "D={data} L={logs} b={b}: off by {error:+.4}");
    }
}

fn write_all(drive: &mut Drive, lpns: &[u64]) {
    lpns.iter().for_each(|&lpn| drive.write(lpn));
}

#[test]
fn several_log_blocks_of_one_logical_block_are_merged_together() {
    let text = "mapping.reconfigurable = { group_blocks = 1, group_logs = 3, log_blocks = 4 }";
    let mut drive = Drive::one_plane(text, 8, 4, 20);
    drive.fill();
    let absorbed = drive.counted(|drive| write_all(drive, &[1, 2, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1]));
    assert_eq!((absorbed.copies(), absorbed.erases()), (0, 0));
    let merged = drive.counted(|drive| write_all(drive, &[1]));
    assert_eq!((merged.copies(), merged.erases(), merged.merges()), (4, 4, [0, 0, 1]));
}

#[test]
fn a_group_merges_what_its_oldest_log_block_mixes() {
    let text = "mapping.reconfigurable = { group_blocks = 3, group_logs = 2, log_blocks = 4 }";
    let mut drive = Drive::one_plane(text, 9, 4, 20);
    drive.fill();
    // Two log blocks of logical blocks 0, 1 and 2, two of 3: none of the groups sees the other.
    let absorbed = drive.counted(|drive| {
        write_all(drive, &[1, 5, 1, 6, 9, 5, 5, 5]);
        write_all(drive, &[14, 13, 13, 13, 13, 13, 13, 13]);
    });
    assert_eq!((absorbed.copies(), absorbed.erases()), (0, 0));
    // The oldest of the first group has valid pages of 0 and 1; its other log block keeps 2.
    let merged = drive.counted(|drive| write_all(drive, &[9]));
    assert_eq!((merged.copies(), merged.erases(), merged.merges()), (8, 3, [0, 0, 2]));
    // A third group takes the log block of the one least recently written, where all is of 3.
    let evicted = drive.counted(|drive| write_all(drive, &[26]));
    assert_eq!((evicted.copies(), evicted.erases(), evicted.merges()), (4, 3, [0, 0, 1]));
}

#[test]
fn overwriting_in_order_switches_only() {
    assert_order_switches_only("mapping = 'reconfigurable'", 40);
}

#[test]
fn ram_and_limits() {
    let text = "mapping.reconfigurable = { group_blocks = 8, log_blocks = 2048 }";
    assert_eq!(Drive::paper(text).ram(), (27_856 * 15 + 2048 * (15 + 64 * 9)) / 8);
    let refused = |keys: &str| Drive::refused(&format!("mapping.reconfigurable = {{ {keys} }}"));
    let error = refused("log_blocks = 0");
    assert!(error.starts_with("mapping.reconfigurable.log_blocks: expected 16 to 4896"), "{error}");
    let error = refused("group_blocks = 0");
    assert_eq!(error, "mapping.reconfigurable.group_blocks: expected at least 1, got 0");
    let error = refused("group_logs = 0");
    assert_eq!(error, "mapping.reconfigurable.group_logs: expected at least 1, got 0");
}
