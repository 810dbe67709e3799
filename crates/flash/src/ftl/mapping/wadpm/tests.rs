//! The exact values that WADPM must have.

use sim::{Counters, Device, Lba, Request, Rng};

use super::*;
use crate::device::ssd::{Params as SsdParams, TimingMode};
use crate::ftl::mapping::MappingScheme;

/// Entries of a chunk, chunks of the drive, chunks in a window of that many percent: the paper's
/// device with `live` percent of its pages logical.
fn shape(live: f64, entry_bits: u32, percent: f64) -> (u32, u32, u32) {
    let pages = (2_097_152.0 * live / 100.0) as u32;
    let entries = 2048 * 8 / entry_bits;
    let table = u64::from(pages) * 21 / 8;
    let window = (table as f64 * percent / 100.0) as u64 / 2048;
    (entries, pages.div_ceil(16).div_ceil(entries) * 16, window as u32)
}

fn drive(mapping: Params, live: f64) -> crate::device::ssd::Ssd {
    let params = SsdParams {
        mapping: MappingScheme::Wadpm(mapping),
        over_provisioning: crate::device::ssd::OverProvisioning::LivePercent(live),
        timing: TimingMode::None,
        ..SsdParams::default()
    };
    let context = config::device::Context { rng: Rng::new(1, "wadpm") };
    params.build_around(&context, |mapping| mapping).unwrap()
}

fn fixed(percent: f64) -> Params {
    Params { window: WindowParams::Fixed(percent), ..Params::default() }
}

fn counters(device: &dyn Device) -> Counters {
    let mut counters = Counters::default();
    device.counters(&mut counters);
    counters
}

/// Read or write one page, in no time.
fn access(device: &mut dyn Device, lpn: u64, write: bool) {
    let request = if write { Request::write } else { Request::read };
    device.submit(sim::Nanos::ZERO, request(Lba(lpn * 4), 4)).unwrap();
    device.advance(sim::Nanos::ZERO, &mut sim::Completions::new());
}

/// Hit ratio of what was looked up between two readings.
fn hits(before: &Counters, after: &Counters) -> f64 {
    let delta = |name| (after.get(name) - before.get(name)) as f64;
    delta("map_hits") / delta("map_lookups")
}

#[test]
fn one_table_per_plane_as_in_figure_5() {
    // 2 packages x 4 planes x 4 pages: eight tables of four entries instead of one of 32.
    let planes = Divisor::new(8);
    let places: Vec<u32> = (0..32).map(|lpn| place(planes, 4, lpn)).collect();
    assert_eq!(places[..9], [0, 4, 8, 12, 16, 20, 24, 28, 1]);
    let mut sorted = places;
    sorted.sort_unstable();
    assert_eq!(sorted, (0..32).collect::<Vec<_>>());
}

#[test]
fn the_paper_device_has_the_table_of_table_4() {
    assert_eq!(shape(100.0, 34, 20.0), (481, 4368, 537));
    assert_eq!(shape(100.0, 17, 20.0).1, 2192);
    // Window plus directory: 17 bits for each chunk.
    let context = 4368 * 17 / 8;
    let (_, chunks, _) = shape(85.0, 34, 20.0);
    let device = drive(fixed(20.0), 85.0);
    let ram = ("map_ram_bytes".into(), u64::from(chunks * 17).div_ceil(8));
    assert!(counters(&device).levels.contains(&ram));
    assert_eq!(context, 9282);
}

#[test]
fn a_sequential_stream_misses_once_per_chunk_or_always() {
    for (layout, bits) in [(Layout::Pair, 34), (Layout::Ppi, 17)] {
        let (entries, ..) = shape(85.0, bits, 1.0);
        let mut device = drive(Params { layout, ..fixed(1.0) }, 85.0);
        (0..entries * 16 * 8).for_each(|lpn| access(&mut device, u64::from(lpn), true));
        let ratio = hits(&Counters::default(), &counters(&device));
        let expected = 1.0 - 1.0 / f64::from(entries);
        assert!((ratio - expected).abs() < 1e-9, "{layout:?}: {ratio}");
    }
    // 0.6 % are 13 chunks: fewer than the 16 planes that take turns.
    let mut device = drive(fixed(0.6), 85.0);
    (0..100_000).for_each(|lpn| access(&mut device, lpn, true));
    assert_eq!(counters(&device).get("map_hits"), 0);
}

/// Uniform single-page accesses to a filled drive, a share `writes` of them writes: (hits, dirty
/// evictions per eviction, map reads per access).
fn uniform(percent: f64, writes: f64) -> (f64, f64, f64) {
    // Few enough logical pages that nothing is collected.
    let mut device = drive(fixed(percent), 60.0);
    let pages = device.limits().sectors() / 4;
    device.apply(&Request::write(Lba(0), (pages * 4) as u32));
    let mut rng = Rng::new(7, "uniform");
    let mut accesses = |device: &mut dyn Device, count: u32| {
        (0..count).for_each(|_| access(device, rng.below(pages), rng.unit() < writes));
    };
    accesses(&mut device, 100_000);
    let before = counters(&device);
    accesses(&mut device, 200_000);
    let after = counters(&device);
    let delta = |name: &str| (after.get(name) - before.get(name)) as f64;
    assert_eq!(delta("gc_pages_moved"), 0.0);
    let misses = delta("map_lookups") - delta("map_hits");
    let dirty = delta("flash_programs.map") / misses;
    (hits(&before, &after), dirty, delta("flash_reads.map") / delta("map_lookups"))
}

#[test]
fn uniform_accesses_follow_the_closed_forms() {
    let (_, chunks, window) = shape(60.0, 34, 20.0);
    let expected = f64::from(window) / f64::from(chunks);
    for writes in [1.0, 0.5, 0.1] {
        let (hit, dirty, reads) = uniform(20.0, writes);
        assert!((hit / expected - 1.0).abs() < 0.02, "{hit} instead of {expected}");
        let dirty_expected = writes / (1.0 - hit * (1.0 - writes));
        assert!((dirty / dirty_expected - 1.0).abs() < 0.01, "{dirty}, not {dirty_expected}");
        assert!((reads - (1.0 - hit)).abs() < 1e-9, "one map read per miss: {reads}");
    }
}

/// A drive in steady state, small enough for a test.
fn collected(mapping: MappingScheme, reserve: u32) -> crate::device::ssd::Ssd {
    let mut params = SsdParams { mapping, timing: TimingMode::None, ..SsdParams::default() };
    params.geometry.blocks_per_plane = 128;
    params.collection.reserve_blocks = reserve;
    params.over_provisioning = crate::device::ssd::OverProvisioning::LivePercent(75.0);
    let context = config::device::Context { rng: Rng::new(1, "wadpm") };
    let mut device = params.build_around(&context, |mapping| mapping).unwrap();
    let pages = device.limits().sectors() / 4;
    (0..pages).for_each(|lpn| access(&mut device, lpn, true));
    let mut rng = Rng::new(3, "overwrite");
    (0..3 * pages).for_each(|_| access(&mut device, rng.below(pages), true));
    device
}

#[test]
fn a_page_never_leaves_its_plane_and_every_move_is_a_copy_back() {
    let mut device = collected(MappingScheme::Wadpm(fixed(20.0)), 1);
    let pages = (device.limits().sectors() / 4) as u32;
    // The stripe goes over channels first: planes 0, 4, 8, 12, then 2, ...
    let order: Vec<u32> = (0..16).map(|lpn| device.lookup(lpn) / (128 * 64)).collect();
    for lpn in 0..pages {
        assert_eq!(device.lookup(lpn) / (128 * 64), order[lpn as usize % 16]);
    }
    let counters = counters(&device);
    assert!(counters.get("gc_pages_moved") > u64::from(pages));
    assert_eq!(counters.get("flash_copybacks.gc"), counters.get("gc_pages_moved"));
}

#[test]
fn with_the_whole_table_in_ram_it_is_the_page_map() {
    let whole = Params { layout: Layout::Ppi, ..fixed(100.0) };
    let mut wadpm = collected(MappingScheme::Wadpm(whole), 1);
    let mut page = collected(MappingScheme::Page(Default::default()), 1 + MAP_RESERVE);
    for lpn in 0..(page.limits().sectors() / 4) as u32 {
        assert_eq!(wadpm.lookup(lpn), page.lookup(lpn), "lpn {lpn}");
    }
    let (wadpm, page) = (counters(&wadpm), counters(&page));
    for name in ["flash_programs.host", "flash_copybacks.gc", "flash_erases.gc"] {
        assert_eq!(wadpm.get(name), page.get(name), "{name}");
    }
}

#[test]
fn deferred_entries_are_written_in_larger_batches_within_their_ram() {
    let wadpm = |gc_map_update| Params { gc_map_update, ..fixed(20.0) };
    // 512 entries of 13 + 13 bits for each plane.
    let ram = Bytes(512 * 26 * 16 / 8);
    let deferred = wadpm(GcMapUpdate::Deferred(Size(ram)));
    let deferred = counters(&collected(MappingScheme::Wadpm(deferred), 1));
    let batched = counters(&collected(MappingScheme::Wadpm(wadpm(GcMapUpdate::Batched)), 1));
    let level = |counters: &Counters| counters.levels[0].1;
    assert_eq!(level(&deferred), level(&batched) + ram.0, "{:?}", deferred.levels);
    // A victim's pages concern all 13 chunks of its plane; the fullest chunk of 13 is enough.
    let settled = |counters: &Counters| counters.get("flash_reads.map") as f64;
    let misses =
        |counters: &Counters| (counters.get("map_lookups") - counters.get("map_hits")) as f64;
    let (few, many) =
        (settled(&deferred) - misses(&deferred), settled(&batched) - misses(&batched));
    assert!(few < 0.25 * many, "{few} map pages written for moves, {many} without deferring");
}

#[test]
fn a_miss_whose_map_page_was_never_written_reads_no_flash() {
    let mut device = drive(fixed(20.0), 85.0);
    (0..1_000).for_each(|page| access(&mut device, page * 17, false));
    let counters = counters(&device);
    assert_eq!((counters.get("map_lookups"), counters.get("flash_reads.map")), (1_000, 0));
    assert!(counters.get("map_hits") < 1_000, "a hit is what RAM answers");
    assert_eq!(counters.get("map_double_reads"), 0);
}

#[test]
fn entries_read_ahead_end_with_their_chunk() {
    let hits = |entries| {
        let loading = Loading::ReadAhead(entries);
        let mut device = drive(Params { loading, ..fixed(2.0) }, 85.0);
        let mut rng = Rng::new(5, "ahead");
        for _ in 0..2_000 {
            let first = rng.below(100_000);
            (0..4).for_each(|page| access(&mut device, first + 16 * page, true));
        }
        counters(&device).get("map_hits")
    };
    let (entries, ..) = shape(85.0, 34, 2.0);
    assert_eq!(hits(u32::MAX), hits(entries));
}

#[test]
fn impossible_drives_and_windows_are_refused_with_the_range() {
    let build = |edit: fn(&mut SsdParams)| {
        let mapping = MappingScheme::Wadpm(fixed(20.0));
        let mut params = SsdParams { mapping, ..SsdParams::default() };
        edit(&mut params);
        let context = config::device::Context { rng: Rng::new(1, "wadpm") };
        params.build(&context).err().expect("it is refused").to_string()
    };
    let error = build(|p| p.mapping = MappingScheme::Wadpm(fixed(0.01)));
    assert!(error.starts_with("mapping.wadpm.window.fixed: 0.01 % of a page table is"), "{error}");
    assert!(error.ends_with("expected at least 0.044"), "{error}");
    let error = build(|p| {
        let gc_map_update = GcMapUpdate::Deferred(Size(Bytes::from_kib(4)));
        p.mapping = MappingScheme::Wadpm(Params { gc_map_update, ..fixed(20.0) });
    });
    assert!(error.starts_with("mapping.wadpm.gc_map_update.deferred: 4 KiB hold 60"), "{error}");
    assert!(error.ends_with("expected at least 4352 B"), "{error}");
    let error = build(|p| p.collection.map_victim_percent = -1.0);
    assert_eq!(error, "collection.map_victim_percent: expected 0 to 100, got -1");
    let error =
        build(|p| p.allocation = crate::ftl::allocation::Allocation::Dynamic(Default::default()));
    assert!(error.contains("a page never leaves its plane"), "{error}");
    let error = build(|p| {
        p.over_provisioning = crate::device::ssd::OverProvisioning::LivePercent(99.5);
    });
    assert!(error.contains("leave no room for the mapping table"), "{error}");
}
