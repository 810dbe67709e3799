//! The laws of the contract and the NAND oracle over many shapes of SSD, small enough that
//! collection runs all the time.

use sim::{Device, Lba, Request, Rng};

/// A drive of 4 dies x 2 planes x 12 blocks x 4 pages with the oracle on.
fn tiny(changes: &str) -> Box<dyn Device> {
    let text = format!(
        "[ssd]\noracle = true\nqueue_depth_max = 64\nover_provisioning = {{ live_percent = 55 }}\n\
         {changes}\n[ssd.geometry]\nchannels = 2\npackages_per_channel = 1\ndies_per_package = 2\n\
         planes_per_die = 2\nblocks_per_plane = 12\npages_per_block = 4\n"
    );
    crate::support::build(&text, "tiny")
}

const SHAPES: [(&str, &str); 21] = [
    ("plain", ""),
    ("fifo", "gc = 'fifo'"),
    ("random", "gc = 'random'"),
    ("d-choices", "gc = 'd-choices'"),
    ("windowed", "gc.windowed.window = 3"),
    ("cost-benefit", "gc = 'cost-benefit'"),
    ("dynamic", "allocation = 'dynamic'"),
    ("most free, plane first", "allocation.dynamic = { order = 'PDWC', pick = 'most-free' }"),
    ("global", "allocation = 'dynamic'\ncollection.global = true"),
    ("no copy-back, whole steps", "nand.copy_back = false\ncollection.step_pages = 4"),
    ("shared open block", "collection = { separate = false, background_free_percent = 40 }"),
    (
        "reserve and high watermark",
        "collection = { reserve_blocks = 2, stop_free_percent = 30, urgent_free_blocks = 3 }",
    ),
    ("shared, at the last moment", "collection = { separate = false, start_free_percent = 0 }"),
    ("wear at every other erase", "wear.static = { threshold = 0, every = 1 }"),
    ("multi-plane", "nand = { multi_plane = 'any-page', command = '1us' }"),
    (
        "suspend, page types, one-shot",
        "nand = { program_suspend = '5us', erase_suspend = '20us', multi_plane = 'same-page', \
         read = ['10us', '20us'], program = ['0us', '900us'] }",
    ),
    (
        "units, planes as one, small reads, parity",
        "nand = { units_per_page = 2, planes_as_one = 2, parity_every = 3, copy_back = false, \
         read_small = { up_to = '512B', read = ['5us', '7us'] }, program_suspend = '5us' }",
    ),
    (
        "cache reads",
        "nand = { cache_read = true, multi_plane = 'any-page', program_suspend = '5us', \
         erase_suspend = '20us', read = ['10us', '70us'], command = '1us' }",
    ),
    ("three commands inside", "host.commands = 3\nnand.program_suspend = '5us'"),
    (
        "reads that are repeated",
        "nand.retry = { reads = 100, shape = 1.5, step = '7us', more = 0.2, most = 3 }",
    ),
    ("wear, host link", "wear.static = { threshold = 1, every = 2 }\nhost.bandwidth = '100MB/s'"),
];

const BUFFERS: [&str; 6] = [
    "buffer = { capacity = '16KiB' }",
    "buffer = { capacity = '64KiB', destage_above_percent = 50, destage_depth = 2 }",
    "buffer = { capacity = '64KiB', power_loss_protection = true }",
    "buffer = { capacity = '64KiB', power_loss_protection = true, merge_pages = 2 }",
    "buffer = { capacity = '64KiB', pace = { page = '70us', burst = 2 }, \
     suspend_when_full = false }",
    "buffer = { capacity = '64KiB', throttle = { page = '60us', owed = '40us', moved = '30us', \
     read = '20us', every = '2ms', stop = '300us', hold_back_percent = 20, \
     least_percent = 50, window = '3ms' } }",
];

/// Fill the drive and overwrite it twice, so that every run starts in steady state.
fn age(device: &mut dyn Device) {
    let sectors = device.limits().sectors();
    device.apply(&Request::write(Lba(0), sectors as u32));
    let mut rng = Rng::new(9, "age");
    for _ in 0..sectors / 2 {
        device.apply(&Request::write(Lba(rng.below(sectors)), 1));
    }
}

#[test]
fn every_shape_obeys_the_laws_under_the_oracle() {
    for (name, changes) in SHAPES {
        for buffer in [""].iter().chain(&BUFFERS) {
            let changes = format!("{changes}\n{buffer}");
            let make = || {
                let mut device = tiny(&changes);
                age(&mut *device);
                device
            };
            sim::laws::check_all(&format!("{name} {buffer}"), &make, 0..3);
        }
    }
}

/// Turns need a buffer, which a shape of its own does not have.
#[test]
fn host_and_collector_in_turns_obey_the_laws() {
    let paced = "buffer = { capacity = '64KiB', pace = { page = '70us', in_turns = true } }";
    for buffer in BUFFERS.iter().chain(&[paced]) {
        for step in [1, 3, 16] {
            let changes = format!(
                "collection = {{ turn_pages = 5, step_pages = {step}, start_free_percent = 30 }}\n\
                 nand.copy_back = false\n{buffer}"
            );
            let make = || {
                let mut device = tiny(&changes);
                age(&mut *device);
                device
            };
            sim::laws::check_all(&changes, &make, 0..3);
        }
    }
}

/// Power cuts at random moments, again and again on the same drive: the oracle checks after each
/// that every durable page is found.
#[test]
fn nothing_durable_is_lost_over_many_power_cuts() {
    for (name, changes) in SHAPES {
        let mut device = tiny(changes);
        age(&mut *device);
        let mut rng = Rng::new(3, name);
        let mut now = sim::Nanos::ZERO;
        let mut out = sim::Completions::new();
        for cut in 0..60 {
            for id in 0..1 + rng.below(40) {
                let sectors = 1 + rng.below(24);
                let lba = Lba(rng.below(device.limits().sectors() - sectors));
                let mut request = match rng.below(8) {
                    0 => Request::discard(lba, sectors as u32),
                    1 | 2 => Request::read(lba, sectors as u32),
                    _ => Request::write(lba, sectors as u32),
                };
                request.id = sim::RequestId(cut * 100 + id);
                device.submit(now, request).unwrap();
                for _ in 0..rng.below(6) {
                    let Some(next) = device.next_event() else { break };
                    now = next;
                    device.advance(now, &mut out);
                }
            }
            device.power_fail(now);
        }
    }
}
