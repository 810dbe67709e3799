//! The RAM of every mapping that loads its table on demand stays within what it was given, however
//! much is collected.

use config::device::Context;
use sim::{Completions, Counters, Device, Lba, Nanos, Request, RequestId, Rng};

use super::{age, shaped};
use crate::device::ssd::OverProvisioning;
use crate::ftl::gc::GcPolicy;

/// Of the bytes of a complete page table those that a mapping may take beyond its directory.
type Limit = fn(u64) -> u64;

/// Mappings with their limits.
const LIMITS: [(&str, Limit); 10] = [
    ("wadpm = { window.fixed = 20, layout = 'aligned64' }", |table| table / 5),
    ("wadpm = { window.fixed = 40, layout = 'aligned64', lru = 'per-plane' }", |table| {
        table * 2 / 5
    }),
    ("wadpm = { window.fixed = 20, loading = 'entry' }", |table| table / 5),
    ("wadpm = { window.fixed = 20, loading.read-ahead = 8 }", |table| table / 5),
    (
        "wadpm = { window.fixed = 20, layout = 'aligned64', gc_map_update.deferred = '2KiB' }",
        |table| table / 5,
    ),
    (
        "wadpm = { layout = 'aligned64', window.hill-climb = { period = 64, min = 18, start = 18, \
         max = 40, step = 5, maintenance = 1 } }",
        |table| table * 2 / 5,
    ),
    ("dftl.cache = '1KiB'", |_| 1024),
    // A page that the collector moves may break a run in three before the next access.
    ("sftl.cache = '3KiB'", |_| 3072 + 8 * 16 * 4),
    ("cdftl.cache = '4KiB'", |_| 4096),
    ("tpftl.cache = '1KiB'", |_| 1024),
];

fn ram(device: &dyn Device) -> u64 {
    let mut counters = Counters::default();
    device.counters(&mut counters);
    counters.levels.iter().find(|(name, _)| name == "map_ram_bytes").expect("every drive has it").1
}

/// The most RAM that a drive of `planes` planes takes beyond its directory while random requests
/// make it collect all the time.
fn most_ram(mapping: &str, planes: u32, buffer: &str) -> (u64, u64) {
    let geometry = format!(
        "channels = 1\npackages_per_channel = 1\ndies_per_package = 1\nplanes_per_die = {planes}\n\
         blocks_per_plane = {}\npages_per_block = 16\npage = '1KiB'",
        1024 / planes
    );
    let mut params = shaped(&format!("mapping.{mapping}\n{buffer}"), &geometry);
    params.over_provisioning = OverProvisioning::LivePercent(80.0);
    let context = Context { rng: Rng::new(1, "limits") };
    let mut device = params.build(&context).unwrap_or_else(|error| panic!("{mapping}: {error}"));
    let empty = ram(&*device);
    age(&mut *device);
    let table = device.limits().sectors() / 2 * 14 / 8;
    let mut rng = Rng::new(7, "requests");
    let (mut now, mut out, mut most) = (Nanos::ZERO, Completions::new(), 0);
    let mut inside = 0;
    for id in 0..20_000 {
        let lba = Lba(rng.below(device.limits().sectors() / 2) * 2);
        let mut request = match rng.below(10) {
            0 => Request::discard(lba, 2),
            1..=3 => Request::read(lba, 2),
            _ => Request::write(lba, 2),
        };
        request.id = RequestId(id);
        while inside >= 32 {
            now = device.next_event().expect("requests are inside");
            device.advance(now, &mut out);
            inside -= std::mem::take(&mut out.done).len();
            most = most.max(ram(&*device) - empty);
        }
        device.submit(now, request).expect("the queue is deeper than 32");
        inside += 1;
    }
    (most, table)
}

/// The fullest drive that a mapping accepts, filled: 4 planes of 64 blocks of 16 pages.
fn fullest(mapping: &str, gc: &str) -> Box<dyn Device> {
    let geometry = "channels = 2\npackages_per_channel = 1\ndies_per_package = 1\n\
                    planes_per_die = 2\nblocks_per_plane = 64\npages_per_block = 16\n\
                    page = '512B'";
    let mut params = shaped(&format!("mapping.{mapping}\ngc = '{gc}'"), geometry);
    // With the oracle it would be filled page by page, which is not bounded by events.
    params.oracle = false;
    let context = Context { rng: Rng::new(1, "fullest") };
    let built = (50..100).rev().find_map(|percent| {
        params.over_provisioning = OverProvisioning::LivePercent(f64::from(percent));
        params.build(&context).ok()
    });
    let mut device = built.unwrap_or_else(|| panic!("{mapping} fits no such drive"));
    device.apply(&Request::write(Lba(0), device.limits().sectors() as u32));
    device
}

/// Events until `count` random writes were served, or [`LIMIT`]. `flows` are sizes in sectors, and
/// how many requests of that size are in flight at once.
fn events_of_writes(device: &mut dyn Device, count: u64, seed: u64, flows: &[(u64, u64)]) -> u64 {
    let mut rng = Rng::new(seed, "progress");
    let (mut now, mut out, mut events) = (Nanos::ZERO, Completions::new(), 0);
    let (mut issued, mut done) = (0, 0);
    let mut idle: Vec<u64> =
        flows.iter().flat_map(|&(sectors, depth)| (0..depth).map(move |_| sectors)).collect();
    while done < count && events < LIMIT {
        for sectors in idle.drain(..) {
            let lba = Lba(rng.below(device.limits().sectors() / sectors) * sectors);
            // The size is in the id: another one of it follows.
            let id = RequestId(issued * 64 + sectors);
            let request = Request { id, ..Request::write(lba, sectors as u32) };
            device.submit(now, request).expect("the queue is deeper");
            issued += 1;
        }
        now = device.next_event().expect("requests are inside");
        device.advance(now, &mut out);
        idle.extend(out.done.drain(..).map(|completion| completion.id.0 % 64));
        done += idle.len() as u64;
        events += 1;
    }
    events
}

/// Far more events than a run takes that makes progress.
const LIMIT: u64 = 500_000;

#[test]
fn a_map_page_leaves_the_room_that_a_collection_counts_on() {
    let geometry = "channels = 1\npackages_per_channel = 1\ndies_per_package = 1\n\
                    planes_per_die = 2\nblocks_per_plane = 40\npages_per_block = 33\n\
                    page = '1KiB'";
    for gc in ["fifo", "random"] {
        for seed in 0..8 {
            let mapping = "mapping.wadpm = { window.fixed = 60, loading = 'entry' }";
            let mut params = shaped(&format!("{mapping}\ngc = '{gc}'"), geometry);
            params.over_provisioning = OverProvisioning::LivePercent(75.0);
            let context = Context { rng: Rng::new(seed, "room") };
            let mut device = params.build(&context).expect("a drive");
            device.apply(&Request::write(Lba(0), device.limits().sectors() as u32));
            let events = events_of_writes(&mut *device, 3_000, seed, &[(16, 40), (2, 4)]);
            assert!(events < LIMIT, "{gc}, seed {seed}");
        }
    }
}

#[test]
fn every_victim_policy_makes_progress_on_the_fullest_drive() {
    let mut stuck = Vec::new();
    for mapping in [
        "wadpm = { window.fixed = 20, layout = 'aligned64' }",
        "wadpm = { window.fixed = 20, layout = 'aligned64', loading = 'entry' }",
        "wadpm = { window.fixed = 20, layout = 'aligned64', gc_map_update = 'free' }",
        "wadpm = { window.fixed = 20, layout = 'aligned64', gc_map_update.deferred = '1KiB' }",
        "dftl.cache = '512B'",
        "sftl.cache = '2KiB'",
        "cdftl.cache = '2KiB'",
        "tpftl.cache = '512B'",
    ] {
        for gc in GcPolicy::NAMES {
            let events = events_of_writes(&mut *fullest(mapping, gc), 1_000, 3, &[(1, 8)]);
            println!("{mapping}, {gc}: {events}");
            if events >= LIMIT {
                stuck.push((mapping, *gc));
            }
        }
    }
    assert!(stuck.is_empty(), "no progress: {stuck:#?}");
}

#[test]
fn ram_stays_within_its_limit_while_blocks_are_collected() {
    for (mapping, limit) in LIMITS {
        for planes in [1, 4] {
            for buffer in ["", "buffer.capacity = '32KiB'"] {
                let (most, table) = most_ram(mapping, planes, buffer);
                let limit = limit(table);
                println!("{mapping}, {planes} planes {buffer}: {most} of {limit}");
                assert!(most <= limit, "{mapping}, {planes} planes {buffer}: {most} > {limit}");
                assert!(most * 2 > limit, "{mapping}: the limit {limit} is not tried: {most}");
            }
        }
    }
}
