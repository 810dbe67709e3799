//! State tables by hand, limits, and what anticipation is for.

use sim::{Nanos, Request};

use super::Params;
use crate::elevator::Context;
use crate::elevator::ElevatorPolicy;
use crate::elevator::linux::tests::clients::{Client, run};
use crate::elevator::linux::tests::harness::{Medium, Rig};
use config::Duration;

fn policy() -> ElevatorPolicy {
    ElevatorPolicy::Anticipatory(Params::default())
}

fn without() -> ElevatorPolicy {
    let antic_expire = Duration(Nanos::ZERO);
    ElevatorPolicy::Anticipatory(Params { antic_expire, ..Params::default() })
}

/// Process 1 reads sector 0, process 2 waits with a read far away. Process 1 has its answer after
/// 1 ms.
fn two_readers(policy: &ElevatorPolicy) -> Rig {
    let mut rig = Rig::new(policy, Medium::fixed(1000));
    rig.read(1, 0, 8);
    rig.read(2, 5_000_000, 8);
    rig.until_us(0);
    assert_eq!(rig.order(), [0]);
    rig
}

#[test]
fn the_device_waits_for_the_reader_it_served_last() {
    let mut rig = two_readers(&policy());
    rig.until_us(20_000);
    assert_eq!(rig.times(), [(0, 0), (7000, 5_000_000)]);
    assert_eq!(rig.count("anticipations_lost"), 1);
    assert_eq!(rig.count("idled_ns"), 6_000_000);
}

#[test]
fn the_next_read_of_that_process_goes_at_once() {
    let mut rig = two_readers(&policy());
    rig.until_us(3000);
    rig.read(1, 1_000_000, 8);
    rig.until_us(3000);
    assert_eq!(rig.times(), [(0, 0), (3000, 1_000_000)]);
    assert_eq!((rig.count("anticipations_won"), rig.count("idled_ns")), (1, 2_000_000));
}

/// 20,000 sectors away: not close until 8192 has doubled twice.
#[test]
fn what_is_close_grows_with_the_wait() {
    for (us, at) in [(2500, 7000), (3500, 3500)] {
        let mut rig = two_readers(&policy());
        rig.until_us(us);
        rig.read(3, 20_000, 8);
        rig.host.drain();
        assert_eq!(rig.times()[1], (at, 20_000), "a read after {us} us");
    }
}

#[test]
fn a_write_of_that_process_ends_the_wait_and_one_of_others_does_not() {
    for (process, at) in [(1, 3000), (3, 7000)] {
        let mut rig = two_readers(&policy());
        rig.until_us(3000);
        rig.write(process, 9_000_000, 8);
        rig.until_us(30_000);
        assert_eq!(rig.times()[1], (at, 5_000_000), "a write of process {process}");
    }
}

#[test]
fn without_antic_expire_it_does_not_wait() {
    let mut rig = two_readers(&without());
    rig.until_us(1000);
    assert_eq!(rig.times(), [(0, 0), (1000, 5_000_000)]);
}

/// From sector 908 on: 1200 is 292 ahead, 800 is 108 behind and counts 216; then 1200 is 392 ahead
/// and 100 behind; the others of one process are never waited for.
#[test]
fn the_elevator_goes_back_a_little() {
    for (policy, name) in [(policy(), "waiting"), (without(), "not waiting")] {
        let mut rig = Rig::new(&policy, Medium::fixed(1000));
        rig.read(1, 900, 8);
        rig.until_us(0);
        for lba in [1200, 800, 5000] {
            rig.read(1, lba, 8);
        }
        assert_eq!(rig.drain(), [900, 800, 1200, 5000], "{name}");
    }
}

/// Both go up from the oldest request, the lowest.
#[test]
fn writes_alone_go_as_with_deadline() {
    let orders = ["anticipatory", "deadline"].map(|name| {
        let mut rig = Rig::named(name);
        for lba in [0, 700, 300, 500, 900, 1100] {
            rig.write(1, lba, 8);
        }
        rig.drain()
    });
    assert_eq!(orders[0], [0, 300, 500, 700, 900, 1100]);
    assert_eq!(orders[0], orders[1]);
}

/// Two sequential readers that think for 1 ms: with anticipation each has the device for a while
/// (an expired read changes hands every 125 ms), without it every read is a seek.
#[test]
fn two_sequential_readers_have_nearly_what_one_has() {
    let readers = [Client::reader(0).thinking_ms(1), Client::reader(1).thinking_ms(1)];
    let total = |policy: &ElevatorPolicy, readers: &[Client]| {
        run(policy, Medium::disk(), readers, 10).mb_s.iter().sum::<f64>()
    };
    let alone = total(&policy(), &readers[..1]);
    let both = total(&policy(), &readers);
    let deadline = total(&ElevatorPolicy::from_name("deadline").unwrap(), &readers);
    assert!(both > 0.8 * alone, "{both} of {alone}");
    assert!(deadline < 0.3 * alone, "{deadline} of {alone}");
    let seeks = total(&without(), &readers);
    assert!((0.9..1.1).contains(&(seeks / deadline)), "{seeks} and {deadline}");
}

#[test]
fn a_reader_that_thinks_too_long_is_not_waited_for() {
    let slow = Client { random: true, ..Client::reader(0).thinking_ms(20) };
    let other = Client { random: true, ..Client::reader(3).thinking_ms(20) };
    let out = run(&policy(), Medium::disk(), &[slow, other], 20);
    let reads = out.rig.count("dequeued");
    assert!(reads > 1000, "{reads}");
    let waits = out.rig.count("anticipations_lost") + out.rig.count("anticipations_won");
    assert!(waits < 20, "{waits} waits in {reads} reads");
}

/// Reads go on for half a second; then writes have their turn, until the next read batch.
#[test]
fn batches_of_reads_and_writes_take_turns() {
    let reader = Client::reader(0);
    let out = run(&policy(), Medium::disk(), &[reader, Client::writer(1)], 10);
    let requests = out.rig.requests();
    let is_write = |r: &&Request| r.lba.0 >= 1 << 24;
    let changes = requests.windows(2).filter(|w| is_write(&&w[0]) != is_write(&&w[1])).count();
    // Half a second and an eighth: sixteen times each in ten seconds, and a few at the beginning.
    assert!((24..=44).contains(&changes), "{changes}");
    let (reads, writes) = (out.mb_s[0], out.mb_s[1]);
    assert!(reads > 2.0 * writes && writes > 2.0, "{reads} and {writes}");
}

#[test]
fn a_batch_without_time_is_refused() {
    let params = Params { read_batch_expire: Duration(Nanos(0)), ..Params::default() };
    let context = Context { nr_requests: 256, rotational: true };
    let error = params.build(&context).unwrap_err().to_string();
    assert_eq!(error, "read_batch_expire: expected more than 0, got \"0ns\"");
}
