//! Preconditioned drives as files: an aged drive is data, so it is made once.
//!
//! An image is a prelude (magic, three lengths, a hash), the blobs of the device's state, its small
//! stream, and what the preconditioning said. Blobs are read back when they are first touched, so
//! a large drive starts in milliseconds; each brings a digest of its own, which is checked then.
//! An image that does not fit its prelude is made anew.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use config::{Failure, Size};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sim::{BlobSource, Bytes, Device, Loader, Nanos, Saver, SnapshotError};

use crate::prepared::{Gate, Prepared};
use crate::process;

const MAGIC: &[u8; 8] = b"blkimg\x01\n";
/// Magic, lengths of blobs, small stream and meta, SHA-256 over the last two.
const PRELUDE: u64 = 8 + 3 * 8 + 32;

/// Bounds the user's cache.
const BYTES_MAX: &str = "BLOCKLAB_CACHE_MAX";
/// Without the variable.
const BYTES_MAX_USUAL: Size = Size(Bytes::from_gib(2));
/// Somebody may be about to start from a drive that was used so lately, on another machine, too.
const RECENT: Duration = Duration::from_secs(3600);
/// So many times the bound, they go all the same: a disk is not to be filled.
const RECENT_MAX: u64 = 4;
/// Nobody writes an image for so long.
const PARTIAL_AGE: Duration = Duration::from_secs(3600);

/// Where preconditioned drives are kept between studies.
#[derive(Clone, Debug)]
pub struct Cache {
    /// The directory; made when it is needed.
    pub directory: PathBuf,
    /// Preconditioning that took less than this is not worth a file.
    pub worth: Duration,
    /// Beyond this many bytes, the images that were not used for longest are removed; of those that
    /// were used within the last hour, beyond four times as many. 0: none is kept.
    pub bytes_max: u64,
}

impl Cache {
    /// `$XDG_CACHE_HOME/blocklab`, or `~/.cache/blocklab`, whether it exists or not; `None` when
    /// the user has no home. A path that is not absolute counts for nothing, as the XDG
    /// specification has it.
    pub fn folder() -> Option<PathBuf> {
        let absolute = |name: &str| {
            std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        Some(base?.join("blocklab"))
    }

    /// That folder, of at most 2 GiB or what `BLOCKLAB_CACHE_MAX` says; `None` when the user has
    /// no home.
    ///
    /// # Errors
    /// When the variable is no size.
    pub fn of_user() -> Result<Option<Cache>, Failure> {
        let bytes_max = match std::env::var(BYTES_MAX) {
            Ok(text) => Size::parse(&text).map_err(|why| {
                Failure::input(format!("{BYTES_MAX}: {why}")).help(format!("{BYTES_MAX}=4GiB"))
            })?,
            Err(_) => BYTES_MAX_USUAL,
        };
        let folder = Cache::folder();
        Ok(folder.map(|folder| Cache { bytes_max: bytes_max.0.0, ..Cache::at(folder) }))
    }

    /// A folder of at most 2 GiB.
    pub fn at(directory: PathBuf) -> Cache {
        let worth = Duration::from_millis(200);
        Cache { directory, worth, bytes_max: BYTES_MAX_USUAL.0.0 }
    }

    /// The drives that are kept, the one that was not used for longest first.
    ///
    /// # Errors
    /// When the folder cannot be read; one that does not exist is empty.
    pub fn images(&self) -> io::Result<Vec<Image>> {
        self.files(|name| name.ends_with(".image"))
    }

    /// Remove every drive; returns those that were removed.
    ///
    /// # Errors
    /// When one cannot be removed.
    pub fn empty(&self) -> io::Result<Vec<Image>> {
        self.sweep(SystemTime::now())?;
        let images = self.images()?;
        images.iter().try_for_each(|image| remove(&image.path))?;
        Ok(images)
    }

    /// Remove what processes that were killed left of drives they wrote before `until`.
    fn sweep(&self, until: SystemTime) -> io::Result<()> {
        let mut left = self.files(|name| name.starts_with('.') && name.contains(".partial-"))?;
        left.retain(|partial| partial.used + PARTIAL_AGE < until);
        left.iter().try_for_each(|partial| remove(&partial.path))
    }

    fn files(&self, ours: impl Fn(&str) -> bool) -> io::Result<Vec<Image>> {
        let mut files = Vec::new();
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            // Another process may have removed it meanwhile.
            let Ok(about) = entry.metadata() else { continue };
            if about.is_file() && entry.file_name().to_str().is_some_and(&ours) {
                let (used, bytes) = (about.modified()?, about.len());
                files.push(Image { used, bytes, path: entry.path() });
            }
        }
        files.sort();
        Ok(files)
    }

    pub(crate) fn path(&self, digest: &str) -> PathBuf {
        self.directory.join(format!("{digest}.image"))
    }

    /// The drive of that digest, restored into `device`, which was built from the same
    /// configuration. `Ok(None)` when there is none.
    ///
    /// # Errors
    /// Says what is wrong with the image. One that is damaged is removed.
    pub(crate) fn load(
        &self,
        digest: &str,
        device: Box<dyn Device>,
    ) -> Result<Option<Prepared>, String> {
        let path = self.path(digest);
        match open(&path, device) {
            Ok(prepared) => Ok(Some(prepared)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let damaged = [io::ErrorKind::InvalidData, io::ErrorKind::UnexpectedEof];
                let what = if damaged.contains(&error.kind()) {
                    let _ = fs::remove_file(&path);
                    "was damaged"
                } else {
                    "could not be read"
                };
                Err(format!("the saved drive {} {what} ({error}) and made anew", path.display()))
            }
        }
    }

    /// Remove the drive of that digest, of which a run found that it is damaged; returns its place.
    pub(crate) fn remove(&self, digest: &str) -> PathBuf {
        let path = self.path(digest);
        let _ = fs::remove_file(&path); // if it stays, the next run says so again
        path
    }

    /// Keep a drive, and remove the oldest ones beyond the bound. Returns what a reader must know.
    pub(crate) fn store(&self, digest: &str, prepared: &Prepared) -> io::Result<Option<String>> {
        if self.bytes_max == 0 {
            return Ok(None);
        }
        fs::create_dir_all(&self.directory)?;
        let unique = process::unique_name();
        let partial = self.directory.join(format!(".{digest}.partial-{unique}"));
        let path = self.path(digest);
        let written = write(&partial, prepared).and_then(|()| fs::rename(&partial, &path));
        if written.is_err() {
            let _ = fs::remove_file(&partial);
        }
        written?;
        self.evict(&path)?;
        let bytes = path.metadata().map_or(0, |about| about.len());
        Ok((bytes > self.bytes_max).then(|| {
            let (bytes, most) = (Bytes(bytes), Bytes(self.bytes_max));
            format!(
                "the saved drive {} alone takes {bytes}, more than the {most} of {BYTES_MAX}: it \
                 stays until another one is kept",
                path.display()
            )
        }))
    }

    /// Remove what is beyond the bound, but for what was stored just now.
    fn evict(&self, stored: &Path) -> io::Result<()> {
        let now = SystemTime::now();
        self.sweep(now)?;
        let images = self.images()?;
        let mut total: u64 = images.iter().map(|image| image.bytes).sum();
        for image in images.into_iter().filter(|image| image.path != stored) {
            let factor = if image.used + RECENT > now { RECENT_MAX } else { 1 };
            if total <= self.bytes_max.saturating_mul(factor) {
                break;
            }
            remove(&image.path)?;
            total -= image.bytes;
        }
        Ok(())
    }
}

/// A drive that is kept.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Image {
    /// When it was last used.
    pub used: SystemTime,
    /// Its size.
    pub bytes: u64,
    /// Its file.
    pub path: PathBuf,
}

/// Remove a file that another process may have removed already.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What the preconditioning said.
#[derive(Serialize, Deserialize)]
struct Meta {
    start: u64,
    gate: Option<Gate>,
    notes: Vec<String>,
}

fn write(path: &Path, prepared: &Prepared) -> io::Result<()> {
    let meta = serde_json::to_vec(&Meta {
        start: prepared.start.0,
        gate: prepared.gate.clone(),
        notes: prepared.notes.clone(),
    })?;
    write_image(path, &*prepared.device, &meta)
}

/// Write a device's state and `meta`, which is the caller's, to a new file.
///
/// # Errors
/// Those of the file system.
pub fn write_image(path: &Path, device: &dyn Device, meta: &[u8]) -> io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    // From the beginning it is known as ours, so that what a killed process leaves is, too.
    file.write_all(MAGIC)?;
    file.write_all(&[0; PRELUDE as usize - MAGIC.len()])?;
    let mut saver = Saver::new(&mut file);
    device.save(&mut saver);
    let small = saver.finish()?;
    let blobs = file.stream_position()? - PRELUDE;
    file.write_all(&small)?;
    file.write_all(meta)?;
    file.seek(SeekFrom::Start(MAGIC.len() as u64))?;
    for length in [blobs, small.len() as u64, meta.len() as u64] {
        file.write_all(&length.to_le_bytes())?;
    }
    file.write_all(&hash(&small, meta))?;
    file.flush()
}

/// True for a file that [`write_image`] has written, completely or in part, and for an empty one:
/// nothing is lost when another image takes its place.
///
/// # Errors
/// When it cannot be read.
pub fn is_image(path: &Path) -> io::Result<bool> {
    if !fs::symlink_metadata(path)?.is_file() {
        return Ok(false);
    }
    let mut begin = Vec::new();
    File::open(path)?.take(MAGIC.len() as u64).read_to_end(&mut begin)?;
    Ok(MAGIC.starts_with(&begin))
}

fn hash(small: &[u8], meta: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(small).chain_update(meta).finalize().into()
}

fn open(path: &Path, mut device: Box<dyn Device>) -> io::Result<Prepared> {
    let meta: Meta = serde_json::from_slice(&read_image(path, &mut *device, |_| Ok(()))?)?;
    Ok(Prepared { device, start: Nanos(meta.start), gate: meta.gate, notes: meta.notes })
}

/// Restore what [`write_image`] wrote into `device`, which was built from the same configuration;
/// returns the caller's `meta`, which `fits` looks at before the device is touched. Blobs are read
/// when they are first touched, so the file stays open.
///
/// # Errors
/// When there is no such file, what is wrong with it, or what `fits` says.
pub fn read_image(
    path: &Path,
    device: &mut dyn Device,
    fits: impl FnOnce(&[u8]) -> io::Result<()>,
) -> io::Result<Vec<u8>> {
    let damaged = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_string());
    let file = File::open(path)?;
    let mut prelude = [0; PRELUDE as usize];
    file.read_exact_at(&mut prelude, 0).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("it ends within its first bytes"),
        _ => error,
    })?;
    if &prelude[..8] != MAGIC {
        return Err(damaged("it does not begin like an image"));
    }
    let length =
        |i: usize| u64::from_le_bytes(prelude[8 + 8 * i..][..8].try_into().expect("eight bytes"));
    let (blobs, small, meta) = (length(0), length(1), length(2));
    let whole = [blobs, small, meta].iter().try_fold(PRELUDE, |sum, n| sum.checked_add(*n));
    if whole != Some(file.metadata()?.len()) {
        return Err(damaged("its length is wrong"));
    }
    let mut tail = vec![0; (small + meta) as usize];
    file.read_exact_at(&mut tail, PRELUDE + blobs)?;
    let (small, meta) = tail.split_at(small as usize);
    if hash(small, meta)[..] != prelude[32..] {
        return Err(damaged("its content does not match its hash"));
    }
    fits(meta)?;
    // Its age decides what is evicted; a cache that cannot be touched still serves.
    let _ = file.set_modified(SystemTime::now());
    let mut loader = Loader::new(small, Arc::new(Blobs { file }));
    let restored = device.restore(&mut loader).and_then(|()| loader.finish());
    restored.map_err(|error| damaged(&error.to_string()))?;
    Ok(meta.to_vec())
}

/// Read every blob of a restored `device` once, so that damage is found before it is needed: then
/// it unwinds whoever needs it.
///
/// # Errors
/// What is damaged.
pub fn check_blobs(device: &dyn Device) -> io::Result<()> {
    let read = || {
        let mut nowhere = io::sink();
        let mut saver = Saver::new(&mut nowhere);
        device.save(&mut saver);
        saver.finish().map(drop)
    };
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|payload| {
        match payload.downcast::<SnapshotError>() {
            Ok(damage) => Err(io::Error::new(io::ErrorKind::InvalidData, *damage)),
            Err(other) => resume_unwind(other),
        }
    })
}

#[derive(Debug)]
struct Blobs {
    file: File,
}

impl BlobSource for Blobs {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, PRELUDE + offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::testing::FixedDelay;

    fn drive() -> Box<dyn Device> {
        Box::new(FixedDelay::new(Nanos(100), 1))
    }

    fn cache(name: &str) -> Cache {
        let directory =
            std::env::temp_dir().join(format!("blocklab-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        Cache { directory, worth: Duration::ZERO, bytes_max: 1 << 20 }
    }

    #[test]
    fn damage_is_noticed_and_the_image_removed() {
        let cache = cache("image-damage");
        let prepared = Prepared { start: Nanos(7), ..Prepared::fresh(drive()) };
        cache.store("d", &prepared).unwrap();
        assert_eq!(cache.load("d", drive()).unwrap().unwrap().start, Nanos(7));
        let good = fs::read(cache.path("d")).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(cache.path("d"), &bad).unwrap();
            assert!(cache.load("d", drive()).is_err(), "byte {at} changed unnoticed");
            assert!(!cache.path("d").exists());
            fs::write(cache.path("d"), &good[..at]).unwrap();
            assert!(cache.load("d", drive()).is_err(), "cut at {at} unnoticed");
        }
        assert!(cache.load("d", drive()).unwrap().is_none());
        fs::remove_dir_all(&cache.directory).unwrap();
    }

    #[test]
    fn what_cannot_be_read_is_not_called_damaged() {
        let cache = cache("image-unreadable");
        // A folder in its place opens, and gives no bytes.
        fs::create_dir_all(cache.path("d")).unwrap();
        let why = cache.load("d", drive()).err().expect("it is no image");
        assert!(why.contains("could not be read") && !why.contains("damaged"), "{why}");
        assert!(cache.path("d").exists());
        fs::remove_dir_all(&cache.directory).unwrap();
    }

    #[test]
    fn what_was_stored_just_now_or_used_lately_stays() {
        let mut cache = cache("image-recent");
        cache.bytes_max = 1;
        for digest in ["a", "b"] {
            let note = cache.store(digest, &Prepared::fresh(drive())).unwrap().unwrap();
            assert!(cache.path(digest).exists());
            assert!(note.contains("more than the 1 B of BLOCKLAB_CACHE_MAX"), "{note}");
        }
        assert!(!cache.path("a").exists(), "a disk is not to be filled");
        cache.bytes_max = cache.images().unwrap()[0].bytes;
        for digest in ["c", "d", "e", "f"] {
            assert_eq!(cache.store(digest, &Prepared::fresh(drive())).unwrap(), None);
        }
        let kept = ["b", "c", "d", "e", "f"].map(|digest| cache.path(digest).exists());
        assert_eq!(kept, [false, true, true, true, true], "of the last hour, four times as much");
        fs::remove_dir_all(&cache.directory).unwrap();
    }

    #[test]
    fn an_unfinished_image_is_known_and_nothing_else_is() {
        let folder = cache("image-known").directory;
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a");
        write_image(&path, &*drive(), b"meta").unwrap();
        let whole = fs::read(&path).unwrap();
        for length in [0, 1, MAGIC.len(), PRELUDE as usize, whole.len()] {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(is_image(&path).unwrap(), "the first {length} bytes");
        }
        for foreign in [&b"notes"[..], &[0; 4096], b"blkimg\x02\n"] {
            fs::write(&path, foreign).unwrap();
            assert!(!is_image(&path).unwrap(), "{foreign:?}");
        }
        std::os::unix::fs::symlink(&path, folder.join("link")).unwrap();
        fs::write(&path, &whole).unwrap();
        assert!(!is_image(&folder.join("link")).unwrap() && !is_image(&folder).unwrap());
        assert!(is_image(&folder.join("none")).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first_and_foreign_files_stay() {
        let mut cache = cache("image-evict");
        let ago = |name: &str, hours: u64| {
            let file = File::options().write(true).open(cache.directory.join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(3600 * hours)).unwrap();
        };
        for (digest, hours) in [("a", 5), ("b", 4), ("c", 3)] {
            cache.store(digest, &Prepared::fresh(drive())).unwrap();
            ago(&format!("{digest}.image"), hours);
        }
        for (foreign, hours) in [("kernel", 9), (".d.partial-1", 9), (".e.partial-2", 0)] {
            fs::write(cache.directory.join(foreign), "x").unwrap();
            ago(foreign, hours);
        }
        assert!(cache.load("a", drive()).unwrap().is_some(), "a is the latest that was used");
        let bytes = cache.images().unwrap()[0].bytes;
        cache.bytes_max = 2 * bytes;
        let names = |images: Vec<Image>| -> Vec<String> {
            let name = |image: Image| image.path.file_name().unwrap().to_string_lossy().into();
            images.into_iter().map(name).collect()
        };
        assert_eq!(names(cache.images().unwrap()), ["b.image", "c.image", "a.image"]);
        // A file system's clock lags by milliseconds: what is stored now could look older.
        ago("a.image", 1);
        cache.store("d", &Prepared::fresh(drive())).unwrap();
        assert_eq!(names(cache.images().unwrap()), ["a.image", "d.image"]);
        assert_eq!(names(cache.empty().unwrap()), ["a.image", "d.image"]);
        assert_eq!(names(cache.files(|_| true).unwrap()), ["kernel", ".e.partial-2"]);
        cache.bytes_max = 0;
        cache.store("a", &Prepared::fresh(drive())).unwrap();
        assert!(cache.load("a", drive()).unwrap().is_none());
        fs::remove_dir_all(&cache.directory).unwrap();
        assert_eq!(cache.images().unwrap(), []);
    }
}
