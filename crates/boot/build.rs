//! Builds what runs in guests and carries it along: the static program of `guest`, and the loader
//! that resumes images.

#[path = "build/pe.rs"]
mod pe;

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
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=loader");
    let guest = ["-Ctarget-feature=+crt-static", "-Crelocation-model=static"];
    let built = build(&crates.join("guest"), "guest", &guest, &out.join("guest"));
    fs::copy(built.join("blocklab-guest"), out.join("blocklab-guest")).expect("OUT_DIR is ours");
    // A firmware's interrupts come while a program of UEFI runs, on its stack: what a function
    // keeps below the stack's end, as Linux lets it, they write over.
    let loader = ["-Ctarget-feature=+sse2", "-Crelocation-model=pie", "-Cno-redzone=yes"];
    let built = build(&room.join("loader"), "release", &loader, &out.join("loader"));
    let loader = fs::read(built.join("blocklab-loader")).expect("it was built");
    fs::write(out.join("blocklab-multiboot"), multiboot(loader)).expect("OUT_DIR is ours");
    for program in ["blocklab-loader", "blocklab-unpacker"] {
        fs::copy(built.join(program), out.join(program)).expect("OUT_DIR is ours");
    }
    for (program, name) in [("blocklab-efi", "blocklab.efi"), ("blocklab-starter", "starter.efi")] {
        let elf = fs::read(built.join(program)).expect("it was built");
        fs::write(out.join(name), pe::from_elf(&elf)).expect("OUT_DIR is ours");
    }
}

/// The loader with the magic number in its multiboot header, which lies behind these words.
fn multiboot(mut loader: Vec<u8>) -> Vec<u8> {
    const WORDS: &[u8] = b"blocklab multiboot header\0";
    const MAGIC: u32 = 0x1bad_b002;
    let mut places = loader.windows(WORDS.len()).enumerate().filter(|(_, text)| *text == WORDS);
    let place = places.next().expect("`entry.s` has it").0;
    let at = place + WORDS.len().next_multiple_of(4);
    assert!(at + 48 <= 8192 && at.is_multiple_of(4), "GRUB looks no further than {at}");
    loader[at..at + 4].copy_from_slice(&MAGIC.to_le_bytes());
    loader
}

/// Static, small, and in a target folder of its own: cargo holds the lock of the other. Returns
/// the folder with what was built.
fn build(crate_folder: &Path, profile: &str, flags: &[&str], target_folder: &Path) -> PathBuf {
    let target = env::var("TARGET").expect("cargo sets it");
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo sets it"));
    cargo.args(["build", "--quiet", "--bins", "--profile", profile]);
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
    let flags: Vec<String> = flags.iter().map(ToString::to_string).chain(remapped()).collect();
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    let status = cargo.status().expect("cargo runs");
    assert!(
        status.success(),
        "{} could not be built: see cargo's words above",
        crate_folder.display()
    );
    target_folder.join(&target).join(profile)
}

/// What is carried along names its sources in messages, but not the folders of the machine that
/// built it.
fn remapped() -> impl Iterator<Item = String> {
    let dot_cargo = |home: PathBuf| home.join(".cargo");
    let cargo = env::var_os("CARGO_HOME").map(PathBuf::from).or(env::home_dir().map(dot_cargo));
    let room = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).expect("cargo sets it");
    let workspace = room.ancestors().nth(2).map(Path::to_path_buf);
    let folders = [(cargo, "cargo"), (workspace, "blocklab")];
    folders.into_iter().filter_map(|(folder, name)| {
        Some(format!("--remap-path-prefix={}={name}", folder?.display()))
    })
}
