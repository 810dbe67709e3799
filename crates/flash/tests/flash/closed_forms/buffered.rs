//! The write buffer, the host's queues and the collector's turns against arithmetic.

use sim::{Device, Lba, Nanos, Op, Request, Rng, Stepper};

use super::drive::counters;
use super::timing::{ONE_DIE, R, X, full, ssd};

/// The buffer has one sector of a page of four; what it has not is on flash.
#[test]
fn a_read_is_served_by_the_buffer_for_what_the_buffer_has() {
    let rest = "buffer = { capacity = '64KiB', access = '1us', destage_above_percent = 100 }";
    for (lba, sectors, took) in [(0, 1, 1_000), (2, 2, R + X / 2), (0, 4, R + X)] {
        let (mut host, now) = (full(rest), Nanos(10_000));
        host.answered(Request::write(Lba(0), 1));
        host.run_until(now);
        let end = host.answered(Request::read(Lba(lba), sectors));
        assert_eq!(end.since(now).0, took, "{sectors} sectors from {lba}");
    }
}

/// Two halves that overlap are no whole page: what they leave is read before it is programmed.
#[test]
fn a_page_whose_parts_overlap_is_completed_from_flash() {
    for (writes, reads) in [([(0, 2), (1, 2)], 1), ([(0, 2), (2, 2)], 0)] {
        let rest = "buffer = { capacity = '64KiB', destage_above_percent = 100 }";
        let mut host = full(rest);
        for (lba, sectors) in writes {
            host.submit(Request::write(Lba(lba), sectors)).unwrap();
        }
        host.answered(Request::flush());
        assert_eq!(counters(&*host.device).get("flash_reads.host"), reads, "{writes:?}");
    }
}

/// Pages that a flush waits for, and that wait themselves for a block to be erased, are discarded:
/// nothing of the flush is left to wait for.
#[test]
fn a_flush_is_answered_whose_pages_are_discarded() {
    let rest = "over_provisioning = { live_percent = 87 }\n\
                collection = { start_free_percent = 0 }\n\
                buffer = { capacity = '64KiB', access = '0us' }";
    let mut host = full(rest);
    let (pages, mut rng) = (host.device.limits().sectors() / 4, Rng::new(7, "flush"));
    for _ in 0..500 {
        let lbas: Vec<Lba> = (0..8).map(|_| Lba(4 * rng.below(pages))).collect();
        let writes = lbas.iter().map(|&lba| Request::write(lba, 4));
        let discards = lbas.iter().map(|&lba| Request::new(Op::Discard, lba, 4));
        for request in writes.clone().chain([Request::flush()]) {
            host.submit(request).unwrap();
        }
        let mut done = host.run_until(host.now() + Nanos(rng.below(4_000_000))).len();
        // And what was discarded is written again, or the drive would soon be empty.
        for (requests, all) in [(discards.collect::<Vec<_>>(), 17), (writes.collect(), 25)] {
            for request in requests {
                host.submit(request).unwrap();
            }
            while done < all {
                let next = host.device.next_event().expect("all are answered");
                done += host.run_until(next).len();
            }
        }
    }
}

/// A process makes a command each 100 us, whether another one's wait before it or not.
#[test]
fn a_command_that_waits_is_its_process_s() {
    for host in ["", "host.commands = 1\n"] {
        let rest = format!(
            "{host}host.process_interval = '100us'\n\
             buffer = {{ capacity = '1MiB', access = '0us' }}"
        );
        let mut stepper = Stepper::new(ssd(ONE_DIE, &rest));
        for page in 0..8 {
            let write = Request::write(Lba(4 * page), 4);
            stepper.submit(Request { process: page as u32 % 2, ..write }).unwrap();
        }
        let done = stepper.drain();
        assert_eq!((done.len(), done[7].at.0), (8, 400_000), "{host}");
    }
}

/// A drive at rest is collected up to its level, with turns as without.
#[test]
fn turns_do_not_keep_a_drive_at_rest_from_being_collected() {
    for turns in [0, 5] {
        let rest = format!(
            "buffer = {{ capacity = '64KiB' }}\ncollection = {{ turn_pages = {turns}, \
             start_free_percent = 0, background_free_percent = 12 }}"
        );
        let mut host = full(&rest);
        let (pages, mut rng) = (host.device.limits().sectors() / 4, Rng::new(3, "rest"));
        for _ in 0..2_000 {
            host.answered(Request::write(Lba(4 * rng.below(pages)), 4));
        }
        let before = counters(&*host.device).get("gc_blocks_collected");
        host.drain();
        let collected = counters(&*host.device).get("gc_blocks_collected") - before;
        assert!(collected >= 2, "turn_pages = {turns}: {collected} blocks at rest");
    }
}
