use std::collections::BTreeMap;

use sim::testing::FixedDelay;
use sim::{
    Bytes, Completion, Demand, Limits, Nanos, Op, Priority, PriorityClass, Probe, Request, Rng,
    Stop, simulate,
};

use super::*;

/// Everything that was issued, and when.
#[derive(Default)]
struct Issued(Vec<(Nanos, Request)>);

impl Probe for Issued {
    fn on_issue(&mut self, now: Nanos, request: &Request) {
        self.0.push((now, *request));
    }
    fn on_complete(&mut self, _request: &Request, _issued: Nanos, _completion: Completion) {}
}

const DELAY: Nanos = Nanos(10_000);

fn limits(capacity: u64) -> Limits {
    Limits {
        capacity: Bytes(capacity),
        block_bytes: 512,
        queue_depth_max: 1024,
        rotational: false,
        write_cache: true,
        discard: true,
    }
}

pub(super) fn plan(capacity: u64, text: &str) -> Result<JobPlan, ConfigError> {
    let open = |_: &str| Ok(Box::new(std::io::Cursor::new(text.to_owned())) as Box<_>);
    let rng = Rng::new(1, "workload");
    let context = Context { rng, limits: limits(capacity), open: &open };
    Params { file: Some("job.fio".into()), ..Params::default() }.plan(&context)
}

/// Jobs with as many requests in flight as `iodepth` says, which do not wait for them before they
/// pause for a rate.
fn deep(text: &str) -> String {
    format!("[global]\nioengine=libaio\nio_submit_mode=offload\n{text}")
}

/// Run a job file on a device that takes 10 us for every request, all at once.
pub(super) fn run(text: &str, requests: u64) -> Vec<(Nanos, Request)> {
    run_on(1 << 30, text, requests)
}

fn run_on(capacity: u64, text: &str, requests: u64) -> Vec<(Nanos, Request)> {
    run_plan(&plan(capacity, &deep(text)).unwrap(), requests)
}

/// As [`run`], with this engine and fio's usual way to submit.
pub(super) fn run_by(engine: &str, text: &str, requests: u64) -> Vec<(Nanos, Request)> {
    run_plan(&plan(1 << 30, &format!("[global]\nioengine={engine}\n{text}")).unwrap(), requests)
}

/// As [`run`], of a study's own table.
pub(super) fn run_table(table: &str, requests: u64) -> Vec<(Nanos, Request)> {
    let open = |_: &str| Err(std::io::ErrorKind::NotFound.into());
    let context = Context { rng: Rng::new(1, "workload"), limits: limits(1 << 30), open: &open };
    let params: Params = toml::from_str(table).unwrap();
    run_plan(&params.plan(&context).unwrap(), requests)
}

fn run_plan(plan: &JobPlan, requests: u64) -> Vec<(Nanos, Request)> {
    let mut workload = plan.start();
    let mut device = FixedDelay::new(DELAY, 1024);
    let stop = Stop { requests, ..Stop::default() };
    let mut issued = Issued::default();
    let outcome = simulate(&mut device, &mut workload, Nanos::ZERO, stop, &mut issued).unwrap();
    assert_eq!(outcome.requests, issued.0.len() as u64);
    issued.0
}

fn lbas(issued: &[(Nanos, Request)]) -> Vec<u64> {
    issued.iter().map(|(_, r)| r.lba.0).collect()
}

pub(super) fn micros(issued: &[(Nanos, Request)]) -> Vec<u64> {
    issued.iter().map(|(t, _)| t.0 / 1000).collect()
}

#[test]
fn a_study_table_and_a_job_file_make_the_same_requests() {
    let open = |_: &str| Err(std::io::ErrorKind::NotFound.into());
    let context = Context { rng: Rng::new(1, "workload"), limits: limits(1 << 30), open: &open };
    let table = "rw = \"randrw\"\nbs = \"4KiB\"\nrwmixread = 70\niodepth = 4\nsize = \"50%\"";
    let params: Params = toml::from_str(table).unwrap();
    let table = params.plan(&context).unwrap();
    let file = deep("[fio]\nrw=randrw\nbs=4k\nrwmixread=70\niodepth=4\nsize=50%");
    let file = plan(1 << 30, &file).unwrap();
    let (mut a, mut b) = (table.start(), file.start());
    for _ in 0..4 {
        assert_eq!(a.next(Nanos::ZERO), b.next(Nanos::ZERO));
    }
    let again: Params = toml::from_str(&toml::to_string(&params).unwrap()).unwrap();
    assert_eq!(again, params);
}

#[test]
fn a_wrong_table_names_its_key() {
    let open = |name: &str| Err(std::io::Error::other(format!("no {name}")));
    let context = Context { rng: Rng::new(1, "w"), limits: limits(1 << 20), open: &open };
    let error = |text: &str| {
        let params: Params = toml::from_str(text).unwrap();
        params.plan(&context).unwrap_err().to_string()
    };
    assert_eq!(error("runtime = 10").split(':').next(), Some("runtime"));
    assert!(error("bs = \"4kb\"").starts_with("bs: expected a size such as 4k or 1g with one"));
    assert!(error("iodepth = true").starts_with("iodepth: expected a whole number, got \"true\""));
    assert!(error("size = \"2MiB\"").contains("reaches beyond the device's end at 1 MiB"));
    assert!(error("size = \"2kB\"").contains("at least one block of 4 KiB, got 1.50 KiB"));
    assert!(error("offset = \"100%\"").starts_with("offset: job \"fio\": clone 0 starts at"));
    assert!(error("file = \"a.fio\"").contains("a.fio: no a.fio"));
    assert!(error("file = \"a.fio\"\nbs = \"4KiB\"").starts_with("bs: no key stands beside"));
    let refused = |text| toml::from_str::<Params>(text).unwrap_err().to_string();
    assert!(refused("iodpeth = 1").contains("unknown field `iodpeth`"));
    let float = refused("iodepth = 1.5");
    assert!(float.contains("line 1, column 11") && float.contains("a whole number"), "{float}");
    assert!(refused("iodepth = -1").contains("`-1`, expected a whole number"));
}

#[test]
fn jobs_that_do_not_fit_are_refused() {
    let error = |job: &str| plan(1 << 20, job).unwrap_err().to_string();
    let many = "[a]\nnumjobs=4096\n[b]";
    assert_eq!(error(many), "numjobs: expected at most 4096 jobs in all, got 4097");
    let clones = "[a]\nsize=128k\nnumjobs=9\noffset_increment=128k";
    assert!(error(clones).starts_with("offset: job \"a\": clone 8 starts at or behind"));
}

#[test]
fn sequential_jobs_cover_their_region_in_order_and_stop() {
    let issued = run("[a]\nrw=read\noffset=1m\nsize=64k\nbs=4k\niodepth=3", 1000);
    let expected: Vec<u64> = (0..16).map(|i| 2048 + i * 8).collect();
    assert_eq!(lbas(&issued), expected);
    assert!(issued.iter().all(|(_, r)| r.op == Op::Read && r.sectors == 8));
    let twice = run("[a]\nrw=write\nsize=10k\nbs=4k\nloops=2", 1000);
    assert_eq!(lbas(&twice), [0, 8, 0, 8], "the partial block at the end is left out");
    let holes = run("[a]\nrw=read:4k\nbs=4k\nsize=32k\nnumber_ios=4", 1000);
    assert_eq!(lbas(&holes), [0, 16, 32, 48]);
    let backwards = run("[a]\nrw=read:-8k\nbs=4k\nsize=16k\nnumber_ios=4", 1000);
    assert_eq!(lbas(&backwards), [16, 8, 0, 16]);
}

#[test]
fn random_jobs_touch_every_block_once_per_pass() {
    for rw in ["randread", "randrw", "randtrim"] {
        let issued = run(&format!("[a]\nrw={rw}\nbs=4k\nsize=1000k\nloops=2\niodepth=8"), 5000);
        for pass in lbas(&issued).chunks(250) {
            let mut blocks: Vec<u64> = pass.iter().map(|lba| lba / 8).collect();
            blocks.sort_unstable();
            assert!(blocks.iter().copied().eq(0..250), "{rw}");
        }
        assert_eq!(issued.len(), 500);
    }
}

#[test]
fn an_alignment_that_is_the_block_size_keeps_the_map() {
    let mut blocks = lbas(&run("[a]\nrw=randread\nbs=4k\nba=4k\nsize=64k", 100));
    blocks.sort_unstable();
    assert!(blocks.iter().copied().eq((0..16).map(|block| 8 * block)), "{blocks:?}");
}

#[test]
fn without_the_map_blocks_repeat_and_stay_uniform() {
    let job = "[a]\nrw=randread\nbs=4k\nsize=400k\nnorandommap\nio_size=1g";
    let mut counts = [0u32; 100];
    lbas(&run(job, 100_000)).iter().for_each(|lba| counts[(lba / 8) as usize] += 1);
    let chi: f64 = counts.iter().map(|&c| (f64::from(c) - 1000.0).powi(2) / 1000.0).sum();
    // 99 degrees of freedom: 99.99 % lie below 161.
    assert!(chi < 161.0, "chi-square {chi}");
}

#[test]
fn mixes_and_splits_have_their_shares() {
    let job = "[a]\nrw=randrw\nrwmixread=70\nbssplit=4k/50:16k/30:64k/20\nsize=100m\nio_size=10g";
    let issued = run(job, 50_000);
    let share = |test: &dyn Fn(&Request) -> bool| {
        issued.iter().filter(|(_, r)| test(r)).count() as f64 / issued.len() as f64
    };
    let near = |got: f64, p: f64| (got - p).abs() < 4.0 * (p * (1.0 - p) / 5e4).sqrt();
    assert!(near(share(&|r| r.op == Op::Read), 0.7));
    for (sectors, p) in [(8, 0.5), (32, 0.3), (128, 0.2)] {
        assert!(near(share(&|r| r.sectors == sectors), p), "{sectors} sectors");
    }
    let range = run("[a]\nrw=randread\nbsrange=4k-16k\nsize=100m\nio_size=1g", 20_000);
    let mut sizes = BTreeMap::new();
    range.iter().for_each(|(_, r)| *sizes.entry(r.sectors).or_insert(0u32) += 1);
    assert!(sizes.keys().copied().eq([8, 16, 24, 32]), "{sizes:?}");
    assert!(sizes.values().all(|&n| n.abs_diff(5000) < 250), "{sizes:?}");
}

#[test]
fn a_rate_issues_exactly_on_its_schedule() {
    // 4 KiB at 40,960,000 B/s: one every 100 us; 3000 a second: one every 1/3 ms, never drifting.
    assert_eq!(micros(&run("[a]\nrw=write\nbs=4k\nrate=40960000", 5)), [0, 100, 200, 300, 400]);
    let times = run("[a]\nrw=read\nrate_iops=3000\niodepth=64", 3001);
    assert_eq!(times[3000].0, Nanos::from_secs(1));
    assert_eq!(times[1].0, Nanos(333_333));
    // A device slower than the rate is simply busy: the job catches up as a closed loop.
    let slow = run("[a]\nrw=read\nrate_iops=200000\niodepth=1", 5);
    assert_eq!(micros(&slow), [0, 10, 20, 30, 40]);
}

#[test]
fn requests_a_second_are_counted_where_their_sizes_are_drawn() {
    let job = "[a]\nrw=randread\nsize=100m\nrate_iops=1000\nbssplit=4k/50:64k/50\niodepth=32";
    assert_eq!(run(job, 100)[99].0, Nanos::from_millis(99));
    // Of a range fio counts bytes of the smallest.
    let range = job.replace("bssplit=4k/50:64k/50", "bsrange=4k-64k");
    let (_, last) = run(&range, 100).split_last().map(|(last, all)| (all.len(), last.0)).unwrap();
    assert!(last > Nanos::from_millis(500), "{last}");
}

#[test]
fn a_job_of_a_file_waits_for_its_requests_before_it_pauses_for_its_rate() {
    let job = "[a]\nrw=read\nrate_iops=100000\niodepth=4";
    let of = |mode: &str| {
        let text = format!("[global]\nioengine=libaio\n{mode}\n{job}");
        let plan = plan(1 << 30, &text).unwrap();
        let mut device = FixedDelay::new(Nanos(25_000), 1024);
        let (start, stop) = (Nanos::ZERO, Stop { requests: 8, ..Stop::default() });
        let mut issued = Issued::default();
        simulate(&mut device, &mut plan.start(), start, stop, &mut issued).unwrap();
        (micros(&issued.0), plan.notes.iter().any(|note| note.contains("io_submit_mode=offload")))
    };
    // With 10 us to go it waits for 25 us, then sleeps the 10: the next three are due; then 5.
    assert_eq!(of(""), (vec![0, 35, 35, 35, 65, 65, 65, 95], true));
    assert_eq!(of("io_submit_mode=inline").0, of("").0);
    assert_eq!(of("io_submit_mode=offload"), (vec![0, 10, 20, 30, 40, 50, 60, 70], false));
}

#[test]
fn a_job_that_falls_behind_its_rate_says_so() {
    let notes = |keys: &str, requests| {
        let text = deep(&format!("[slow]\nrw=read\nloops=1000\n{keys}"));
        let mut workload = plan(1 << 30, &text).unwrap().start();
        let mut device = FixedDelay::new(DELAY, 1024);
        let stop = Stop { requests, ..Stop::default() };
        simulate(&mut device, &mut workload, Nanos::ZERO, stop, &mut sim::NoProbe).unwrap();
        let behind = |note: &String| note.contains("behind its rate");
        workload.notes().into_iter().filter(behind).collect::<Vec<_>>()
    };
    // 10 us each, one at a time, asked for each 5: the 1001st is 5 ms late.
    let told = notes("rate_iops=200000", 1001);
    let said = "job \"slow\" was up to 5 ms behind its rate";
    assert!(told.len() == 1 && told[0].starts_with(said), "{told:?}");
    assert!(told[0].contains("raise iodepth"), "{told:?}");
    for kept in ["rate_iops=200000\niodepth=2", "rate_iops=90000", ""] {
        assert_eq!(notes(kept, 1001), Vec::<String>::new(), "{kept}");
    }
}

#[test]
fn each_direction_of_a_mix_has_its_own_rate() {
    let job =
        "[a]\nrw=randrw\nbs=4k\nrate_iops=1000,500\niodepth=32\nruntime=2\ntime_based\nsize=1g";
    let issued = run(job, 1_000_000);
    let reads = issued.iter().filter(|(_, r)| r.op == Op::Read).count();
    assert!(reads.abs_diff(2000) <= 1 && (issued.len() - reads).abs_diff(1000) <= 1, "{reads}");
}

#[test]
fn poisson_arrivals_have_exponential_gaps_and_ignore_completions() {
    let job =
        "[a]\nrw=randread\nnorandommap\nrate_iops=50000\nrate_process=poisson\niodepth=100000";
    let issued = run(job, 100_000);
    let gaps: Vec<f64> =
        issued.windows(2).map(|pair| pair[1].0.since(pair[0].0).0 as f64 / 20_000.0).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let square = gaps.iter().map(|g| g * g).sum::<f64>() / gaps.len() as f64;
    // Sigma of the mean is 1/sqrt(n), of the mean square sqrt(20/n).
    assert!((mean - 1.0).abs() < 0.013, "mean {mean}");
    assert!((square - 2.0).abs() < 0.06, "mean square {square}");
    let short = gaps.iter().filter(|&&g| g < 0.1).count() as f64 / gaps.len() as f64;
    assert!((short - (1.0 - (-0.1f64).exp())).abs() < 0.004, "below a tenth: {short}");
}

/// M/D/1: the mean response is D (1 + rho / (2 (1 - rho))).
#[test]
fn poisson_arrivals_at_one_server_wait_as_queueing_theory_says() {
    for (iops, rho) in [(30_000, 0.3), (80_000, 0.8)] {
        let job = format!(
            "[a]\nrw=randread\nnorandommap\nio_size=100g\nrate_iops={iops}\n\
             rate_process=poisson\niodepth=1000000"
        );
        let mut workload = plan(1 << 30, &deep(&job)).unwrap().start();
        let mut device = FixedDelay::new(DELAY, 1);
        let stop = Stop { requests: 400_000, ..Stop::default() };
        let start = Nanos::ZERO;
        let run = simulate(&mut device, &mut workload, start, stop, &mut sim::NoProbe).unwrap();
        let mean = run.response_ns as f64 / run.requests as f64;
        let theory = 10_000.0 * (1.0 + rho / (2.0 * (1.0 - rho)));
        assert!((mean / theory - 1.0).abs() < 0.015, "rho {rho}: {mean} against {theory}");
    }
}

#[test]
fn think_time_counts_from_the_completion() {
    let times = micros(&run("[a]\nrw=read\nbs=4k\nthinktime=40", 4));
    assert_eq!(times, [0, 50, 100, 150]);
    let pairs = micros(&run("[a]\nrw=read\nbs=4k\nthinktime=40us\nthinktime_blocks=2", 6));
    assert_eq!(pairs, [0, 10, 60, 70, 120, 130]);
    // At a depth of 4 the queue is full when the first completes; then it drains. What completed
    // meanwhile counts for the next pause, which comes behind one request.
    let deep = micros(&run("[a]\nrw=read\nbs=4k\nthinktime=40\niodepth=4", 8));
    assert_eq!(deep, [0, 0, 0, 0, 50, 100, 150, 200]);
    // Bursts of as many as are counted; before the first pause the queue was filled.
    let bursts = "[a]\nrw=read\nbs=4k\nthinktime=40\niodepth=3\nthinktime_blocks=3";
    assert_eq!(micros(&run(bursts, 11)), [0, 0, 0, 10, 10, 60, 60, 60, 110, 110, 110]);
    // The pause comes where fio looks, behind the next write, and before its flush.
    let flushed = "rw = 'write'\nthinktime = '40us'\niodepth = 3\nthinktime_blocks = 3\nfsync = 3";
    let issued = run_table(flushed, 10);
    assert_eq!(micros(&issued), [0, 0, 0, 10, 20, 70, 70, 80, 90, 140]);
    let flushes = |(_, request): &(Nanos, Request)| request.op == Op::Flush;
    assert!((0..10).all(|nth| flushes(&issued[nth]) == [3, 7].contains(&nth)));
    // libaio flushes with the others unreaped: two more fill its queue.
    let flushed = "[a]\nrw=write\nbs=4k\nthinktime=40\niodepth=3\nthinktime_blocks=3\nfsync=3";
    let issued = run_by("libaio", flushed, 8);
    assert_eq!(micros(&issued), [0, 0, 0, 10, 20, 20, 70, 70]);
    assert!((0..8).all(|nth| flushes(&issued[nth]) == [3, 7].contains(&nth)));
    let both = "[a]\nrw=write\nbs=4k\nthinktime=40\nthinktime_blocks=2\nfsync=2";
    let issued = run_by("libaio", both, 6);
    assert_eq!(micros(&issued), [0, 10, 60, 70, 80, 130]);
    assert!(flushes(&issued[2]) && flushes(&issued[5]));
    let issue = "[a]\nrw=read\nbs=4k\nthinktime=40\niodepth=4\nthinktime_blocks_type=issue";
    assert_eq!(micros(&run(issue, 3)), [0, 50, 100]);
}

#[test]
fn a_pause_is_caught_up_unless_told_otherwise() {
    let base = "[a]\nrw=read\nbs=4k\nrate_iops=50000\nthinktime=100\nthinktime_blocks=4\n";
    let caught_up = micros(&run(base, 8));
    assert_eq!(caught_up, [0, 20, 40, 60, 170, 180, 190, 200]);
    let ignored = micros(&run(&format!("{base}rate_ignore_thinktime"), 8));
    assert_eq!(ignored, [0, 20, 40, 60, 180, 200, 220, 240]);
}

#[test]
fn requests_are_counted_per_loop_and_not_at_all_by_time() {
    assert_eq!(run("[a]\nrw=read\nsize=1m\nnumber_ios=5\nloops=3", 100).len(), 15);
    let timed = "[a]\nrw=read\nsize=1m\nnumber_ios=5\ntime_based\nruntime=1ms";
    assert_eq!(run(timed, 1000).len(), 100);
}

#[test]
fn a_start_delay_counts_from_the_start_of_the_run() {
    let jobs = |delay: &str| {
        let job = format!(
            "[global]\nrw=read\nbs=4k\ntime_based\nruntime=1ms\n[a]\n[b]\nstonewall\n\
             startdelay={delay}"
        );
        let issued = run(&job, 10_000);
        issued.iter().find(|(_, request)| request.process == 2).unwrap().0
    };
    assert_eq!(jobs("3ms"), Nanos::from_millis(3));
    // The wall is later.
    assert_eq!(jobs("500us"), Nanos::from_millis(1));
}

#[test]
fn writes_are_waited_for_where_fio_waits() {
    let keys = [("", false), ("direct=1", true), ("sync=1", true), ("buffered=0", true)];
    let later = [("direct=1\nbuffered=1", false), ("buffered=1\ndirect=1", true)];
    for (keys, sync) in keys.into_iter().chain(later) {
        let issued = run(&format!("[a]\nrw=rw\n{keys}\nend_fsync=1\nsize=64k"), 100);
        let marked = |r: &Request| r.sync == (sync && r.op == Op::Write);
        assert!(issued.iter().all(|(_, r)| marked(r)), "{keys}");
    }
}

#[test]
fn every_job_is_a_process_with_its_priority() {
    let jobs = "[a]\nprioclass=1\nprio=3\n[b]\nprio=7\nend_fsync=1\nrw=write\n[c]\nnumjobs=2\n\
                [d]\nprioclass=3\n[e]\nprioclass=2";
    let issued = run(&format!("[global]\nrw=read\nsize=8k\n{jobs}"), 100);
    let best_effort = |level| Priority::new(PriorityClass::BestEffort, level);
    let expected = [
        Priority::new(PriorityClass::RealTime, 3),
        best_effort(7),
        Priority::NONE,
        Priority::NONE,
        Priority::new(PriorityClass::Idle, 0),
        best_effort(0),
    ];
    assert!(issued.iter().any(|(_, r)| r.op == Op::Flush));
    for (_, request) in issued {
        assert_eq!(request.priority, expected[request.process as usize - 1], "{request:?}");
    }
    let error = plan(1 << 30, "[a]\nprio=8").unwrap_err().to_string();
    assert!(error.contains("expected a whole number from 0 to 7, got \"8\""), "{error}");
}

#[test]
fn runtime_ramp_and_start_delay_are_exact() {
    let job = "[a]\nrw=randread\nsize=16k\ntime_based\nruntime=1ms\nramp_time=500us\nstartdelay=2s";
    let issued = run(job, 10_000);
    assert_eq!(issued[0].0, Nanos::from_secs(2));
    assert_eq!(issued.last().unwrap().0, Nanos(2_001_490_000));
    assert_eq!(issued.len(), 150);
    let workload = plan(1 << 30, job).unwrap().start();
    assert_eq!(workload.measure_from(), Nanos(2_000_500_000));
}

#[test]
fn jobs_run_together_take_turns_and_stonewalls_separate_them() {
    let job = "[global]\nbs=4k\nsize=16k\n[a]\nrw=write\nnumjobs=2\noffset_increment=1m\n\
               [b]\nrw=read\niodepth=2\n[c]\nstonewall\nrw=trim\noffset=2m";
    let plan = plan(1 << 30, job).unwrap();
    let of: Vec<_> = plan.jobs.iter().map(|j| (j.name.as_str(), j.process, j.group)).collect();
    assert_eq!(of, [("a", 1, 0), ("a", 2, 0), ("b", 3, 0), ("c", 4, 1)]);
    let issued = run(job, 1000);
    let first: Vec<u32> = issued[..4].iter().map(|(_, r)| r.process).collect();
    assert_eq!(first, [1, 2, 3, 3]);
    for process in 1..=4 {
        let own: Vec<_> = issued.iter().filter(|(_, r)| r.process == process).copied().collect();
        let base = [0, 2048, 0, 4096][process as usize - 1];
        assert_eq!(lbas(&own), [base, base + 8, base + 16, base + 24], "process {process}");
    }
    let (walled, free): (Vec<_>, Vec<_>) = issued.iter().partition(|(_, r)| r.process == 4);
    let end = free.iter().map(|(t, _)| *t).max().unwrap() + DELAY;
    assert_eq!(walled[0].0, end, "the wall opens with the last completion");
}

#[test]
fn clones_draw_different_blocks_and_seeds_change_them() {
    let blocks = |job: &str| lbas(&run(job, 64));
    let two = run("[a]\nrw=randread\nsize=1g\nnumjobs=2", 64);
    let of = |p| two.iter().filter(|(_, r)| r.process == p).map(|(_, r)| r.lba).collect::<Vec<_>>();
    assert_ne!(of(1), of(2));
    let plain = "[a]\nrw=randread\nsize=1g\n";
    assert_eq!(blocks(plain), blocks(plain));
    assert_ne!(blocks(plain), blocks(&format!("{plain}randseed=9")));
}

#[test]
fn trims_come_before_the_write_of_the_same_range() {
    for rw in ["trimwrite", "randtrimwrite"] {
        let issued = run(&format!("[a]\nrw={rw}\nbs=4k\nsize=64k"), 1000);
        assert_eq!(issued.len(), 32);
        for pair in issued.chunks(2) {
            assert_eq!([pair[0].1.op, pair[1].1.op], [Op::Discard, Op::Write]);
            assert_eq!(pair[0].1.lba, pair[1].1.lba, "{rw}");
        }
    }
}

#[test]
fn modifiers_of_random_patterns() {
    let runs = lbas(&run("[a]\nrw=randread:8\nbs=4k\nsize=1g\nnorandommap", 800));
    for run in runs.chunks(8) {
        assert!(run.windows(2).all(|pair| pair[1] == pair[0] + 8));
    }
    let same = lbas(&run("[a]\nrw=randread:4\nrw_sequencer=identical\nsize=1g", 400));
    assert!(same.chunks(4).all(|run| run.iter().all(|lba| *lba == run[0])));
    let part = lbas(&run("[a]\nrw=randread\nsize=1g\npercentage_random=25", 20_000));
    let jumps = part.windows(2).filter(|pair| pair[1] != pair[0] + 8).count();
    assert!(jumps.abs_diff(5000) < 250, "{jumps}");
}

#[test]
fn alignment_and_offset_bound_every_request() {
    let issued = run("[a]\nrw=randread\nbs=4k\nba=512\noffset=1m\nsize=1m\nio_size=1g", 50_000);
    assert!(issued.iter().all(|(_, r)| r.lba.0 >= 2048 && r.end().0 <= 4096));
    assert!(issued.iter().any(|(_, r)| r.lba.0 % 8 != 0));
    assert!(issued.iter().any(|(_, r)| r.end().0 == 4096), "the last place is reachable");
}

#[test]
fn an_offset_in_percent_is_rounded_up_to_a_block() {
    let first = |keys: &str| {
        let plan = plan(1 << 34, &format!("[a]\nrw=randwrite\n{keys}")).unwrap();
        plan.resolved.iter().map(|job| job.first).collect::<Vec<_>>()
    };
    // 33 % of 16 GiB are 5,669,356,830 bytes and a bit.
    let third = ((1u64 << 34) * 33 / 100).next_multiple_of(4096) / 512;
    assert_eq!(first("bs=4k\noffset=33%"), [third]);
    assert_eq!(third % 8, 0);
    assert_eq!(first("bs=64k,4k\noffset=33%"), [third], "the smallest of them");
    let steps = (0..3u64).map(|n| (1 << 20) + n * ((1 << 34) * 7 / 100));
    let steps: Vec<u64> = steps.map(|at| at.next_multiple_of(16 << 10) / 512).collect();
    assert_eq!(first("bs=16k\noffset=1m\noffset_increment=7%\nnumjobs=3"), steps);
    // What is given in bytes stays.
    assert_eq!(first("bs=4k\noffset=3k\noffset_increment=6k\nnumjobs=3"), [6, 18, 30]);
}

#[test]
fn awkward_shapes_neither_panic_nor_leave_the_region() {
    let patterns = ["read", "randrw", "randtrimwrite", "write:-64k", "randread:3", "trimwrite"];
    let sizes = ["bs=4k", "bs=1m", "bssplit=512/30:7k/30:96k/40", "bsrange=1536-40k", "bs=4k,512"];
    let laws = ["random", "zipf:0.9", "zipf:2:1", "pareto:0.1", "normal:90:0", "zoned:50/1:50/99"];
    for pattern in patterns {
        for size in sizes {
            for law in laws {
                let job = format!(
                    "[a]\nrw={pattern}\n{size}\nrandom_distribution={law}\nio_size=100m\n\
                     offset=3k\niodepth=3\npercentage_random=80"
                );
                let issued = run_on((1 << 20) + 7168, &job, 2000);
                let end = ((1u64 << 20) + 7168) / 512;
                let inside = |r: &Request| r.lba.0 >= 6 && r.end().0 <= end && r.sectors > 0;
                assert!(issued.iter().all(|(_, r)| inside(r)), "{job}");
            }
        }
    }
}

#[test]
fn what_does_not_matter_or_was_adapted_is_said() {
    let job = "[a]\nioengine=io_uring\nrw=randwrite\nbssplit=4k/50:8k/50\niodepth=4096";
    let notes = plan(1 << 30, job).unwrap().notes;
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes[1].contains("iodepth 4096 exceeds the device's queue of 1024"));
    assert!(notes[2].contains("blocks may repeat"));
}

#[test]
fn a_hint_of_where_a_request_goes_comes_true() {
    let hints_of = |keys: &str| {
        let text = format!("[j]\nbs=4k\nsize=1m\nloops=3\niodepth=8\n{keys}");
        let mut fio = plan(1 << 30, &deep(&text)).unwrap().start();
        let (mut places, mut hints) = (Vec::new(), Vec::new());
        while let Demand::Issue(request) = fio.next(Nanos::ZERO).unwrap() {
            places.push(request.lba);
            hints.push(fio.ahead());
            fio.complete(&request, Completion { id: request.id, at: Nanos::ZERO });
        }
        let told = hints.iter().zip(&places[sim::AHEAD..]).filter(|(hint, place)| {
            assert!(hint.is_none_or(|hint| hint == **place), "{keys}: {hint:?}, not {place:?}");
            hint.is_some()
        });
        (told.count(), places.len())
    };
    let all = 3 * 256 - sim::AHEAD;
    assert_eq!(hints_of("rw=randread\nnorandommap=1\noffset=2m"), (all, 3 * 256));
    assert_eq!(hints_of("rw=randrw\nnorandommap=1").0, all);
    // A new order of the blocks is drawn for each pass.
    assert_eq!(hints_of("rw=randwrite").0, 3 * (256 - sim::AHEAD));
    for unknown in ["rw=write", "rw=randread:4", "rw=randread\npercentage_random=50"] {
        assert_eq!(hints_of(unknown).0, 0, "{unknown}");
    }
}
