//! Processes that read or write in a closed loop, over a medium.

use sim::{
    Completion, Demand, Device, Lba, Nanos, NoProbe, Op, Priority, Request, Rng, Stop, Workload,
    WorkloadError, simulate,
};

use super::harness::{Medium, Rig};
use crate::elevator::ElevatorPolicy;

/// One process.
#[derive(Clone, Copy)]
pub(crate) struct Client {
    pub(crate) op: Op,
    /// Its part of the medium: where it begins, in sectors.
    pub(crate) from: u64,
    /// Anywhere in 8 GiB from there, else one after the other.
    pub(crate) random: bool,
    pub(crate) sectors: u32,
    pub(crate) think: Nanos,
    pub(crate) depth: u32,
    pub(crate) sync: bool,
    pub(crate) priority: Priority,
}

impl Client {
    /// Reads one block after the other, 32 KiB each, each process far from the others.
    pub(crate) fn reader(nth: u64) -> Client {
        Client {
            op: Op::Read,
            from: nth << 24,
            random: false,
            sectors: 64,
            think: Nanos::ZERO,
            depth: 1,
            sync: false,
            priority: Priority::NONE,
        }
    }

    /// Writes the same way, 64 requests at once, and waits for none of them.
    pub(crate) fn writer(nth: u64) -> Client {
        Client { op: Op::Write, depth: 64, ..Client::reader(nth) }
    }

    pub(crate) fn thinking_ms(self, ms: u64) -> Client {
        Client { think: Nanos::from_millis(ms), ..self }
    }
}

struct Running {
    client: Client,
    inside: u32,
    next: u64,
    ready: Nanos,
    sectors: u64,
    took: Vec<Nanos>,
}

struct Clients {
    running: Vec<Running>,
    issued: Vec<Nanos>,
    now: Nanos,
    rng: Rng,
}

impl Workload for Clients {
    fn next(&mut self, now: Nanos) -> Result<Demand, WorkloadError> {
        self.now = now;
        let mut wake = None;
        for (nth, running) in self.running.iter_mut().enumerate() {
            let client = running.client;
            if running.inside >= client.depth {
                continue;
            }
            if running.ready > now {
                wake = Some(wake.map_or(running.ready, |at: Nanos| at.min(running.ready)));
                continue;
            }
            running.inside += 1;
            let place = if client.random { self.rng.below(1 << 21) * 8 } else { running.next };
            running.next += u64::from(client.sectors);
            self.issued.push(now);
            let request = Request::new(client.op, Lba(client.from + place), client.sectors);
            let Client { sync, priority, .. } = client;
            return Ok(Demand::Issue(Request {
                process: nth as u32 + 1,
                sync,
                priority,
                ..request
            }));
        }
        Ok(wake.map_or(Demand::Wait, Demand::At))
    }

    fn complete(&mut self, request: &Request, completion: Completion) {
        let running = &mut self.running[request.process as usize - 1];
        running.inside -= 1;
        running.ready = completion.at + running.client.think;
        running.sectors += u64::from(request.sectors);
        let took = completion.at.since(self.issued[request.id.0 as usize]);
        running.took.push(took);
    }
}

/// What came of it.
pub(crate) struct Outcome {
    /// MB (10^6) a second, per process.
    pub(crate) mb_s: Vec<f64>,
    /// Response times, per process.
    took: Vec<Vec<Nanos>>,
    pub(crate) rig: Rig,
}

impl Outcome {
    /// The 90th percentile of a process's response times, in the second half of the run.
    pub(crate) fn late_p90(&self, nth: usize) -> Nanos {
        let mut late = self.took[nth][self.took[nth].len() / 2..].to_vec();
        late.sort_unstable();
        late[late.len() * 9 / 10]
    }

    pub(crate) fn level(&self, name: &str) -> u64 {
        self.rig.level(name)
    }
}

/// Let them run for so many seconds.
pub(crate) fn run(
    policy: &ElevatorPolicy,
    medium: Medium,
    clients: &[Client],
    seconds: u64,
) -> Outcome {
    let mut rig = Rig::new(policy, medium);
    let running = clients.iter().map(|&client| Running {
        client,
        inside: 0,
        next: 0,
        ready: Nanos::ZERO,
        sectors: 0,
        took: Vec::new(),
    });
    let mut clients = Clients {
        running: running.collect(),
        issued: Vec::new(),
        now: Nanos::ZERO,
        rng: Rng::new(1, "clients"),
    };
    let stop = Stop { at: Nanos::from_secs(seconds), ..Stop::default() };
    let device: &mut dyn Device = &mut rig.host.device;
    simulate(device, &mut clients, Nanos::ZERO, stop, &mut NoProbe).expect("it runs");
    let mb_s = |r: &Running| (r.sectors * 512) as f64 / 1e6 / seconds as f64;
    Outcome {
        mb_s: clients.running.iter().map(mb_s).collect(),
        took: clients.running.into_iter().map(|r| r.took).collect(),
        rig,
    }
}
