//! The proof of the engine: the served mirror on devices whose power is cut, without a guest.
//!
//! The engine is the product's, down to what it asks of the kernel; [`machine`] sees that, knows
//! what is durable by it, and stops the machine between any two steps. A seed gives the same
//! plan, not the same run: the kernel, threads and the clock decide what comes first.

mod history;
mod host;
pub(super) mod machine;
mod medium;
mod pages;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use mirror::Mode;
use mirror::format::Superblock;
use mirror::format::sums::BlockSums;
use rustix::event::{EventfdFlags, eventfd};

use super::mutant::{self, Mutant};
use super::ring::Ring;
use super::skip::skip;
use world::{Tally, TorturePlan, World};

impl TorturePlan {
    pub(in crate::mirror::torture) fn new(seed: u64) -> TorturePlan {
        let mode = [Mode::Strict, Mode::Log, Mode::Relaxed][(seed % 3) as usize];
        let (witness, cached) = ((seed / 3).is_multiple_of(2), seed / 6 % 2 == 1);
        TorturePlan { seed, mode, witness, cached, starts: 12, steps: 2000 }
    }
}

fn run(plan: TorturePlan) -> Result<Tally, String> {
    let run = || {
        let mut world = World::new(plan);
        world.run().map(|()| world.tally).map_err(|why| format!("{plan:?}: {why}"))
    };
    // An assertion of the core is as good as a check of its history.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(format!("{plan:?}: a panic")))
}

/// A few at a time, as a run mostly waits. What `check` said of each, in their order.
fn beside_each_other<T, R>(all: Vec<T>, check: impl Fn(T) -> R + Sync) -> Vec<R>
where
    T: Copy + Send + Sync,
    R: Send,
{
    let lane = |some: &[T]| some.iter().map(|&one| check(one)).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        let lanes: Vec<_> =
            all.chunks(all.len().div_ceil(4)).map(|some| scope.spawn(|| lane(some))).collect();
        lanes.into_iter().flat_map(|lane| lane.join().unwrap()).collect()
    })
}

/// Whether devices are asked by io_uring past the page cache where a plan says so; otherwise says
/// why that is skipped: threads do all of it.
fn has_ring() -> bool {
    let place = world::place();
    let wakeup = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
    let sums = BlockSums::of(&Superblock { array: 1, ..Default::default() });
    let why = match Ring::new(sums, &wakeup) {
        Err(why) => format!("no io_uring: {why}"),
        Ok(_) if !world::direct(&place) => format!("no O_DIRECT in {}", place.display()),
        Ok(_) => return true,
    };
    skip("io_uring", &why);
    false
}

/// With and without a witness, by the ring and through the page cache.
#[test]
fn nothing_that_was_promised_is_lost() {
    // Without one half of this is not what it is meant to be, and the other half is.
    has_ring();
    beside_each_other((0..12).collect(), |seed| {
        let tally = run(TorturePlan { starts: 6, ..TorturePlan::new(seed) }).unwrap();
        assert_eq!(tally.starts, 6);
    });
}

#[test]
#[ignore = "an hour: part of make test-long"]
fn nothing_that_was_promised_is_lost_in_an_hour() {
    let variable = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs(variable("TORTURE_SECONDS").unwrap_or(3600));
    let mut all = Tally::default();
    for seed in variable("TORTURE_FIRST_SEED").unwrap_or(0).. {
        all.add(&run(TorturePlan::new(seed)).unwrap());
        if Instant::now() >= end {
            println!("up to seed {seed}: {all:?}");
            return;
        }
    }
}

/// Look for a planted bug in the runs in which it can show itself.
fn hunt(planted: Mutant, seeds: u64) -> Option<(u64, String)> {
    let cached = match planted {
        Mutant::RingWithoutDsync | Mutant::RingWithoutFsync => Some(false),
        Mutant::FileWithoutDsync | Mutant::FileWithoutFsync | Mutant::LateAnswer => Some(true),
        _ => None,
    };
    let plan = |seed| {
        let plan = TorturePlan::new(seed);
        // What heats last is cut soon.
        let steps = if planted == Mutant::ActivityOneCopy { 200 } else { plan.steps };
        TorturePlan { cached: cached.unwrap_or(plan.cached), steps, ..plan }
    };
    mutant::plant(Some(planted));
    let found = (0..seeds).find_map(|seed| run(plan(seed)).err().map(|why| (seed, why)));
    mutant::plant(None);
    let (seed, why) = found?;
    println!("| {planted:?} | {} | {why} |", seed + 1);
    // It was the bug that was found.
    run(plan(seed)).unwrap();
    Some((seed, why))
}

#[test]
fn planted_bugs_that_show_soon_are_found() {
    use Mutant::*;
    let mut soon = vec![FileWithoutDsync, FileWithoutFsync, FuaAsPlain, PieceErrorForgotten];
    if has_ring() {
        soon.extend([RingWithoutDsync, RingWithoutFsync]);
    }
    assert_eq!(alive(soon, 30), [], "not found");
}

/// Those that are not found.
fn alive(planted: Vec<Mutant>, seeds: u64) -> Vec<Mutant> {
    let found = beside_each_other(planted, |planted| (hunt(planted, seeds).is_none(), planted));
    found.into_iter().filter_map(|(lives, planted)| lives.then_some(planted)).collect()
}

#[test]
#[ignore = "minutes: part of make test-long"]
fn every_planted_bug_is_found() {
    use Mutant::{RingWithoutDsync, RingWithoutFsync};
    let mut all = Mutant::ALL.to_vec();
    if !has_ring() {
        all.retain(|planted| ![RingWithoutDsync, RingWithoutFsync].contains(planted));
    }
    assert_eq!(alive(all, 200), [], "not found");
}
