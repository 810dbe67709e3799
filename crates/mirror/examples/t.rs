use mirror::torture::*;
fn main() {
    let a: Vec<u64> = std::env::args().skip(1).map(|x| x.parse().unwrap()).collect();
    let (base, n, ops) = (a[0], a[1], a[2]);
    let t = std::time::Instant::now();
    let mut total = Report::default();
    let mut bad = 0;
    for seed in base..base + n {
        let r = std::panic::catch_unwind(|| run(&Plan::new(seed, ops)));
        match r {
            Ok(Ok(r)) => total.add(&r),
            Ok(Err(v)) => {
                bad += 1;
                if bad < 12 {
                    println!("seed {seed}: {}", v.0)
                }
            }
            Err(_) => {
                bad += 1;
                println!("seed {seed}: panic");
                if bad > 12 {
                    break;
                }
            }
        }
    }
    println!("{bad} bad of {n}, {:.1} seeds/s\n{total:#?}", n as f64 / t.elapsed().as_secs_f64());
}
