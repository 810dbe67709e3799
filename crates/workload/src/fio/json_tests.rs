use super::*;
use crate::Context;
use crate::fio::Params;
use sim::testing::FixedDelay;
use sim::{Bytes, Completion, Limits, Probe, Request, Rng, Stop, Workload, simulate};

/// The keys of a real report, made by fio 3.33 with libaio on a file from `[global]` rw, bs, size
/// and one job with fsync and number_ios.
const KEYS: &str = include_str!("fio-3.33.keys");

fn report(job: &str, delay: Nanos) -> Output {
    let open = |_: &str| Ok(Box::new(std::io::Cursor::new(job.to_owned())) as Box<_>);
    let limits = Limits {
        capacity: Bytes::from_gib(1),
        block_bytes: 512,
        queue_depth_max: 1024,
        rotational: false,
        write_cache: true,
        discard: true,
    };
    let context = Context { rng: Rng::new(1, "w"), limits, open: &open };
    let plan = Params { file: Some("x".into()), ..Params::default() }.plan(&context).unwrap();
    let mut recorder = Recorder::new(&plan);
    let mut device = FixedDelay::new(delay, 1024);
    let (mut workload, start, stop) = (plan.start(), Nanos::ZERO, Stop::default());
    let outcome = simulate(&mut device, &mut workload, start, stop, &mut recorder).unwrap();
    recorder.ended(&workload.at_work(), outcome.end);
    recorder.output("null", 1_795_218_262_866)
}

fn keys(path: &str, value: &serde_json::Value, out: &mut Vec<String>) {
    let below = |key: &str| if path.is_empty() { key.into() } else { format!("{path} / {key}") };
    match value {
        serde_json::Value::Object(_) if path.ends_with("options") => out.push(path.into()),
        serde_json::Value::Object(map) => map.iter().for_each(|(k, v)| keys(&below(k), v, out)),
        serde_json::Value::Array(items) => items.iter().for_each(|v| keys(&below("[]"), v, out)),
        serde_json::Value::String(_) => out.push(format!("{path} : text")),
        _ => out.push(format!("{path} : number")),
    }
}

#[test]
fn the_keys_are_those_of_a_real_report() {
    let job = "[global]\nrw=randrw\nbs=4k\nsize=16m\n[mix]\nfsync=5\nnumber_ios=200\n";
    let value = serde_json::to_value(report(job, Nanos(10_000))).unwrap();
    let mut ours = Vec::new();
    keys("", &value, &mut ours);
    ours.sort();
    ours.dedup();
    let mut fios: Vec<&str> = KEYS.lines().collect();
    fios.sort_unstable();
    assert_eq!(ours, fios);
}

#[test]
fn the_numbers_are_exact_where_the_device_is() {
    let job = "[a]\nrw=read\nbs=4k\nsize=40m\niodepth=4\nioengine=libaio\n\
               [b]\nstonewall\nrw=write\nsize=4k\nfsync=1\nend_fsync=1";
    let output = report(job, Nanos::from_micros(1_000));
    let [a, b] = &output.jobs[..] else { panic!("two jobs") };
    assert_eq!((a.jobname.as_str(), a.groupid, b.groupid), ("a", 0, 1));
    // 10,240 requests, four at a time, a millisecond each.
    assert_eq!((a.read.total_ios, a.read.io_bytes, a.read.runtime), (10_240, 40 << 20, 2_560));
    assert!((a.read.iops - 4000.0).abs() < 1e-6);
    assert_eq!(a.read.bw, 16_000);
    let clat = &a.read.clat_ns;
    assert_eq!((clat.min, clat.max, clat.mean, clat.stddev), (1_000_000, 1_000_000, 1e6, 0.0));
    assert_eq!(clat.percentile.as_ref().unwrap().0[6], ("50.000000".into(), 1_000_000));
    // Five windows of 500 completions each; the first begins with the wait for the first one.
    assert_eq!((a.read.bw_samples, a.read.bw_agg), (5, 100.0));
    assert!((a.read.bw_mean - 16_000.0 * 2_499.0 / 2_500.0).abs() < 1e-6);
    assert_eq!((a.read.iops_min, a.read.iops_max), (3_992, 4_000));
    assert_eq!(a.latency_ms.0[0], ("2".into(), 100.0));
    assert_eq!(a.write.clat_ns.percentile, None);
    assert_eq!((b.write.total_ios, b.sync.total_ios, b.sync.lat_ns.max), (1, 1, 1_000_000));
    let levels: Vec<f64> = a.iodepth_level.0.iter().map(|level| level.1).collect();
    assert_eq!(levels[3..], [0.0; 4]);
    assert!((levels.iter().sum::<f64>() - 100.0).abs() < 1e-9);
    let disk = &output.disk_util[0];
    assert_eq!((disk.read_ios, disk.write_ios, disk.util), (10_240, 1, 100.0));
    assert_eq!((disk.read_ticks, disk.in_queue), (10_240, 10_241));
}

#[test]
fn the_ramp_is_left_out() {
    let job = "[a]\nrw=read\nsize=40m\ntime_based\nramp_time=50ms\nruntime=100ms";
    let output = report(job, Nanos::from_micros(1_000));
    assert_eq!(output.jobs[0].read.total_ios, 100);
    assert_eq!(output.jobs[0].read.runtime, 100);
}

#[test]
fn rates_are_of_the_jobs_own_time() {
    let of = |job: &str| -> Vec<(f64, u64, u64)> {
        let jobs = report(job, Nanos::from_micros(10)).jobs;
        jobs.iter().map(|job| (job.read.iops, job.read.runtime, job.job_runtime)).collect()
    };
    let global = "[global]\nioengine=libaio\nrw=read\ntime_based\n";
    let two = "runtime=3\n[j]\nrate_iops=1\n[k]\nrate_iops=10\n[l]\nstonewall\nrate_iops=2";
    let each = [(1.0, 3000, 3000), (10.0, 3000, 3000), (2.0, 3000, 3000)];
    assert_eq!(of(&format!("{global}{two}")), each);
    let ramp = "ramp_time=1\nruntime=2\nstartdelay=1\n[j]\nrate_iops=4";
    assert_eq!(of(&format!("{global}{ramp}")), [(4.0, 2000, 2000)]);
}

#[test]
fn a_workload_that_tells_of_no_time_is_measured_until_its_last_answer() {
    let mut recorder = Recorder::single("trace");
    let request = Request { process: 1, ..Request::read(sim::Lba(0), 8) };
    let at = Nanos::from_millis(250);
    recorder.on_issue(Nanos::ZERO, &request);
    recorder.on_complete(&request, Nanos::ZERO, Completion { id: request.id, at });
    recorder.ended(&[], Nanos::from_secs(9));
    let read = &recorder.output("null", 0).jobs[0].read;
    assert_eq!((read.iops, read.runtime), (4.0, 250));
}

#[test]
fn dates_are_written_as_c_does() {
    assert_eq!(date(0), "Thu Jan  1 00:00:00 1970");
    assert_eq!(date(951_782_400), "Tue Feb 29 00:00:00 2000");
    assert_eq!(date(1_795_218_262), "Fri Nov 20 23:44:22 2026");
}
