//! The device's state beside its data: a drive stays aged between sessions. And a mark beside both
//! while a session may change the data: one that is killed saves no state, and leaves the mark.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sim::{Device, Nanos};
use study::{BuiltPart, Failure, check_blobs, is_image, read_image, write_image};

/// What goes with the device's own state.
#[derive(Serialize, Deserialize)]
struct Meta {
    part: String,
    digest: String,
    /// The device's present moment.
    moment_ns: u64,
    next_id: u64,
    /// When the data was last changed, in nanoseconds since 1970.
    data_modified_ns: Option<u64>,
}

/// What a session goes on from.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Moment {
    /// The device's present moment.
    pub(crate) at: Nanos,
    /// The id of the next request.
    pub(crate) next_id: u64,
    /// When the data was last changed.
    pub(crate) data_modified_ns: Option<u64>,
}

/// Where the state of the device with its data in `data` is kept: `disk.img.state`.
pub(crate) fn path_beside(data: &Path) -> PathBuf {
    beside(data, ".state")
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(ending);
    PathBuf::from(name)
}

/// Restore the state of an earlier session into `part`'s device; returns where that one ended, or
/// nothing when there is no such state.
pub(crate) fn restore(path: &Path, part: &mut BuiltPart) -> Result<Option<Moment>, Failure> {
    let digest = &part.digest;
    let fits = |meta: &[u8]| match serde_json::from_slice::<Meta>(meta)? {
        meta if meta.digest == *digest => Ok(()),
        Meta { part, .. } => Err(io::Error::other(format!(
            "it is the state of another device: of `{part}`, with --set and --seed as they were, \
             by the version of blocklab that saved it"
        ))),
    };
    let read = read_image(path, &mut *part.device, fits);
    if read.as_ref().is_err_and(|why| why.kind() == io::ErrorKind::NotFound) {
        return Ok(None);
    }
    // All of it, here: in the middle of a session nobody could be told.
    let whole = read.and_then(|meta| check_blobs(&*part.device).map(|()| meta));
    let meta = whole.and_then(|meta| Ok(serde_json::from_slice::<Meta>(&meta)?));
    let meta = meta.map_err(|why| {
        let shown = path.display();
        Failure::input(format!("cannot restore the device from {shown}: {why}"))
            .expected("the state of the same part, --set and --seed, saved by this version")
            .help(format!("delete {shown} to start with a drive fresh from the box"))
    })?;
    let Meta { moment_ns, next_id, data_modified_ns, .. } = meta;
    Ok(Some(Moment { at: Nanos(moment_ns), next_id, data_modified_ns }))
}

/// Refuse what [`save`] would take the place of and is not ours. To be asked before a session
/// begins, too: at its end there is no other place for the state.
pub(crate) fn refuse_foreign(state: &Path) -> Result<(), Failure> {
    for path in [state.to_path_buf(), beside(state, ".partial")] {
        let shown = path.display();
        match is_image(&path) {
            Ok(true) => {}
            Err(why) if why.kind() == io::ErrorKind::NotFound => {}
            Ok(false) => {
                let what = format!("{shown} is in the way: it is not the state of a device");
                return Err(Failure::input(what)
                    .expected("no such file, or one that a session has written")
                    .help("move it elsewhere, or choose another --data"));
            }
            Err(why) => return Err(Failure::input(format!("cannot read {shown}: {why}"))),
        }
    }
    Ok(())
}

/// Refuse the state, and the mark, of data that is not there, or was cut to nothing: an empty file
/// would go with it from then on.
pub(crate) fn refuse_orphan(data: &Path) -> Result<(), Failure> {
    let with_it = [beside(data, ".dirty"), path_beside(data)];
    let left = with_it.iter().filter(|path| fs::symlink_metadata(path).is_ok());
    let left: Vec<String> = left.map(|path| path.display().to_string()).collect();
    let Some(first) = left.first() else { return Ok(()) };
    let what = match fs::metadata(data) {
        Ok(meta) if meta.len() > 0 => return Ok(()),
        Ok(_) => "is empty",
        Err(_) => "is not there",
    };
    let data = data.display();
    Err(Failure::input(format!("{data} {what}, but {first} is there, which goes with it"))
        .expected("both, or neither")
        .help(format!("bring {data} back, or begin with an empty drive: rm {}", left.join(" "))))
}

/// Save the device's state, in the place of an older one.
pub(crate) fn save(
    path: &Path,
    device: &dyn Device,
    part: &str,
    digest: &str,
    moment: Moment,
) -> Result<(), Failure> {
    refuse_foreign(path)?;
    let Moment { at, next_id, data_modified_ns } = moment;
    let (part, digest) = (part.into(), digest.into());
    let meta = Meta { part, digest, moment_ns: at.0, next_id, data_modified_ns };
    // The old state may still be read from: it is replaced, never written over.
    let partial = beside(path, ".partial");
    let written = serde_json::to_vec(&meta)
        .map_err(io::Error::from)
        .and_then(|meta| write_image(&partial, device, &meta))
        // What stands under the name is whole, even when the machine loses power now.
        .and_then(|()| File::open(&partial)?.sync_all())
        .and_then(|()| fs::rename(&partial, path))
        .and_then(|()| sync_folder_of(path));
    written.map_err(|why| {
        let _ = fs::remove_file(&partial);
        let what = format!("cannot save the device's state in {}: {why}", path.display());
        Failure::machine(what).help("make room there; the data itself is safe")
    })
}

/// What a mark says.
const MARK: &[u8] = b"A session of blocklab attach that did not end yet, or was killed.\n";

/// The file `disk.img.dirty`: a session may have changed the data since the state was saved.
#[derive(Debug)]
pub(crate) struct Mark(PathBuf);

impl Mark {
    /// Refuse what no session has written in the place of a mark.
    pub(crate) fn refuse_foreign(data: &Path) -> Result<(), Failure> {
        let mark = beside(data, ".dirty");
        let is_there = fs::symlink_metadata(&mark).is_ok();
        // An empty one may be what is left of ours after a power failure.
        if !is_there || fs::read(&mark).is_ok_and(|found| MARK.starts_with(&found)) {
            return Ok(());
        }
        let what = format!("{} is in the way: no session has written it", mark.display());
        Err(Failure::input(what)
            .expected("no such file: it marks data that a session may change")
            .help("move it elsewhere, or choose another --data"))
    }

    /// Refuse data of a session that was killed. The caller holds the data's lock, so nobody else
    /// is using it now.
    pub(crate) fn refuse_if_set(data: &Path, state: &Path) -> Result<(), Failure> {
        let mark = beside(data, ".dirty");
        if fs::symlink_metadata(&mark).is_err() {
            return Ok(());
        }
        Mark::refuse_foreign(data)?;
        let (data, mark, state) =
            (data.display(), mark.display(), (state.display(), state.exists()));
        let fresh = "with a drive fresh from the box (or one that is full: --fill)";
        let (saved, help) = match state {
            (state, true) => (
                format!("{state} is from before that session"),
                format!(
                    "go on with the older state: rm {mark}\n\
                     or start {fresh}: rm {mark} {state}"
                ),
            ),
            (state, false) => (format!("there is no {state}"), format!("start {fresh}: rm {mark}")),
        };
        Err(Failure::input(format!(
            "the last session with {data} was killed, or failed, before it saved the device's \
             state: the data is there, but {saved}"
        ))
        .expected("data and state of a session that ended in order")
        .help(help))
    }

    /// Set the mark beside `data`.
    pub(crate) fn set(data: &Path) -> Result<Mark, Failure> {
        let path = beside(data, ".dirty");
        let written = File::create_new(&path)
            .and_then(|mut file| {
                file.write_all(MARK)?;
                file.sync_all()
            })
            .and_then(|()| sync_folder_of(&path));
        match written {
            Ok(()) => Ok(Mark(path)),
            Err(why) => {
                let what = format!("cannot write {}: {why}", path.display());
                Err(Failure::input(what)
                    .expected("a folder for the data in which the device's state can be kept, too")
                    .help("choose another --data, or only read: --read-only"))
            }
        }
    }

    /// The state goes with the data again.
    pub(crate) fn clear(self) {
        // One that stays makes the next session ask.
        let _ = fs::remove_file(&self.0);
    }
}

/// Make names in the folder of `path` last.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
