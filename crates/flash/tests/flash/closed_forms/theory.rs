//! Write amplification in closed form, computed here independently of the model.
//!
//! Throughout, `rho` is live pages over pages in sealed blocks at the moment a victim is chosen and
//! `b` is pages per block.

/// The principal branch of the Lambert W function on [-1/e, 0): w e^w = x, by Halley's method.
pub(crate) fn lambert_w0(x: f64) -> f64 {
    let branch = -(-1.0f64).exp();
    assert!((branch..0.0).contains(&x), "W0 is wanted on [-1/e, 0), not at {x}");
    // Series around the branch point; exact enough to start from everywhere on the interval.
    let p = (2.0 * (1.0 + std::f64::consts::E * x)).sqrt();
    let mut w = -1.0 + p - p * p / 3.0 + 11.0 / 72.0 * p * p * p;
    for _ in 0..50 {
        let (e, f) = (w.exp(), w * w.exp() - x);
        let step = f / (e * (w + 1.0) - (w + 2.0) * f / (2.0 * w + 2.0));
        w -= step;
        if step.abs() < 1e-15 {
            break;
        }
    }
    w
}

/// FIFO collection (Desnoyers, SYSTOR 2012; Xiang and Kurkoski 2011).
pub(crate) fn fifo(rho: f64) -> f64 {
    let alpha = 1.0 / rho;
    alpha / (alpha + lambert_w0(-alpha * (-alpha).exp()))
}

/// Random victims.
pub(crate) fn random(rho: f64) -> f64 {
    1.0 / (1.0 - rho)
}

/// Greedy with many blocks: blocks with i valid pages are in proportion to 1/i, so for the victim's
/// mean valid count v = j - q: H_b - H_j + q/j = (b - j + q) / (rho b).
pub(crate) fn greedy(rho: f64, b: u32) -> f64 {
    let size = f64::from(b);
    // v = b solves it too, but describes an empty drive.
    let mut tail = 1.0 / size; // H_b - H_j
    for j in (1..b).rev() {
        let at = f64::from(j);
        let q = ((size - at) / (rho * size) - tail) / (1.0 / at - 1.0 / (rho * size));
        if (0.0..=1.0).contains(&q) {
            return size / (size - (at - q));
        }
        tail += 1.0 / at;
    }
    panic!("no steady state at rho {rho} with {b} pages per block")
}

/// The best of `d` random blocks (Van Houdt, SIGMETRICS 2013): x_i = (K/i)(1 - s_i^d) for
/// s_i = s_(i+1) + x_i, with K such that the live pages add up to rho b.
pub(crate) fn d_choices(rho: f64, b: u32, d: u32) -> f64 {
    let live = |k: f64| {
        let (mut s, mut live) = (0.0, 0.0);
        for i in (1..=b).rev() {
            let share = k / f64::from(i);
            let next = bisect(s, 1.0, |t| t - s - share * (1.0 - t.powi(d as i32)));
            live += f64::from(i) * (next - s);
            s = next;
        }
        live
    };
    let k = bisect(0.0, f64::from(b), |k| live(k) - rho * f64::from(b));
    k / rho
}

/// FIFO under hot and cold: a share `f` of the pages gets a share `r` of the writes. WAF = 1/tau
/// with 1/tau = sum of r_i / (1 - exp(-r_i tau / (f_i rho))).
pub(crate) fn fifo_hot_cold(rho: f64, f: f64, r: f64) -> f64 {
    let flow = |tau: f64| {
        let part = |f: f64, r: f64| r / (1.0 - (-r * tau / (f * rho)).exp());
        part(f, r) + part(1.0 - f, 1.0 - r)
    };
    1.0 / bisect(1e-9, 1.0, |tau| tau * flow(tau) - 1.0)
}

/// The root of a function that rises from below 0 to above it.
fn bisect(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if f(middle) < 0.0 { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Greedy, b 64, by an independent simulation with 64, 128, 256, 512 and 1,024 blocks: rho, WAF.
pub(crate) const SMALL: [(f64, [f64; 5]); 4] = [
    (0.70, [1.8516, 1.8423, 1.8385, 1.8362, 1.8349]),
    (0.80, [2.6340, 2.6155, 2.6070, 2.6039, 2.6014]),
    (0.85, [3.4066, 3.3796, 3.3674, 3.3610, 3.3575]),
    (0.90, [4.8961, 4.8632, 4.8422, 4.8314, 4.8255]),
];

/// The same with victims out of a window, rho 0.85, 4,096 blocks: window, WAF.
pub(crate) const WINDOWS: [(u32, f64); 5] =
    [(1, 3.519), (8, 3.514), (64, 3.483), (512, 3.390), (4096, 3.353)];

/// The same with hot and cold pages: rho, hot share of the space and of the writes, WAF.
pub(crate) const HOT_COLD: [(f64, f64, f64, f64); 6] = [
    (0.8, 0.2, 0.8, 2.955),
    (0.8, 0.1, 0.9, 3.484),
    (0.8, 0.05, 0.95, 3.973),
    (0.9, 0.2, 0.8, 5.196),
    (0.9, 0.1, 0.9, 5.908),
    (0.9, 0.05, 0.95, 6.945),
];
