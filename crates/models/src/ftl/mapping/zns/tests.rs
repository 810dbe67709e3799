//! What a zoned drive costs and what it does not.

use sim::{Completions, Counters, Lba, Nanos, Request, Rng};

use crate::config::ConfigError;
use crate::device::ssd::{CollectionParams, OverProvisioning, Params as SsdParams, TimingMode};
use crate::registry::{Allocation, MappingScheme};

use super::Params;

/// 4 planes of 64 blocks of 64 pages, 75 % of it logical, outside time.
fn params(mapping: MappingScheme) -> SsdParams {
    let mut params = SsdParams {
        mapping,
        over_provisioning: OverProvisioning::LivePercent(75.0),
        timing: TimingMode::None,
        ..SsdParams::default()
    };
    params.geometry.channels = 1;
    params.geometry.packages_per_channel = 1;
    params.geometry.dies_per_package = 2;
    params.geometry.planes_per_die = 2;
    params.geometry.blocks_per_plane = 64;
    params
}

fn build(params: &SsdParams) -> Result<Box<dyn sim::Device>, ConfigError> {
    let context = crate::device::Context { rng: Rng::new(1, "zns") };
    Ok(Box::new(params.build_around(&context, |mapping| mapping)?))
}

fn drive(mapping: MappingScheme) -> Result<Box<dyn sim::Device>, ConfigError> {
    build(&params(mapping))
}

fn zns(zone_planes: u32, open_zones: u8) -> MappingScheme {
    MappingScheme::Zns(Params { zone_planes: Some(zone_planes), open_zones })
}

fn count(device: &dyn sim::Device, name: &str) -> u64 {
    let mut counters = Counters::default();
    device.counters(&mut counters);
    counters.get(name)
}

/// The RAM of the drive and of the host, in bytes.
fn ram(device: &dyn sim::Device) -> [u64; 2] {
    let mut counters = Counters::default();
    device.counters(&mut counters);
    ["map_ram_bytes", "host_map_bytes"]
        .map(|name| counters.levels.iter().find(|(n, _)| n == name).expect("every result has it").1)
}

fn now(device: &mut dyn sim::Device, request: Request) {
    device.submit(Nanos::ZERO, request).unwrap();
    device.advance(Nanos::ZERO, &mut Completions::new());
}

/// Pages moved while a log of stream 0 goes round over the first eighth of the drive, and one of
/// stream 1 over the rest at the same pace.
fn moved_by_logs(mapping: MappingScheme) -> u64 {
    let mut device = drive(mapping).unwrap();
    let pages = device.limits().sectors() / 4;
    let log = pages / 8;
    for turn in 0..4 * pages {
        for (stream, lpn) in [(0, turn % log), (1, log + turn % (pages - log))] {
            now(&mut *device, Request { stream, ..Request::write(Lba(lpn * 4), 4) });
        }
    }
    count(&*device, "gc_pages_moved")
}

/// Pages moved for each page written at random, in steady state.
fn moved_at_random(mut device: Box<dyn sim::Device>) -> f64 {
    let pages = device.limits().sectors() / 4;
    let mut rng = Rng::new(3, "random");
    let mut write = |device: &mut dyn sim::Device, count| {
        for _ in 0..count {
            device.apply(&Request::write(Lba(rng.below(pages) * 4), 4));
        }
    };
    device.apply(&Request::write(Lba(0), (pages * 4) as u32));
    write(&mut *device, 4 * pages);
    let before = count(&*device, "gc_pages_moved");
    write(&mut *device, 8 * pages);
    (count(&*device, "gc_pages_moved") - before) as f64 / (8 * pages) as f64
}

#[test]
fn a_log_of_its_own_zones_moves_nothing() {
    assert_eq!(moved_by_logs(zns(4, 2)), 0);
    assert!(moved_by_logs(zns(4, 1)) > 1_000, "both logs in one zone do");
}

#[test]
fn the_host_moves_what_a_page_map_moves_and_more_with_larger_zones() {
    // Collected over the whole drive, as late as possible.
    let page = moved_at_random(
        build(&SsdParams {
            allocation: Allocation::Dynamic(Default::default()),
            collection: CollectionParams {
                global: true,
                start_free_percent: 0.0,
                ..CollectionParams::default()
            },
            ..params(MappingScheme::Page(Default::default()))
        })
        .unwrap(),
    );
    let [block, zone] = [1, 4].map(|planes| moved_at_random(drive(zns(planes, 1)).unwrap()));
    assert!((0.9..1.01).contains(&(block / page)), "{block} and {page} of the page map");
    assert!(zone > block, "{zone} in large zones, {block} in small ones");
}

#[test]
fn discarded_zones_are_reset_without_a_copy() {
    let mut device = drive(zns(4, 1)).unwrap();
    let zone = 4 * 64;
    for round in 0..100 {
        let lba = Lba(round % 10 * zone * 4);
        now(&mut *device, Request::write(lba, zone as u32 * 4));
        now(&mut *device, Request::discard(lba, zone as u32 * 4));
        assert_eq!(count(&*device, "flash_erases.gc"), (round + 1) * 4);
    }
    assert_eq!(count(&*device, "gc_pages_moved"), 0);
}

#[test]
fn the_table_is_one_of_zones() {
    let device = drive(zns(4, 1)).unwrap();
    // 64 zones of four 6-bit block numbers and a position among 256 pages.
    assert_eq!(ram(&*device), [64 * (4 * 6 + 9) / 8, 3 * 64 * 64 * 14 / 8]);
}

#[test]
fn zones_that_do_not_fit_are_refused() {
    let refused = |mapping| drive(mapping).map(drop).unwrap_err().to_string();
    assert!(refused(zns(3, 1)).contains("expected a divisor of the 4 planes, got 3"));
    assert!(refused(zns(0, 1)).contains("expected a divisor"));
    for open_zones in [0, 40] {
        let error = refused(zns(4, open_zones));
        assert!(error.contains("expected 1 to 13"), "{error}");
    }
}
