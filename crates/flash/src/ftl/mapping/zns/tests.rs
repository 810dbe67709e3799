//! What a zoned drive costs and what it does not.

use config::ConfigError;
use sim::{Counters, Lba, Request, Rng};

use crate::device::ssd::{CollectionParams, Params as SsdParams};
use crate::ftl::allocation::Allocation;
use crate::ftl::mapping::MappingScheme;
use crate::ftl::mapping::tests::drive::{build, count, moved_by_logs, now, small};

use super::Params;

/// 4 planes, 75 % of them logical.
fn params(mapping: MappingScheme) -> SsdParams {
    small(mapping, (2, 2), 75.0)
}

fn drive(mapping: MappingScheme) -> Result<Box<dyn sim::Device>, ConfigError> {
    build(&params(mapping))
}

fn zns(zone_planes: u32, open_zones: u8) -> MappingScheme {
    MappingScheme::Zns(Params { zone_planes: Some(zone_planes), open_zones })
}

/// The RAM of the drive and of the host, in bytes.
fn ram(device: &dyn sim::Device) -> [u64; 2] {
    let mut counters = Counters::default();
    device.counters(&mut counters);
    ["map_ram_bytes", "host_map_bytes"]
        .map(|name| counters.levels.iter().find(|(n, _)| n == name).expect("every result has it").1)
}

fn logs(mapping: MappingScheme) -> u64 {
    moved_by_logs(drive(mapping).unwrap(), 4)
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
    assert_eq!(logs(zns(4, 2)), 0);
    assert!(logs(zns(4, 1)) > 1_000, "both logs in one zone do");
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
