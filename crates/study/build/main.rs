//! Generates what the binary carries with it: the shipped hosts and studies, the files that those
//! name, and the code version.

use std::fmt::Write;
use std::path::PathBuf;
use std::{env, fs, io};

mod code_version;
mod rooms;

use rooms::Kind;

/// What the results of a simulation depend on.
const DECIDE: [Kind; 2] = [Kind::Pure, Kind::Results];

/// Where the files are that studies name, and how they end.
const FILES: [(&str, &str); 4] =
    [("traces", "zst"), ("traces", "gz"), ("traces", "boot"), ("studies/jobs", "fio")];

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = root.join("../..");
    let mut out = String::new();
    // The parts are carried by `models`.
    let kinds = [("HOSTS", "devices/hosts"), ("STUDIES", "studies")];
    for (name, folder) in kinds {
        writeln!(out, "pub(crate) const {name}: &[(&str, &str)] = &[").expect("a String");
        for path in code_version::files(&root.join(folder), "toml")? {
            let below = path.strip_prefix(root.join(folder)).expect("it was found there");
            let below = below.with_extension("");
            let name = below.to_string_lossy();
            writeln!(out, "    ({name:?}, {:?}),", fs::read_to_string(&path)?).expect("a String");
        }
        writeln!(out, "];").expect("a String");
        println!("cargo::rerun-if-changed=../../{folder}");
    }
    writeln!(out, "pub(crate) const FILES: &[(&str, &[u8])] = &[").expect("a String");
    for (folder, extension) in FILES {
        for path in code_version::files(&root.join(folder), extension)? {
            let name = path.strip_prefix(&root).expect("it was found there");
            let place = path.canonicalize()?;
            writeln!(out, "    ({name:?}, include_bytes!({place:?})),").expect("a String");
        }
    }
    writeln!(out, "];").expect("a String");
    println!("cargo::rerun-if-changed=../../traces");
    let target = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(target.join("library.rs"), out)?;

    for folder in code_version::folders(&DECIDE) {
        println!("cargo::rerun-if-changed=../../{folder}");
    }
    println!("cargo::rustc-env=BLOCKLAB_CODE_VERSION={}", code_version::of(&root, &DECIDE)?);
    Ok(())
}
