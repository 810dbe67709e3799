//! The version of the code that decides what a guest's kernel gives, beside that of `study`.

use std::path::PathBuf;
use std::{env, io};

#[path = "../study/build/code_version.rs"]
mod code_version;
#[path = "../study/build/rooms.rs"]
mod rooms;

use rooms::Kind;

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = root.join("../..");
    for folder in code_version::folders(&[Kind::Travels]) {
        println!("cargo::rerun-if-changed=../../{folder}");
    }
    let version = code_version::of(&root, &[Kind::Travels])?;
    println!("cargo::rustc-env=BLOCKLAB_TRAVEL_VERSION={version}");
    Ok(())
}
