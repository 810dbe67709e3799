//! Prints the tables of `docs/measured/closed-forms.md`: the SSD model against closed forms.
//! `cargo bench -p blocklab-flash --bench closed_forms`

#[path = "../tests/flash/closed_forms/drive.rs"]
mod drive;
#[path = "../tests/flash/support.rs"]
mod support;
#[path = "../tests/flash/closed_forms/theory.rs"]
mod theory;

use drive::{HotCold, Waf};

const RHO: [f64; 10] = [0.50, 0.60, 0.70, 0.75, 0.80, 0.85, 0.88, 0.90, 0.93, 0.95];

/// Pages of every drive: finite-size effects are below 0.2 % and the runs take seconds.
const PAGES: u32 = 1 << 18;

fn uniform(gc: &str, rho: f64, blocks: u32, pages: u32) -> Waf<'_> {
    Waf { gc, rho, blocks, pages, hot: None, rounds: (6, 8) }
}

/// A cell: theory for infinitely many blocks, simulation, and the difference in percent.
fn cell(theory: f64, simulated: f64) -> String {
    format!("{theory:.4} / {simulated:.4} ({:+.2} %)", 100.0 * (simulated / theory - 1.0))
}

fn table_a() {
    println!("| rho | FIFO | greedy b=64 | greedy b=128 | greedy b=256 | d=10 | random |");
    println!("|---|---|---|---|---|---|---|");
    for rho in RHO {
        let blocks = PAGES / 64;
        let fifo = uniform("gc = 'fifo'", rho, blocks, 64).run(1);
        let greedy = [64, 128, 256].map(|b| {
            let run = uniform("gc = 'greedy'", rho, PAGES / b, b).run(1);
            cell(theory::greedy(rho, b), run)
        });
        let d10 = uniform("gc.d-choices.d = 10", rho, blocks, 64).run(1);
        let random = uniform("gc = 'random'", rho, blocks, 64).run(1);
        println!(
            "| {rho:.2} | {} | {} | {} | {} |",
            cell(theory::fifo(rho), fifo),
            greedy.join(" | "),
            cell(theory::d_choices(rho, 64, 10), d10),
            cell(theory::random(rho), random),
        );
    }
}

fn windows() {
    println!(
        "\n| window | independent simulation / ours, rho 0.85, b 64, 4,096 blocks |\n|---|---|"
    );
    for (window, other) in theory::WINDOWS {
        let gc = format!("gc.windowed.window = {window}");
        println!("| {window} | {} |", cell(other, uniform(&gc, 0.85, 4096, 64).run(1)));
    }
}

fn small() {
    println!("\n| rho | blocks | independent simulation / ours, greedy, b 64, four seeds |");
    println!("|---|---|---|");
    for (rho, others) in theory::SMALL {
        for (blocks, other) in [64, 128, 256, 512, 1024].into_iter().zip(others) {
            let rounds = (8, 24);
            let run = |seed| Waf { rounds, ..uniform("gc = 'greedy'", rho, blocks, 64) }.run(seed);
            let mean = (0..4).map(run).sum::<f64>() / 4.0;
            println!("| {rho:.2} | {blocks} | {} |", cell(other, mean));
        }
    }
}

fn table_b() {
    println!(
        "\n| rho | hot space, writes | FIFO theory / ours | greedy, other simulation / ours |"
    );
    println!("|---|---|---|---|");
    for (rho, space, writes, greedy) in theory::HOT_COLD {
        let hot = Some(HotCold { space, writes });
        let rounds = (16, 12);
        let run = |gc| Waf { hot, rounds, ..uniform(gc, rho, PAGES / 64, 64) }.run(1);
        println!(
            "| {rho} | {space}, {writes} | {} | {} |",
            cell(theory::fifo_hot_cold(rho, space, writes), run("gc = 'fifo'")),
            cell(greedy, run("gc = 'greedy'")),
        );
    }
}

fn main() {
    table_a();
    windows();
    small();
    table_b();
}
