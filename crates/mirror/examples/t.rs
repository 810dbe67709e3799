//! x
use mirror::torture::*;
fn main() {
    let a: Vec<u64> = std::env::args().skip(1).map(|x| x.parse().unwrap()).collect();
    let (base, n, ops) = (a[0], a[1], a[2]);
    if n == 0 {
        let mut lines = 0u64;
        let from = a.get(3).copied().unwrap_or(0);
        let r = replay(&Plan::new(base, ops), &mut |l| {
            lines += 1;
            if lines >= from {
                println!("{lines} {l}");
            }
        });
        println!("{r:?}");
        return;
    }
    let verbose = a.len() > 3;
    let t = std::time::Instant::now();
    let mut total = Report::default();
    let mut bad = 0;
    std::panic::set_hook(Box::new(|i| println!("{i}")));
    for seed in base..base + n {
        if verbose {
            println!("seed {seed}");
        }
        let r = std::panic::catch_unwind(|| run(&Plan::new(seed, ops)));
        match r {
            Ok(Ok(r)) => total.add(&r),
            Ok(Err(v)) => {
                bad += 1;
                if bad < 40 {
                    println!("seed {seed}: {}", v.0)
                }
            }
            Err(_) => {
                bad += 1;
                println!("seed {seed}: panic");
                if bad > 40 {
                    break;
                }
            }
        }
    }
    println!("{bad} bad of {n}, {:.1} seeds/s\n{total:#?}", n as f64 / t.elapsed().as_secs_f64());
}
