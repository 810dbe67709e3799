//! The canary: bugs planted in the queue, each found by a check that an honest queue passes.

use sim::{Device, Lba, Request, Rng};

use super::harness::{Medium, Rig, settings};
use super::merging::random_host;
use crate::elevator::ElevatorPolicy;
use crate::elevator::linux::queue::Queue;
use crate::elevator::mutant::Mutant;
use crate::elevator::{Context as Below, Kind};
use crate::raid::legs::Legs;
use config::device::Context;
use disk::hdd;

/// A queue with short requests and a small pool, and perhaps a bug.
fn rig(policy: &str, medium: Medium, mutant: Option<Mutant>) -> Rig {
    let policy = ElevatorPolicy::from_name(policy).unwrap();
    let mut rig = Rig::with(&policy, medium, |settings| {
        settings.extent.sectors_max = 64;
        settings.nr_requests = 8;
    });
    plant(&mut rig.host.device, mutant);
    rig
}

fn plant(queue: &mut Queue, mutant: Option<Mutant>) {
    (queue.mutant, queue.extent.mutant) = (mutant, mutant);
}

/// Nothing is sent before the fourth of those nobody waits for; a reader has what it asked for at
/// once.
fn plugging(mutant: Option<Mutant>) -> Result<(), String> {
    let mut plugged = rig("deadline", Medium::fixed(1000), mutant);
    (0..3).for_each(|n| plugged.write(1, n * 1000, 8));
    plugged.until_us(0);
    let mut waiting = rig("deadline", Medium::fixed(1000), mutant);
    waiting.read(1, 0, 8);
    waiting.until_us(0);
    match (plugged.order().len(), waiting.order().len()) {
        (0, 1) => Ok(()),
        sent => Err(format!("{sent:?} were sent instead of 0 and 1")),
    }
}

/// What the device does before it answers opens no plug: the driver cannot see it.
fn sight(mutant: Option<Mutant>) -> Result<(), String> {
    let mut rig = rig("deadline", Medium::fixed(10_000).deep(8).ticking(700), mutant);
    rig.read(1, 0, 8);
    rig.until_us(100);
    rig.write(2, 1000, 8);
    rig.host.drain();
    match rig.times()[1] {
        // The plug's own time.
        (3100, 1000) => Ok(()),
        other => Err(format!("the write went at {other:?}")),
    }
}

fn barriers(mutant: Option<Mutant>) -> Result<(), String> {
    let mut rig = rig("deadline", Medium::fixed(1000).deep(8), mutant);
    rig.write(1, 800, 8);
    rig.submit(Request { process: 1, ..Request::write(Lba(600), 8).with_fua() });
    rig.host.drain();
    match rig.times()[1] {
        (1000, 600) => Ok(()),
        other => Err(format!("the barrier went at {other:?}")),
    }
}

fn sectors(mutant: Option<Mutant>) -> Result<(), String> {
    for policy in ["deadline", "mq-deadline"] {
        for seed in 0..4 {
            let mut rig = rig(policy, Medium::fixed(1000), mutant);
            random_host(&mut rig, seed, 64).map_err(|e| format!("{policy} {seed}: {e}"))?;
        }
    }
    Ok(())
}

/// What a power cut takes of a disk with a volatile cache.
fn laws(mutant: Option<Mutant>) -> Result<(), String> {
    let make = || -> Box<dyn Device> {
        let rng = Rng::new(1, "planted");
        let disk = hdd::Params::default().build(&Context { rng }).unwrap();
        assert!(disk.limits().write_cache);
        let below = Legs::new(vec![("device", disk)]);
        let policy = ElevatorPolicy::from_name("deadline").unwrap();
        let built = policy.build(&Below { nr_requests: 256, rotational: true }).unwrap();
        let mut queue = Queue::new(below, built.policy, built.kind, settings(Kind::ERA, 8));
        plant(&mut queue, mutant);
        Box::new(queue)
    };
    let law = sim::laws::LAWS.iter().find(|(law, _)| law.ends_with("survive a power failure"));
    let (_, check) = law.expect("it is a law");
    (0..20).try_for_each(|seed| check(&make, seed))
}

/// A check: does a queue with this bug, if any, pass?
type Check = fn(Option<Mutant>) -> Result<(), String>;

#[test]
fn each_planted_bug_is_found() {
    let checks: [(&str, Check); 5] = [
        ("sectors", sectors),
        ("plugging", plugging),
        ("sight", sight),
        ("barriers", barriers),
        ("laws", laws),
    ];
    for (name, check) in checks {
        assert_eq!(check(None), Ok(()), "an honest queue: {name}");
    }
    for mutant in Mutant::ALL {
        // The cheap ones first; the first that finds it is enough.
        let found = checks.iter().find_map(|(name, check)| check(Some(mutant)).err().map(|_| name));
        assert!(found.is_some(), "nothing finds {mutant:?}");
    }
}
