//! Write amplification against theory (uniform and hot/cold single-page writes).

use super::drive::{HotCold, Waf};
use super::theory;

const GREEDY: &str = "gc = 'greedy'";
const FIFO: &str = "gc = 'fifo'";
const RANDOM: &str = "gc = 'random'";
const D10: &str = "gc.d-choices.d = 10";

/// The table's live shares.
const RHO: [f64; 10] = [0.50, 0.60, 0.70, 0.75, 0.80, 0.85, 0.88, 0.90, 0.93, 0.95];

fn uniform(gc: &str, rho: f64, blocks: u32, pages: u32) -> Waf<'_> {
    Waf { gc, rho, blocks, pages, hot: None, rounds: (8, 24) }
}

#[track_caller]
fn close(what: &str, got: f64, expected: f64, tolerance: f64) {
    let error = got / expected - 1.0;
    assert!(
        error.abs() <= tolerance,
        "{what}: {got:.4} instead of {expected:.4}, off by {:.2} %",
        100.0 * error
    );
}

/// With few blocks the amplification is higher by about 1/N (greedy, d-choices) or 0.8/N (FIFO).
fn finite(gc: &str, blocks: u32) -> f64 {
    let n = f64::from(blocks);
    1.0 + if gc == FIFO { 0.8 / n } else { 1.0 / n }
}

fn expected(gc: &str, rho: f64, pages: u32) -> f64 {
    match gc {
        GREEDY => theory::greedy(rho, pages),
        FIFO => theory::fifo(rho),
        D10 => theory::d_choices(rho, pages, 10),
        RANDOM => theory::random(rho),
        _ => panic!("no theory for {gc}"),
    }
}

#[test]
fn the_theory_gives_its_published_values() {
    // Desnoyers 2012 gives 2.36 at 30 % over-provisioning.
    close("FIFO at OP 0.3", theory::fifo(1.0 / 1.3), 2.364, 2e-4);
    let fifo = [1.2550, 1.4798, 1.8762, 2.2007, 2.6927, 3.5187, 4.3480, 5.1787, 7.3177, 10.172];
    let greedy = [1.2389, 1.4550, 1.8333, 2.1396, 2.5993, 3.3536, 4.0968, 4.8213, 6.6155, 8.8501];
    let d10 = [1.2612, 1.4867, 1.8796, 2.1980, 2.6754, 3.4636, 4.2389, 5.0002, 6.8939, 9.2842];
    for (i, rho) in RHO.into_iter().enumerate() {
        close("FIFO", theory::fifo(rho), fifo[i], 5e-5);
        close("greedy", theory::greedy(rho, 64), greedy[i], 5e-5);
        close("d = 10", theory::d_choices(rho, 64, 10), d10[i], 5e-5);
        // One choice is no choice.
        close("d = 1", theory::d_choices(rho, 64, 1), theory::random(rho), 1e-9);
    }
    // Many choices are greedy; large blocks make greedy FIFO.
    close("d = 4096", theory::d_choices(0.8, 64, 4096), theory::greedy(0.8, 64), 2e-3);
    close("b = 2^20", theory::greedy(0.8, 1 << 20), theory::fifo(0.8), 1e-5);
    // Equal shares are no hot and cold at all.
    close("f = r", theory::fifo_hot_cold(0.8, 0.3, 0.3), theory::fifo(0.8), 1e-9);
}

#[test]
fn every_policy_agrees_with_theory_on_a_small_drive() {
    for gc in [GREEDY, FIFO, D10] {
        for rho in [0.70, 0.85] {
            let theory = expected(gc, rho, 64) * finite(gc, 256);
            close(&format!("{gc} {rho}"), uniform(gc, rho, 256, 64).run(1), theory, 0.005);
        }
    }
    let random = uniform(RANDOM, 0.8, 256, 64).run(1);
    close("random", random, theory::random(0.8), 0.01);
}

/// Means of an independent simulator (four seeds, standard deviation up to 0.0023), which compacts
/// the victim in place: T = N b exactly.
#[test]
fn small_drives_agree_with_an_independent_simulator() {
    for (rho, blocks, value) in [(0.80, 64, 2.6340), (0.85, 128, 3.3796), (0.70, 256, 1.8385)] {
        let mean = (0..4).map(|seed| uniform(GREEDY, rho, blocks, 64).run(seed)).sum::<f64>() / 4.0;
        let off = (mean - value).abs();
        assert!(off < 3.0 * 0.0023, "rho {rho}, {blocks} blocks: {mean:.4}, not {value}");
    }
}

#[test]
fn hot_and_cold_agree_on_a_small_drive() {
    let hot = Some(HotCold { space: 0.2, writes: 0.8 });
    let run = |gc| Waf { hot, ..uniform(gc, 0.8, 512, 64) }.run(1);
    close("FIFO", run(FIFO), theory::fifo_hot_cold(0.8, 0.2, 0.8), 0.01);
    close("greedy", run(GREEDY), 2.955, 0.01);
}

/// The whole of check table A:
/// `cargo test --release -p blocklab-flash --test flash closed_forms -- --ignored`.
#[test]
#[ignore = "minutes: part of the long tests"]
fn check_table_a() {
    for rho in RHO {
        for pages in [64, 128, 256] {
            let blocks = if pages == 256 { 2048 } else { 4096 };
            let run = uniform(GREEDY, rho, blocks, pages).run(1);
            close(&format!("greedy {pages} {rho}"), run, theory::greedy(rho, pages), 0.005);
        }
        for gc in [FIFO, D10] {
            let run = uniform(gc, rho, 4096, 64).run(1);
            close(&format!("{gc} {rho}"), run, expected(gc, rho, 64), 0.005);
        }
        let run = uniform(RANDOM, rho, 4096, 64).run(1);
        close(&format!("random {rho}"), run, theory::random(rho), 0.01);
    }
}

/// Small drives and windowed greedy against the independent simulator's values.
#[test]
#[ignore = "minutes: part of the long tests"]
fn small_drives_and_windows() {
    for (rho, values) in theory::SMALL {
        for (blocks, value) in [64, 128, 256, 512, 1024].into_iter().zip(values) {
            let run = |seed| Waf { rounds: (8, 60), ..uniform(GREEDY, rho, blocks, 64) }.run(seed);
            let mean = (0..4).map(run).sum::<f64>() / 4.0;
            // Our victim is chosen one host write later, a page in 64 x 64.
            close(&format!("rho {rho}, {blocks} blocks"), mean, value, 0.003);
        }
    }
    for (window, value) in theory::WINDOWS {
        let gc = format!("gc.windowed.window = {window}");
        let rounds = (8, 12);
        let run = Waf { rounds, ..uniform(&gc, 0.85, 4096, 64) }.run(1);
        close(&format!("window {window}"), run, value, 0.005);
    }
}

/// Check table B: hot and cold.
#[test]
#[ignore = "minutes: part of the long tests"]
fn check_table_b() {
    for (rho, space, writes, greedy) in theory::HOT_COLD {
        let hot = Some(HotCold { space, writes });
        let run = |gc| Waf { hot, ..uniform(gc, rho, 4096, 64) }.run(1);
        let theory = theory::fifo_hot_cold(rho, space, writes);
        close(&format!("FIFO {rho} {space}/{writes}"), run(FIFO), theory, 0.01);
        close(&format!("greedy {rho} {space}/{writes}"), run(GREEDY), greedy, 0.01);
    }
}
