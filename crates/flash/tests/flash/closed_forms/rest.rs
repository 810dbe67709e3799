//! What a drive does while it rests, and no longer.

use sim::{Device, Lba, Nanos, Request, Rng, Stepper};

use super::drive::counters;
use super::timing::{ONE_DIE, fill, ssd};

/// Between two writes: a die is idle in between, and never for the 1 ms after which it rests.
const APART: Nanos = Nanos(800_000);

fn write(device: &mut Stepper<Box<dyn Device>>, pages: impl Iterator<Item = u64>) {
    for page in pages {
        device.run_until(device.now() + APART);
        device.answered(Request::write(Lba(4 * page), 4));
    }
}

fn pause(device: &mut Stepper<Box<dyn Device>>, time_ms: u64) {
    device.run_until(device.now() + Nanos::from_millis(time_ms));
}

fn moved(device: &Stepper<Box<dyn Device>>) -> u64 {
    counters(&*device.device).get("gc_pages_moved")
}

/// A block of 21 pages has begun to be folded when the pause ends, and is folded to its end.
#[test]
fn a_cache_is_folded_while_the_drive_rests_and_no_longer() {
    let rest = "nand.pslc = { read = '20us', program = '150us', bits_per_cell = 3 }\n\
                mapping.pslc = { blocks_percent = 80 }\n\
                over_provisioning = { live_percent = 50 }\n\
                collection = { start_free_percent = 0 }";
    let mut device = Stepper::new(ssd(ONE_DIE, rest));
    write(&mut device, 0..100);
    assert_eq!(moved(&device), 0);
    pause(&mut device, 20);
    let paused = moved(&device);
    assert!((21..84).contains(&paused), "{paused} of the 84 pages of full blocks");
    write(&mut device, 100..400);
    let more = moved(&device) - paused;
    assert!(more <= 21, "{more} pages were folded beside the host's writes");
    pause(&mut device, 500);
    assert_eq!(moved(&device), 400 / 21 * 21, "the next rest folds all");
}

#[test]
fn a_drive_that_rested_is_collected_in_the_background_no_longer() {
    let rest = "over_provisioning = { live_percent = 50 }\n\
                collection = { start_free_percent = 0, background_free_percent = 40 }";
    let (mut device, mut rng) = (Stepper::new(ssd(ONE_DIE, rest)), Rng::new(3, "rest"));
    fill(&mut *device.device);
    let pages = device.device.limits().sectors() / 4;
    write(&mut device, (0..600).map(|_| rng.below(pages)));
    assert_eq!(moved(&device), 0);
    pause(&mut device, 5);
    let paused = moved(&device);
    assert!((1..64).contains(&paused), "{paused} pages of the first victim");
    write(&mut device, (0..200).map(|_| rng.below(pages)));
    let more = moved(&device) - paused;
    assert!(more <= 64, "{more} pages were moved beside the host's writes");
}
