//! The original's experiments, repeated.

use sim::{
    Completion, Counters, Demand, Device, Lba, Nanos, Op, Probe, Request, Rng, Stop, Workload,
    WorkloadError,
};

use super::synthetic::Synthetic;

pub(crate) fn build(rest: &str) -> Box<dyn Device> {
    build_any(&format!("[disksim-ssd]\n{rest}"))
}

/// Any device, from TOML.
pub(crate) fn build_any(text: &str) -> Box<dyn Device> {
    crate::support::build(text, "golden")
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

pub(crate) fn mean_ms(device: &mut dyn Device, load: &mut dyn Workload, requests: u64) -> f64 {
    let mut mean = Mean { most: requests - 1, ..Mean::default() };
    let outcome = sim::simulate(device, load, Nanos::ZERO, Stop::default(), &mut mean);
    let outcome = outcome.expect("it runs");
    assert_eq!(outcome.in_flight_ns, outcome.response_ns, "Little's law");
    mean.ms()
}

/// The drive of the eight checks published with the extension: 8 packages of 8 planes, 4 KiB pages,
/// a host channel of 0.2384 us per sector.
pub(crate) const PUBLISHED: &str = "packages = 8\nplanes_per_package = 8\npage = '4KiB'\n\
    erase = '1.5ms'\nhost = '2147651007B/s'\n";

/// Mean response, in ms, of one of the checks with a synthetic stream.
pub(crate) fn published(op: Op, sequential: bool, requests: u64) -> f64 {
    let mut device = build(PUBLISHED);
    mean_ms(&mut *device, &mut Synthetic::new(op, sequential, requests), requests)
}

/// One request every 100 ms, aligned to 128 KiB, in order.
pub(crate) struct Unloaded {
    pub(crate) op: Op,
    pub(crate) sectors: u32,
    pub(crate) next: u64,
}

/// The original stops before its last request completes: 399 of 400 are counted.
pub(crate) const UNLOADED: u64 = 400;

impl Workload for Unloaded {
    fn next(&mut self, now: Nanos) -> Result<Demand, WorkloadError> {
        let at = Nanos::from_millis(100 * self.next);
        if self.next == UNLOADED {
            return Ok(Demand::End);
        }
        if at > now {
            return Ok(Demand::At(at));
        }
        let lba = Lba(256 * self.next);
        self.next += 1;
        Ok(Demand::Issue(Request::new(self.op, lba, self.sectors)))
    }
}

/// Printed mean responses in ms of reads and writes of 8, 16, 32, 64 and 128 KiB. A `~` marks cells
/// that depend on where requests fall (which pages share a block, when blocks fill), which is not
/// recorded: those must agree within 0.3 %.
pub(crate) type Row = (u32, &'static str, [&'static str; 5], [&'static str; 5]);
pub(crate) const TABLE: [Row; 5] = [
    (
        1,
        "element",
        ["0.077800", "0.155600", "0.311200", "0.622400", "1.244800"],
        ["0.254937", "0.512012", "1.024024", "2.048048", "4.098234"],
    ),
    (
        1,
        "plane",
        ["0.077800", "0.155600", "0.311200", "0.622400", "1.244800"],
        ["0.254937", "~0.511478", "~1.023490", "~2.048048", "~4.097699"],
    ),
    (
        2,
        "element",
        ["0.077800", "0.155600", "~0.310761", "~0.620270", "~1.232770"],
        ["0.254937", "0.512012", "0.820818", "1.440842", "2.682361"],
    ),
    (
        2,
        "plane",
        ["0.077800", "0.155600", "~0.310761", "~0.620270", "~1.232770"],
        ["0.254937", "~0.511478", "~1.019981", "~2.031006", "~4.001062"],
    ),
    (
        4,
        "element",
        ["0.077800", "0.155600", "~0.310448", "~0.618829", "~1.223121"],
        ["0.254937", "0.512012", "0.617612", "1.033636", "1.866621"],
    ),
];

fn counters(device: &dyn Device) -> Counters {
    let mut counters = Counters::default();
    device.counters(&mut counters);
    counters
}

/// Uniform single-page writes, so far apart that cleaning is always done between them: nothing
/// overlaps, so they need no clock. Gives (WAF, pages moved per clean, ms per clean).
pub(crate) fn steady_state(
    reserve_percent: u32,
    pool: &str,
    from: u64,
    to: u64,
) -> (f64, f64, f64) {
    let mut device = build(&format!(
        "blocks_per_plane = 256\nreserve_percent = {reserve_percent}\npool = '{pool}'"
    ));
    let pages = device.limits().sectors() / 4;
    let mut rng = Rng::new(1, "steady");
    let mut before = Counters::default();
    for write in 0..to {
        if write == from {
            before = counters(&*device);
        }
        device.apply(&Request::write(Lba(4 * rng.below(pages)), 4));
    }
    let counted = counters(&*device).since(&before);
    let cleaning = counted.units.iter().flat_map(|unit| &unit.busy);
    let clean_ns: u64 = cleaning.filter(|(what, _)| *what == "gc").map(|(_, time)| time.0).sum();
    let (writes, moved) = (counted.get("host_writes"), counted.get("gc_pages_moved"));
    let cleaned = counted.get("gc_blocks_collected");
    assert_eq!(writes, to - from);
    assert_eq!(clean_ns, 225_000 * moved + 2_000_000 * cleaned, "2 + 0.225 m ms, exactly");
    let per_clean = |total: u64| total as f64 / cleaned as f64;
    ((writes + moved) as f64 / writes as f64, per_clean(moved), per_clean(clean_ns) / 1e6)
}

/// Random writes in steady state: reserve in percent, pool, and what the original printed: WAF,
/// pages moved per clean, milliseconds per clean.
pub(crate) const STEADY: [(u32, &str, f64, f64, f64); 4] = [
    (15, "plane", 4.7509, 49.740, 13.1915),
    (15, "element", 4.7458, 49.725, 13.1882),
    (25, "plane", 2.5060, 37.860, 10.5186),
    (30, "plane", 2.0839, 32.768, 9.3729),
];
