//! State tables by hand, limits, and shares.

use sim::{Lba, Nanos, Priority, PriorityClass, Request};

use super::Params;
use crate::elevator::Context;
use crate::elevator::ElevatorPolicy;
use crate::elevator::linux::tests::clients::{Client, run};
use crate::elevator::linux::tests::fair::{self, level};
use crate::elevator::linux::tests::harness::{Medium, Rig};
use config::Duration;

fn policy() -> ElevatorPolicy {
    ElevatorPolicy::Cfq(Params::default())
}

fn without_idling() -> ElevatorPolicy {
    ElevatorPolicy::Cfq(Params { slice_idle: Duration(Nanos::ZERO), ..Params::default() })
}

/// One process, no idling: what waits goes by sector, from where the device is and then from the
/// beginning.
#[test]
fn one_process_has_a_sorted_queue() {
    let mut rig = Rig::new(&without_idling(), Medium::fixed(1000));
    rig.read(1, 900_000, 8);
    rig.until_us(0);
    for lba in [500, 950_000, 100, 700, 300] {
        rig.read(1, lba, 8);
    }
    assert_eq!(rig.drain()[1..], [950_000, 100, 300, 500, 700]);
    assert_eq!(rig.count("idled_ns"), 0);
}

#[test]
fn the_device_waits_for_the_process_whose_turn_it_is() {
    fair::waits_for_whose_turn_it_is(&policy());
}

#[test]
fn without_slice_idle_it_does_not_wait() {
    let mut rig = Rig::new(&without_idling(), Medium::fixed(1000));
    rig.read(1, 0, 8);
    rig.read(2, 5_000_000, 8);
    rig.until_us(20_000);
    assert_eq!(rig.times(), [(0, 0), (1000, 5_000_000)]);
}

/// Requests nobody waits for: sixteen of them at level 4, then the next queue has its turn.
#[test]
fn shared_queues_send_their_quota() {
    for (with, quota) in [(level(4), 16), (level(0), 32), (level(7), 4)] {
        let mut rig = Rig::new(&policy(), Medium::fixed(1000));
        for n in 0..100 {
            let write = Request { process: 1, ..Request::write(Lba(n * 1000), 8) };
            rig.submit(Request { priority: with, ..write });
            let other = Request { process: 2, ..Request::write(Lba(1 << 24 | (n * 1000)), 8) };
            rig.submit(Request { priority: level(3), ..other });
        }
        let order = rig.drain();
        let kinds: Vec<bool> = order.iter().map(|lba| *lba < 1 << 24).collect();
        let runs: Vec<usize> = kinds.chunk_by(|a, b| a == b).map(<[bool]>::len).collect();
        // The first turns are those of a queue that was alone, the last ones take what is left. One
        // queue may have several turns in a row.
        let own = if kinds[0] { 4 } else { 3 };
        assert_eq!(runs[own], quota, "level {with:?}: {runs:?}");
        assert_eq!(runs[own + 1] % 20, 0, "level {with:?}: {runs:?}");
    }
}

/// A read takes the turn from writes that nobody waits for, and while it is out none is sent.
#[test]
fn a_read_goes_before_writes() {
    let mut rig = Rig::new(&policy(), Medium::fixed(1000));
    for n in 0..40 {
        rig.write(1, n * 1000, 8);
    }
    rig.until_us(5000);
    rig.read(2, 9_000_000, 8);
    // The four that opened the plug, four rounds that were chosen while nobody else asked, the
    // read, and then the device waits for the reader.
    rig.until_us(28_999);
    let times = rig.times();
    assert_eq!((times.len(), times[20]), (21, (20_000, 9_000_000)), "{times:?}");
    rig.until_us(29_000);
    assert_eq!(rig.order().len(), 22);
}

#[test]
fn the_idle_class_waits_until_nobody_else_asks() {
    let mut rig = Rig::new(&policy(), Medium::fixed(1000));
    rig.read(1, 0, 8);
    rig.until_us(0);
    let priority = Priority::new(PriorityClass::Idle, 0);
    rig.submit(Request { process: 2, priority, ..Request::read(Lba(1_000_000), 8) });
    rig.host.drain();
    // The reader is waited for, for 8 ms.
    assert_eq!(rig.times(), [(0, 0), (9_000, 1_000_000)]);
}

/// Somebody of the idle class keeps nobody waiting for longer than the four requests of his that
/// are sent while he is alone.
#[test]
fn the_idle_class_is_in_nobodys_way() {
    let mut rig = Rig::new(&policy(), Medium::fixed(1000));
    let priority = Priority::new(PriorityClass::Idle, 0);
    rig.read(1, 0, 8);
    rig.until_us(500);
    for nth in 0..40 {
        let lba = Lba(1_000_000 + 1000 * nth);
        rig.submit(Request { process: 2, priority, ..Request::read(lba, 8) });
    }
    rig.until_us(20_000);
    rig.read(1, 8, 8);
    rig.host.drain();
    let read = rig.times().into_iter().find(|&(_, lba)| lba == 8);
    assert!(read.is_some_and(|(us, _)| us <= 25_000), "{:?}", rig.times());
}

/// Nearly what the disk can: 50 MB/s but for a seek per slice.
#[test]
fn equal_readers_have_equal_shares() {
    fair::shares_equally(&policy(), [2, 4, 8], 40.0);
}

/// The seek at the beginning of a slice is not part of it. The negative controls serve by place and
/// time, whatever the level.
#[test]
fn levels_0_and_7_share_as_4_5_to_1() {
    fair::shares_by_level(&policy(), 4.3..5.6, &["noop", "deadline", "anticipatory"]);
}

#[test]
fn a_process_that_thinks_longer_than_slice_idle_is_not_waited_for() {
    let thinkers = [Client::reader(0).thinking_ms(12), Client::reader(1).thinking_ms(12)];
    let out = run(&policy(), Medium::disk(), &thinkers, 20);
    assert!(out.rig.count("dequeued") > 1000);
    assert!(out.rig.count("anticipations_lost") < 20, "{}", out.rig.count("anticipations_lost"));
}

/// A process that seeks is waited for 2 ms only.
#[test]
fn a_seeker_is_waited_for_a_little() {
    let mut rig = Rig::new(&policy(), Medium::fixed(1000));
    for n in 0..10 {
        rig.until_us(n * 1500);
        rig.read(1, n * 1_000_000, 8);
        rig.until_us(n * 1500);
    }
    rig.until_us(9 * 1500 + 500);
    rig.read(2, 500, 8);
    rig.host.drain();
    // The last answer of process 1 is at 14,500 us.
    assert_eq!(rig.times().last(), Some(&(16_500, 500)));
}

#[test]
fn values_out_of_range_are_refused() {
    let context = Context { nr_requests: 256, rotational: true };
    let error = |params: Params| params.build(&context).unwrap_err().to_string();
    let quantum = Params { quantum: 0, ..Params::default() };
    assert_eq!(error(quantum), "quantum: expected 1 to 65536, got 0");
    let slice = Params { slice_sync: Duration(Nanos(0)), ..Params::default() };
    assert_eq!(error(slice), "slice_sync: expected more than 0, got \"0ns\"");
}
