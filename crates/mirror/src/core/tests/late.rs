//! Legs that answer late.

use super::*;
use crate::core::Why;

fn s(seconds: u64) -> Nanos {
    Nanos::from_secs(seconds)
}

/// The slow leg takes so long for everything.
fn bench(takes: Nanos, change: impl Fn(&mut Config)) -> Bench {
    let mut config = Config::new(Mode::Log);
    config.lag.slow = None;
    change(&mut config);
    let mut bench = Bench::new(config);
    bench.filled();
    bench.legs[SLOW].takes = takes;
    bench
}

fn flush_takes(bench: &mut Bench) -> Nanos {
    let writes: Vec<HostId> =
        (0..BLOCKS).map(|block| bench.write(Span::new(block, 1), 7, false)).collect();
    // A flush covers what was acknowledged.
    for id in writes {
        bench.ends(id).1.unwrap();
    }
    let id = bench.flush();
    let (took, result) = bench.ends(id);
    result.unwrap();
    took
}

#[test]
fn a_flush_waits_for_a_slow_leg_no_longer_than_the_deadline() {
    for takes in [Nanos::from_millis(2500), s(3), s(4), s(6)] {
        let mut bench = bench(takes, |_| {});
        let took = flush_takes(&mut bench);
        assert!(took <= s(5) + Nanos::from_millis(10), "{takes} a request: {took}");
        assert!(!bench.is(SLOW, State::Member) && bench.is(FAST, State::Member));
        let why = if takes > s(5) { Why::Stuck } else { Why::HeldBack };
        assert_eq!(bench.said(Notice::Left(SLOW, why)), 1, "{:?}", bench.notices);
        // What it has missed is copied, and it is a member again.
        bench.legs[SLOW].takes = Nanos::from_millis(1);
        bench.until(|bench| bench.is(SLOW, State::Member));
    }
}

#[test]
fn the_deadline_may_be_another_or_none() {
    let mut short = bench(s(1), |config| config.lag.flush_deadline = Some(s(2)));
    let took = flush_takes(&mut short);
    assert!(took <= s(2) + Nanos::from_millis(10), "{took}");
    let mut none = bench(s(3), |config| config.lag.flush_deadline = None);
    let took = flush_takes(&mut none);
    assert!(took > s(8) && none.is(SLOW, State::Member), "{took}");
}

#[test]
fn a_write_that_must_be_durable_at_once_has_the_same_deadline() {
    let mut bench = bench(s(4), |_| {});
    let id = bench.write(Span::new(3, 1), 7, true);
    let (took, result) = bench.ends(id);
    assert_eq!(result, Ok(()));
    assert!(took <= s(5) + Nanos::from_millis(10), "{took}");
}

#[test]
fn a_plain_write_of_strict_mode_has_the_same_deadline() {
    let strict = |config: &mut Config| config.rules.mode = Mode::Strict;
    for (takes, most) in [(s(3), s(5)), (s(4), s(5)), (s(1), s(2))] {
        // The second one waits for the first.
        let mut bench = bench(takes, strict);
        bench.write(Span::new(3, 1), 7, false);
        let id = bench.write(Span::new(3, 1), 8, false);
        let (took, result) = bench.ends(id);
        result.unwrap();
        assert!(took <= most + Nanos::from_millis(10), "{takes} a request: {took}");
        let held = u32::from(takes > s(1)) as usize;
        assert_eq!(bench.said(Notice::Left(SLOW, Why::HeldBack)), held, "{:?}", bench.notices);
    }
    let mut none = bench(s(4), |config| {
        strict(config);
        config.lag.flush_deadline = None;
    });
    none.write(Span::new(3, 1), 7, false);
    let id = none.write(Span::new(3, 1), 8, false);
    assert!(none.ends(id).0 > s(7) && none.is(SLOW, State::Member));
}

#[test]
fn the_last_leg_is_waited_for() {
    let mut bench = bench(s(6), |config| config.lag.slow = Some(Default::default()));
    bench.tell(Event::Command(Command::Fail(FAST)));
    let took = flush_takes(&mut bench);
    assert!(took > s(5) && bench.is(SLOW, State::Member), "{took}");
    // Nor is one of two left out that are both slow: one write after the other takes 8 s or more.
    let mut bench = self::bench(s(4), |config| config.lag.slow = Some(Default::default()));
    bench.legs[FAST].takes = s(4);
    bench.write(Span::new(3, 1), 7, false);
    let id = bench.write(Span::new(3, 1), 8, true);
    let (took, result) = bench.ends(id);
    assert!(took >= s(8) && result.is_ok(), "{took}");
    assert_eq!(bench.core.stats().drops, 0, "{:?}", bench.notices);
}

/// After so long it is no freeze.
#[test]
fn one_that_answers_after_a_minute_is_left_to_the_operator() {
    for (takes, back) in [(s(59), true), (s(61), false)] {
        let mut bench = bench(takes, |_| {});
        bench.write(Span::new(3, 1), 7, false);
        bench.until(|bench| bench.is(SLOW, State::Out));
        bench.legs[SLOW].takes = Nanos::from_millis(1);
        bench.run_to(bench.now + s(100));
        assert_eq!(bench.is(SLOW, State::Member), back, "{takes}");
    }
}

#[test]
fn one_that_is_late_again_and_again_is_left_to_the_operator() {
    let mut bench = bench(s(4), |_| {});
    for _ in 0..2 {
        flush_takes(&mut bench);
        bench.until(|bench| bench.is(SLOW, State::Member));
    }
    flush_takes(&mut bench);
    bench.run_to(bench.now + s(1000));
    assert!(bench.is(SLOW, State::Out));
    bench.legs[SLOW].takes = Nanos::from_millis(1);
    bench.tell(Event::Returned(SLOW));
    bench.until(|bench| bench.is(SLOW, State::Member));
}

/// Writes without flushes, one every quarter of a second; how long until it is left out?
fn writes_until_left(bench: &mut Bench, most: Nanos) -> Option<Nanos> {
    let began = bench.now;
    while bench.now.since(began) < most {
        bench.write(Span::new(bench.next_id % BLOCKS, 1), 7, false);
        bench.run_to(bench.now + Nanos::from_millis(250));
        if bench.said(Notice::Left(SLOW, Why::Slow)) > 0 {
            return Some(bench.now.since(began));
        }
    }
    assert_eq!(bench.core.stats().drops, 0, "{:?}", bench.notices);
    None
}

#[test]
fn a_leg_that_is_slow_alone_for_half_of_the_time_is_left_out() {
    let slow = |config: &mut Config| config.lag.slow = Some(Default::default());
    let left = writes_until_left(&mut bench(s(3), slow), s(120)).unwrap();
    assert!((s(30)..s(50)).contains(&left), "{left}");
    // One that takes less than a second is not slow, whatever the share.
    assert_eq!(writes_until_left(&mut bench(Nanos::from_millis(900), slow), s(300)), None);
    assert_eq!(writes_until_left(&mut bench(s(3), |_| {}), s(300)), None);
    // Another threshold, another share.
    let strict = |config: &mut Config| {
        let half = Nanos::from_millis(500);
        let rules = crate::policy::slow::SlowRules { over: half, share_percent: 5, window: s(60) };
        config.lag.slow = Some(rules);
    };
    let left = writes_until_left(&mut bench(Nanos::from_millis(900), strict), s(60)).unwrap();
    assert!((s(3)..s(12)).contains(&left), "{left}");
}
