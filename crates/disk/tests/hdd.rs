//! The disk against closed forms, for every part in `devices/`.

use config::device::Context;
use config::{Rate, Size};
use disk::hdd::Params;
use disk::mechanics::Arm;
use disk::params::{ArmTurns, Scheduler};
use sim::{
    Bytes, Completion, Demand, Device, Lba, Nanos, NoProbe, Outcome, Request, RequestId, Rng,
    Stepper, Stop, Workload, WorkloadError, simulate,
};

/// What a part must show: name, mean seek ms, sustained MB/s (outer, middle, inner), random IOPS.
struct Target {
    toml: &'static str,
    seek_ms: f64,
    sustained: [f64; 3],
    iops: f64,
}

const TARGETS: [Target; 3] = [
    Target {
        toml: include_str!("../../../devices/wd-80g-5400.toml"),
        seek_ms: 10.94,
        sustained: [52.8, 38.7, 26.4],
        iops: 59.6,
    },
    Target {
        toml: include_str!("../../../devices/hdd-250g-7200-2006.toml"),
        seek_ms: 8.9,
        sustained: [59.3, 44.5, 31.1],
        iops: 74.9,
    },
    Target {
        toml: include_str!("../../../devices/hdd-250g-7200-2008.toml"),
        seek_ms: 8.9,
        sustained: [83.2, 61.6, 42.1],
        iops: 75.0,
    },
];

fn part(toml: &str) -> Params {
    let table: toml::Table = toml.parse().expect("the part is TOML");
    table["hdd"].clone().try_into().expect("the part's keys are the model's")
}

fn build(params: &Params) -> Box<dyn Device> {
    params.build(&Context { rng: Rng::new(1, "hdd") }).expect("the part can be built")
}

/// A closed loop: `depth` requests at once, from `next`.
struct Loop<F> {
    depth: u32,
    inside: u32,
    next: F,
}

impl<F: FnMut() -> Request> Workload for Loop<F> {
    fn next(&mut self, _now: Nanos) -> Result<Demand, WorkloadError> {
        if self.inside == self.depth {
            return Ok(Demand::Wait);
        }
        self.inside += 1;
        Ok(Demand::Issue((self.next)()))
    }
    fn complete(&mut self, _request: &Request, _completion: Completion) {
        self.inside -= 1;
    }
}

fn run(params: &Params, depth: u32, requests: u64, next: impl FnMut() -> Request) -> Outcome {
    let mut workload = Loop { depth, inside: 0, next };
    let stop = Stop { requests, ..Stop::default() };
    let mut device = build(params);
    simulate(&mut *device, &mut workload, Nanos::ZERO, stop, &mut NoProbe).expect("it runs")
}

fn random_reads(params: &Params, depth: u32, requests: u64) -> f64 {
    let sectors = build(params).limits().sectors();
    let mut rng = Rng::new(7, "reads");
    let outcome =
        run(params, depth, requests, || Request::read(Lba(rng.below(sectors / 8) * 8), 8));
    requests as f64 / outcome.end.as_secs_f64()
}

fn near(what: &str, got: f64, expected: f64, percent: f64) {
    let off = (got / expected - 1.0).abs() * 100.0;
    assert!(off <= percent, "{what}: {got} is {off:.2} % off {expected}");
}

#[test]
fn mean_seek_and_rotation() {
    for target in &TARGETS {
        let mechanics = part(target.toml).mechanics().unwrap();
        let sectors = mechanics.geometry.sectors();
        let mut rng = Rng::new(3, "seek");
        let (mut seek, mut wait) = (0.0, 0.0);
        const DRAWS: u32 = 100_000;
        for _ in 0..DRAWS {
            let arm: Arm = mechanics.arm_at(rng.below(sectors));
            let place = mechanics.geometry.place(rng.below(sectors));
            let now = Nanos(rng.below(1 << 40));
            let way = mechanics.position(arm, now, &place, false);
            seek += way.seek as f64 / 1e6;
            wait += way.wait as f64 / 1e6;
        }
        near("mean seek", seek / f64::from(DRAWS), target.seek_ms, 1.0);
        let half_turn = mechanics.period() as f64 / 2e6;
        near("mean rotational wait", wait / f64::from(DRAWS), half_turn, 1.0);
    }
}

#[test]
fn random_reads_reach_the_rated_iops() {
    for target in &TARGETS {
        near("IOPS", random_reads(&part(target.toml), 1, 20_000), target.iops, 2.0);
    }
}

/// MB/s of 256 KiB reads from sector `start` on.
fn sequential(params: &Params, start: u64) -> f64 {
    const REQUESTS: u64 = 600;
    let mut lba = start;
    let outcome = run(params, 1, REQUESTS, || {
        lba += 512;
        Request::read(Lba(lba - 512), 512)
    });
    (REQUESTS * 512 * 512) as f64 / outcome.end.as_secs_f64() / 1e6
}

#[test]
fn sequential_reads_reach_the_sustained_rates() {
    for target in &TARGETS {
        let params = part(target.toml);
        let mechanics = params.mechanics().unwrap();
        let sectors = mechanics.geometry.sectors();
        let inner = sectors - 400_000;
        let zones = params.geometry.zones.count;
        let start = |zone: u32| {
            let in_zone = |&lba: &u64| mechanics.geometry.place(lba).zone == zone;
            (0..sectors).step_by(100_000).find(in_zone).expect("every zone is larger")
        };
        near("outer", sequential(&params, 0), target.sustained[0], 1.0);
        near("middle", sequential(&params, start(zones / 2)), target.sustained[1], 1.0);
        near("inner", sequential(&params, inner), target.sustained[2], 1.0);
    }
}

#[test]
fn cached_sequential_writes_stream_as_fast() {
    let params = part(TARGETS[2].toml);
    let mut lba = 0;
    let outcome = run(&params, 1, 1_000, || {
        lba += 512;
        Request::write(Lba(lba - 512), 512)
    });
    let rate = (1_000.0 * 512.0 * 512.0 - 4e6) / outcome.end.as_secs_f64() / 1e6;
    // The last writes are acknowledged from the cache: 4 MiB of 262 MB.
    near("written", rate, TARGETS[2].sustained[0], 3.0);
}

#[test]
fn sptf_gains_with_depth_and_fifo_does_not() {
    let sptf = part(TARGETS[2].toml);
    let fifo = Params { scheduler: Scheduler::Fifo, ..sptf.clone() };
    let depths = [1, 2, 4, 8, 16, 32];
    let iops: Vec<f64> = depths.iter().map(|&d| random_reads(&sptf, d, 6_000)).collect();
    // With two, one is in service and nothing is left to choose from.
    assert!(iops.windows(2).all(|w| w[0] < w[1]) && iops[5] > 2.0 * iops[0], "{iops:?}");
    let in_order = random_reads(&fifo, 32, 6_000);
    // In order, depth hides only the command overhead.
    near("fifo", in_order, iops[0], 2.0);
}

/// A disk whose times can be checked by hand: T = 8,333,333 ns, 1,500 sectors on the outer track.
fn plain() -> Params {
    Params { interface: Rate(1_000_000_000_000), ..Params::default() }
}

const T: u64 = 8_333_333;

fn one(params: &Params, at: u64, request: Request) -> u64 {
    let mut host = Stepper::new(build(params));
    host.run_until(Nanos(at));
    host.submit(request).unwrap();
    let ready = host.device.next_event().unwrap();
    assert!(host.run_until(Nanos(ready.0 - 1)).is_empty());
    let done = host.run_until(ready);
    assert_eq!((done.len(), done[0].at), (1, ready));
    ready.0
}

#[test]
fn a_read_at_a_known_angle_is_exact() {
    // Sectors 600 to 607 of the track the arm is on pass between 600 and 608 sector times.
    let end = 608 * T / 1_500;
    assert_eq!(one(&plain(), 0, Request::read(Lba(600), 8)), end);
    // Set out in time, just in time, and a nanosecond too late.
    let begin = 600 * T / 1_500;
    assert_eq!(one(&plain(), begin - 100_000, Request::read(Lba(600), 8)), end);
    assert_eq!(one(&plain(), begin - 99_999, Request::read(Lba(600), 8)), end + T);
}

#[test]
fn a_read_over_tracks_and_cylinders_is_exact() {
    // 0.9 ms of head switch are 162 sector times, and so is the seek to the next cylinder less
    // its own rounding.
    let params = plain();
    let seek = u64::from(params.mechanics().unwrap().seek_ns(Arm::default(), 1, 0, false));
    let (track_skew, cylinder_skew) =
        ((900_000u64 * 1_500).div_ceil(T), (seek * 1_500).div_ceil(T));
    let positions = 4_500 + 2 * track_skew + cylinder_skew - track_skew;
    let end = T + positions * T / 1_500;
    assert_eq!(one(&params, 0, Request::read(Lba(0), 4_500)), end);
}

#[test]
fn a_slow_interface_is_the_last_to_finish() {
    let mut params = plain();
    params.interface = Rate(5_120_000);
    // 0.1 ms a sector from the moment the first one is off the medium.
    let first = T + T / 1_500;
    assert_eq!(one(&params, 0, Request::read(Lba(0), 40)), first + 4_000_000);
}

#[test]
fn read_ahead_makes_the_next_read_a_hit() {
    let mut host = Stepper::new(build(&plain()));
    host.submit(Request::read(Lba(0), 8)).unwrap();
    host.drain();
    host.run_until(Nanos(3 * T));
    host.submit(Request::read(Lba(8), 8)).unwrap();
    let hit = host.drain()[0].at;
    // Overhead, and 4 ns for 4 KiB at 1 TB/s.
    assert_eq!(hit, Nanos(3 * T + 100_000 + 4));
    // Read-ahead has been stopped by another read after 100 sectors: what lies behind is a miss.
    let mut host = Stepper::new(build(&plain()));
    host.submit(Request::read(Lba(0), 8)).unwrap();
    host.run_until(Nanos(T + 100 * T / 1_500 - 100_000));
    host.submit(Request::read(Lba(400_000_000), 8)).unwrap();
    host.drain();
    let (now, counts) = (host.now(), |host: &Stepper<Box<dyn Device>>| {
        let mut counters = sim::Counters::default();
        host.device.counters(&mut counters);
        counters.get("read_hits")
    });
    host.submit(Request::read(Lba(92), 8)).unwrap();
    assert_eq!(host.drain()[0].at, now + Nanos(100_004));
    assert_eq!(counts(&host), 1);
    host.submit(Request::read(Lba(102), 8)).unwrap();
    host.drain();
    assert_eq!(counts(&host), 1);
}

#[test]
fn flush_and_fua_wait_for_the_medium() {
    let mut host = Stepper::new(build(&plain()));
    host.submit(Request::write(Lba(600), 8)).unwrap();
    host.submit(Request::flush()).unwrap();
    let done = host.drain();
    assert_eq!(done[0].at, Nanos(100_004));
    assert_eq!(done[1].at, Nanos(608 * T / 1_500));
    assert_eq!(one(&plain(), 0, Request::write(Lba(600), 8).with_fua()), 608 * T / 1_500);
    let mut off = plain();
    off.write_cache.enabled = false;
    assert_eq!(one(&off, 0, Request::write(Lba(600), 8)), 608 * T / 1_500);
    assert!(!build(&off).limits().write_cache);
}

#[test]
fn a_power_failure_loses_what_was_acknowledged_and_not_written() {
    let mut host = Stepper::new(build(&plain()));
    for lba in [400_000_000, 600, 601] {
        host.submit(Request::write(Lba(lba), 1)).unwrap();
    }
    host.run_until(Nanos(T * 9 / 10));
    let survivors = host.device.power_fail(host.now());
    let ids: Vec<_> = survivors.lost.iter().map(|lost| lost.id).collect();
    assert_eq!(ids, [RequestId(0), RequestId(1), RequestId(2)]);
    assert_eq!(host.device.next_event(), None);
    // Nothing was acknowledged yet, so nothing is lost.
    host.submit(Request::write(Lba(0), 8)).unwrap();
    assert_eq!(host.device.power_fail(host.now()).lost, []);
}

#[test]
fn a_full_write_cache_makes_the_host_wait() {
    let mut params = plain();
    params.write_cache.size = Size(Bytes(16 * 512));
    let mut rng = Rng::new(5, "writes");
    let small = run(&params, 1, 2_000, || Request::write(Lba(rng.below(1 << 28)), 8));
    params.write_cache.size = Size(Bytes::from_mib(1));
    let mut rng = Rng::new(5, "writes");
    let large = run(&params, 1, 2_000, || Request::write(Lba(rng.below(1 << 28)), 8));
    // More cached writes to choose among: shorter ways, and the last 256 are not waited for.
    assert!(large.end.0 * 3 < small.end.0 * 2, "{} {}", large.end, small.end);
}

#[test]
fn the_arm_need_not_go_to_and_fro_between_reads_and_a_full_write_cache() {
    let took = |turns| {
        let mut params = plain();
        params.write_cache.size = Size(Bytes::from_kib(64));
        params.write_cache.turns = turns;
        let mut rng = Rng::new(5, "both");
        let both = || {
            let near = rng.below(1 << 20) & !7;
            match rng.below(2) {
                0 => Request::read(Lba(near), 8),
                _ => Request::write(Lba(near + (1 << 28)), 8),
            }
        };
        run(&params, 32, 2_000, both).end
    };
    let (alternate, nearest) = (took(ArmTurns::Alternate), took(ArmTurns::Nearest));
    assert!(nearest.0 * 4 < alternate.0 * 3, "{nearest} {alternate}");
}

#[test]
fn overwriting_one_block_is_combined_in_the_cache() {
    let outcome = run(&plain(), 1, 5_000, || Request::write(Lba(600), 8));
    // One by one they would take a revolution each; one pass writes all that the arm can see.
    assert!(outcome.end < Nanos(5_000 * T / 50), "{}", outcome.end);
}

#[test]
fn every_configuration_obeys_the_laws() {
    let mut configurations = vec![("default", Params::default())];
    let mut add = |name, change: fn(&mut Params)| {
        let mut params = Params::default();
        change(&mut params);
        configurations.push((name, params));
    };
    add("write cache off", |p| p.write_cache.enabled = false);
    add("read cache off", |p| p.cache.segments = 0);
    add("fifo, depth 1", |p| (p.scheduler, p.queue_depth_max) = (Scheduler::Fifo, 1));
    add("tiny write cache", |p| {
        p.write_cache.size = Size(Bytes(40 * 512));
        p.write_cache.runs = 2;
    });
    add("the nearest first", |p| {
        p.write_cache.size = Size(Bytes(40 * 512));
        p.write_cache.turns = ArmTurns::Nearest;
    });
    add("slow interface, read before", |p| {
        p.interface = Rate(3_000_000);
        p.cache.read_before = true;
        p.cache.segments = 2;
    });
    add("many zones", |p| {
        p.geometry.sectors = None;
        p.geometry.zones.count = 200;
        p.geometry.zones.cylinders = 2;
    });
    add("track read-ahead", |p| {
        p.cache.read_ahead_stop = disk::params::ReadAheadStop::Track;
        p.cache.segment = Size(Bytes(64 * 512));
        p.cache.read_hits_on_written = false;
    });
    for (name, params) in &configurations {
        sim::laws::check_all(name, &|| build(params), 0..20);
    }
}

#[test]
fn impossible_values_name_key_value_and_range() {
    let refused = |change: fn(&mut Params)| {
        let mut params = Params::default();
        change(&mut params);
        match params.build(&Context { rng: Rng::new(1, "hdd") }) {
            Ok(_) => panic!("it was built"),
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(refused(|p| p.geometry.heads = 0), "geometry.heads: expected 1 to 64, got 0");
    assert_eq!(refused(|p| p.rpm = 5), "rpm: expected 60 to 100000, got 5");
    let error = refused(|p| p.head_switch.0 = Nanos::from_secs(9));
    assert_eq!(error, "head_switch: expected 0 to 1000000000 ns, got 9000000000 ns");
    let error = refused(|p| p.geometry.sectors = Some(1 << 40));
    assert!(error.starts_with("geometry.sectors: expected 1 to 4884"), "{error}");
    let error = refused(|p| p.geometry.zones.outer = 10);
    assert_eq!(error, "geometry.zones.outer: expected 760 to 100000, got 10");
    let error = refused(|p| p.seek.formula.e = -1.0);
    assert!(error.starts_with("seek: a seek over "), "{error}");
}

#[test]
fn the_arm_is_under_way_while_it_sets_out_to_read_ahead() {
    let params = Params::default();
    let mechanics = params.mechanics().unwrap();
    let mut host = Stepper::new(build(&params));
    let mut read = |lba: u64| {
        let id = host.submit(Request::read(Lba(lba), 8)).unwrap();
        let done = host.drain();
        assert!(done.iter().any(|completion| completion.id == id));
        host.now()
    };
    read(0);
    let far = 400_000_000;
    let left = read(far);
    // A hit, behind which the idle arm goes on reading.
    let hit = read(0);
    let answered = read(5_000);
    assert!(hit < left + Nanos::from_millis(1), "{hit}: no hit");
    let [from, to] = [far, 5_000].map(|lba| mechanics.arm_at(lba));
    let seek = Nanos(mechanics.seek_ns(from, to.cylinder, to.head, false).into());
    assert!(answered >= left + seek, "{answered}, but the arm left at {left} for {seek}");
}

/// What each read of a list took, in ns, and how many of them were hits. Requests come at their
/// microseconds.
fn took(params: &Params, requests: &[(u64, Request)]) -> (Vec<u64>, u64) {
    let mut host = Stepper::new(build(params));
    let mut came = Vec::new();
    let mut took = vec![0; requests.len()];
    let mut done = Vec::new();
    for (us, request) in requests {
        done.extend(host.run_until(Nanos::from_micros(*us)));
        came.push((host.submit(*request).unwrap(), host.now()));
    }
    done.extend(host.drain());
    for completion in done {
        let index = came.iter().position(|(id, _)| *id == completion.id).unwrap();
        took[index] = completion.at.0 - came[index].1.0;
    }
    let mut counters = sim::Counters::default();
    host.device.counters(&mut counters);
    (took, counters.get("read_hits"))
}

fn read(lba: u64, sectors: u32) -> Request {
    Request::read(Lba(lba), sectors)
}

/// By hand: 512 sectors behind the first read are read ahead, and the arm rests. A hit lets it go
/// on from there, and half a millisecond later it cannot have read 128 KiB.
#[test]
fn nothing_is_delivered_before_the_head_has_read_it() {
    let mut params = part(TARGETS[0].toml);
    let mechanics = params.mechanics().unwrap();
    let spt = u64::from(mechanics.geometry.sectors_per_track(&mechanics.geometry.place(100_520)));
    let list =
        [(0, read(100_000, 8)), (1_000_000, read(100_512, 8)), (1_000_500, read(100_520, 256))];
    let (times, hits) = took(&params, &list);
    let transfer = 255 * mechanics.period() / spt;
    assert!(times[2] > transfer, "{times:?}, {transfer} ns of transfer");
    assert!(hits >= 1 && times[1] < 1_000_000, "{times:?}");
    // A stream that stopped at its segment's end goes on by itself, with the time that it takes.
    params.cache.read_ahead_on_hit = false;
    assert!(took(&params, &list).0[2] > transfer);
    let paused: Vec<_> = (0..20).map(|n| (300_000 * n, read(512 * n, 512))).collect();
    assert_eq!(took(&params, &paused).1, 19);
}

#[test]
fn what_a_stream_s_segment_holds_before_it_is_a_hit() {
    let mut params = part(TARGETS[0].toml);
    params.cache.read_ahead = Size(Bytes::from_kib(32));
    // A read over the boundary of two zones.
    let edge = 13_026_000;
    let zone = |lba| params.mechanics().unwrap().geometry.place(lba).zone;
    assert_eq!(zone(edge - 1) + 1, zone(edge));
    let twice =
        [(0, read(100_000, 8)), (100_000, read(edge - 4, 8)), (1_000_000, read(edge - 4, 8))];
    let (times, hits) = took(&params, &twice);
    assert!(hits == 1 && times[2] < 300_000, "{times:?}");
    // Sectors that passed before the wanted ones.
    let backwards =
        [(0, read(100_000, 8)), (103_700, read(50_001_000, 8)), (1_000_000, read(50_000_992, 8))];
    let (times, hits) = took(&params, &backwards);
    assert!(hits == 0 && times[2] > 1_000_000, "{times:?}");
    params.cache.read_before = true;
    let (times, hits) = took(&params, &backwards);
    assert!(hits == 1 && times[2] < 300_000, "{times:?}");
}

/// A hit lets the arm read on behind the segment: a read that begins in the segment and ends in
/// what the arm has read since is a hit, and joins it where it has not.
#[test]
fn a_read_may_begin_before_what_the_arm_reads_on() {
    let params = part(TARGETS[0].toml);
    let ahead = params.cache.read_ahead.0.sectors();
    let list = |later: u64| {
        [(0, read(0, 8)), (1_000_000, read(ahead - 4, 8)), (1_000_000 + later, read(ahead + 4, 8))]
    };
    let (times, hits) = took(&params, &list(100_000));
    assert!(hits == 2 && times[2] < 300_000, "{times:?}");
    let turn = params.mechanics().unwrap().period();
    let (times, hits) = took(&params, &list(500));
    assert!(hits == 2 && times[2] < turn + 1_000_000, "{times:?}");
    // Overwritten meanwhile, without a cache of written data: what was read before is gone.
    let mut params = params;
    params.cache.segment = Size(Bytes::from_mib(2));
    params.write_cache.enabled = false;
    params.cache.read_hits_on_written = false;
    let over = (1_100_000, Request::write(Lba(100), 8));
    let list = [(0, read(0, 8)), (1_000_000, read(ahead - 4, 8)), over, (2_000_000, read(100, 8))];
    assert_eq!(took(&params, &list).1, 1);
}

#[test]
fn several_cached_writes_serve_one_read() {
    let params = part(TARGETS[0].toml);
    let write = |lba| (100_000, Request::write(Lba(lba), 8));
    let last = |from, sectors| {
        let (first, second) = (write(50_000_000), write(50_000_008));
        let list = [(0, read(100_000, 8)), first, second, (108_000, read(from, sectors))];
        took(&params, &list).0[3]
    };
    for (from, sectors) in [(50_000_000, 16), (50_000_004, 8), (50_000_008, 8)] {
        let ns = last(from, sectors);
        assert!((200_000..300_000).contains(&ns), "{from} {sectors}: {ns}");
    }
    // Of these the cache holds a part.
    for (from, sectors) in [(50_000_000, 17), (49_999_999, 17)] {
        let ns = last(from, sectors);
        assert!(ns > 1_000_000, "{from} {sectors}: {ns}");
    }
}
