//! The laws every device obeys, as checks that run over every registered device.
//!
//! Each law drives a device with its own seeded random requests and returns what was broken.

use std::sync::Arc;

use crate::device::{Completion, Completions, Device};
use crate::digest::Digest;
use crate::request::{Op, Request, RequestId};
use crate::rng::Rng;
use crate::snapshot::{Loader, Saver};
use crate::units::{Lba, Nanos};

/// A law: its name and the check.
pub type Law = (&'static str, fn(&Maker, u64) -> Result<(), String>);

/// Makes a fresh device; every call gives an equal one.
pub type Maker<'a> = dyn Fn() -> Box<dyn Device> + 'a;

/// Every law, in the order of the contract.
pub const LAWS: [Law; 7] = [
    ("time never goes back", time_never_goes_back),
    ("advance twice at one instant equals once", advance_is_idempotent),
    ("advancing until an answer equals moment by moment", until_an_answer),
    ("every accepted request completes exactly once, never before its submission", exactly_once),
    ("a cloned device replays to the same digest", clone_replays),
    ("saving and restoring is invisible", snapshot_is_invisible),
    ("flushed and FUA writes survive a power failure", flushed_writes_survive),
];

/// Check every law over `seeds`.
///
/// # Panics
/// With the law, the seed and what was broken.
pub fn check_all(device: &str, make: &Maker, seeds: std::ops::Range<u64>) {
    for (law, check) in LAWS {
        for seed in seeds.clone() {
            if let Err(broken) = check(make, seed) {
                panic!("{device} breaks the law '{law}' with seed {seed}: {broken}");
            }
        }
    }
}

const REQUESTS: u64 = 400;

/// A random host: submits when it likes, up to a random depth.
#[derive(Clone)]
struct RandomHost {
    rng: Rng,
    now: Nanos,
    next_id: u64,
    total: u64,
    depth: u64,
    gap_ns: u64,
    /// Sectors the requests fall on: small, so that they overlap.
    span: u64,
    submit_at: Nanos,
    inside: Vec<(Request, Nanos)>,
    acknowledged: Vec<(Request, Nanos, Completion)>,
    digest: Digest,
    out: Completions,
    /// Lets the device go on until it answers or the next request comes.
    until_an_answer: bool,
    /// What the device did that ended the run.
    breach: Option<Breach>,
}

/// What makes it pointless to go on. Each is the business of one law; the others are content with
/// what came before it.
#[derive(Clone)]
enum Breach {
    /// Of time.
    Time(String),
    /// Of a request that ends otherwise than once and after its submission.
    Ending(String),
}

impl RandomHost {
    fn new(device: &dyn Device, seed: u64) -> RandomHost {
        let mut rng = Rng::new(seed, "laws");
        let limits = device.limits();
        let depth = 1 + rng.below(u64::from(limits.queue_depth_max).min(64));
        let gap_ns = [1, 10_000, 1_000_000][rng.below(3) as usize];
        let span = limits.sectors().min(1 << [10, 14, 20][rng.below(3) as usize]);
        RandomHost {
            rng,
            now: Nanos::ZERO,
            next_id: 0,
            total: REQUESTS,
            depth,
            gap_ns,
            span,
            submit_at: Nanos::ZERO,
            inside: Vec::new(),
            acknowledged: Vec::new(),
            digest: Digest::default(),
            out: Completions::new(),
            until_an_answer: false,
            breach: None,
        }
    }

    fn request(&mut self) -> Request {
        let sectors = 1 + self.rng.below(self.span.min(64));
        let lba = Lba(self.rng.below(self.span - sectors + 1));
        let op = [Op::Read, Op::Write, Op::Write, Op::Read, Op::Write, Op::Discard, Op::Flush]
            [self.rng.below(7) as usize];
        let mut request = match op {
            Op::Flush => Request::flush(),
            _ => Request::new(op, lba, sectors as u32),
        };
        request.fua = op == Op::Write && self.rng.below(8) == 0;
        // An elevator knows of each process what it has seen.
        request.process = self.rng.below(4) as u32;
        request.sync = op == Op::Write && self.rng.below(4) == 0;
        request.id = RequestId(self.next_id);
        request
    }

    /// One step: submit if it is time, else let the device do what is due. False when all is done
    /// or cannot go on.
    fn step(&mut self, device: &mut dyn Device) -> bool {
        if self.breach.is_none() {
            match self.submit_or_advance(device) {
                Ok(more) => return more,
                Err(breach) => self.breach = Some(breach),
            }
        }
        false
    }

    fn submit_or_advance(&mut self, device: &mut dyn Device) -> Result<bool, Breach> {
        let may_submit = self.next_id < self.total && (self.inside.len() as u64) < self.depth;
        let event = device.next_event();
        if let Some(event) = event
            && event < self.now
        {
            let message = format!("at {} the next event lies in the past, at {event}", self.now);
            return Err(Breach::Time(message));
        }
        if may_submit && event.is_none_or(|event| self.submit_at <= event) {
            self.now = self.now.max(self.submit_at);
            let request = self.request();
            if device.submit(self.now, request).is_ok() {
                self.next_id += 1;
                self.inside.push((request, self.now));
                self.submit_at = self.now + Nanos(self.rng.below(self.gap_ns));
                return Ok(true);
            }
            if event.is_none() {
                return Err(Breach::Ending("it is busy but has no event".into()));
            }
        }
        let Some(event) = event else {
            let stuck = |n| Breach::Ending(format!("it is stuck with {n} requests inside"));
            return match self.inside.len() {
                0 => Ok(false),
                n => Err(stuck(n)),
            };
        };
        self.now = event;
        if self.until_an_answer {
            let until = if may_submit { self.submit_at.0.saturating_sub(1) } else { u64::MAX };
            let until = event.max(Nanos(until));
            self.now = device.advance_until(until, &mut self.out).unwrap_or(Nanos::MAX);
        } else {
            device.advance(event, &mut self.out);
        }
        // A busy device is tried again when it has moved.
        self.submit_at = self.submit_at.max(self.now);
        self.collect()
    }

    fn collect(&mut self) -> Result<bool, Breach> {
        for completion in std::mem::take(&mut self.out.done) {
            let Some(index) = self.inside.iter().position(|(r, _)| r.id == completion.id) else {
                let message = format!("{:?} completed but is not inside", completion.id);
                return Err(Breach::Ending(message));
            };
            let (request, submitted) = self.inside.remove(index);
            if completion.at < submitted {
                let message = format!("{request:?} of {submitted} completed at {}", completion.at);
                return Err(Breach::Ending(message));
            }
            if completion.at != self.now {
                let message = format!("at {} a completion says {}", self.now, completion.at);
                return Err(Breach::Time(message));
            }
            self.digest.add(completion.id.0);
            self.digest.add(completion.at.0);
            self.acknowledged.push((request, submitted, completion));
        }
        Ok(true)
    }

    fn run(&mut self, device: &mut dyn Device) {
        while self.step(device) {}
    }
}

/// The host after a whole run of a fresh device.
fn whole_run(make: &Maker, seed: u64) -> RandomHost {
    let mut device = make();
    let mut host = RandomHost::new(&*device, seed);
    host.run(&mut *device);
    host
}

fn time_never_goes_back(make: &Maker, seed: u64) -> Result<(), String> {
    match whole_run(make, seed).breach {
        Some(Breach::Time(broken)) => Err(broken),
        _ => Ok(()),
    }
}

fn advance_is_idempotent(make: &Maker, seed: u64) -> Result<(), String> {
    let mut device = make();
    let mut host = RandomHost::new(&*device, seed);
    while host.step(&mut *device) {
        if device.next_event() != Some(host.now) {
            let before = device.next_event();
            device.advance(host.now, &mut host.out);
            if !host.out.done.is_empty() || device.next_event() != before {
                return Err(format!("a second advance at {} changed something", host.now));
            }
        }
    }
    same(whole_run(make, seed).digest, host.digest)
}

fn until_an_answer(make: &Maker, seed: u64) -> Result<(), String> {
    let mut device = make();
    let mut host = RandomHost::new(&*device, seed);
    host.until_an_answer = true;
    host.run(&mut *device);
    same(whole_run(make, seed).digest, host.digest)
}

fn same(expected: Digest, got: Digest) -> Result<(), String> {
    if expected == got { Ok(()) } else { Err(format!("digest {got} instead of {expected}")) }
}

fn exactly_once(make: &Maker, seed: u64) -> Result<(), String> {
    match whole_run(make, seed).breach {
        Some(Breach::Ending(broken)) => Err(broken),
        _ => Ok(()),
    }
}

/// Run half, hand the device to `fork`, and compare the two second halves with a run without it.
fn fork_halfway(
    make: &Maker,
    seed: u64,
    fork: impl Fn(&mut Box<dyn Device>) -> Result<Box<dyn Device>, String>,
) -> Result<(), String> {
    let mut device = make();
    let mut host = RandomHost::new(&*device, seed);
    while host.next_id < host.total / 2 && host.step(&mut *device) {}
    let mut other = fork(&mut device)?;
    let mut other_host = host.clone();
    other_host.run(&mut *other);
    host.run(&mut *device);
    same(whole_run(make, seed).digest, host.digest)?;
    same(host.digest, other_host.digest)
}

fn clone_replays(make: &Maker, seed: u64) -> Result<(), String> {
    fork_halfway(make, seed, |device| {
        if seed.is_multiple_of(2) {
            device.freeze();
        }
        Ok(device.boxed_clone())
    })
}

fn snapshot_is_invisible(make: &Maker, seed: u64) -> Result<(), String> {
    fork_halfway(make, seed, |device| {
        let mut blobs = Vec::new();
        let mut saver = Saver::new(&mut blobs);
        device.save(&mut saver);
        let small = saver.finish().map_err(|e| e.to_string())?;
        let mut other = make();
        let mut loader = Loader::new(&small, Arc::new(blobs));
        other.restore(&mut loader).map_err(|e| e.to_string())?;
        loader.finish().map_err(|e| e.to_string())?;
        Ok(other)
    })
}

fn flushed_writes_survive(make: &Maker, seed: u64) -> Result<(), String> {
    let mut device = make();
    let mut host = RandomHost::new(&*device, seed);
    let cut_after = Rng::new(seed, "cut").below(host.total);
    while (host.acknowledged.len() as u64) < cut_after && host.step(&mut *device) {}
    if host.breach.is_some() {
        return Ok(());
    }
    let survivors = device.power_fail(host.now);
    // A write is promised when it was FUA, or when a flush that was submitted after its
    // completion has completed.
    let last_flush = host.acknowledged.iter().filter(|(r, ..)| r.op == Op::Flush);
    let last_flush = last_flush.map(|&(_, submitted, _)| submitted).max();
    for lost in &survivors.lost {
        let write = host.acknowledged.iter().find(|(r, ..)| r.id == lost.id);
        let Some((request, _, completion)) = write else {
            return Err(format!("{lost:?} was never acknowledged"));
        };
        if request.op != Op::Write || request.fua {
            return Err(format!("{request:?} must endure but is lost"));
        }
        if last_flush.is_some_and(|flush| completion.at < flush) {
            return Err(format!("{request:?} was flushed but is lost"));
        }
        if lost.lba < request.lba || lost.lba.0 + u64::from(lost.sectors) > request.end().0 {
            return Err(format!("{lost:?} is not part of {request:?}"));
        }
    }
    if !device.limits().write_cache && !survivors.lost.is_empty() {
        return Err("it has no write cache but lost acknowledged writes".into());
    }
    if device.next_event().is_some_and(|event| event < host.now) {
        return Err("after the power failure an event lies in the past".into());
    }
    host.inside.clear();
    host.total = host.next_id + 50;
    host.submit_at = host.now;
    host.run(&mut *device);
    match host.breach {
        Some(Breach::Time(broken) | Breach::Ending(broken)) => {
            Err(format!("after the power failure: {broken}"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod planted;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FixedDelay;

    #[test]
    fn the_smallest_device_obeys_every_law() {
        check_all("fixed", &|| Box::new(FixedDelay::new(Nanos(700), 1)), 0..10);
        check_all("deep", &|| Box::new(FixedDelay::new(Nanos(700), 64)), 0..10);
    }
}
