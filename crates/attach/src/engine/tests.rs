use super::*;
use crate::fault::Kind;
use crate::order::Ticket;
use crate::volatile::AtRisk;
use sim::testing::FixedDelay;
use sim::{Bytes, Stop, simulate};

const US: u64 = 1000;

fn engine(depth: u32, dilation: u64) -> Engine {
    let device = Box::new(FixedDelay::new(Nanos(100 * US), depth));
    let store = Store::memory(Bytes::from_gib(1)).unwrap();
    Engine::new(device, store, Timeline { start: Nanos::ZERO, dilation }, 0)
}

fn order(command: Command, offset: u64, bytes: u32, tag: u64) -> Order {
    Order::new(Ticket { tag, ..Ticket::default() }, command, offset, bytes)
}

struct Bench {
    engine: Engine,
    pool: BufferPool,
}

impl Bench {
    fn new(engine: Engine) -> Bench {
        Bench { engine, pool: BufferPool::default() }
    }

    fn read(&mut self, at_us: u64, offset: u64, bytes: u32, tag: u64) {
        let order = order(Command::Read, offset, bytes, tag);
        self.engine.submit(Wall(at_us * US), order, None, &mut self.pool);
    }

    fn write(&mut self, at_us: u64, offset: u64, data: &[u8], tag: u64) {
        let order = order(Command::Write { fua: false }, offset, data.len() as u32, tag);
        let mut sink = self.engine.begin_write(offset, data.len() as u32).unwrap();
        for piece in data.chunks(700) {
            self.engine.data().write(&mut sink, piece, &mut self.pool);
        }
        self.engine.submit(Wall(at_us * US), order, Some(sink), &mut self.pool);
    }

    fn at(&mut self, at_us: u64) -> Vec<Reply> {
        let mut replies = Vec::new();
        self.engine.advance(Wall(at_us * US), &mut replies);
        replies
    }
}

#[test]
fn a_reply_is_never_early_and_a_dilated_one_takes_its_time() {
    for dilation in [1, 7] {
        let mut bench = Bench::new(engine(8, dilation));
        bench.read(700, 0, 4096, 1);
        let due = 700 + 100 * dilation;
        assert_eq!(bench.engine.next_due(), Wall(due * US));
        assert!(bench.at(due - 1).is_empty());
        let replies = bench.at(due);
        assert_eq!(replies[0].timing.due, Wall(due * US));
        assert_eq!(replies[0].timing.modelled_ns, Some(100 * US * dilation));
        assert_eq!(replies[0].result, Ok(vec![0; 4096]));
        assert_eq!(bench.engine.in_flight(), 0);
    }
}

#[test]
fn data_moves_at_arrival() {
    let mut bench = Bench::new(engine(8, 1));
    bench.write(0, 4096, &[1; 4096], 1);
    bench.read(1, 4096, 4096, 2);
    bench.write(2, 4096, &[2; 4096], 3);
    let replies = bench.at(500);
    let tags: Vec<u64> = replies.iter().map(|reply| reply.order.ticket.tag).collect();
    assert_eq!(tags, [1, 2, 3]);
    assert_eq!(replies[1].result, Ok(vec![1; 4096]));
}

#[test]
fn compensation_stamps_before_arrival_but_never_before_the_devices_latest_event() {
    let mut bench = Bench::new(engine(8, 1));
    bench.engine.compensate(15 * US);
    bench.read(1000, 0, 512, 1);
    assert_eq!(bench.at(1085).len(), 1, "stamped at 985, due at 1085");
    bench.read(1090, 0, 512, 2);
    assert!(bench.at(1184).is_empty());
    let replies = bench.at(1185);
    assert_eq!(replies[0].timing.due, Wall(1185 * US), "stamped at the event of 1085");
}

#[test]
fn while_the_path_is_measured_only_reads_bypass_the_model() {
    let mut bench = Bench::new(engine(8, 1));
    bench.engine.data().keep_volatile_log();
    bench.engine.set_bypass(Some(10 * US));
    bench.read(0, 0, 512, 1);
    bench.write(0, 0, &[1; 512], 2);
    let (read, written) = (bench.at(10), bench.at(100));
    assert_eq!((read.len(), read[0].timing.modelled_ns), (1, None));
    assert_eq!((written.len(), written[0].timing.modelled_ns), (1, Some(100 * US)));
    // The device had it, so a power cut takes nothing back that was answered.
    let cut = bench.engine.power_cut(Wall(250 * US)).unwrap();
    assert_eq!((cut.lost_writes, cut.forgotten.len()), (0, 0));
    bench.read(300, 0, 512, 3);
    assert_eq!(bench.at(310)[0].result, Ok(vec![1; 512]));
}

#[test]
fn what_the_device_has_no_room_for_waits() {
    let mut bench = Bench::new(engine(1, 1));
    for tag in 0..3 {
        bench.read(0, 0, 512, tag);
    }
    assert_eq!((bench.at(100).len(), bench.at(200).len(), bench.at(299).len()), (1, 1, 0));
    let last = bench.at(300);
    assert_eq!(last[0].timing.modelled_ns, Some(300 * US), "waiting is part of the response");
}

#[test]
fn ranges_beyond_the_end_are_refused_at_once() {
    let mut bench = Bench::new(engine(8, 1));
    bench.read(5, (1 << 30) - 512, 1024, 1);
    bench.read(5, u64::MAX, 1, 2);
    let replies = bench.at(5);
    assert!(replies.iter().all(|reply| reply.result == Err(Refusal::BeyondEnd)));
    assert_eq!(replies.len(), 2);
    assert_eq!(bench.engine.begin_write(1 << 30, 1).unwrap_err(), Refusal::BeyondEnd);
}

#[test]
fn zeroes_and_discards_clear_and_odd_edges_stay() {
    let mut bench = Bench::new(engine(8, 1));
    bench.write(0, 0, &[9; 4096], 1);
    for (tag, command) in
        [(2, Command::Discard), (3, Command::WriteZeroes { fua: false, may_discard: true })]
    {
        let (offset, bytes) = if tag == 2 { (100, 1000) } else { (2000, 10) };
        let order = order(command, offset, bytes, tag);
        bench.engine.submit(Wall(0), order, None, &mut bench.pool);
    }
    bench.read(1, 0, 4096, 4);
    let found = bench.at(900).pop().unwrap().result.unwrap();
    let zero: Vec<usize> = (0..4096).filter(|&i| found[i] == 0).collect();
    let expected: Vec<usize> = (512..1024).chain(2000..2010).collect();
    assert_eq!(zero, expected);
}

#[test]
fn faults_change_answers_and_data_until_they_are_lifted() {
    let mut bench = Bench::new(engine(8, 1));
    let rule = |kind| Rule::always(kind, 0..4096);
    let hang = bench.engine.inject(rule(Kind::Hang), Wall(0));
    bench.read(0, 0, 512, 1);
    assert!(bench.at(10_000).is_empty());
    assert!(bench.engine.lift(hang, Wall(10_000 * US)));
    assert_eq!(bench.at(10_000).len(), 1);
    let slow = bench.engine.inject(rule(Kind::Slow(50 * US)), Wall(0));
    bench.read(10_000, 0, 512, 2);
    assert!(bench.at(10_149).is_empty());
    assert_eq!(bench.at(10_150).len(), 1);
    bench.engine.lift(slow, Wall(0));
    let lost = bench.engine.inject(rule(Kind::Lost), Wall(0));
    bench.write(11_000, 0, &[7; 512], 3);
    bench.engine.lift(lost, Wall(0));
    let error = bench.engine.inject(rule(Kind::Error), Wall(0));
    bench.read(11_000, 0, 512, 4);
    let replies = bench.at(12_000);
    assert_eq!(replies[0].result, Ok(Vec::new()), "the host is told that all is well");
    assert_eq!(replies[1].result, Err(Refusal::Io));
    bench.engine.lift(error, Wall(0));
    bench.read(13_000, 0, 512, 5);
    assert_eq!(bench.at(14_000)[0].result, Ok(vec![0; 512]));
}

/// A request that fails is not done: neither a write, in one piece or several, nor a discard.
#[test]
fn what_an_error_fault_makes_fail_is_not_done() {
    let mut bench = Bench::new(engine(8, 1));
    bench.write(0, 0, &[1; 4096], 1);
    let rule = Rule::always(Kind::Error, 0..4096);
    let error = bench.engine.inject(rule, Wall(0));
    bench.write(200, 0, &[2; 4096], 2);
    bench.write(200, 0, &[3; 512], 3);
    for (tag, command) in
        [(4, Command::Discard), (5, Command::WriteZeroes { fua: false, may_discard: false })]
    {
        bench.engine.submit(Wall(200 * US), order(command, 0, 4096, tag), None, &mut bench.pool);
    }
    let failed = bench.at(400);
    assert_eq!(failed.len(), 5);
    assert!(failed[1..].iter().all(|reply| reply.result == Err(Refusal::Io)));
    assert!(failed[1..].iter().all(|reply| reply.timing.modelled_ns == Some(100 * US)));
    assert!(bench.engine.lift(error, Wall(400 * US)));
    bench.read(500, 0, 4096, 6);
    assert_eq!(bench.at(600)[0].result, Ok(vec![1; 4096]));
}

#[test]
fn a_write_that_is_cut_off_is_not_done() {
    let mut bench = Bench::new(engine(8, 1));
    bench.engine.data().keep_volatile_log();
    let rule = Rule { count: Some(1), ..Rule::always(Kind::Lost, 0..4096) };
    bench.engine.inject(rule, Wall(0));
    let mut sink = bench.engine.begin_write(0, 4096).unwrap();
    for piece in [&[7; 4000][..], &[7; 95]] {
        bench.engine.data().write(&mut sink, piece, &mut bench.pool);
    }
    bench.engine.data().abandon(sink, &mut bench.pool);
    let hits: Vec<u64> = bench.engine.faults().list().map(|(_, _, hits)| hits).collect();
    assert_eq!(hits, [0], "a fault strikes only what was asked for");
    bench.read(0, 0, 4096, 1);
    assert_eq!(bench.at(100)[0].result, Ok(vec![0; 4096]));
}

#[test]
fn a_long_read_leaves_its_data_in_the_store_unless_a_fault_may_spoil_it() {
    let mut bench = Bench::new(engine(8, 1));
    bench.engine.data().leave_reads(8192..=16384);
    let found = |bench: &mut Bench, at: u64, bytes: u32| {
        bench.read(at, 0, bytes, at);
        bench.at(at + 100).pop().unwrap().result.unwrap().len()
    };
    assert_eq!(found(&mut bench, 0, 4096), 4096);
    assert_eq!(found(&mut bench, 200, 8192), 0);
    assert_eq!(found(&mut bench, 400, 32768), 32768);
    let kind = Kind::Rot;
    bench.engine.inject(Rule::always(kind, 0..4096), Wall(0));
    assert_eq!(found(&mut bench, 600, 8192), 8192);
}

#[test]
fn a_hang_that_is_lifted_while_the_device_is_busy_holds_nothing_back() {
    let mut bench = Bench::new(engine(8, 1));
    let rule = Rule::always(Kind::Hang, 0..4096);
    let hang = bench.engine.inject(rule, Wall(0));
    bench.read(0, 0, 512, 1);
    assert!(bench.engine.lift(hang, Wall(50 * US)));
    assert_eq!(bench.at(100).len(), 1);
}

#[test]
fn a_power_cut_takes_back_what_was_not_answered() {
    let mut bench = Bench::new(engine(8, 1));
    bench.engine.data().keep_volatile_log();
    bench.write(0, 0, &[1; 512], 1);
    assert_eq!(bench.at(100).len(), 1);
    bench.write(200, 0, &[2; 512], 2);
    let cut = bench.engine.power_cut(Wall(250 * US)).unwrap();
    assert_eq!((cut.lost_writes, cut.forgotten.len()), (0, 1));
    bench.read(300, 0, 512, 3);
    assert_eq!(bench.at(400)[0].result, Ok(vec![1; 512]));
}

/// Attach and simulate drive one device: the same stream gives the same completion times. So it is
/// with an elevator before the device, that of 2.6.26 or of today.
#[test]
fn one_truth_two_clocks() {
    for elevator in [None, Some("cfq"), Some("mq-deadline")] {
        same_times(&study::build_part_behind(elevator, "mqsim-f", &[], 1).unwrap());
    }
}

/// Requests of one moment meet in the plug of their task, and become one.
#[test]
fn what_comes_at_once_is_joined_by_an_elevator() {
    for elevator in ["none", "mq-deadline"] {
        let part = study::build_part_behind(Some(elevator), "wd-80g-5400", &[], 1).unwrap();
        let store = Store::memory(part.device.limits().capacity).unwrap();
        let line = Timeline { start: Nanos::ZERO, dilation: 1 };
        let mut bench = Bench::new(Engine::new(part.device, store, line, 0));
        (0..16).for_each(|tag| bench.write(5, tag * 4096, &[1; 4096], tag));
        assert_eq!(bench.at(1_000_000).len(), 16);
        let mut counters = sim::Counters::default();
        bench.engine.device().counters(&mut counters);
        assert_eq!((counters.get("merged_back"), counters.get("dequeued")), (15, 1), "{elevator}");
    }
}

fn same_times(part: &study::BuiltPart) {
    let device = part.device.boxed_clone();
    let store = Store::memory(device.limits().capacity).unwrap();
    let line = Timeline { start: Nanos::ZERO, dilation: 1 };
    let mut bench = Bench::new(Engine::new(device, store, line, 0));
    let mut rng = Rng::new(7, "stream");
    let mut stream = Vec::new();
    let (mut now, mut attached) = (0, Vec::new());
    for tag in 0..2_000u64 {
        let passed = rng.below(30);
        now += passed;
        let offset = rng.below(1 << 12) * 4096;
        // The wall reads the device at odd moments; that must not matter.
        if passed > 0 {
            attached.extend(bench.at(now));
        }
        match rng.below(2) {
            0 => bench.read(now, offset, 4096, tag),
            _ => bench.write(now, offset, &[tag as u8; 4096], tag),
        }
        let request = bench.engine.slots.iter().flatten().find(|s| s.order.ticket.tag == tag);
        let slot = request.expect("the request was taken");
        stream.push((slot.stamped, slot.request));
    }
    attached.extend(bench.at(u64::MAX / US));
    let attached: std::collections::BTreeMap<u64, u64> =
        attached.iter().map(|reply| (reply.order.ticket.tag, reply.timing.due.0)).collect();

    struct Times(std::collections::BTreeMap<u64, u64>);
    impl sim::Probe for Times {
        fn on_complete(&mut self, request: &Request, _: Nanos, completion: sim::Completion) {
            self.0.insert(request.id.0, completion.at.0);
        }
    }
    let mut times = Times(Default::default());
    let mut script = sim::testing::Script::new(stream);
    let mut device = part.device.boxed_clone();
    simulate(&mut *device, &mut script, Nanos::ZERO, Stop::default(), &mut times).unwrap();
    assert_eq!(attached.len(), 2_000);
    assert_eq!(attached, times.0);
}

#[test]
fn zeroes_that_must_take_room_are_no_hole() {
    let mut bench = Bench::new(engine(8, 1));
    bench.write(0, 0, &[7; 8192], 1);
    for (at, may_discard) in [(0, false), (4096, true), (65536, false)] {
        let command = Command::WriteZeroes { fua: false, may_discard };
        bench.engine.submit(Wall(0), order(command, at, 4096, 2), None, &mut bench.pool);
    }
    let hole = |bench: &mut Bench, at| {
        let mut bytes = [1; 4096];
        bench.engine.data().store().read(at, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 4096]);
        bench.engine.data().extents(at, 4096, 9).unwrap()[0].hole
    };
    assert_eq!([0, 4096, 65536].map(|at| hole(&mut bench, at)), [false, true, false]);
}

/// A drive that keeps up to half of its RAM until it is asked for it.
fn lazy_drive() -> Bench {
    let lazy = ["ssd.buffer.destage_above_percent=50".to_string()];
    let part = study::build_part_behind(None, "tlc-3d-128", &lazy, 1).unwrap();
    let store = Store::temporary(part.device.limits().capacity, Bytes::from_gib(1)).unwrap();
    let line = Timeline { start: Nanos::ZERO, dilation: 1 };
    let mut engine = Engine::new(part.device, store, line, 0);
    engine.data().keep_volatile_log();
    Bench::new(engine)
}

impl Bench {
    fn ask(&mut self, at_us: u64, command: Command, bytes: u32) {
        let order = order(command, 0, bytes, at_us);
        self.engine.submit(Wall(at_us * US), order, None, &mut self.pool);
    }

    /// The first sector after a power cut at that moment, and the writes it cost.
    fn after_cut(&mut self, at_us: u64) -> (u8, usize) {
        let cut = self.engine.power_cut(Wall(at_us * US)).unwrap();
        let mut sector = [0; 512];
        self.engine.data().store().read(0, &mut sector).unwrap();
        assert_eq!(sector, [sector[0]; 512]);
        (sector[0], cut.lost_writes)
    }
}

#[test]
fn a_write_that_another_replaced_in_ram_is_lost_with_it() {
    let mut bench = lazy_drive();
    bench.write(0, 0, &[1; 4096], 1);
    bench.ask(1_000, Command::Flush, 0);
    bench.write(20_000, 0, &[2; 4096], 2);
    bench.write(30_000, 0, &[3; 4096], 3);
    assert_eq!(bench.at(40_000).len(), 4);
    assert_eq!(bench.after_cut(50_000), (1, 2));
}

/// A device tells of each page.
#[test]
fn a_write_is_lost_once_however_many_pages_it_has() {
    let mut bench = lazy_drive();
    bench.write(0, 0, &[1; 262_144], 1);
    assert_eq!(bench.at(40_000).len(), 1);
    bench.write(50_000, 0, &[2; 262_144], 2);
    assert_eq!(bench.engine.after_power_cut(None).unwrap().unanswered, 1);
    bench.at(90_000);
    let after = bench.engine.after_power_cut(None).unwrap();
    assert_eq!((after.lost_writes, after.unanswered), (2, 0));
}

#[test]
fn what_fails_makes_nothing_durable() {
    let mut bench = lazy_drive();
    bench.write(0, 0, &[1; 4096], 1);
    assert_eq!(bench.at(10_000).len(), 1);
    bench
        .engine
        .inject(Rule { op: Some(Op::Flush), ..Rule::always(Kind::Slow(US), 0..4096) }, Wall(0));
    bench.engine.inject(Rule::always(Kind::Error, 0..4096), Wall(0));
    bench.ask(20_000, Command::Flush, 0);
    assert_eq!(bench.engine.next_due(), Wall(20_001 * US));
    let mut sink = bench.engine.begin_write(0, 4096).unwrap();
    bench.engine.data().write(&mut sink, &[2; 4096], &mut bench.pool);
    let fua = order(Command::Write { fua: true }, 0, 4096, 3);
    bench.engine.submit(Wall(30_000 * US), fua, Some(sink), &mut bench.pool);
    let mut failed = bench.at(50_000);
    failed.sort_by_key(|reply| reply.timing.due);
    assert_eq!(failed.len(), 2);
    assert!(failed.iter().all(|reply| reply.result == Err(Refusal::Io)));
    let due: Vec<u64> = failed.iter().map(|reply| reply.timing.due.0 / US).collect();
    assert_eq!((failed[0].order.command, due[0]), (Command::Flush, 20_001));
    assert!(failed[1].timing.modelled_ns.is_some());
    assert_eq!(bench.after_cut(60_000).0, 0);
}

#[test]
fn zeroes_are_lost_as_other_writes_are() {
    for may_discard in [false, true] {
        for fua in [false, true] {
            let mut bench = lazy_drive();
            bench.write(0, 0, &[1; 4096], 1);
            bench.ask(1_000, Command::Flush, 0);
            bench.at(20_000);
            bench.ask(20_000, Command::WriteZeroes { fua, may_discard }, 1 << 20);
            assert_eq!(bench.at(90_000).len(), 1);
            // What the device may discard is done when it is answered.
            let safe = fua || may_discard;
            assert_eq!(bench.after_cut(90_000).0, u8::from(!safe), "{may_discard} {fua}");
            bench.write(91_000, 0, &[2; 4096], 3);
            bench.ask(92_000, Command::Flush, 0);
            bench.at(180_000);
            bench.ask(180_000, Command::WriteZeroes { fua, may_discard }, 1 << 20);
            assert_eq!(bench.after_cut(180_000).0, 2, "it is not answered");
        }
    }
}

#[test]
fn by_the_contract_zeroes_are_at_risk_until_a_flush() {
    let mut bench = lazy_drive();
    bench.engine.data().keep_contract(true, sim::SECTOR_BYTES);
    let zeroes = Command::WriteZeroes { fua: false, may_discard: true };
    // What is zero already may be lost.
    bench.ask(0, zeroes, 1 << 20);
    bench.write(1_000, 4096, &[1; 1024], 1);
    bench.at(2_000);
    bench.ask(2_000, Command::Flush, 0);
    bench.at(20_000);
    assert!(!bench.engine.data().has_at_risk());
    bench.ask(20_000, zeroes, 1 << 20);
    bench.at(30_000);
    assert_eq!(bench.engine.data().at_risk(), [AtRisk { offset: 4096, bytes: 1024 }]);
    bench.ask(30_000, Command::Flush, 0);
    bench.at(50_000);
    assert!(!bench.engine.data().has_at_risk());
}
