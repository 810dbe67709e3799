//! Builds what runs in guests and carries it along: the static program of `guest`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let room = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let crates = room.parent().expect("a room lies in `crates`");
    for folder in ["guest", "resume"] {
        for part in ["Cargo.toml", "src"] {
            println!("cargo::rerun-if-changed={}", crates.join(folder).join(part).display());
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    let built = build_guest(&crates.join("guest"), &out.join("guest"));
    fs::copy(built, out.join("blocklab-guest")).expect("OUT_DIR can be written");
}

/// Static, small, and in a target folder of its own: cargo holds the lock of the other.
fn build_guest(crate_folder: &Path, target_folder: &Path) -> PathBuf {
    let target = env::var("TARGET").expect("cargo sets it");
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo sets it"));
    cargo.args(["build", "--quiet", "--profile", "guest", "--bin", "blocklab-guest"]);
    // With a target named, build scripts and macros are not made static, too.
    cargo.args(["--target", &target, "--target-dir"]).arg(target_folder);
    cargo.current_dir(crate_folder);
    // What the outer build was told is not meant for this one.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO_") || name.starts_with("RUSTC") || name == "RUSTFLAGS" {
            let kept = ["CARGO_HOME", "CARGO_NET_OFFLINE"].contains(&name.as_str())
                || name.starts_with("CARGO_REGISTRIES")
                || name.starts_with("CARGO_HTTP");
            if !kept {
                cargo.env_remove(&name);
            }
        }
    }
    cargo.env("RUSTFLAGS", "-Ctarget-feature=+crt-static");
    let status = cargo.status().expect("cargo runs");
    assert!(status.success(), "the guest's program could not be built: see cargo's words above");
    target_folder.join(&target).join("guest/blocklab-guest")
}
