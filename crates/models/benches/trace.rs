//! How fast traces are read and replayed, on one core, in lines per CPU-second.
//!
//! `cargo bench -p blocklab-models --bench trace [filter]`

use std::fmt::Write as _;
use std::io::{Cursor, Read};
use std::time::Instant;

use models::registry::{DeviceModel, Replay, TraceFormat};
use sim::{Limits, Nanos, NoProbe, Rng, Stop, simulate};
use trace::Trace;
use workload::trace::Params;

/// Lines per trace: tens of megabytes, so that caches do not hold them.
const LINES: u64 = 1_000_000;

fn main() {
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-')).unwrap_or_default();
    println!("{:<24} {:>12} {:>10} {:>12}", "trace", "lines/s", "MB/s", "requests");
    for (name, bytes, lines) in traces() {
        if name.contains(&filter) {
            measure(name, &bytes, lines);
        }
    }
}

fn measure(name: &str, bytes: &[u8], lines: u64) {
    let mut requests = 0;
    let parse = best_of(3, || requests = parse_all(bytes));
    show(&format!("{name} parse"), lines, bytes.len(), parse, requests);
    let packed = zstd::encode_all(bytes, 3).expect("memory takes it");
    let parse = best_of(3, || requests = parse_all(&packed));
    show(&format!("{name} zstd parse"), lines, bytes.len(), parse, requests);
    let replay = best_of(3, || requests = replay_all(bytes));
    show(&format!("{name} replay"), lines, bytes.len(), replay, requests);
}

fn show(what: &str, lines: u64, bytes: usize, seconds: f64, requests: u64) {
    let (rate, mb) = (lines as f64 / seconds, bytes as f64 / seconds / 1e6);
    println!("{what:<24} {rate:>12.0} {mb:>10.0} {requests:>12}");
}

/// The least CPU time of a few runs, in seconds.
fn best_of(runs: u32, mut work: impl FnMut()) -> f64 {
    let begin = Instant::now();
    let once = |_| {
        let start = cpu_seconds(begin);
        work();
        cpu_seconds(begin) - start
    };
    (0..runs).map(once).fold(f64::MAX, f64::min)
}

/// CPU time of this thread where Linux tells it, wall time since `begin` elsewhere.
fn cpu_seconds(begin: Instant) -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|field| field.parse::<f64>().ok());
    nanos.map_or_else(|| begin.elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}

fn boxed(bytes: &[u8]) -> Box<dyn Read + Send> {
    Box::new(Cursor::new(bytes.to_vec()))
}

fn parse_all(bytes: &[u8]) -> u64 {
    let context = trace::Context { rng: Rng::new(1, "bench"), responses: false };
    let mut trace: Trace =
        trace::open("bench", boxed(bytes), None, &context).expect("the bench's own trace");
    let (mut batch, mut requests) = (Vec::new(), 0);
    while trace.fill(&mut batch).expect("the bench's own trace") {
        requests += batch.len() as u64;
        batch.clear();
    }
    requests
}

/// Replay onto the null device, which costs next to nothing.
fn replay_all(bytes: &[u8]) -> u64 {
    let mut device = DeviceModel::from_name("null")
        .expect("registered")
        .build(&config::device::Context { rng: Rng::new(1, "null") })
        .expect("defaults are valid");
    let open = |_: &str| Ok(boxed(bytes));
    let limits: Limits = device.limits();
    let context = workload::Context { rng: Rng::new(1, "bench"), limits, open: &open };
    let replay = Replay::from_name("closed-loop").expect("registered");
    let params = Params { file: "bench".into(), replay, ..Params::default() };
    let mut workload = params.build(&context).expect("the bench's own trace");
    let stop = Stop::default();
    simulate(&mut *device, &mut workload, Nanos::ZERO, stop, &mut NoProbe)
        .expect("the bench's own trace")
        .requests
}

/// (name, bytes, lines or records) of one synthetic trace per format.
fn traces() -> Vec<(&'static str, Vec<u8>, u64)> {
    let mut all: Vec<_> = [line_formats(), spread_formats()]
        .into_iter()
        .flatten()
        .map(|(name, text)| {
            let lines = text.bytes().filter(|&b| b == b'\n').count() as u64;
            (name, text.into_bytes(), lines)
        })
        .collect();
    all.push(("vscsi", vscsi(), LINES));
    debug_assert!(all.iter().all(|entry| TraceFormat::from_name(entry.0).is_some()));
    all
}

type Print = fn(&mut String, u64, u64) -> std::fmt::Result;

fn print(header: &str, line: Print) -> String {
    let mut rng = Rng::new(7, "bench");
    let mut text = String::from(header);
    for i in 0..LINES {
        line(&mut text, i, rng.below(1 << 24) * 8).expect("memory takes it");
    }
    text
}

fn line_formats() -> Vec<(&'static str, String)> {
    let mqsim: Print = |t, i, lba| writeln!(t, "{} 0 {lba} 8 {}", 938_513_000 + i * 1_317, i % 2);
    let disksim: Print =
        |t, i, lba| writeln!(t, "{}.{:03} 0 {lba} 8 {}", 7961 + i / 9, i % 1000, i % 2);
    let arc: Print = |t, i, lba| writeln!(t, "{lba} 8 0 {i}");
    // One queued request in six lines, as in real recordings.
    let blkparse: Print = |t, i, lba| {
        let action = [" Q", " G", " I", " D", " C", " P"][(i % 6) as usize];
        writeln!(
            t,
            "  8,0    1 {i:8} {:5}.{:09} 15832 {action}  WS {lba} + 8 [fio]",
            i / 100_000,
            i % 100_000 * 10_000
        )
    };
    vec![
        ("mqsim", print("", mqsim)),
        ("disksim", print("", disksim)),
        ("arc", print("", arc)),
        ("blkparse", print("", blkparse)),
    ]
}

fn spread_formats() -> Vec<(&'static str, String)> {
    let msr: Print = |t, i, lba| {
        let time = 128_166_372_003_061_629 + i * 977;
        writeln!(t, "{time},hm,1,Read,{},32768,413", lba * 512)
    };
    let spc: Print = |t, i, lba| writeln!(t, "0,{lba},4096,w,{}.{:06}", i / 1000, i % 1000 * 1000);
    let systor: Print = |t, i, lba| {
        let (s, ns) = (1_455_592_205 + i / 1000, i % 1000 * 1_000_000);
        writeln!(t, "{s}.{ns:09},0.000279000,W,0,{},8192", lba * 512)
    };
    let alibaba: Print =
        |t, i, lba| writeln!(t, "419,W,{},16384,{}", lba * 512, 1_577_808_144_360_767 + i * 31);
    let wiscsee: Print = |t, i, lba| {
        let letter = if i % 2 == 0 { 'D' } else { 'C' };
        writeln!(t, "39949 {letter} read {} 4096 {}.{:09} 0 False", lba * 512, i / 1000, i)
    };
    let iolog: Print = |t, i, lba| writeln!(t, "{} /dev/sda read {} 4096", i * 13, lba * 512);
    vec![
        ("msr", print("", msr)),
        ("spc", print("", spc)),
        ("systor", print("", systor)),
        ("alibaba", print("", alibaba)),
        ("wiscsee", print("", wiscsee)),
        ("iolog", print("fio version 3 iolog\n0 /dev/sda add\n", iolog)),
    ]
}

fn vscsi() -> Vec<u8> {
    let mut rng = Rng::new(7, "bench");
    let mut bytes = Vec::new();
    for i in 0..LINES {
        let (lba, time) = (rng.below(1 << 24) * 8, 5_630_000_000_000 + i * 100);
        bytes.extend_from_slice(&(i as u32).to_le_bytes());
        bytes.extend_from_slice(&4096u32.to_le_bytes());
        bytes.extend_from_slice(&1u32.to_le_bytes());
        bytes.extend_from_slice(&0x2au16.to_le_bytes());
        bytes.extend_from_slice(&0x0100u16.to_le_bytes());
        bytes.extend_from_slice(&lba.to_le_bytes());
        bytes.extend_from_slice(&time.to_le_bytes());
    }
    bytes
}
