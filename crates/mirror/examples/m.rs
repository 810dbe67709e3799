//! x
fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let a: Vec<String> = std::env::args().skip(1).collect();
    let (n, ops): (u64, u64) = (a[0].parse().unwrap(), a[1].parse().unwrap());
    for &m in mirror::Mutant::ALL {
        if a.len() > 2 && !a[2..].contains(&format!("{m:?}")) {
            continue;
        }
        let t = std::time::Instant::now();
        let k = mirror::torture::kill::hunt(m, n, ops);
        println!("{m:?}: {k:?} {:.1?}", t.elapsed());
    }
}
