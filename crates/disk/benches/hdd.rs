//! Requests per second of the disk model on one core: random 4 KiB reads, closed loop.

use std::time::Instant;

use config::device::Context;
use disk::hdd::Params;
use sim::{
    Completion, Demand, Lba, Nanos, NoProbe, Request, Rng, Stop, Workload, WorkloadError, simulate,
};

struct Random {
    rng: Rng,
    blocks: u64,
    depth: u32,
    inside: u32,
    write_percent: u64,
}

impl Workload for Random {
    fn next(&mut self, _now: Nanos) -> Result<Demand, WorkloadError> {
        if self.inside == self.depth {
            return Ok(Demand::Wait);
        }
        self.inside += 1;
        let lba = Lba(self.rng.below(self.blocks) * 8);
        let write = self.rng.below(100) < self.write_percent;
        let request = if write { Request::write(lba, 8) } else { Request::read(lba, 8) };
        Ok(Demand::Issue(request))
    }
    fn complete(&mut self, _request: &Request, _completion: Completion) {
        self.inside -= 1;
    }
}

/// Few enough that a round fits between two interruptions by other programs: the best of many is
/// then close to the time the processor itself needs.
const REQUESTS: u64 = 20_000;
const ROUNDS: u32 = 100;

/// Best requests per second of several rounds, and the modelled IOPS.
fn measure(depth: u32, write_percent: u64) -> (f64, f64) {
    let (mut best, mut iops) = (0f64, 0.0);
    for _ in 0..ROUNDS {
        let rng = Rng::new(1, "bench");
        let params = Params::default();
        let mut device = params.build(&Context { rng }).expect("the defaults can be built");
        let blocks = device.limits().sectors() / 8;
        let mut workload = Random { rng, blocks, depth, inside: 0, write_percent };
        let stop = Stop { requests: REQUESTS, ..Stop::default() };
        let start = Instant::now();
        let outcome = simulate(&mut *device, &mut workload, Nanos::ZERO, stop, &mut NoProbe)
            .expect("it runs");
        best = best.max(REQUESTS as f64 / start.elapsed().as_secs_f64());
        iops = REQUESTS as f64 / outcome.end.as_secs_f64();
    }
    (best, iops)
}

fn main() {
    for (name, depth, write_percent) in [
        ("read 4 KiB, depth 1", 1, 0),
        ("read 4 KiB, depth 32, sptf", 32, 0),
        ("write 4 KiB, depth 32, cached", 32, 100),
        ("half reads, half writes, depth 32", 32, 50),
    ] {
        let (speed, iops) = measure(depth, write_percent);
        println!("{name:<36} {:>6.2} M requests/s  ({iops:.1} modelled IOPS)", speed / 1e6);
    }
}
