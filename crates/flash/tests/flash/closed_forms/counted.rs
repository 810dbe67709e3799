//! What a drive counts, against arithmetic.

use sim::{Device, Lba, Nanos, Request, Stepper};

use super::drive::counters;
use super::timing::{ONE_DIE, P, R, X, fill, ssd};

fn stepper(rest: &str) -> Stepper<Box<dyn Device>> {
    Stepper::new(ssd(ONE_DIE, rest))
}

fn submit(device: &mut Stepper<Box<dyn Device>>, requests: &[Request]) {
    for &request in requests {
        device.submit(request).unwrap();
    }
}

/// A read comes 50 us into a program that can be suspended after 120 us: whose are the 70 us?
#[test]
fn a_die_s_time_is_counted_once() {
    for (after, read) in [("0us", 5_000 + R), ("120us", 70_000 + 5_000 + R)] {
        let rest = format!("nand = {{ program_suspend = '5us', suspend_after = '{after}' }}");
        let mut device = stepper(&rest);
        fill(&mut *device.device);
        submit(&mut device, &[Request::write(Lba(0), 4)]);
        device.run_until(Nanos(X + 50_000));
        device.answered(Request::read(Lba(400), 4));
        device.run_until(Nanos::from_millis(100));
        let counted = counters(&*device.device);
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
        let mut device = stepper("");
        fill(&mut *device.device);
        let all = [Request::write(Lba(0), 4), second, Request::read(Lba(400), 4)];
        submit(&mut device, &all);
        device.run_until(Nanos::from_millis(100));
        assert_eq!(counters(&*device.device).get("flash_reads.host"), 1, "{second:?}");
    }
}

/// At a pace, most of what was asked for waits.
#[test]
fn a_write_counts_when_it_comes_in() {
    let rest = "buffer = { capacity = '64KiB', access = '0us', pace = { page = '10ms' } }";
    let mut device = stepper(rest);
    let writes: Vec<_> = (0..16).map(|page| Request::write(Lba(4 * page), 4)).collect();
    submit(&mut device, &writes);
    for (at, pages) in [(5, 1), (25, 3), (95, 10), (1_000, 16)] {
        device.run_until(Nanos::from_millis(at));
        let counted = counters(&*device.device);
        assert_eq!(counted.get("flash_programs.host"), pages, "after {at} ms");
        assert_eq!(counted.get("host_writes"), pages, "after {at} ms");
        assert_eq!(counted.get("host_bytes_written"), pages * 2048, "after {at} ms");
    }
}
