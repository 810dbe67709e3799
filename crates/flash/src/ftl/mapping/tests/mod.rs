//! Every mapping under the NAND oracle: the laws of the contract, power cuts at any moment, and
//! planted bugs that the oracle must see.

mod caches;
mod canary;
mod demand;
pub(super) mod drive;
mod laws;
mod limits;

use std::collections::BTreeMap;

use sim::{Lba, Request, Rng};

use crate::device::ssd::Params;
use crate::ftl::mapping::MappingScheme;

/// Each scheme in the shapes worth telling apart: a name and the keys of a part.
const MAPPINGS: &[(&str, &str)] = &[
    ("page", "mapping = 'page'"),
    ("page, dynamic", "mapping = 'page'\nallocation = 'dynamic'"),
    ("multi-stream", "mapping.multi-stream.streams = 3"),
    ("multi-stream, shared block", "mapping.multi-stream.streams = 4\ncollection.separate = false"),
    ("fdp", "mapping.fdp = { handles = 4, isolation = 'persistently' }"),
    (
        "fdp, initially, dynamic",
        "mapping.fdp = { handles = 2, isolation = 'initially' }\nallocation = 'dynamic'",
    ),
    (
        "pslc",
        "mapping = 'pslc'\nnand.pslc = { read = '20us', program = '150us', bits_per_cell = 3 }",
    ),
    (
        "pslc, large, dynamic, no copy-back",
        "mapping.pslc = { blocks_percent = 60, keep_free_percent = 0 }\n\
         allocation = 'dynamic'\nnand.copy_back = false\ncollection.background_after = '20us'\n\
         nand.pslc = { read = '20us', program = '150us', bits_per_cell = 2 }",
    ),
    (
        "pslc, shared block",
        "mapping.pslc.blocks_percent = 30\ncollection.separate = false\n\
         nand.pslc = { read = '20us', program = '150us', bits_per_cell = 4 }",
    ),
    ("zns", "mapping.zns = { open_zones = 2, zone_planes = 2 }"),
    ("zns, all planes", "mapping.zns.open_zones = 3"),
    ("zns, a block a zone", "mapping.zns = { zone_planes = 1, open_zones = 4 }"),
    ("wadpm", "mapping.wadpm = { window.fixed = 50, layout = 'aligned64' }"),
    (
        "wadpm, dynamic window",
        "mapping.wadpm.layout = 'aligned64'\nmapping.wadpm.window.hill-climb = \
         { period = 16, min = 16, max = 100, start = 16, step = 20, maintenance = 1 }",
    ),
    (
        "wadpm, mrc",
        "mapping.wadpm.layout = 'aligned64'\nmapping.wadpm.window.mrc = \
         { period = 64, samples = 16, min = 16, start = 16, max = 100 }",
    ),
    ("wadpm, entries", "mapping.wadpm = { window.fixed = 20, loading = 'entry' }"),
    (
        "wadpm, read-ahead",
        "mapping.wadpm = { window.fixed = 30, loading.read-ahead = 4, layout = 'aligned64' }",
    ),
    ("wadpm, pair, no copy-back", "mapping.wadpm.window.fixed = 40\nnand.copy_back = false"),
    (
        "wadpm, free updates, shared block",
        "mapping.wadpm = { window.fixed = 30, layout = 'aligned64', gc_map_update = 'free' }\n\
         collection.separate = false",
    ),
    (
        "wadpm, deferred updates, map blocks last",
        "mapping.wadpm = { window.fixed = 30, layout = 'aligned64', \
         gc_map_update.deferred = '330B' }\ncollection.map_victim_percent = 10",
    ),
    (
        "wadpm, entries, deferred updates, no copy-back",
        "mapping.wadpm = { window.fixed = 30, loading = 'entry', \
         layout = 'aligned64', gc_map_update.deferred = '400B' }\nnand.copy_back = false",
    ),
    ("dftl", "mapping.dftl.cache = '1KiB'"),
    (
        "dftl, map blocks last, shared block",
        "mapping.dftl.cache = '1KiB'\ncollection = { map_victim_percent = 0, separate = false }",
    ),
    (
        "dftl, plain LRU, dynamic",
        "mapping.dftl = { cache = '10%', protected_percent = 0 }\n\
         allocation = 'dynamic'",
    ),
    (
        "dftl, no copy-back, shared block",
        "mapping.dftl.cache = '30%'\nnand.copy_back = false\n\
         collection.separate = false",
    ),
    ("sftl", "mapping.sftl = { cache = '2KiB', buffer_percent = 10 }"),
    (
        "sftl, no buffer, dynamic, no copy-back",
        "mapping.sftl = { cache = '40%', buffer_percent = 0 }\nallocation = 'dynamic'\n\
         nand.copy_back = false",
    ),
    ("cdftl", "mapping.cdftl = { cache = '3KiB', pages_percent = 70 }"),
    (
        "cdftl, dynamic, shared block",
        "mapping.cdftl = { cache = '50%', pages_percent = 90 }\nallocation = 'dynamic'\n\
         collection.separate = false",
    ),
    ("tpftl", "mapping.tpftl.cache = '1KiB'"),
    (
        "tpftl, no prefetch, dynamic, no copy-back",
        "mapping.tpftl = { cache = '20%', request_prefetch = false, \
         selective_prefetch = false }\nallocation = 'dynamic'\nnand.copy_back = false",
    ),
    ("leaftl", "mapping = 'leaftl'"),
    ("leaftl, approximate", "mapping.leaftl.error_bound = 16"),
    (
        "leaftl, approximate, dynamic, shared block",
        "mapping.leaftl.error_bound = 4\nallocation = 'dynamic'\ncollection.separate = false\n\
         nand.copy_back = false",
    ),
    ("block", "mapping = 'block'"),
    ("block, no copy-back", "mapping = 'block'\nnand.copy_back = false"),
    ("nftl-1", "mapping.block.variant = 'nftl-1'"),
    ("nftl-n", "mapping.block.variant.nftl-n.replacements = 2"),
    ("bast", "mapping.bast.log_blocks = 24"),
    ("bast, no copy-back", "mapping.bast.log_blocks = 64\nnand.copy_back = false"),
    ("fast", "mapping.fast.log_blocks = 24"),
    ("fast, blocks, merge", "mapping.fast = { striping = 'blocks', sw_break = 'merge' }"),
    ("fast, naive", "mapping.fast = { scope = 'naive_global', log_blocks = 20 }"),
    ("fast, k open", "mapping.fast = { scope = 'global_k_open', log_blocks = 25 }"),
    ("kast", "mapping.kast = { log_blocks = 32, associativity = 3 }"),
    ("kast, K = 1, blocks", "mapping.kast = { associativity = 1, striping = 'blocks' }"),
    (
        "kast, no copy-back",
        "mapping.kast = { log_blocks = 48, sequential_blocks = 4 }\nnand.copy_back = false",
    ),
    ("last", "mapping.last = { log_blocks = 40, sequential_from = '4KiB' }"),
    (
        "last, no copy-back",
        "mapping.last = { hot_window = 64, striping = 'blocks', sequential_blocks = 2, \
         log_blocks = 64 }\nnand.copy_back = false",
    ),
    ("superblock", "mapping.superblock = { group_blocks = 4, cache_tables = 8, fan_out = 4 }"),
    (
        "superblock, shared block, no copy-back",
        "mapping.superblock = { update_blocks = 1, separate = false, striping = 'blocks' }\n\
         nand.copy_back = false",
    ),
    ("reconfigurable", "mapping.reconfigurable = { group_blocks = 4, group_logs = 2 }"),
    ("reconfigurable, N = 1", "mapping.reconfigurable = { group_blocks = 1, group_logs = 2 }"),
    (
        "reconfigurable, N = all, no copy-back",
        "mapping.reconfigurable = { group_blocks = 32, log_blocks = 40 }\nnand.copy_back = false",
    ),
    ("fast, k open, no copy-back", "mapping.fast.scope = 'global_k_open'\nnand.copy_back = false"),
];

/// All of them, and with their defaults the registered ones that the list does not name yet.
fn mappings() -> Vec<(&'static str, String)> {
    let chosen = |keys: &str, name: &str| {
        keys.contains(&format!("mapping = '{name}'")) || keys.contains(&format!("mapping.{name}"))
    };
    let listed = |name: &str| MAPPINGS.iter().any(|(_, keys)| chosen(keys, name));
    let more = MappingScheme::NAMES.iter().filter(|name| !listed(name));
    let more = more.map(|name| (*name, format!("mapping = '{name}'")));
    MAPPINGS.iter().map(|(name, keys)| (*name, (*keys).to_string())).chain(more).collect()
}

/// A drive of 4 dies x 2 planes x 64 blocks x 16 pages of 1 KiB, small enough that blocks are freed
/// all the time, with the oracle on.
fn tiny(changes: &str) -> Params {
    shaped(
        changes,
        "channels = 2\npackages_per_channel = 1\ndies_per_package = 2\nplanes_per_die = 2\n\
         blocks_per_plane = 64\npages_per_block = 16\npage = '1KiB'",
    )
}

/// The same in another shape.
fn shaped(changes: &str, geometry: &str) -> Params {
    let text = format!(
        "oracle = true\nqueue_depth_max = 64\n{changes}\n\
         [over_provisioning]\nlive_percent = 50\n[geometry]\n{geometry}\n"
    );
    let table: BTreeMap<String, toml::Value> = toml::from_str(&text).expect("the test's TOML");
    toml::Value::try_from(table)
        .and_then(|value| value.try_into().map_err(serde::ser::Error::custom))
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Fill the drive and overwrite half of it, so that every run starts in steady state.
fn age(device: &mut dyn sim::Device) {
    let sectors = device.limits().sectors();
    device.apply(&Request::write(Lba(0), sectors as u32));
    let mut rng = Rng::new(9, "age");
    for _ in 0..sectors / 4 {
        device.apply(&Request::write(Lba(rng.below(sectors)), 1));
    }
}

/// Drive `device` with `operations` random requests at random depths and cut its power
/// now and then: `cuts` times in a thousand requests. The oracle panics when anything is lost.
fn torture(device: &mut dyn sim::Device, seed: u64, operations: u64, cuts: u64) {
    let span = device.limits().sectors();
    let mut rng = Rng::new(seed, "torture");
    let mut now = sim::Nanos::ZERO;
    let mut out = sim::Completions::new();
    let mut inside = 0;
    for id in 0..operations {
        let sectors = if rng.below(4) == 0 { 1 + rng.below(24) } else { 2 };
        // Half of the requests fall on a tenth of the space.
        let space = if rng.below(2) == 0 { span / 10 } else { span - 24 };
        let lba = Lba(rng.below(space) & !(sectors % 2));
        let mut request = match rng.below(16) {
            0 => Request::discard(lba, sectors as u32),
            1..=4 => Request::read(lba, sectors as u32),
            5 => Request { fua: true, ..Request::write(lba, sectors as u32) },
            _ => Request::write(lba, sectors as u32),
        };
        request.id = sim::RequestId(id);
        request.stream = rng.below(4) as u16;
        let depth = [1, 4, 32][(id / 512 % 3) as usize];
        while inside >= depth {
            now = device.next_event().unwrap_or_else(|| {
                let mut counters = sim::Counters::default();
                device.counters(&mut counters);
                panic!("{inside} requests inside and no event: {counters:?}")
            });
            device.advance(now, &mut out);
            inside -= std::mem::take(&mut out.done).len() as u64;
        }
        device.submit(now, request).expect("the queue is deeper than 32");
        inside += 1;
        if rng.below(1000) < cuts {
            for _ in 0..rng.below(12) {
                let Some(next) = device.next_event() else { break };
                now = next;
                device.advance(now, &mut out);
            }
            out.done.clear();
            device.power_fail(now);
            inside = 0;
        }
    }
}
