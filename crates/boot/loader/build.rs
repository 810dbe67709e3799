//! The linker is told to make a program that runs without a system below it.

fn main() {
    let room = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    println!("cargo::rerun-if-changed=link.ld");
    let script = format!("-Wl,-T,{room}/link.ld");
    for argument in
        ["-nostdlib", "-nostartfiles", "-static", "-no-pie", "-Wl,--build-id=none", &script]
    {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}
