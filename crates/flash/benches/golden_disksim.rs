//! Prints the tables of `docs/measured/golden-disksim.md`.
//! `cargo bench -p blocklab-flash --bench golden_disksim [-- TRACE]`, where TRACE is a DiskSim
//! ASCII trace: arrival in ms, device, sector, sectors, flags (1 for a read).

#[path = "../tests/flash/golden_disksim/runs.rs"]
mod runs;
#[path = "../tests/flash/support.rs"]
mod support;
#[path = "../tests/flash/golden_disksim/synthetic.rs"]
mod synthetic;

use runs::{
    PUBLISHED, STEADY, TABLE, UNLOADED, Unloaded, build, build_any, mean_ms, published,
    steady_state,
};
use sim::{Demand, Device, Lba, Nanos, Op, Request, Workload, WorkloadError};

/// A cell: printed by the original, ours, difference in percent.
fn cell(printed: f64, ours: f64) -> String {
    format!("{printed} / {ours:.6} ({:+.3} %)", 100.0 * (ours / printed - 1.0))
}

const SIZES: [u32; 5] = [8, 16, 32, 64, 128];

fn unloaded_ms(mut device: Box<dyn Device>, op: Op, kib: u32) -> f64 {
    let mut load = Unloaded { op, sectors: 2 * kib, next: 0 };
    mean_ms(&mut *device, &mut load, UNLOADED)
}

fn unloaded() {
    println!("| units, pool | op | 8 KiB | 16 KiB | 32 KiB | 64 KiB | 128 KiB |");
    println!("|---|---|---|---|---|---|---|");
    for (units, pool, reads, writes) in TABLE {
        for (op, row) in [(Op::Read, reads), (Op::Write, writes)] {
            let cells = SIZES.into_iter().zip(row).map(|(kib, printed)| {
                let device = build(&format!("parallel_units = {units}\npool = '{pool}'"));
                let printed = printed.trim_start_matches('~').parse().expect("a number");
                cell(printed, unloaded_ms(device, op, kib))
            });
            let cells: Vec<_> = cells.collect();
            println!("| {units}, {pool} | {} | {} |", op.name(), cells.join(" | "));
        }
    }
}

/// The event model of `[ssd]` in the same geometry: 4 packages of 2 dies of 2 planes.
fn event_model() {
    println!("\n| op | 8 KiB | 16 KiB | 32 KiB | 64 KiB | 128 KiB |\n|---|---|---|---|---|---|");
    // The original with two parallel units and the element pool is the nearest.
    let (_, _, reads, writes) = TABLE[2];
    for (op, row) in [(Op::Read, reads), (Op::Write, writes)] {
        let cells = SIZES.into_iter().zip(row).map(|(kib, printed)| {
            let mut device = build_any("[ssd]\nnand.spare_on_bus = true\n");
            let sectors = device.limits().sectors();
            device.apply(&Request::write(Lba(0), sectors as u32));
            let printed = printed.trim_start_matches('~').parse().expect("a number");
            cell(printed, unloaded_ms(device, op, kib))
        });
        println!("| {} | {} |", op.name(), cells.collect::<Vec<_>>().join(" | "));
    }
}

fn steady() {
    println!(
        "\n| reserve %, pool | WAF | pages moved per clean | ms per clean |\n|---|---|---|---|"
    );
    for (reserve, pool, waf, moved, ms) in STEADY {
        let got = steady_state(reserve, pool, 700_000, 1_300_000);
        println!(
            "| {reserve}, {pool} | {} | {} | {} |",
            cell(waf, got.0),
            cell(moved, got.1),
            cell(ms, got.2)
        );
    }
}

fn checks() {
    println!("\n| check | published / ours, ms |\n|---|---|");
    for (name, op, sequential, requests, ms) in [
        ("sequential read, 250 k", Op::Read, true, 250_000, 0.132511),
        ("sequential write, 250 k", Op::Write, true, 250_000, 0.310895),
        ("random read, 250 k", Op::Read, false, 250_000, 0.136118),
        ("random write, 250 k", Op::Write, false, 250_000, 0.329458),
        ("sequential write, 5 M", Op::Write, true, 5_000_000, 0.334365),
        ("random write, 5 M", Op::Write, false, 5_000_000, 0.593438),
    ] {
        println!("| {name} | {} |", cell(ms, published(op, sequential, requests)));
    }
}

struct Trace(std::collections::VecDeque<(Nanos, Request)>);

impl Workload for Trace {
    fn next(&mut self, now: Nanos) -> Result<Demand, WorkloadError> {
        let Some(&(at, request)) = self.0.front() else { return Ok(Demand::End) };
        if at > now {
            return Ok(Demand::At(at));
        }
        self.0.pop_front();
        Ok(Demand::Issue(request))
    }
}

fn trace(path: &str) {
    let text = std::fs::read_to_string(path).expect("the trace can be read");
    let line = |line: &str| {
        let fields: Vec<f64> = line.split_whitespace().map(|f| f.parse().unwrap()).collect();
        let op = if fields[4] as u32 & 1 == 1 { Op::Read } else { Op::Write };
        let at = Nanos((fields[0] * 1e6).round() as u64);
        (at, Request::new(op, Lba(fields[2] as u64), fields[3] as u32))
    };
    let requests: std::collections::VecDeque<_> = text.lines().map(line).collect();
    let count = requests.len() as u64;
    let mut device = build(PUBLISHED);
    println!("{path}: {:.6} ms", mean_ms(&mut *device, &mut Trace(requests), count + 1));
}

fn main() {
    match std::env::args().nth(1).filter(|argument| !argument.starts_with('-')) {
        Some(path) => trace(&path),
        None => {
            unloaded();
            event_model();
            steady();
            checks();
        }
    }
}
