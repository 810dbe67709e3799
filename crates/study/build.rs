//! Generates what the binary carries with it: the shipped parts and studies, and the code version.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Source trees whose text decides results.
const CODE: [&str; 3] = ["crates/sim/src", "crates/models/src", "crates/study/src"];

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = root.join("../..");
    let mut out = String::new();
    for (name, folder) in [("PARTS", "devices"), ("STUDIES", "studies")] {
        writeln!(out, "pub(crate) const {name}: &[(&str, &str)] = &[").expect("a String");
        for path in files(&root.join(folder), "toml")? {
            let below = path.strip_prefix(root.join(folder)).expect("it was found there");
            let below = below.with_extension("");
            let name = below.to_string_lossy();
            writeln!(out, "    ({name:?}, {:?}),", fs::read_to_string(&path)?).expect("a String");
        }
        writeln!(out, "];").expect("a String");
        println!("cargo::rerun-if-changed=../../{folder}");
    }
    let target = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(target.join("library.rs"), out)?;

    let mut hash = Fnv(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
    for folder in CODE {
        for path in files(&root.join(folder), "rs")? {
            let name = path.strip_prefix(&root).expect("it lies below the root");
            hash.add(name.to_string_lossy().as_bytes());
            hash.add(&fs::read(&path)?);
        }
        println!("cargo::rerun-if-changed=../../{folder}");
    }
    println!("cargo::rustc-env=BLOCKLAB_CODE_VERSION={:032x}", hash.0);
    Ok(())
}

/// FNV-1a with 128 bits: it tells versions of one program apart and needs no crate.
struct Fnv(u128);

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes.iter().chain(&[0]) {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul((1 << 88) + 0x13b);
        }
    }
}

/// Every file with this extension below `folder`, in a fixed order; none when it does not exist.
fn files(folder: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path, extension)?);
        } else if path.extension().is_some_and(|e| e == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
