//! The mirror over fixed servers, and what it refuses.

use sim::{Counters, Lba, Request, Rng, Stepper};

use super::*;
use crate::device::{null, server};

fn context() -> Context {
    Context { rng: Rng::new(1, "mirror") }
}

fn leg(us: u64) -> Box<DeviceModel> {
    let latency = Duration(Nanos::from_micros(us));
    Box::new(DeviceModel::Null(null::Params { latency, ..Default::default() }))
}

fn params(mode: Mode) -> Params {
    Params { fast: leg(100), slow: leg(5000), mode, ..Params::default() }
}

type Host = Stepper<Box<dyn Device>>;

/// A mirror whose first extent is hot, so that what follows costs no metadata.
fn warm(params: &Params) -> Host {
    let mut host = Stepper::new(params.build(&context()).unwrap());
    host.submit(Request::write(Lba(0), 8)).unwrap();
    host.drain();
    host
}

/// Microseconds until `request` is answered.
fn takes(host: &mut Host, request: Request) -> u64 {
    let (start, id) = (host.now(), host.submit(request).unwrap());
    loop {
        let next = host.device.next_event().expect("an answer is on its way");
        if host.run_until(next).iter().any(|done| done.id == id) {
            return host.now().since(start).0 / 1000;
        }
    }
}

fn level(host: &Host, name: &str) -> u64 {
    let mut counters = Counters::default();
    host.device.counters(&mut counters);
    let found = counters.levels.iter().find(|(level, _)| level == name);
    found.map(|&(_, level)| level).or_else(|| Some(counters.get(name))).unwrap()
}

#[test]
fn a_write_takes_the_first_leg_or_both() {
    for (mode, us) in [(Mode::Strict, 5000), (Mode::Log, 100), (Mode::Relaxed, 100)] {
        assert_eq!(takes(&mut warm(&params(mode)), Request::write(Lba(8), 8)), us, "{mode:?}");
    }
}

#[test]
fn the_first_write_to_an_extent_waits_for_its_record_on_each_leg() {
    let mut host = Stepper::new(params(Mode::Log).build(&context()).unwrap());
    assert_eq!(takes(&mut host, Request::write(Lba(0), 8)), 200);
}

#[test]
fn a_flush_waits_for_two_domains() {
    let mut host = warm(&params(Mode::Log));
    assert_eq!(takes(&mut host, Request::write(Lba(8), 8)), 100);
    // The slow leg's write and flush, 5 ms each, the former begun 100 us ago.
    assert_eq!(takes(&mut host, Request::flush()), 9900);
    let witness =
        Params { witness: Some(leg(100)), placement: Placement::Witness, ..params(Mode::Log) };
    let mut host = warm(&witness);
    takes(&mut host, Request::write(Lba(8), 8));
    // The fast leg's flush, the reference on it, and the witness's record beside them.
    let flush = takes(&mut host, Request::flush());
    assert!((200..=300).contains(&flush), "{flush}");
    assert_eq!(level(&host, "logged_acks"), 1);
}

#[test]
fn the_bound_makes_writes_wait_for_the_second_leg() {
    let exposure = Exposure { bytes: Size(Bytes::from_kib(8)), ..Exposure::default() };
    let mut host = warm(&Params { exposure, ..params(Mode::Log) });
    let us: Vec<u64> = (1..4).map(|n| takes(&mut host, Request::write(Lba(8 * n), 8))).collect();
    assert_eq!(us[..2], [100, 100]);
    // Its room is that of the first, whose second copy is done 5 ms after it began.
    assert_eq!(us[2], 4800);
    assert_eq!(level(&host, "exposed_bytes_max"), 8192);
}

#[test]
fn reads_go_to_the_leg_that_has_shown_to_be_fast() {
    let mut host = warm(&params(Mode::Log));
    for n in 0..200 {
        takes(&mut host, Request::read(Lba(n * 8), 8));
    }
    assert_eq!(takes(&mut host, Request::read(Lba(0), 8)), 100);
}

#[test]
fn a_write_of_half_a_block_reads_the_block_first() {
    assert_eq!(takes(&mut warm(&params(Mode::Log)), Request::write(Lba(100), 1)), 200);
}

#[test]
fn large_requests_go_in_pieces() {
    let mut host = warm(&params(Mode::Log));
    assert!(takes(&mut host, Request::read(Lba(0), 3 * 8192)) >= 300);
    assert_eq!(takes(&mut host, Request::discard(Lba(1), 7)), 0);
}

/// The slow leg freezes; writes go on at the fast leg's pace and the mirror notices.
#[test]
fn a_freeze_is_hidden_and_seen() {
    let freeze = server::Freeze { probability: 0.05, ..server::Freeze::default() };
    let rate = config::Rate(u64::MAX);
    let slow = server::Params { freeze, rate, ..Default::default() };
    let slow = Box::new(DeviceModel::Server(slow));
    let mut host = warm(&Params { slow, ..params(Mode::Log) });
    for n in 0..400 {
        let us = takes(&mut host, Request::write(Lba(8 * (n % 200)), 8));
        assert!(us < 10_000, "write {n} took {us} us");
        host.run_until(host.now() + Nanos::from_millis(5));
    }
    assert!(level(&host, "freezes") > 3, "{}", level(&host, "freezes"));
    host.drain();
    assert_eq!((level(&host, "exposed_bytes"), level(&host, "slow_owes_bytes")), (0, 0));
}

/// A leg that does not answer for long is left out, comes back and is filled.
#[test]
fn a_stuck_leg_is_left_out_and_filled_again() {
    let mean = Duration(Nanos::from_secs(20));
    let freeze = server::Freeze { probability: 0.01, mean, ..server::Freeze::default() };
    let slow = Box::new(DeviceModel::Server(server::Params { freeze, ..Default::default() }));
    let mut host = warm(&Params { slow, ..params(Mode::Log) });
    for n in 0..200 {
        takes(&mut host, Request::write(Lba(8 * n), 8));
        host.run_until(host.now() + Nanos::from_millis(100));
    }
    host.drain();
    assert!(level(&host, "drops") > 0, "{}", level(&host, "drops"));
    assert_eq!(level(&host, "joins"), level(&host, "drops"));
    assert_eq!(level(&host, "failed_requests"), 0);
    assert!(level(&host, "copied_blocks") > 0);
}

#[test]
fn the_smaller_leg_decides_the_size() {
    let small = |gib| {
        let capacity = Size(Bytes::from_gib(gib));
        Box::new(DeviceModel::Null(null::Params { capacity, ..Default::default() }))
    };
    let both = Params { fast: small(2), slow: small(1), ..Params::default() };
    let capacity = both.build(&context()).unwrap().limits().capacity;
    assert!(capacity < Bytes::from_gib(1) && capacity > Bytes::from_mib(900), "{capacity}");
}

fn error(params: Params) -> String {
    params.build(&context()).map(drop).unwrap_err().to_string()
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let zero = Exposure { bytes: Size(Bytes(0)), ..Exposure::default() };
    let text = error(Params { exposure: zero, ..params(Mode::Log) });
    assert!(text.starts_with("exposure.bytes: expected at least one block"), "{text}");
    assert!(text.contains("mode = \"strict\""), "{text}");
    let zero = Exposure { age: Duration(Nanos::ZERO), ..Exposure::default() };
    let text = error(Params { exposure: zero, ..params(Mode::Log) });
    assert_eq!(text, "exposure.age: expected more than 0, got \"0ns\"");
    let text = error(Params { placement: Placement::Witness, ..params(Mode::Log) });
    assert!(text.contains("[device.mirror.witness.<model>]"), "{text}");
    let tiny = null::Params { capacity: Size(Bytes::from_mib(8)), ..Default::default() };
    let tiny = Box::new(DeviceModel::Null(tiny));
    let text = error(Params { slow: tiny.clone(), ..params(Mode::Log) });
    assert!(text.starts_with("slow: a leg of 8 MiB has no room"), "{text}");
    let text = error(Params { witness: Some(tiny), ..params(Mode::Log) });
    assert!(text.starts_with("witness: expected at least 64.02 MiB, got 8 MiB"), "{text}");
    let bad = null::Params { queue_depth_max: 0, ..Default::default() };
    let bad = Box::new(DeviceModel::Null(bad));
    let text = error(Params { fast: bad, ..params(Mode::Log) });
    assert!(text.starts_with("fast.null.queue_depth_max: "), "{text}");
}
