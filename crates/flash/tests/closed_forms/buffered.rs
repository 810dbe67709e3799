//! The write buffer, the host's queues and the collector's turns against arithmetic.

use sim::{Completions, Device, Lba, Nanos, Op, Request, Rng};

use crate::drive::counters;
use crate::timing::{ONE_DIE, R, X, answered, fill, numbered, ssd};

/// The buffer has one sector of a page of four; what it has not is on flash.
#[test]
fn a_read_is_served_by_the_buffer_for_what_the_buffer_has() {
    let rest = "buffer = { capacity = '64KiB', access = '1us', destage_above_percent = 100 }";
    for (lba, sectors, took) in [(0, 1, 1_000), (2, 2, R + X / 2), (0, 4, R + X)] {
        let mut device = ssd(ONE_DIE, rest);
        fill(&mut *device);
        answered(&mut *device, Nanos::ZERO, numbered(1, 1, Request::write(Lba(0), 1)));
        let now = Nanos(10_000);
        let end = answered(&mut *device, now, numbered(2, 1, Request::read(Lba(lba), sectors)));
        assert_eq!(end.since(now).0, took, "{sectors} sectors from {lba}");
    }
}

/// Two halves that overlap are no whole page: what they leave is read before it is programmed.
#[test]
fn a_page_whose_parts_overlap_is_completed_from_flash() {
    for (writes, reads) in [([(0, 2), (1, 2)], 1), ([(0, 2), (2, 2)], 0)] {
        let rest = "buffer = { capacity = '64KiB', destage_above_percent = 100 }";
        let mut device = ssd(ONE_DIE, rest);
        fill(&mut *device);
        for (id, (lba, sectors)) in (0..).zip(writes) {
            let write = Request::write(Lba(lba), sectors);
            device.submit(Nanos::ZERO, numbered(id, 1, write)).unwrap();
        }
        answered(&mut *device, Nanos(0), numbered(9, 1, Request::new(Op::Flush, Lba(0), 0)));
        assert_eq!(counters(&*device).get("flash_reads.host"), reads, "{writes:?}");
    }
}

/// Pages that a flush waits for, and that wait themselves for a block to be erased, are discarded:
/// nothing of the flush is left to wait for.
#[test]
fn a_flush_is_answered_whose_pages_are_discarded() {
    let rest = "over_provisioning = { live_percent = 87 }\n\
                collection = { start_free_percent = 0 }\n\
                buffer = { capacity = '64KiB', access = '0us' }";
    let mut device = ssd(ONE_DIE, rest);
    fill(&mut *device);
    let pages = device.limits().sectors() / 4;
    let (mut rng, mut now, mut id) = (Rng::new(7, "flush"), Nanos::ZERO, 0);
    for _ in 0..500 {
        let lbas: Vec<Lba> = (0..8).map(|_| Lba(4 * rng.below(pages))).collect();
        let writes = lbas.iter().map(|&lba| Request::write(lba, 4));
        let flush = Request::new(Op::Flush, Lba(0), 0);
        let discards = lbas.iter().map(|&lba| Request::new(Op::Discard, lba, 4));
        let mut out = Completions::new();
        let mut submit = |device: &mut dyn Device, now, request| {
            id += 1;
            device.submit(now, numbered(id, 1, request)).unwrap();
        };
        writes.clone().chain([flush]).for_each(|request| submit(&mut *device, now, request));
        now += Nanos(rng.below(4_000_000));
        while let Some(at) = device.next_event().filter(|&at| at <= now) {
            device.advance(at, &mut out);
        }
        // And what was discarded is written again, or the drive would soon be empty.
        for (requests, all) in [(discards.collect::<Vec<_>>(), 17), (writes.collect(), 25)] {
            requests.into_iter().for_each(|request| submit(&mut *device, now, request));
            while out.done.len() < all {
                now = device.next_event().expect("all are answered");
                device.advance(now, &mut out);
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
        let mut device = ssd(ONE_DIE, &rest);
        for id in 0..8 {
            let write = Request::write(Lba(4 * id), 4);
            device.submit(Nanos::ZERO, numbered(id, id as u32 % 2, write)).unwrap();
        }
        let (mut out, mut end) = (Completions::new(), Nanos::ZERO);
        while out.done.len() < 8 {
            end = device.next_event().expect("all are answered");
            device.advance(end, &mut out);
        }
        assert_eq!(end.0, 400_000, "{host}");
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
        let mut device = ssd(ONE_DIE, &rest);
        fill(&mut *device);
        let pages = device.limits().sectors() / 4;
        let (mut rng, mut now) = (Rng::new(3, "rest"), Nanos::ZERO);
        for id in 0..2_000 {
            let write = Request::write(Lba(4 * rng.below(pages)), 4);
            now = answered(&mut *device, now, numbered(id, 1, write));
        }
        let before = counters(&*device).get("gc_blocks_collected");
        let mut out = Completions::new();
        while let Some(at) = device.next_event() {
            device.advance(at, &mut out);
        }
        let collected = counters(&*device).get("gc_blocks_collected") - before;
        assert!(collected >= 2, "turn_pages = {turns}: {collected} blocks at rest");
    }
}
