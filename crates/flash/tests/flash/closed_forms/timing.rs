//! Timing against arithmetic: exact where the formula is exact.

use sim::{
    Completion, Demand, Device, Histogram, Lba, Nanos, Op, Outcome, Probe, Request, Rng, Stepper,
    Stop, Workload, WorkloadError,
};

use super::drive::{build, counters};

/// Default NAND: tR, tPROG, tBERS and the bus time of a 2 KiB page, in nanoseconds.
pub(crate) const R: u64 = 25_000;
pub(crate) const P: u64 = 200_000;
const E: u64 = 2_000_000;
pub(crate) const X: u64 = 51_200;

pub(crate) fn ssd(geometry: &str, rest: &str) -> Box<dyn Device> {
    build(&format!("[ssd]\n{rest}\n[ssd.geometry]\nblocks_per_plane = 32\n{geometry}"))
}

/// One die of one plane.
pub(crate) const ONE_DIE: &str = "channels = 1\ndies_per_package = 1\nplanes_per_die = 1\n";

/// A full drive of one die.
pub(crate) fn full(rest: &str) -> Stepper<Box<dyn Device>> {
    let mut device = ssd(ONE_DIE, rest);
    fill(&mut *device);
    Stepper::new(device)
}

/// How pages follow each other.
#[derive(Clone, Copy, PartialEq)]
enum Pages {
    InOrder,
    Random,
}

/// A fixed number of single-page requests in flight, or Poisson arrivals.
struct Load {
    op: Op,
    pages: Pages,
    rng: Rng,
    count: u64,
    next: u64,
    depth: u64,
    /// Mean time between arrivals, and the next arrival; closed when absent.
    arrivals: Option<(f64, Nanos)>,
}

impl Load {
    fn closed(op: Op, pages: Pages, device: &dyn Device, depth: u64) -> Load {
        let count = device.limits().sectors() / 4;
        Load { op, pages, rng: Rng::new(5, "load"), count, next: 0, depth, arrivals: None }
    }
}

impl Workload for Load {
    fn next(&mut self, now: Nanos) -> Result<Demand, WorkloadError> {
        if let Some((mean, at)) = &mut self.arrivals {
            if *at > now {
                return Ok(Demand::At(*at));
            }
            let gap = -*mean * libm::log(1.0 - self.rng.unit());
            *at += Nanos(gap.round() as u64);
        } else if self.depth == 0 {
            return Ok(Demand::Wait);
        }
        self.depth = self.depth.saturating_sub(1);
        let page = match self.pages {
            Pages::InOrder => self.next % self.count,
            Pages::Random => self.rng.below(self.count),
        };
        self.next += 1;
        Ok(Demand::Issue(Request::new(self.op, Lba(4 * page), 4)))
    }
    fn complete(&mut self, _request: &Request, _completion: Completion) {
        self.depth += 1;
    }
}

/// Completion times, to measure rates away from the ends of a run.
#[derive(Default)]
struct Times {
    at: Vec<Nanos>,
    response: Histogram,
}

impl Probe for Times {
    fn on_complete(&mut self, _request: &Request, issued: Nanos, completion: Completion) {
        self.at.push(completion.at);
        self.response.record(completion.at.since(issued).0);
    }
}

impl Times {
    /// Completions per second over the middle half of the run.
    fn rate(&self) -> f64 {
        let (from, to) = (self.at.len() / 4, self.at.len() * 3 / 4);
        (to - from) as f64 / self.at[to].since(self.at[from]).as_secs_f64()
    }
}

fn run(device: &mut dyn Device, load: &mut Load, requests: u64) -> (Times, Outcome) {
    let mut times = Times::default();
    let stop = Stop { requests, ..Stop::default() };
    let outcome = sim::simulate(device, load, Nanos::ZERO, stop, &mut times).expect("it runs");
    assert_eq!(outcome.in_flight_ns, outcome.response_ns, "Little's law");
    (times, outcome)
}

pub(crate) fn fill(device: &mut dyn Device) {
    let sectors = device.limits().sectors();
    device.apply(&Request::write(Lba(0), sectors as u32));
}

#[track_caller]
fn close(what: &str, got: f64, expected: f64, tolerance: f64) {
    let error = got / expected - 1.0;
    let percent = 100.0 * error;
    assert!(error.abs() <= tolerance, "{what}: {got} instead of {expected}, off by {percent:.3} %");
}

#[test]
fn interleaved_dies_reach_the_bounds_of_the_bus_and_the_dies() {
    // Four packages; MB/s of 2,048-byte pages for 1, 2 and 4 dies per package.
    let table = [
        ("", [(107.5, 32.61), (160.0, 65.22), (160.0, 130.45)]),
        ("nand.spare_on_bus = true", [(105.3, 32.41), (155.2, 64.81), (155.2, 129.62)]),
    ];
    for (nand, rows) in table {
        let x = if nand.is_empty() { X } else { 52_800 } as f64 / 1e9;
        for (n, (read, write)) in [1u32, 2, 4].into_iter().zip(rows) {
            let geometry = format!("dies_per_package = {n}\nplanes_per_die = 1\n");
            for (op, array, printed) in [(Op::Read, R, read), (Op::Write, P, write)] {
                let mut device = ssd(&geometry, nand);
                if op == Op::Read {
                    fill(&mut *device);
                }
                let mut load = Load::closed(op, Pages::InOrder, &*device, 64);
                let (times, _) = run(&mut *device, &mut load, 4_000);
                let die = array as f64 / 1e9 + x;
                let bound = 4.0 * (f64::from(n) / die).min(1.0 / x);
                let what = format!("{nand} {n} dies {}", op.name());
                close(&what, times.rate(), bound, 0.002);
                close(&what, bound * 2048.0 / 1e6, printed, 5e-4);
            }
        }
    }
}

#[test]
fn striping_eight_pages_over_two_packages() {
    let striped = "channels = 2\ndies_per_package = 2\nplanes_per_die = 2\n";
    for (geometry, expected) in [(ONE_DIE, 2_009_600), (striped, 553_600)] {
        let mut host = Stepper::new(ssd(geometry, ""));
        host.submit(Request::write(Lba(0), 32)).unwrap();
        assert!(host.run_until(Nanos(expected - 1)).is_empty(), "a tick early");
        assert_eq!(host.run_until(Nanos(expected)).len(), 1, "now");
    }
}

#[test]
fn a_single_operation_takes_its_time_to_the_nanosecond() {
    let mut device = ssd(ONE_DIE, "");
    fill(&mut *device);
    let mut host = Stepper::new(device);
    let started = host.now();
    host.submit(Request::read(Lba(0), 4)).unwrap();
    assert_eq!(host.drain()[0].at, started + Nanos(R + X));
    let started = host.now();
    host.submit(Request::write(Lba(0), 4)).unwrap();
    assert_eq!(host.drain()[0].at, started + Nanos(X + P));
}

/// Cost of collection, seen as media spans: m (R + P) + E.
#[test]
fn collecting_a_block_of_m_valid_pages_costs_m_moves_and_an_erase() {
    let mut device = ssd(ONE_DIE, "collection.start_free_percent = 0");
    fill(&mut *device);
    let before = counters(&*device);
    let mut host = Stepper::new(device);
    let (mut rng, mut gc_ns) = (Rng::new(3, "gc"), 0);
    let pages = host.device.limits().sectors() / 4;
    for _ in 0..4_000 {
        host.submit(Request::write(Lba(4 * rng.below(pages)), 4)).unwrap();
        host.drain();
        let spans = host.spans();
        let gc = spans.iter().filter(|span| span.cause == "gc");
        gc_ns += gc.map(|span| span.end.since(span.start).0).sum::<u64>();
    }
    let counted = counters(&*host.device).since(&before);
    let (moved, erased) = (counted.get("gc_pages_moved"), counted.get("flash_erases.gc"));
    assert!(moved > 1_000 && erased > 50, "{moved} pages moved, {erased} blocks erased");
    assert_eq!(gc_ns, moved * (R + P) + erased * E);
}

/// Die time per host page in steady random writing is X + P + (WAF - 1) c + WAF / b E, and a die
/// that always has work wastes none of it.
#[test]
fn saturated_random_writes_take_the_die_time_of_their_amplification() {
    let cases = [("", R + P), ("nand.copy_back = false", R + 2 * X + P)];
    for (nand, move_ns) in cases {
        let mut device = ssd(
            ONE_DIE,
            &format!(
                "{nand}\nover_provisioning.live_percent = 75\ncollection.start_free_percent = 0"
            ),
        );
        fill(&mut *device);
        let before = counters(&*device);
        let mut load = Load::closed(Op::Write, Pages::Random, &*device, 8);
        let (_, outcome) = run(&mut *device, &mut load, 20_000);
        let counted = counters(&*device).since(&before);
        let host = counted.get("flash_programs.host");
        let moved = counted.get("flash_programs.gc");
        let erased = counted.get("flash_erases.gc");
        let expected = host * (X + P) + moved * move_ns + erased * E;
        close(nand, outcome.end.0 as f64, expected as f64, 1e-3);
    }
}

/// Mean response over service time of the M/D/1 queue at `load`.
fn md1_theory(load: f64) -> f64 {
    1.0 + load / (2.0 * (1.0 - load))
}

/// Poisson arrivals at one die that reads for S = 76.2 us: the M/D/1 queue.
fn md1(load: f64, requests: u64) -> f64 {
    let mut device = ssd(ONE_DIE, "queue_depth_max = 65536");
    fill(&mut *device);
    let mean = (R + X) as f64 / load;
    let mut arrivals = Load::closed(Op::Read, Pages::Random, &*device, 0);
    arrivals.arrivals = Some((mean, Nanos::ZERO));
    let (times, _) = run(&mut *device, &mut arrivals, requests);
    times.response.mean().unwrap() / 1e3
}

#[test]
fn one_die_is_an_md1_queue() {
    for (load, printed) in [(0.5, 114.3), (0.8, 228.6), (0.9, 419.1)] {
        close("theory", 76.2 * md1_theory(load), printed, 1e-3);
    }
    close("load 0.5", md1(0.5, 100_000), 114.3, 0.01);
    close("load 0.8", md1(0.8, 150_000), 228.6, 0.02);
}

#[test]
#[ignore = "a minute: part of the long tests"]
fn one_die_is_an_md1_queue_at_high_load() {
    for (load, mean) in [(0.5, 114.3), (0.8, 228.6), (0.9, 419.1)] {
        close(&format!("load {load}"), md1(load, 4_000_000), mean, 0.01);
    }
}

/// Throughput at depth q never exceeds min(q / S_total, 1 / S_bottleneck); it reaches the first at
/// depth 1 and the second at great depth.
#[test]
fn a_closed_network_stays_below_its_asymptotes() {
    // Four dies on a channel: its bus is the bottleneck.
    let geometry = "channels = 1\ndies_per_package = 4\nplanes_per_die = 1\n";
    let (total, bottleneck) = ((R + X) as f64 / 1e9, X as f64 / 1e9);
    for depth in [1u64, 2, 3, 4, 8, 64] {
        let mut device = ssd(geometry, "");
        fill(&mut *device);
        let mut load = Load::closed(Op::Read, Pages::Random, &*device, depth);
        let (times, _) = run(&mut *device, &mut load, 8_000);
        let bound = (depth as f64 / total).min(1.0 / bottleneck);
        assert!(times.rate() <= bound * 1.000_001, "depth {depth}: {} > {bound}", times.rate());
        if depth == 1 || depth == 64 {
            close(&format!("depth {depth}"), times.rate(), bound, 1e-3);
        }
    }
}

#[test]
fn units_below_the_flashs_page_share_a_program_and_parity_takes_its_share() {
    let page = 4.0 * X as f64 + P as f64;
    for (nand, share) in [("", 1.0), ("\nnand.parity_every = 4", 1.25)] {
        let rest = format!("nand.units_per_page = 4{nand}");
        let mut device = ssd(ONE_DIE, &rest);
        let mut load = Load::closed(Op::Write, Pages::InOrder, &*device, 64);
        let (times, _) = run(&mut *device, &mut load, 1_200);
        close(&rest, times.rate(), 4e9 / (share * page), 0.002);
        let counted = counters(&*device);
        let parity = counted.get("flash_bytes_programmed.parity");
        assert_eq!(parity, if share > 1.0 { 1_200 * 2048 / 4 } else { 0 });
    }
}

#[test]
fn units_on_different_planes_are_read_at_once() {
    let x = X as f64;
    // The last: both planes, and both units that each has of a page.
    for (units, as_one, each) in [(2, 1, 1.0), (2, 2, 2.0), (4, 2, 4.0)] {
        let together = (R as f64 + each * x) / each;
        let rest = format!("nand = {{ units_per_page = {units}, planes_as_one = {as_one} }}");
        let mut device = ssd(ONE_DIE, &rest);
        fill(&mut *device);
        let mut load = Load::closed(Op::Read, Pages::InOrder, &*device, 8);
        let (times, _) = run(&mut *device, &mut load, 1_200);
        close(&rest, times.rate(), 1e9 / together, 0.002);
    }
}

#[test]
fn a_die_with_a_cache_register_reads_on_while_data_go_out() {
    for (cache, bus, x) in [(false, 40, X), (true, 40, X), (true, 160, X / 4)] {
        let rest = format!("nand = {{ cache_read = {cache}, bus = '{bus}MB/s' }}");
        let each = if cache { R.max(x) } else { R + x };
        for (depth, each) in [(1, R + x), (8, each)] {
            let mut device = ssd(ONE_DIE, &rest);
            fill(&mut *device);
            let mut load = Load::closed(Op::Read, Pages::InOrder, &*device, depth);
            let (times, _) = run(&mut *device, &mut load, 1_200);
            close(&rest, times.rate(), 1e9 / each as f64, 0.002);
        }
    }
}

/// The third read is a long one. It begins when the data of the second leave the page register,
/// which they do when those of the first are out; a program begins behind them all.
#[test]
fn a_read_waits_in_the_page_register_for_the_cache_register() {
    let rest = "nand = { cache_read = true, read = ['25us', '25us', '100us'] }";
    let mut host = full(rest);
    for page in [0, 1, 2] {
        host.submit(Request::read(Lba(page * 4), 4)).unwrap();
    }
    host.submit(Request::write(Lba(0), 4)).unwrap();
    let mut ends: Vec<_> = host.drain().iter().map(|done| (done.id.0, done.at.0)).collect();
    ends.sort_unstable();
    let third = R + X + 100_000 + X;
    assert_eq!(ends, [(0, R + X), (1, R + 2 * X), (2, third), (3, third + X + P)]);
}

/// Every block has been read so often before that this run changes nothing.
#[test]
fn a_page_of_a_block_that_was_read_often_is_read_again() {
    let (reads, before) = (100_000_000, 60_000_000);
    let nand = format!(
        "nand.retry = {{ reads = {reads}, reads_before = {before}, shape = 2, step = '50us', \
         more = 0.1, most = 4 }}"
    );
    let mut device = ssd(ONE_DIE, &nand);
    fill(&mut *device);
    let mut load = Load::closed(Op::Read, Pages::Random, &*device, 1);
    let (times, _) = run(&mut *device, &mut load, 40_000);
    let mut counters = sim::Counters::default();
    device.counters(&mut counters);
    let share = |k: u32| {
        let scaled = before as f64 / reads as f64 / (1.0 + 0.1 * f64::from(k - 1));
        1.0 - (-scaled.powi(2)).exp()
    };
    let more: f64 = (1..=4).map(share).sum();
    // 2,048 pages, of which the expected share has a standard deviation of 3 %.
    close("a read", times.rate(), 1e9 / ((R + X) as f64 + 50_000.0 * more), 0.04);
    let repeated = counters.get("retried_reads") as f64 / 40_000.0;
    close("repeated", repeated, share(1), 0.1);
}

#[test]
fn a_small_part_of_a_page_is_read_sooner() {
    let nand = "nand.read_small = { up_to = '1KiB', read = ['10us'] }";
    for (sectors, array) in [(1, 10_000), (2, 10_000), (3, R), (4, R)] {
        let end = full(nand).answered(Request::read(Lba(0), sectors));
        assert_eq!(end.0, array + u64::from(sectors) * X / 4, "{sectors} sectors");
    }
}

/// A codeword is corrected as a whole, and a whole page is what it was.
#[test]
fn a_read_transfers_a_codeword_at_least() {
    for (sectors, transferred) in [(1, 2), (2, 2), (3, 3), (4, 4)] {
        let end = full("nand.transfer_least = '1KiB'").answered(Request::read(Lba(0), sectors));
        assert_eq!(end.0, R + transferred * X / 4, "{sectors} sectors");
    }
}

/// Writes by Poisson arrivals into a buffer with a pace, whose flash is far quicker: the M/D/1
/// queue whose service is the pace. (Waits spread more than responses: the tolerances are three
/// standard errors.) All at once, one page is taken in each interval.
#[test]
fn a_paced_buffer_is_an_md1_queue() {
    let rest = "queue_depth_max = 65536\nbuffer = { capacity = '64KiB', access = '0us', \
                pace = { page = '100us' } }";
    let fast = "channels = 4\ndies_per_package = 4\nplanes_per_die = 1\n";
    for (load, requests, tolerance) in [(0.5, 60_000, 0.04), (0.8, 100_000, 0.06)] {
        let mut device = ssd(fast, rest);
        let mut arrivals = Load::closed(Op::Write, Pages::InOrder, &*device, 0);
        arrivals.arrivals = Some((1e5 / load, Nanos::ZERO));
        let (times, _) = run(&mut *device, &mut arrivals, requests);
        // A page that is taken in is answered at once: what is left is the wait.
        let waits = 100.0 * (md1_theory(load) - 1.0);
        close(&format!("load {load}"), times.response.mean().unwrap() / 1e3, waits, tolerance);
    }
    let mut device = ssd(fast, rest);
    let mut load = Load::closed(Op::Write, Pages::InOrder, &*device, 64);
    let (times, _) = run(&mut *device, &mut load, 4_000);
    close("all at once", times.rate(), 1e4, 1e-6);
}

/// A read that comes 50 us into a program of 200 us: it pushes that aside for 5 us, but where
/// writes wait for room and programs come first it waits for its end.
#[test]
fn programs_are_not_suspended_while_writes_wait_for_room() {
    for (buffer, waits) in [("", 5_000), (", suspend_when_full = false", 150_000)] {
        let rest = format!(
            "nand.program_suspend = '5us'\nbuffer = {{ capacity = '2KiB', access = '0us'{buffer} }}"
        );
        assert_eq!(read_beside_a_program(&rest, 2), waits, "{rest}");
    }
}

/// A read that comes 50 us into a program of 200 us, on a die with nothing else to do.
fn read_beside_a_program(rest: &str, writes: u64) -> u64 {
    let mut host = full(rest);
    for page in 0..writes {
        host.submit(Request::write(Lba(4 * page), 4)).unwrap();
    }
    let now = Nanos(X + 50_000);
    host.run_until(now);
    host.answered(Request::read(Lba(400), 4)).since(now).0 - R - X
}

/// It waits until the program has run for long enough to be suspended, and 5 us for that.
#[test]
fn a_program_runs_for_a_while_before_it_can_be_suspended() {
    for (after, waits) in [("", 5_000), ("40us", 5_000), ("120us", 75_000), ("195us", 150_000)] {
        let after = match after {
            "" => String::new(),
            after => format!("nand.suspend_after = '{after}'\n"),
        };
        let rest = format!("nand.program_suspend = '5us'\n{after}");
        assert_eq!(read_beside_a_program(&rest, 1), waits, "{rest}");
    }
}

/// A program of 50 ms that is pushed aside 2,400 times: an old end of its array phase is not taken
/// for the present one, though a die counts to 256 only.
#[test]
fn a_program_that_is_suspended_again_and_again_takes_its_time() {
    let mut host = full("nand.program = ['50ms']\nnand.program_suspend = '5us'");
    host.submit(Request::write(Lba(0), 4)).unwrap();
    let (mut now, mut early) = (Nanos(X), Vec::new());
    for id in 1..=2_400 {
        let next = now + Nanos(20_000);
        early.extend(host.run_until(next));
        now = host.answered(Request::read(Lba(400), 4));
        assert_eq!(now.since(next).0, 5_000 + R + X, "read {id}");
    }
    assert!(early.is_empty(), "{early:?}");
    assert_eq!(host.drain()[0].at.0, X + 50_000_000 + 2_400 * (5_000 + R + X));
}

/// The first write is being programmed, the others wait for their pace.
#[test]
fn programs_hold_while_many_writes_wait_for_their_pace() {
    for (hold, writes, waits) in
        [("", 4, 5_000), ("hold_at_waiting = 3,", 3, 5_000), ("hold_at_waiting = 3,", 4, 150_000)]
    {
        let rest = format!(
            "nand.program_suspend = '5us'\nbuffer = {{ capacity = '64KiB', access = '0us', {hold} \
             suspend_when_full = false, pace = {{ page = '10ms' }} }}"
        );
        assert_eq!(read_beside_a_program(&rest, writes), waits, "{hold} {writes}");
    }
}

/// A process with 64 writes outstanding, and one that asks for one thing: where four commands fit
/// inside, that waits for these and the one whose turn came first, and for all of them where
/// everything is fetched.
#[test]
fn a_quiet_process_waits_for_the_commands_inside_only() {
    for (host, ahead) in [("", 64), ("host.commands = 4", 5)] {
        let rest = format!(
            "{host}\nbuffer = {{ capacity = '1MiB', access = '0us', pace = {{ page = '100us' }} }}"
        );
        let mut host = Stepper::new(ssd(ONE_DIE, &rest));
        let write = |process, page: u64| Request { process, ..Request::write(Lba(4 * page), 4) };
        for page in 0..64 {
            host.submit(write(1, page)).unwrap();
        }
        let end = host.answered(write(2, 100));
        assert_eq!(end.0, ahead * 100_000, "{rest}");
    }
}

/// One die, host and collector in turns: while pages are moved, none of the host is programmed, and
/// what all writes take is the same as without turns.
#[test]
fn turns_cost_the_host_its_wait_and_no_throughput() {
    let rate = |turns: &str, pace: &str| {
        let rest = format!(
            "over_provisioning = {{ live_percent = 70 }}\nnand.copy_back = false\n\
             buffer = {{ capacity = '8KiB', access = '0us'{pace} }}\n\
             collection = {{ step_pages = 16, start_free_percent = 20{turns} }}"
        );
        let mut device = ssd(ONE_DIE, &rest);
        fill(&mut *device);
        let mut load = Load::closed(Op::Write, Pages::Random, &*device, 8);
        let (_, aged) = run(&mut *device, &mut load, 4_000);
        let mut load = Load::closed(Op::Write, Pages::Random, &*device, 8);
        load.rng = Rng::new(6, "load");
        let mut times = Times::default();
        let stop = Stop { requests: 8_000, ..Stop::default() };
        sim::simulate(&mut *device, &mut load, aged.end, stop, &mut times).expect("it runs");
        let half = times.response.quantile(0.5).unwrap();
        (times.rate(), half, times.response.max().unwrap())
    };
    let (shared, ..) = rate("", "");
    let (turns, half, longest) = rate(", turn_pages = 16", "");
    close("turns", turns, shared, 0.1);
    assert!(longest >= 16 * (X + P), "a turn of 16 moves was not felt: {longest} ns");
    // A pace that lets hardly anything in holds in the collector's turn, and costs the host nothing
    // in its own.
    let (paced, sooner, _) =
        rate(", turn_pages = 16", ", pace = { page = '50ms', in_turns = true }");
    close("turns at a pace", paced, turns, 0.1);
    // The buffer's pages are programmed in that turn, too, which makes room.
    assert!(sooner * 10 < half * 9, "half of them took {sooner} ns, without a pace {half}");
    let (always, ..) = rate(", turn_pages = 16", ", pace = { page = '50ms' }");
    close("always at that pace", always, 20.0, 0.1);
}
