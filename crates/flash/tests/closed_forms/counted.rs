//! What a drive counts, against arithmetic.

use sim::{Completions, Device, Lba, Nanos, Request, RequestId};

use crate::drive::counters;
use crate::timing::{ONE_DIE, P, R, X, fill, ssd};

fn submit(device: &mut dyn Device, now: Nanos, requests: &[Request]) {
    for (id, &request) in (0..).zip(requests) {
        device.submit(now, numbered(id, 1, request)).unwrap();
    }
}

/// Do what is due up to a time.
pub(crate) fn advance(device: &mut dyn Device, to: Nanos) {
    let mut out = Completions::new();
    while let Some(at) = device.next_event().filter(|&at| at <= to) {
        device.advance(at, &mut out);
    }
}

pub(crate) fn numbered(id: u64, process: u32, request: Request) -> Request {
    Request { id: RequestId(id), process, ..request }
}

/// Submit a request and return when it is answered.
pub(crate) fn answered(device: &mut dyn Device, now: Nanos, request: Request) -> Nanos {
    device.submit(now, request).unwrap();
    let mut out = Completions::new();
    loop {
        let at = device.next_event().expect("it is answered");
        device.advance(at, &mut out);
        if out.done.iter().any(|done| done.id == request.id) {
            return at;
        }
    }
}

/// A read comes 50 us into a program that can be suspended after 120 us: whose are the 70 us?
#[test]
fn a_die_s_time_is_counted_once() {
    for (after, read) in [("0us", 5_000 + R), ("120us", 70_000 + 5_000 + R)] {
        let rest = format!("nand = {{ program_suspend = '5us', suspend_after = '{after}' }}");
        let mut device = ssd(ONE_DIE, &rest);
        fill(&mut *device);
        submit(&mut *device, Nanos::ZERO, &[Request::write(Lba(0), 4)]);
        let now = Nanos(X + 50_000);
        advance(&mut *device, now);
        answered(&mut *device, now, numbered(9, 1, Request::read(Lba(400), 4)));
        advance(&mut *device, Nanos::from_millis(100));
        let counted = counters(&*device);
        let die = counted.units.iter().find(|unit| unit.name == "channel0.die0").unwrap();
        let busy: u64 = die.busy.iter().map(|(_, time)| time.0).sum();
        assert_eq!(busy, P + 5_000 + R, "{after}");
        assert_eq!(die.busy[0], ("read", Nanos(read)), "{after}");
    }
}

/// A page whose program is under way is still in the controller: for a read, and for what a write
/// of a part of it leaves.
#[test]
fn a_read_that_needs_no_flash_is_no_flash_read() {
    for second in [Request::read(Lba(0), 4), Request::write(Lba(0), 1)] {
        let mut device = ssd(ONE_DIE, "");
        fill(&mut *device);
        let all = [Request::write(Lba(0), 4), second, Request::read(Lba(400), 4)];
        submit(&mut *device, Nanos::ZERO, &all);
        advance(&mut *device, Nanos::from_millis(100));
        assert_eq!(counters(&*device).get("flash_reads.host"), 1, "{second:?}");
    }
}

/// At a pace, most of what was asked for waits.
#[test]
fn a_write_counts_when_it_comes_in() {
    let rest = "buffer = { capacity = '64KiB', access = '0us', pace = { page = '10ms' } }";
    let mut device = ssd(ONE_DIE, rest);
    let writes: Vec<_> = (0..16).map(|page| Request::write(Lba(4 * page), 4)).collect();
    submit(&mut *device, Nanos::ZERO, &writes);
    for (at, pages) in [(5, 1), (25, 3), (95, 10), (1_000, 16)] {
        advance(&mut *device, Nanos::from_millis(at));
        let counted = counters(&*device);
        assert_eq!(counted.get("flash_programs.host"), pages, "after {at} ms");
        assert_eq!(counted.get("host_writes"), pages, "after {at} ms");
        assert_eq!(counted.get("host_bytes_written"), pages * 2048, "after {at} ms");
    }
}
