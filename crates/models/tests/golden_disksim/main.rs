//! The DiskSim SSD against what the original printed.

mod synthetic;

use models::device::Context;
use models::registry::DeviceModel;
use sim::{
    Completion, Counters, Demand, Device, Lba, Nanos, Op, Probe, Request, Rng, Stop, Workload,
    WorkloadError,
};
use synthetic::Synthetic;

fn build(rest: &str) -> Box<dyn Device> {
    let text = format!("[disksim-ssd]\n{rest}");
    let table: toml::Table = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    let model: DeviceModel = table.try_into().unwrap_or_else(|e| panic!("{text}: {e}"));
    model.build(&Context { rng: Rng::new(1, "golden") }).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Mean response of all but the last request, as DiskSim counts it.
#[derive(Default)]
struct Mean {
    ns: u128,
    count: u64,
    most: u64,
}

impl Probe for Mean {
    fn on_complete(&mut self, request: &Request, issued: Nanos, completion: Completion) {
        if request.id.0 < self.most {
            self.ns += u128::from(completion.at.since(issued).0);
            self.count += 1;
        }
    }
}

impl Mean {
    fn ms(&self) -> f64 {
        self.ns as f64 / self.count as f64 / 1e6
    }
}

fn mean_ms(device: &mut dyn Device, load: &mut dyn Workload, requests: u64) -> f64 {
    let mut mean = Mean { most: requests - 1, ..Mean::default() };
    let outcome = sim::simulate(device, load, Nanos::ZERO, Stop::default(), &mut mean);
    let outcome = outcome.expect("it runs");
    assert_eq!(outcome.in_flight_ns, outcome.response_ns, "Little's law");
    println!("end {}", outcome.end);
    mean.ms()
}

/// The eight checks published with the extension, those with a synthetic stream: 8 packages of 8
/// planes, 4 KiB pages, a host channel of 0.2384 us per sector.
fn published(op: Op, sequential: bool, requests: u64) -> f64 {
    let mut device = build(
        "packages = 8\nplanes_per_package = 8\npage = '4KiB'\nerase = '1.5ms'\n\
         host = '2147651007B/s'\n",
    );
    let mut load = Synthetic::new(op, sequential, requests);
    mean_ms(&mut *device, &mut load, requests)
}

#[test]
fn published_checks() {
    for (name, op, sequential, ms) in [
        ("sequential read", Op::Read, true, 0.132511),
        ("sequential write", Op::Write, true, 0.310895),
        ("random read", Op::Read, false, 0.136118),
        ("random write", Op::Write, false, 0.329458),
    ] {
        let got = published(op, sequential, 250_000);
        println!("{name}: {got:.6} (published {ms})");
    }
}

/// One request every 100 ms, aligned to 128 KiB, in order.
struct Unloaded {
    op: Op,
    sectors: u32,
    count: u64,
    next: u64,
}

impl Workload for Unloaded {
    fn next(&mut self, now: Nanos) -> Result<Demand, WorkloadError> {
        let at = Nanos::from_millis(100 * self.next);
        if self.next == self.count {
            return Ok(Demand::End);
        }
        if at > now {
            return Ok(Demand::At(at));
        }
        self.next += 1;
        let lba = Lba(256 * (self.next - 1));
        Ok(Demand::Issue(Request::new(self.op, lba, self.sectors)))
    }
}

const SIZES: [u32; 5] = [8, 16, 32, 64, 128];

#[test]
fn unloaded() {
    for (units, pool) in
        [(1, "element"), (1, "plane"), (2, "element"), (2, "plane"), (4, "element")]
    {
        for op in [Op::Read, Op::Write] {
            let row: Vec<_> = SIZES
                .iter()
                .map(|kib| {
                    let mut device = build(&format!("parallel_units = {units}\npool = '{pool}'"));
                    let mut load = Unloaded { op, sectors: kib * 2, count: 400, next: 0 };
                    format!("{:.6}", mean_ms(&mut *device, &mut load, 400))
                })
                .collect();
            println!("{units} {pool} {} {row:?}", op.name());
        }
    }
}

fn counters(device: &dyn Device) -> Counters {
    let mut counters = Counters::default();
    device.counters(&mut counters);
    counters
}
