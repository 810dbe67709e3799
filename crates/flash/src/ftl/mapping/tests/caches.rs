//! Exact costs of the caches over a table on flash, and of learned segments.
//!
//! The drives have 32,768 logical pages on 4 planes and 64 map pages of 512 entries; their
//! directory takes 64 x 17 bits.

use config::device::Context;
use sim::Rng;

use super::demand::{Drive, assert_near};
use super::tiny;

const PAGES: u64 = 32_768;
const DIRECTORY: u64 = 64 * 17 / 8;

fn drive(mapping: &str) -> Drive {
    let mut drive = Drive::new(mapping, PAGES, 4);
    drive.mark();
    drive
}

#[test]
fn sftl_keeps_runs_small_and_counts_where_they_break() {
    // Filled in order, a map page is one run per plane.
    // The last 8 bytes are for a run that breaks.
    let mut drive = drive("mapping.sftl = { cache = '5128B', buffer_percent = 0 }");
    let small = 512 / 8 + 4 * 4;
    for pass in 1..=2 {
        (0..64).for_each(|map_page| drive.serve(map_page * 512 + 9, 1, false));
        assert_eq!(drive.ram(), 64 * small + DIRECTORY);
        assert_eq!(drive.count("flash_reads.map"), 64.0, "pass {pass}");
    }
    assert_eq!(drive.count("map_hits"), 64.0);
    // A new copy in the middle begins a run, and so does the page after it in its plane.
    drive.serve(63 * 512 + 100, 1, true);
    assert_eq!(drive.ram(), 64 * small + 8 + DIRECTORY);
    // The next access could break a run, too: the least recently used map page goes.
    drive.serve(62 * 512, 1, false);
    assert_eq!(drive.ram(), 63 * small + 8 + DIRECTORY);
    assert_eq!(drive.count("flash_programs.map"), 0.0);
    // Without runs, a map page takes what it takes on flash.
    let mut rng = Rng::new(1, "sftl");
    for _ in 0..5_000 {
        drive.serve(63 * 512 + rng.below(512), 1, true);
    }
    (0..100).for_each(|_| drive.serve(63 * 512, 1, false));
    assert!(drive.ram() - DIRECTORY >= 2048, "{}", drive.ram());
    assert!(drive.ram() - DIRECTORY <= 5128, "{}", drive.ram());
}

#[test]
fn sftl_leaves_sparse_changes_in_the_dirty_buffer() {
    // One write to each map page makes it 88 bytes: 23 of the 64 stay.
    let mut direct = drive("mapping.sftl = { cache = '2049B', buffer_percent = 0 }");
    (0..64).for_each(|map_page| direct.serve(map_page * 512 + 100, 1, true));
    assert_eq!(direct.count("flash_programs.map"), 41.0);
    assert_eq!(direct.count("flash_reads.map"), 64.0);
    // 28 of the 41 that left are in the buffer; the others made room there one by one.
    let mut buffered = drive("mapping.sftl = { cache = '2277B', buffer_percent = 10 }");
    (0..64).for_each(|map_page| buffered.serve(map_page * 512 + 100, 1, true));
    assert_eq!(buffered.count("flash_programs.map"), 13.0);
    assert_eq!(buffered.count("flash_reads.map"), 64.0 + 13.0);
    assert_eq!(buffered.ram(), 23 * 88 + 28 * 8 + DIRECTORY);
    buffered.mark();
    buffered.serve(20 * 512 + 100, 1, true);
    assert_eq!((buffered.count("map_hits"), buffered.count("flash_reads.map")), (1.0, 0.0));
    // Its map page takes the buffered entry over. Room for it is made before: one map page leaves
    // a change in the full buffer, for which another is read and written.
    buffered.serve(20 * 512 + 200, 1, false);
    assert_eq!(buffered.count("flash_reads.map"), 2.0);
    assert_eq!(buffered.count("flash_programs.map"), 1.0);
}

#[test]
fn cdftl_hits_as_often_as_its_equation_says() {
    // 16 map pages and 1024 entries.
    let mut drive = drive("mapping.cdftl = { cache = '40KiB', pages_percent = 80 }");
    let mut rng = Rng::new(3, "cdftl");
    drive.uniform(&mut rng, 20_000, 0);
    drive.mark();
    drive.uniform(&mut rng, 100_000, 0);
    let (entries, pages) = (1024.0 / PAGES as f64, 16.0 / 64.0);
    let hits = entries + (1.0 - entries) * pages;
    assert_near("hits", drive.count("map_hits") / 1e5, hits, 0.05);
    assert_eq!(drive.count("flash_reads.map"), 1e5 - drive.count("map_hits"));
    assert_eq!(drive.count("flash_programs.map"), 0.0);
    assert_eq!(drive.ram(), 40 * 1024 + DIRECTORY);
}

#[test]
fn cdftl_folds_changes_into_the_map_page_in_ram() {
    // One map page and 64 entries.
    let mut drive = drive("mapping.cdftl = { cache = '2560B', pages_percent = 80 }");
    (0..8).for_each(|page| drive.serve(page, 1, true));
    assert_eq!((drive.count("flash_reads.map"), drive.count("map_hits")), (1.0, 7.0));
    // The map page itself did not change: it goes without a write.
    drive.serve(512, 1, false);
    // Map page 2: the eight changed entries of map page 0 are passed over, the read one goes.
    (1024..1024 + 56).for_each(|page| drive.serve(page, 1, true));
    assert_eq!(drive.ram(), 64 * 8 + 2048 + DIRECTORY);
    // Eight more: the oldest of map page 2 are taken over by it.
    (1080..1088).for_each(|page| drive.serve(page, 1, true));
    assert_eq!(drive.count("flash_reads.map"), 3.0);
    assert_eq!(drive.count("flash_programs.map"), 0.0);
    // When it leaves, all its changes are written at once.
    drive.serve(2048, 1, false);
    assert_eq!(drive.count("flash_programs.map"), 1.0);
    assert_eq!(drive.count("flash_reads.map"), 4.0);
    assert_eq!(drive.count("map_hits"), 7.0 + 55.0 + 8.0);
}

#[test]
fn tpftl_hits_as_often_as_its_equation_says() {
    // A node for each map page and 4096 entries.
    let bytes = 64 * 8 + 4096 * 6;
    let mut drive = Drive::new(&format!("mapping.tpftl.cache = '{bytes}B'"), PAGES, 10);
    let mut rng = Rng::new(3, "tpftl");
    drive.uniform(&mut rng, 40_000, 50);
    assert_eq!(drive.ram(), bytes + 64 * 19 / 8);
    drive.mark();
    drive.uniform(&mut rng, 100_000, 50);
    assert_near("hits", drive.count("map_hits") / 1e5, 4096.0 / PAGES as f64, 0.03);
    let misses = drive.count("map_lookups") - drive.count("map_hits");
    assert_eq!(drive.count("flash_reads.map"), misses + drive.count("flash_programs.map"));
}

#[test]
fn tpftl_loads_what_the_request_needs() {
    for (prefetch, misses) in [(true, 2.0), (false, 32.0)] {
        let mapping =
            format!("mapping.tpftl = {{ cache = '1KiB', request_prefetch = {prefetch} }}");
        let mut drive = drive(&mapping);
        // Half of the request on either side of a map page's end.
        drive.serve(496, 32, false);
        assert_eq!(drive.count("map_lookups") - drive.count("map_hits"), misses);
        assert_eq!(drive.count("flash_reads.map"), misses);
        assert_eq!(drive.ram(), 32 * 6 + 2 * 8 + DIRECTORY);
    }
}

#[test]
fn tpftl_throws_unchanged_entries_out_first_and_writes_changed_ones_together() {
    // Two nodes and 14 entries.
    let mut drive = drive("mapping.tpftl = { cache = '100B', selective_prefetch = false }");
    (0..2).for_each(|page| drive.serve(page, 1, true));
    drive.serve(2, 1, false);
    (512..523).for_each(|page| drive.serve(page, 1, false));
    assert_eq!(drive.ram(), 100 + DIRECTORY);
    drive.serve(523, 1, false);
    assert_eq!(drive.count("flash_programs.map"), 0.0, "the unchanged entry went");
    drive.serve(524, 1, false);
    assert_eq!(drive.count("flash_programs.map"), 1.0, "both changed ones were written");
    drive.serve(525, 1, false);
    assert_eq!(drive.count("flash_programs.map"), 1.0);
    assert_eq!(drive.count("flash_reads.map"), 14.0 + 3.0 + 1.0);
}

#[test]
fn tpftl_loads_ahead_when_nodes_go() {
    // Twenty nodes of one entry; then a stream takes their place.
    let stream = |selective: bool| {
        let mapping =
            format!("mapping.tpftl = {{ cache = '280B', selective_prefetch = {selective} }}");
        let mut drive = drive(&mapping);
        (0..20).for_each(|map_page| drive.serve(map_page * 512, 1, false));
        drive.mark();
        (0..40).for_each(|page| drive.serve(30 * 512 + page, 1, false));
        assert!(drive.ram() <= 280 + DIRECTORY);
        drive.count("map_hits")
    };
    assert_eq!(stream(false), 0.0);
    assert!(stream(true) >= 15.0, "{}", stream(true));
}

#[test]
fn leaftl_learns_one_segment_from_a_group_written_in_order() {
    let mut drive = drive("mapping = 'leaftl'");
    let groups = PAGES / 256;
    assert_eq!(drive.ram(), 8 * groups);
    for page in (0..PAGES).step_by(64) {
        drive.serve(page, 64, true);
    }
    assert_eq!(drive.ram(), 8 * groups);
    // One page breaks out of its run.
    drive.serve(1000, 1, true);
    assert_eq!(drive.ram(), 8 * groups + 8);
    (0..500).for_each(|page| drive.serve(page * 61, 1, false));
    assert_eq!(drive.count("map_lookups"), drive.count("map_hits"));
    assert_eq!(drive.count("flash_reads.map"), 0.0);
}

#[test]
fn leaftl_pays_one_spare_read_for_each_wrong_prediction() {
    let (mut least, mut all) = (u64::MAX, Vec::new());
    for error_bound in [0, 1, 4, 16] {
        let mut drive = drive(&format!("mapping.leaftl.error_bound = {error_bound}"));
        // Streams with gaps, by turns over the planes.
        let mut rng = Rng::new(5, "leaftl");
        let mut page = 0;
        while page + 16 < PAGES {
            (0..4).for_each(|plane| drive.serve(page + plane, 1, true));
            page += 4 * (1 + rng.below(3));
        }
        assert!(drive.ram() <= least, "{error_bound}: {} bytes", drive.ram());
        least = drive.ram();
        all.push(least);
        drive.mark();
        (0..5_000).for_each(|_| drive.serve(rng.below(PAGES), 1, false));
        let wrong = drive.count("map_lookups") - drive.count("map_hits");
        assert_eq!(wrong > 0.0, error_bound > 0, "{error_bound}: {wrong} wrong");
        assert_eq!(drive.count("flash_reads.map"), wrong);
        assert_eq!(drive.count("map_double_reads"), wrong);
        assert_eq!(drive.count("flash_reads.host"), 5_000.0);
    }
    assert!(all[0] > all[1] && all[1] > all[2], "{all:?}");
}

#[test]
fn leaftl_learns_from_what_a_buffer_sorted() {
    // 512 pages are sorted at once: two blocks in each plane.
    let bytes = |order: &str| {
        let buffer = format!(
            "buffer = {{ capacity = '2MiB', destage_above_percent = 50, \
             destage_order = '{order}' }}"
        );
        let mut drive = drive(&format!("mapping.leaftl.error_bound = 4\n{buffer}"));
        let mut rng = Rng::new(7, "sorted");
        // Single pages of an eighth of the drive, all of them overwritten about twice.
        (0..8_192).for_each(|_| drive.serve(rng.below(PAGES / 8), 1, true));
        drive.ram()
    };
    let (oldest, sorted) = (bytes("oldest"), bytes("sorted"));
    assert!(sorted * 2 < oldest, "{sorted} bytes sorted, {oldest} in order of arrival");
}

#[test]
fn impossible_parameters_are_refused_with_their_range() {
    for (mapping, key, expected) in [
        ("dftl = { cache = '8B' }", "mapping.dftl.cache: ", "at least 16 bytes"),
        (
            "dftl = { protected_percent = 100 }",
            "mapping.dftl.protected_percent: ",
            "0 to 99, got 100",
        ),
        ("dftl = { cache = '-1%' }", "mapping.dftl.cache: ", "0% to 1000%"),
        ("dftl = { cache = 'much' }", "mapping.dftl.cache: ", "much"),
        ("sftl = { cache = '1KiB' }", "mapping.sftl.cache: ", "at least 1138 bytes"),
        ("sftl = { buffer_percent = 91 }", "mapping.sftl.buffer_percent: ", "0 to 90, got 91"),
        ("cdftl = { cache = '1KiB' }", "mapping.cdftl.cache: ", "at least 2048 bytes"),
        ("cdftl = { pages_percent = 0 }", "mapping.cdftl.pages_percent: ", "1 to 99, got 0"),
        ("tpftl = { cache = '19B' }", "mapping.tpftl.cache: ", "at least 20 bytes"),
        ("leaftl = { error_bound = 17 }", "mapping.leaftl.error_bound: ", "0 to 16, got 17"),
        (
            "wadpm = { window.hill-climb = { start = 0.1, min = 50 } }",
            "mapping.wadpm.window.hill-climb.start: ",
            "expected at least",
        ),
        // Who frees blocks himself asks nobody which.
        ("bast = {}\ngc = 'fifo'", "gc: ", "mapping = \"bast\" frees its blocks itself"),
        ("zns = {}\nwear = 'static'", "wear: ", "mapping = \"zns\" frees its blocks itself"),
    ] {
        let context = Context { rng: Rng::new(1, "refused") };
        let built = tiny(&format!("mapping.{mapping}")).build(&context);
        let error = built.err().unwrap_or_else(|| panic!("{mapping} was built")).to_string();
        assert!(error.contains(key) && error.contains(expected), "{mapping}: {error}");
    }
}

#[test]
fn leaftl_keeps_nothing_of_what_was_discarded() {
    let mut drive = drive("mapping = 'leaftl'");
    assert!(drive.ram() > 0);
    drive.discard_all();
    assert_eq!(drive.ram(), 0);
    drive.serve(77, 1, true);
    assert_eq!(drive.ram(), 8);
}
