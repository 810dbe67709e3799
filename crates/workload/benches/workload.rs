//! Nanoseconds per request of the workloads alone: `cargo bench -p blocklab-workload`.
//!
//! CPU time where Linux tells it, so that a busy machine does not blur the numbers. A ring of
//! `iodepth` requests completes in order, so nothing but the workload is measured.

use sim::{Bytes, Completion, Demand, Limits, Nanos, Rng};
use workload::{Context, WorkloadModel};

const REQUESTS: u64 = 5_000_000;

/// (name, table of the study).
const CASES: [(&str, &str); 11] = [
    ("fio read", "fio = { rw = 'read', iodepth = 32, loops = 1000 }"),
    ("fio randread", "fio = { rw = 'randread', iodepth = 32, loops = 1000 }"),
    ("fio randread norandommap", "fio = { rw = 'randread', norandommap = true, iodepth = 32 }"),
    (
        "fio randrw bssplit",
        "fio = { rw = 'randrw', bssplit = '4k/60:64k/40', iodepth = 32, loops = 9 }",
    ),
    ("fio zipf", "fio = { rw = 'randread', random_distribution = 'zipf:1.2', iodepth = 32 }"),
    ("fio pareto", "fio = { rw = 'randread', random_distribution = 'pareto:0.2', iodepth = 32 }"),
    ("fio normal", "fio = { rw = 'randread', random_distribution = 'normal:20', iodepth = 32 }"),
    ("fio 16 jobs", "fio = { rw = 'randread', numjobs = 16, iodepth = 4 }"),
    ("bonnie", "bonnie = { total = '1TiB', start = 0.0, queue_depth = 32 }"),
    ("ie", "ie = { total = '1TiB', span = '64GiB', queue_depth = 32 }"),
    ("pc", "pc = { files = { total = '1TiB', span = '64GiB', queue_depth = 32 } }"),
];

/// CPU time of this thread, or wall time where the kernel does not tell.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let cpu = stat.split_whitespace().next().and_then(|ns| ns.parse().ok());
    let wall = || std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
    cpu.unwrap_or_else(wall)
}

fn main() {
    let limits = Limits {
        capacity: Bytes::from_gib(512),
        block_bytes: 4096,
        queue_depth_max: 64,
        rotational: false,
        write_cache: false,
        discard: true,
    };
    let open = |_: &str| Err(std::io::ErrorKind::NotFound.into());
    let context = Context { rng: Rng::new(1, "bench"), limits, open: &open };
    for (name, table) in CASES {
        #[derive(serde::Deserialize)]
        struct Document {
            workload: WorkloadModel,
        }
        let document: Document =
            toml::from_str(&format!("workload = {{ {table} }}")).expect("the tables are valid");
        let mut workload = document.workload.build(&context).expect("the tables fit the device");
        let mut inside = std::collections::VecDeque::new();
        let (mut issued, mut sum) = (0u64, 0u64);
        let start = cpu_ns();
        while issued < REQUESTS {
            match workload.next(Nanos(issued)).expect("generators do not fail") {
                Demand::Issue(request) => {
                    issued += 1;
                    sum = sum.wrapping_add(request.lba.0);
                    inside.push_back(request);
                }
                Demand::Wait => {
                    let request = inside.pop_front().expect("it waits for a completion");
                    workload.complete(&request, Completion { id: request.id, at: Nanos(issued) });
                }
                Demand::At(_) | Demand::End => break,
            }
        }
        let ns = (cpu_ns() - start) as f64 / issued as f64;
        println!("{name:26} {ns:6.1} ns/request   ({issued} requests, checksum {sum:x})");
    }
}
