//! Speed of the SSD model on one core, per CPU-second. `cargo bench -p blocklab-flash --bench ssd`
//!
//! Configurations are named as in `docs/measured/speed.md`: F is an 8 GiB drive of 8 channels x 4
//! dies x 2 planes x 128 blocks x 256 pages x 4 KiB with 4 KiB random requests at depth 32; G is F
//! with 80 % of the space live and in steady state.

#[path = "../tests/flash/closed.rs"]
mod closed;
#[path = "../tests/flash/support.rs"]
mod support;

use closed::Closed;
use sim::{Completion, Device, Histogram, Lba, Nanos, Op, Outcome, Probe, Request, Rng, Stop};

const F: &str = "[ssd]\nover_provisioning = { live_percent = 93 }\nnand.read = ['75us']\n\
    nand.program = ['750us']\nnand.erase = '3.8ms'\nnand.bus = '333MB/s'\nnand.copy_back = false\n\
    allocation = 'static'\n[ssd.geometry]\nchannels = 8\npackages_per_channel = 4\n\
    dies_per_package = 1\nplanes_per_die = 2\nblocks_per_plane = 128\npages_per_block = 256\n\
    page = '4KiB'\n";

/// What real drives have beside that: a write buffer that throttles, parity, suspended programs.
const MECHANISMS: &str = "nand.parity_every = 29\nnand.suspend_after = '10us'\n\
    nand.program_suspend = '40us'\nnand.erase_suspend = '40us'\n\
    buffer.capacity = '64MiB'\nbuffer.throttle = { page = '6.2us', owed = '2.36us', \
    every = '320ms', stop = '3ms', burst = 132, hold_back_percent = 28, least_percent = 70, \
    window = '1s' }";

/// Mappings to compare, each with a tenth of a page map's RAM where it has a choice.
const MAPPINGS: &[(&str, &str)] = &[
    ("page", "mapping = 'page'"),
    ("wadpm", "mapping.wadpm.window.fixed = 10"),
    ("dftl", "mapping.dftl.cache = '10%'"),
    ("sftl", "mapping.sftl.cache = '10%'"),
    ("cdftl", "mapping.cdftl.cache = '10%'"),
    ("tpftl", "mapping.tpftl.cache = '10%'"),
    ("leaftl", "mapping.leaftl.error_bound = 4"),
    ("multi-stream", "mapping.multi-stream.streams = 4"),
    ("fdp", "mapping.fdp.handles = 4"),
    (
        "pslc",
        "mapping = 'pslc'\nnand.pslc = { read = '20us', program = '150us', bits_per_cell = 3 }",
    ),
    ("zns", "mapping.zns = { open_zones = 1, zone_planes = 8 }"),
];

fn build(text: &str) -> Box<dyn Device> {
    support::build(text, "bench")
}

#[derive(Default)]
struct Latency(Histogram);

impl Probe for Latency {
    fn on_complete(&mut self, _request: &Request, issued: Nanos, completion: Completion) {
        self.0.record(completion.at.since(issued).0);
    }
}

/// CPU time of this process, in seconds: the machine may be busy with others.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux has /proc/self/stat");
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap_or(0) + 2..].split(' ').collect();
    let ticks = |i: usize| fields[i].parse::<f64>().unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn peak_rss_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("0 0");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

fn flash_ops(device: &dyn Device) -> u64 {
    let mut counters = sim::Counters::default();
    device.counters(&mut counters);
    let flash = counters.counts.iter().filter(|(name, _)| {
        ["flash_reads", "flash_programs", "flash_erases"].iter().any(|p| name.starts_with(p))
    });
    flash.map(|&(_, count)| count).sum()
}

fn run(device: &mut dyn Device, op: Op, pages: u64, requests: u64) -> (Outcome, Histogram, f64) {
    let sectors = device.limits().block_bytes / 512;
    let mut load = Closed { op, rng: Rng::new(7, "load"), pages, sectors, free: 32 };
    let mut latency = Latency::default();
    let start = cpu_seconds();
    let stop = Stop { requests, ..Stop::default() };
    let outcome = sim::simulate(device, &mut load, Nanos::ZERO, stop, &mut latency)
        .expect("the benchmark runs");
    (outcome, latency.0, cpu_seconds() - start)
}

fn report(name: &str, device: &dyn Device, before: u64, result: (Outcome, Histogram, f64)) {
    let (outcome, latency, cpu) = result;
    let ops = (flash_ops(device) - before) as f64;
    println!(
        "{name:28} {:6.2} M req/s  {:6.2} M flash ops/s  per CPU-second; mean {:.1} us, \
         {:.0} IOPS, digest {}",
        outcome.requests as f64 / cpu / 1e6,
        ops / cpu / 1e6,
        latency.mean().unwrap_or(0.0) / 1e3,
        outcome.requests as f64 / outcome.end.as_secs_f64(),
        outcome.digest,
    );
}

fn f_read(scale: &str, name: &str, requests: u64) {
    let mut device = build(&format!("{F}{scale}"));
    let pages = device.limits().sectors() / 8;
    device.apply(&Request::write(Lba(0), (pages * 8) as u32));
    let before = flash_ops(&*device);
    let result = run(&mut *device, Op::Read, pages, requests);
    report(name, &*device, before, result);
}

fn g_write(name: &str, timing: &str, requests: u64) {
    let text = F.replace("live_percent = 93", "live_percent = 80");
    let mut device = build(&text.replace("allocation", &format!("{timing}\nallocation")));
    let pages = device.limits().sectors() / 8;
    device.apply(&Request::write(Lba(0), (pages * 8) as u32));
    let start = cpu_seconds();
    let mut rng = Rng::new(3, "age");
    for _ in 0..2 * pages {
        device.apply(&Request::write(Lba(rng.below(pages) * 8), 8));
    }
    println!("{:28} {:6.2} s CPU", format!("{name}: ageing twice"), cpu_seconds() - start);
    let before = flash_ops(&*device);
    let result = run(&mut *device, Op::Write, pages, requests);
    report(name, &*device, before, result);
}

/// G-write for each mapping.
fn mappings(only: Option<&str>, requests: u64) {
    for (name, mapping) in MAPPINGS {
        if only.is_none_or(|only| only == *name) {
            g_write(&format!("G-write, {name}"), mapping, requests);
        }
    }
}

/// Random overwrites of a full F drive with 70 % of it live, per mapping; `changes` is its TOML.
fn mapping_write(name: &str, changes: &str, requests: u64) {
    let text = F.replace("live_percent = 93", "live_percent = 70");
    let mut device = build(&text.replace("allocation", &format!("{changes}\nallocation")));
    let pages = device.limits().sectors() / 8;
    device.apply(&Request::write(Lba(0), (pages * 8) as u32));
    let mut rng = Rng::new(3, "age");
    for _ in 0..requests {
        device.apply(&Request::write(Lba(rng.below(pages) * 8), 8));
    }
    let before = flash_ops(&*device);
    let result = run(&mut *device, Op::Write, pages, requests);
    report(name, &*device, before, result);
}

/// Name, TOML and requests of the schemes of block granularity: every request costs tens to
/// hundreds of flash operations.
const HYBRIDS: &[(&str, &str, u64)] = &[
    ("block", "mapping = 'block'", 5_000),
    ("nftl-1", "mapping.block.variant = 'nftl-1'", 20_000),
    ("nftl-n", "mapping.block.variant.nftl-n.replacements = 2", 20_000),
    ("bast", "mapping = 'bast'", 10_000),
    ("fast", "mapping = 'fast'", 50_000),
    ("fast naive_global", "mapping.fast.scope = 'naive_global'", 50_000),
    ("fast global_k_open", "mapping.fast.scope = 'global_k_open'", 50_000),
    ("kast", "mapping = 'kast'", 50_000),
    ("last", "mapping = 'last'", 50_000),
    ("reconfigurable", "mapping = 'reconfigurable'", 50_000),
    ("superblock", "mapping = 'superblock'", 200_000),
];

fn big_drive() {
    // 512 GiB: 8 x 4 x 2 x 2 planes x 2048 blocks x 256 pages x 8 KiB = 67 M pages.
    let text = F
        .replace("dies_per_package = 1", "dies_per_package = 2")
        .replace("blocks_per_plane = 128", "blocks_per_plane = 2048")
        .replace("'4KiB'", "'8KiB'");
    let before = peak_rss_mib();
    let start = cpu_seconds();
    let mut device = build(&text);
    let sectors = device.limits().sectors();
    device.apply(&Request::write(Lba(0), sectors as u32));
    println!("{:28} {:6.2} s CPU", "512 GiB drive filled", cpu_seconds() - start);
    let pages = f64::from(1u32 << 26);
    let per_page = (peak_rss_mib() - before) * 1024.0 * 1024.0 / pages;
    println!("{:28} {per_page:6.2} B per flash page", "512 GiB drive memory");
    device.freeze();
    let start = std::time::Instant::now();
    let mut fork = device.clone();
    println!("{:28} {:6.3} s", "512 GiB drive forked", start.elapsed().as_secs_f64());
    let before = flash_ops(&*fork);
    let result = run(&mut *fork, Op::Read, sectors / 16, 2_000_000);
    report("F-read on 512 GiB", &*fork, before, result);
}

fn waf_only() {
    // 57,600 blocks of 64 pages: 3.7 M pages in one plane.
    let text = "[ssd]\ntiming = 'none'\nover_provisioning = { live_percent = 85 }\n\
        collection = { start_free_percent = 0, separate = false }\n[ssd.geometry]\nchannels = 1\n\
        packages_per_channel = 1\ndies_per_package = 1\nplanes_per_die = 1\n\
        blocks_per_plane = 57600\npages_per_block = 64\npage = '4KiB'\n";
    let mut device = build(text);
    let pages = device.limits().sectors() / 8;
    device.apply(&Request::write(Lba(0), (pages * 8) as u32));
    let mut rng = Rng::new(3, "age");
    for _ in 0..3 * pages {
        device.apply(&Request::write(Lba(rng.below(pages) * 8), 8));
    }
    let mut counters = sim::Counters::default();
    device.counters(&mut counters);
    let programs = |c: &sim::Counters| c.get("flash_programs.host") + c.get("flash_programs.gc");
    let before = programs(&counters);
    let (outcome, _, cpu) = run(&mut *device, Op::Write, pages, 6_000_000);
    let mut counters = sim::Counters::default();
    device.counters(&mut counters);
    let written = (programs(&counters) - before) as f64;
    println!(
        "{:28} {:6.2} M page writes/s per CPU-second; WAF {:.3}",
        "WAF only, 3.7 M pages",
        written / cpu / 1e6,
        written / outcome.requests as f64,
    );
}

/// One configuration by name, with fewer requests, for a profiler:
/// `... --bench ssd -- F-read 100000`.
fn chosen() -> Option<(String, u64)> {
    let mut arguments = std::env::args().skip(1).filter(|a| !a.starts_with("--"));
    let name = arguments.next()?;
    Some((name, arguments.next().and_then(|n| n.parse().ok()).unwrap_or(2_000_000)))
}

fn main() {
    match chosen() {
        Some((name, requests)) if name == "F-read" => return f_read("", "F-read", requests),
        Some((name, requests)) if name == "G-write" => return g_write("G-write", "", requests),
        Some((name, requests)) if name == "mechanisms" => {
            return g_write("G-write, mechanisms on", MECHANISMS, requests);
        }
        Some((name, requests)) if name == "hybrids" => {
            return HYBRIDS
                .iter()
                .for_each(|&(n, toml, r)| mapping_write(n, toml, r.min(requests)));
        }
        Some((name, _)) if name == "WAF" => return waf_only(),
        Some((name, _)) if name == "big" => return big_drive(),
        Some((name, requests)) if name == "mappings" => return mappings(None, requests),
        Some((name, requests)) => return mappings(Some(&name), requests),
        None => {}
    }
    f_read("", "F-read", 6_000_000);
    g_write("G-write", "", 2_000_000);
    g_write("G-write, mechanisms on", MECHANISMS, 2_000_000);
    g_write("G-write, no timing", "timing = 'none'", 4_000_000);
    mappings(None, 1_000_000);
    HYBRIDS.iter().for_each(|&(name, changes, requests)| mapping_write(name, changes, requests));
    waf_only();
    big_drive();
}
