//! The device's state beside its data: a drive stays aged between sessions.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sim::{Device, Nanos};
use study::{BuiltPart, Failure, read_image, write_image};

/// What goes with the device's own state.
#[derive(Serialize, Deserialize)]
struct Meta {
    part: String,
    digest: String,
    /// The device's present moment.
    moment_ns: u64,
    next_id: u64,
}

/// Where the state of the device with its data in `data` is kept: `disk.img.state`.
pub(crate) fn path_beside(data: &Path) -> PathBuf {
    let mut name = data.as_os_str().to_os_string();
    name.push(".state");
    PathBuf::from(name)
}

/// Restore the state of an earlier session into `part`'s device; returns its moment and its next
/// request id, or nothing when there is no such state.
pub(crate) fn restore(path: &Path, part: &mut BuiltPart) -> Result<Option<(Nanos, u64)>, Failure> {
    let digest = &part.digest;
    let fits = |meta: &[u8]| match serde_json::from_slice::<Meta>(meta)? {
        meta if meta.digest == *digest => Ok(()),
        Meta { part, .. } => Err(io::Error::other(format!(
            "it is the state of another device: `{part}`, or another version of it or of blocklab"
        ))),
    };
    let read = read_image(path, &mut *part.device, fits);
    if read.as_ref().is_err_and(|why| why.kind() == io::ErrorKind::NotFound) {
        return Ok(None);
    }
    let meta = read.and_then(|meta| Ok(serde_json::from_slice::<Meta>(&meta)?));
    let meta = meta.map_err(|why| {
        let shown = path.display();
        Failure::input(format!("cannot restore the device from {shown}: {why}"))
            .expected("the state of the same part, saved by the same version")
            .help(format!("delete {shown} to start with a drive fresh from the box"))
    })?;
    Ok(Some((Nanos(meta.moment_ns), meta.next_id)))
}

/// Save the device's state, in the place of an older one.
pub(crate) fn save(
    path: &Path,
    device: &dyn Device,
    part: &str,
    digest: &str,
    (moment, next_id): (Nanos, u64),
) -> Result<(), Failure> {
    let meta = Meta { part: part.into(), digest: digest.into(), moment_ns: moment.0, next_id };
    // The old state may still be read from: it is replaced, never written over.
    let mut partial = path.as_os_str().to_os_string();
    partial.push(".partial");
    let written = serde_json::to_vec(&meta)
        .map_err(io::Error::from)
        .and_then(|meta| write_image(partial.as_ref(), device, &meta))
        .and_then(|()| std::fs::rename(&partial, path));
    written.map_err(|why| {
        let _ = std::fs::remove_file(&partial);
        let what = format!("cannot save the device's state in {}: {why}", path.display());
        Failure::machine(what).help("make room there; the data itself is safe")
    })
}
