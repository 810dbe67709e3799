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
pub const LAWS: [Law; 6] = [
    ("time never goes back", time_never_goes_back),
    ("advance twice at one instant equals once", advance_is_idempotent),
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
struct Host {
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
}

impl Host {
    fn new(device: &dyn Device, seed: u64) -> Host {
        let mut rng = Rng::new(seed, "laws");
        let limits = device.limits();
        let depth = 1 + rng.below(u64::from(limits.queue_depth_max).min(64));
        let gap_ns = [1, 10_000, 1_000_000][rng.below(3) as usize];
        let span = limits.sectors().min(1 << [10, 14, 20][rng.below(3) as usize]);
        Host {
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
        request.id = RequestId(self.next_id);
        request
    }

    /// One step: submit if it is time, else let the device do what is due. False when all is done.
    fn step(&mut self, device: &mut dyn Device) -> Result<bool, String> {
        let may_submit = self.next_id < self.total && (self.inside.len() as u64) < self.depth;
        let event = device.next_event();
        if let Some(event) = event
            && event < self.now
        {
            return Err(format!("at {} the next event lies in the past, at {event}", self.now));
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
                return Err("it is busy but has no event".into());
            }
        }
        let Some(event) = event else {
            return match self.inside.is_empty() {
                true => Ok(false),
                false => Err(format!("it is stuck with {} requests inside", self.inside.len())),
            };
        };
        self.now = event;
        // A busy device is tried again when it has moved.
        self.submit_at = self.submit_at.max(event);
        device.advance(event, &mut self.out);
        self.collect()
    }

    fn collect(&mut self) -> Result<bool, String> {
        for completion in std::mem::take(&mut self.out.done) {
            let Some(index) = self.inside.iter().position(|(r, _)| r.id == completion.id) else {
                return Err(format!("{:?} completed but is not inside", completion.id));
            };
            let (request, submitted) = self.inside.remove(index);
            if completion.at < submitted {
                return Err(format!("{request:?} of {submitted} completed at {}", completion.at));
            }
            if completion.at != self.now {
                return Err(format!("at {} a completion says {}", self.now, completion.at));
            }
            self.digest.add(completion.id.0);
            self.digest.add(completion.at.0);
            self.acknowledged.push((request, submitted, completion));
        }
        Ok(true)
    }

    fn run(&mut self, device: &mut dyn Device) -> Result<(), String> {
        while self.step(device)? {}
        Ok(())
    }
}

fn time_never_goes_back(make: &Maker, seed: u64) -> Result<(), String> {
    let mut device = make();
    let mut host = Host::new(&*device, seed);
    host.run(&mut *device)?;
    let times: Vec<_> = host.acknowledged.iter().map(|(_, _, c)| c.at).collect();
    match times.is_sorted() {
        true => Ok(()),
        false => Err("completions are out of order".into()),
    }
}

fn advance_is_idempotent(make: &Maker, seed: u64) -> Result<(), String> {
    let mut device = make();
    let mut host = Host::new(&*device, seed);
    while host.step(&mut *device)? {
        if device.next_event() != Some(host.now) {
            let before = device.next_event();
            device.advance(host.now, &mut host.out);
            if !host.out.done.is_empty() || device.next_event() != before {
                return Err(format!("a second advance at {} changed something", host.now));
            }
        }
    }
    let mut once = make();
    let mut plain = Host::new(&*once, seed);
    plain.run(&mut *once)?;
    same(plain.digest, host.digest)
}

fn same(expected: Digest, got: Digest) -> Result<(), String> {
    match expected == got {
        true => Ok(()),
        false => Err(format!("digest {got} instead of {expected}")),
    }
}

fn exactly_once(make: &Maker, seed: u64) -> Result<(), String> {
    let mut device = make();
    let mut host = Host::new(&*device, seed);
    host.run(&mut *device)?;
    match host.acknowledged.len() as u64 == host.next_id && host.next_id == host.total {
        true => Ok(()),
        false => Err(format!("{} of {} completed", host.acknowledged.len(), host.total)),
    }
}

/// Run half, hand device and host to `fork`, and compare the two second halves.
fn fork_halfway(
    make: &Maker,
    seed: u64,
    fork: impl Fn(&mut Box<dyn Device>) -> Result<Box<dyn Device>, String>,
) -> Result<(), String> {
    let mut device = make();
    let mut host = Host::new(&*device, seed);
    while host.next_id < host.total / 2 && host.step(&mut *device)? {}
    let mut other = fork(&mut device)?;
    let mut other_host = host.clone();
    other_host.run(&mut *other)?;
    host.run(&mut *device)?;
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
    let mut host = Host::new(&*device, seed);
    let cut_after = Rng::new(seed, "cut").below(host.total);
    while (host.acknowledged.len() as u64) < cut_after && host.step(&mut *device)? {}
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
    host.run(&mut *device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FixedDelay;

    #[test]
    fn the_smallest_device_obeys_every_law() {
        check_all("fixed", &|| Box::new(FixedDelay::new(Nanos(700), 1)), 0..10);
        check_all("deep", &|| Box::new(FixedDelay::new(Nanos(700), 64)), 0..10);
    }

    /// The canary: a device with a planted bug per law is caught.
    mod planted {
        use super::*;
        use crate::device::{Busy, Limits, Survivors};
        use crate::snapshot::SnapshotError;

        #[derive(Clone, Copy, PartialEq)]
        enum Bug {
            Early,
            Twice,
            Swallow,
            ForgetOnSave,
            LoseEverything,
        }

        struct Buggy {
            inner: FixedDelay,
            bug: Bug,
            seen: u64,
            written: Vec<Request>,
        }

        impl crate::Snapshot for Buggy {
            fn save(&self, to: &mut Saver) {
                if self.bug == Bug::ForgetOnSave {
                    FixedDelay::new(Nanos(700), 64).save(to);
                } else {
                    self.inner.save(to);
                }
            }
            fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
                self.inner.restore(from)
            }
        }

        impl Device for Buggy {
            fn limits(&self) -> Limits {
                Limits { write_cache: true, ..self.inner.limits() }
            }
            fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Busy> {
                self.seen += 1;
                self.written.push(request);
                if self.bug == Bug::Swallow && self.seen == 100 {
                    return Ok(());
                }
                self.inner.submit(now, request)
            }
            fn next_event(&self) -> Option<Nanos> {
                self.inner.next_event()
            }
            fn advance(&mut self, now: Nanos, out: &mut Completions) {
                let before = out.done.len();
                self.inner.advance(now, out);
                if out.done.len() > before && self.seen > 50 {
                    match self.bug {
                        Bug::Early => out.done[before].at = Nanos(now.0 - 1),
                        Bug::Twice => out.done.push(out.done[before]),
                        _ => {}
                    }
                }
            }
            fn power_fail(&mut self, now: Nanos) -> Survivors {
                let lost = self.written.iter().filter(|r| r.op == Op::Write);
                let lost =
                    lost.map(|r| crate::LostWrite { id: r.id, lba: r.lba, sectors: r.sectors });
                let lost = lost.collect();
                self.inner.power_fail(now);
                Survivors { lost }
            }
            fn boxed_clone(&self) -> Box<dyn Device> {
                unreachable!("not needed by the planted bugs")
            }
        }

        fn caught(bug: Bug, law: fn(&Maker, u64) -> Result<(), String>) -> bool {
            let inner = FixedDelay::new(Nanos(700), 64);
            let make = move || -> Box<dyn Device> {
                Box::new(Buggy { inner: inner.clone(), bug, seen: 0, written: Vec::new() })
            };
            (0..20).any(|seed| law(&make, seed).is_err())
        }

        #[test]
        fn every_planted_bug_is_caught() {
            assert!(caught(Bug::Early, time_never_goes_back));
            assert!(caught(Bug::Twice, exactly_once));
            assert!(caught(Bug::Swallow, exactly_once));
            assert!(caught(Bug::ForgetOnSave, snapshot_is_invisible));
            assert!(caught(Bug::LoseEverything, flushed_writes_survive));
        }
    }
}
