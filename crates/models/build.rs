//! Lists the shipped parts, so that whoever uses this crate has them without a file.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    // A link to the repository's folder; a real folder where the crate was packaged.
    let folder = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let folder = folder.join("devices").canonicalize()?;
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut out = String::from("pub(crate) const PARTS: &[(&str, &str)] = &[\n");
    for path in parts(&folder)? {
        let name = path.strip_prefix(&folder).expect("it was found there").with_extension("");
        let text = fs::read_to_string(&path)?;
        writeln!(out, "    ({:?}, {text:?}),", name.to_string_lossy()).expect("a String");
    }
    out += "];\n";
    let target = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(target.join("parts.rs"), out)
}

/// The files of parts below `folder`, in a fixed order. Hosts have a folder of their own there.
fn parts(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("hosts") {
            found.extend(parts(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
