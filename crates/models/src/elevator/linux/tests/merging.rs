//! Plug, merging and splitting: tables by hand, and what always holds.

use sim::{Lba, Nanos, Op, Request, Rng};

use super::harness::{Medium, Rig};
use crate::elevator::ElevatorPolicy;

/// Policies of the queue of 2.6.26.
fn is_era(policy: &str) -> bool {
    matches!(policy, "noop" | "deadline" | "anticipatory" | "cfq")
}

#[test]
fn an_empty_queue_is_plugged_until_four_requests_wait() {
    for policy in ElevatorPolicy::NAMES.iter().filter(|name| is_era(name)) {
        let mut rig = Rig::named(policy);
        (0..3).for_each(|n| rig.write(1, n * 1000, 8));
        rig.until_us(0);
        assert_eq!(rig.order().len(), 0, "{policy}");
        rig.write(1, 3000, 8);
        assert_eq!(rig.order().len(), 1, "{policy}");
    }
}

#[test]
fn the_plug_opens_after_three_milliseconds_and_not_a_tick_before() {
    for policy in ElevatorPolicy::NAMES.iter().filter(|name| is_era(name)) {
        let mut rig = Rig::named(policy);
        rig.write(1, 0, 8);
        rig.host.run_until(Nanos(2_999_999));
        assert_eq!(rig.order().len(), 0, "{policy}");
        rig.host.run_until(Nanos(3_000_000));
        assert_eq!(rig.order(), [0], "{policy}");
    }
}

#[test]
fn whoever_waits_opens_the_plug_when_he_has_submitted_all() {
    for policy in ElevatorPolicy::NAMES {
        let mut rig = Rig::named(policy);
        rig.read(1, 0, 8);
        rig.read(1, 8, 8);
        assert_eq!(rig.order().len(), 0, "{policy}");
        rig.until_us(0);
        assert_eq!(rig.got(), [(0, 16)], "{policy}");
        assert_eq!((rig.count("merged_back"), rig.count("dequeued")), (1, 1), "{policy}");
    }
}

/// A table per row: bios of one process in one plug, and the requests they become. `F` stands for
/// a policy that merges in front.
#[test]
fn bios_become_requests() {
    let back: &[(u64, u32)] = &[(0, 8), (8, 8), (16, 8)];
    let front: &[(u64, u32)] = &[(16, 8), (8, 8)];
    let apart: &[(u64, u32)] = &[(0, 8), (16, 8)];
    for policy in ElevatorPolicy::NAMES {
        let run = |bios: &[(u64, u32)]| {
            let mut rig = Rig::named(policy);
            bios.iter().for_each(|&(lba, sectors)| rig.write(1, lba, sectors));
            rig.drain();
            rig.got()
        };
        assert_eq!(run(back), [(0, 24)], "{policy}");
        assert_eq!(run(front), [(8, 16)], "{policy}: the last request takes it in front, too");
        assert_eq!(run(apart), [(0, 8), (16, 8)], "{policy}");
    }
}

/// The last bio belongs before the second request: not the one that came first, nor the last.
#[test]
fn in_front_of_an_older_request_only_where_the_policy_looks_there() {
    for policy in ElevatorPolicy::NAMES {
        let mut rig = Rig::named(policy);
        for lba in [500, 100, 300, 92] {
            rig.write_sync(1, lba, 8);
        }
        rig.drain();
        // Today's policies see the bios when the plug opens, and then as requests.
        let expected = u64::from(["deadline", "anticipatory", "cfq"].contains(policy));
        assert_eq!(rig.count("merged_front"), expected, "{policy}");
        assert_eq!(rig.count("dequeued"), 4 - expected, "{policy}");
    }
}

#[test]
fn a_bio_that_closes_a_gap_makes_one_of_three() {
    for policy in ["deadline", "anticipatory", "cfq"] {
        if !ElevatorPolicy::NAMES.contains(&policy) {
            continue;
        }
        let mut rig = Rig::named(policy);
        for lba in [0, 16, 8] {
            rig.write_sync(1, lba, 8);
        }
        rig.drain();
        assert_eq!(rig.got(), [(0, 24)], "{policy}");
        assert_eq!(rig.count("merged_requests"), 1, "{policy}");
    }
}

/// Linux asks the policy whether a bio may join, and not whether a request may that comes out of a
/// plug.
#[test]
fn a_request_out_of_a_plug_joins_that_of_another_process() {
    for policy in ["mq-deadline", "bfq"] {
        let mut rig = Rig::named(policy);
        rig.write_sync(1, 5000, 8);
        rig.until_us(1);
        rig.write_sync(1, 100, 8);
        rig.until_us(2);
        rig.write_sync(2, 108, 8);
        rig.drain();
        assert_eq!(rig.got(), [(5000, 8), (100, 16)], "{policy}");
    }
}

#[test]
fn kinds_are_kept_apart() {
    for policy in ElevatorPolicy::NAMES {
        let mut rig = Rig::named(policy);
        rig.write(1, 0, 8);
        rig.read(1, 8, 8);
        rig.submit(Request { process: 1, ..Request::write(Lba(16), 8).with_fua() });
        rig.write(1, 24, 8);
        rig.submit(Request { process: 1, ..Request::discard(Lba(32), 8) });
        rig.write(1, 40, 8);
        rig.drain();
        assert_eq!(rig.got().len(), 6, "{policy}: {:?}", rig.got());
    }
}

#[test]
fn no_request_is_longer_than_the_limits() {
    for policy in ElevatorPolicy::NAMES {
        let policy_ = ElevatorPolicy::from_name(policy).unwrap();
        let mut rig = Rig::with(&policy_, Medium::fixed(1000), |settings| {
            settings.extent.sectors_max = 64;
            settings.extent.segments_max = 6;
        });
        // Twenty neighbours of a page, then one bio that is too long by itself.
        (0..20).for_each(|n| rig.write_sync(1, n * 8, 8));
        rig.write_sync(1, 10_000, 100);
        rig.drain();
        let got = rig.got();
        assert!(got.iter().all(|&(_, sectors)| sectors <= 48), "{policy}: {got:?}");
        assert_eq!(got.iter().map(|&(_, sectors)| sectors).sum::<u32>(), 260, "{policy}");
        assert_eq!(rig.count("splits"), 2, "{policy}");
    }
}

#[test]
fn a_barrier_of_2_6_26_waits_and_is_waited_for() {
    for policy in ElevatorPolicy::NAMES.iter().filter(|name| is_era(name)) {
        let mut rig =
            Rig::new(&ElevatorPolicy::from_name(policy).unwrap(), Medium::fixed(1000).deep(8));
        rig.write(1, 800, 8);
        rig.write(1, 400, 8);
        rig.submit(Request { process: 1, ..Request::write(Lba(600), 8).with_fua() });
        rig.write_sync(1, 0, 8);
        rig.write_sync(1, 1000, 8);
        rig.host.drain();
        let times = rig.times();
        let barrier = times.iter().position(|&(_, lba)| lba == 600).unwrap();
        assert_eq!(barrier, 2, "{policy}: {times:?}");
        assert_eq!(times[2].0, 2000, "{policy}: after both are done: {times:?}");
        assert!(times[3..].iter().all(|&(at, _)| at >= 3000), "{policy}: {times:?}");
    }
}

#[test]
fn with_nomerges_every_bio_is_a_request() {
    for policy in ElevatorPolicy::NAMES {
        let policy_ = ElevatorPolicy::from_name(policy).unwrap();
        let mut rig = Rig::with(&policy_, Medium::fixed(1000), |settings| {
            settings.extent.merge = false;
        });
        (0..40).for_each(|n| rig.write(1, n * 8, 8));
        rig.drain();
        assert_eq!(rig.count("dequeued"), 40, "{policy}");
    }
}

/// A random host, and what is wrong with what it sees: what goes in comes out, sector by sector,
/// in requests of at most `sectors_max`, and the counters add up.
pub(super) fn random_host(rig: &mut Rig, seed: u64, sectors_max: u32) -> Result<(), String> {
    let mut rng = Rng::new(seed, "merging");
    let mut wanted: Vec<(Op, u64, bool)> = Vec::new();
    let mut done = 0;
    for n in 0..400 {
        let sectors = 8 * (1 + rng.below(4)) as u32;
        let (lba, process) = (rng.below(200) * 8, 1 + rng.below(3) as u32);
        let op = [Op::Read, Op::Write, Op::Write][rng.below(3) as usize];
        let fua = op == Op::Write && rng.below(20) == 0;
        let sync = rng.below(2) == 0;
        rig.submit(Request { process, fua, sync, ..Request::new(op, Lba(lba), sectors) });
        wanted.extend((0..u64::from(sectors)).map(|s| (op, lba + s, fua)));
        if rng.below(3) == 0 {
            done += rig.until_us(n * 400).len();
        }
    }
    done += rig.host.drain().len();
    if done != 400 {
        return Err(format!("{done} of 400 requests completed"));
    }
    let sectors = |r: Request| (0..u64::from(r.sectors)).map(move |s| (r.op, r.lba.0 + s, r.fua));
    let mut got: Vec<_> = rig.requests().into_iter().flat_map(sectors).collect();
    got.sort_unstable();
    wanted.sort_unstable();
    if got != wanted {
        return Err(format!("{} sectors of {} came out", got.len(), wanted.len()));
    }
    if let Some(long) = rig.requests().iter().find(|r| r.sectors > sectors_max) {
        return Err(format!("{long:?} is longer than {sectors_max}"));
    }
    let merged = ["merged_back", "merged_front", "merged_requests", "dequeued"];
    let merged: u64 = merged.iter().map(|name| rig.count(name)).sum();
    match rig.count("enqueued") + rig.count("splits") {
        pieces if pieces == merged => Ok(()),
        pieces => Err(format!("{pieces} pieces became {merged}")),
    }
}

#[test]
fn every_sector_comes_out_once() {
    for policy in ElevatorPolicy::NAMES {
        for seed in 0..8 {
            let mut rig = Rig::named(policy);
            random_host(&mut rig, seed, 1024).unwrap_or_else(|e| panic!("{policy} {seed}: {e}"));
        }
    }
}
