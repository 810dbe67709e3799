//! The code version: a digest of the source text that decides results.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::rooms::{Kind, ROOMS};

/// Where the sources of rooms of these kinds lie, from the root of the repository.
pub(crate) fn folders(kinds: &[Kind]) -> impl Iterator<Item = String> {
    let rooms = ROOMS.iter().filter(|(_, kind)| kinds.contains(kind));
    rooms.map(|(room, _)| format!("crates/{room}/src"))
}

/// The version of the code in rooms of these kinds of the repository at `root`.
pub(crate) fn of(root: &Path, kinds: &[Kind]) -> io::Result<String> {
    let mut hash = Fnv(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
    for folder in folders(kinds) {
        for path in files(&root.join(folder), "rs")? {
            let name = path.strip_prefix(root).expect("it lies below the root");
            hash.add(name.to_string_lossy().as_bytes());
            hash.add(&fs::read(&path)?);
        }
    }
    Ok(format!("{:032x}", hash.0))
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

/// Every file with this extension below `folder`, in a fixed order.
pub(crate) fn files(folder: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let unreadable =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
    for entry in fs::read_dir(folder).map_err(unreadable)? {
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
