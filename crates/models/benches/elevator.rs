//! Nanoseconds of CPU time per request that an elevator costs: `cargo bench -p blocklab-models`.
//!
//! Requests of four processes, half of them writes, go through each policy to a device that does
//! next to nothing; what the same requests cost without an elevator is taken off. CPU time where
//! Linux tells it, so that a busy machine does not blur the numbers; the best of several rounds.
//! `-- cfq bfq` measures these only.

use config::device::Context;
use models::device::{elevator, null};
use models::registry::{DeviceModel, ElevatorPolicy};
use sim::{
    Completion, Demand, Device, Lba, Nanos, NoProbe, Request, Rng, Stop, Workload, WorkloadError,
    simulate,
};

/// Many, as Linux tells CPU time in steps of a few milliseconds.
const REQUESTS: u64 = 2_000_000;
const ROUNDS: u32 = 3;
const PROCESSES: u32 = 4;
/// Of each process.
const DEPTH: u32 = 8;

struct Mixed {
    rng: Rng,
    inside: [u32; PROCESSES as usize],
    next: [u64; PROCESSES as usize],
    /// One block after the other, so that neighbours can be merged.
    sequential: bool,
}

impl Workload for Mixed {
    fn next(&mut self, _now: Nanos) -> Result<Demand, WorkloadError> {
        let Some(nth) = self.inside.iter().position(|&inside| inside < DEPTH) else {
            return Ok(Demand::Wait);
        };
        self.inside[nth] += 1;
        let place = if self.sequential {
            self.next[nth] = (self.next[nth] + 1) % (1 << 18);
            self.next[nth]
        } else {
            self.rng.below(1 << 18)
        };
        let lba = Lba((nth as u64) << 22 | place << 3);
        let write = nth % 2 == 1;
        let request = if write { Request::write(lba, 8) } else { Request::read(lba, 8) };
        Ok(Demand::Issue(Request { process: nth as u32 + 1, ..request }))
    }

    fn complete(&mut self, request: &Request, _completion: Completion) {
        self.inside[request.process as usize - 1] -= 1;
    }
}

/// CPU time of this thread, or wall time where the kernel does not tell.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let cpu = stat.split_whitespace().next().and_then(|ns| ns.parse().ok());
    let wall = || std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
    cpu.unwrap_or_else(wall)
}

fn below() -> DeviceModel {
    DeviceModel::Null(null::Params { queue_depth_max: 32, ..null::Params::default() })
}

fn built(model: &DeviceModel) -> Box<dyn Device> {
    model.build(&Context { rng: Rng::new(1, "bench") }).expect("the defaults can be built")
}

/// Best time of several rounds per request, in nanoseconds.
fn measure(model: &DeviceModel, sequential: bool) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let mut device = built(model);
        let rng = Rng::new(1, "bench");
        let mut workload = Mixed { rng, inside: [0; 4], next: [0; 4], sequential };
        let stop = Stop { requests: REQUESTS, ..Stop::default() };
        let start = cpu_ns();
        simulate(&mut *device, &mut workload, Nanos::ZERO, stop, &mut NoProbe).expect("it runs");
        best = best.min((cpu_ns() - start) as f64 / REQUESTS as f64);
    }
    best
}

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    for (name, sequential) in [("random", false), ("sequential", true)] {
        let bare = measure(&below(), sequential);
        println!("{name:<11} without an elevator {bare:6.1} ns/request");
        let wanted = |name: &&str| asked.is_empty() || asked.iter().any(|asked| asked == name);
        for policy in ElevatorPolicy::NAMES.iter().copied().filter(wanted) {
            let params = elevator::Params {
                device: Box::new(below()),
                policy: ElevatorPolicy::from_name(policy).expect("it is a name of the registry"),
                ..elevator::Params::default()
            };
            let whole = measure(&DeviceModel::Elevator(params), sequential);
            println!("{name:<11} {policy:<13} {:6.1} ns/request more", whole - bare);
        }
    }
}
