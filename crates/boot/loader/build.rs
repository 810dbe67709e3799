//! The linker is told to make programs that run without a system below them.

fn main() {
    let room = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    for (program, folder, kind) in [
        ("blocklab-loader", "pvh", "-static"),
        ("blocklab-efi", "efi", "-static-pie"),
        ("blocklab-starter", "efi", "-static-pie"),
        ("blocklab-unpacker", "unpacker", "-static"),
    ] {
        let script = format!("{room}/src/{folder}/link.ld");
        println!("cargo::rerun-if-changed={script}");
        let script = format!("-Wl,-T,{script}");
        for argument in ["-nostdlib", "-nostartfiles", kind, "-Wl,--build-id=none", &script] {
            println!("cargo::rustc-link-arg-bin={program}={argument}");
        }
    }
}
