//! What is measured, and whether it may be.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use study::Failure;

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct Choice {
    /// A block device
    #[arg(long, value_name = "PATH")]
    device: Option<PathBuf>,
    /// A file on it; the file system takes its part then
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// What an NBD server offers, `blocklab attach` for instance
    #[arg(long, value_name = "URI")]
    nbd: Option<String>,
}

pub(super) struct Target {
    /// Path or URI.
    pub(super) name: String,
    /// What must be said to overwrite it.
    pub(super) word: String,
    pub(super) bytes: u64,
    pub(super) is_block: bool,
    pub(super) is_nbd: bool,
}

/// Smaller than this, all of it fits into caches.
const BYTES_MIN: u64 = 16 << 20;

impl Target {
    /// # Errors
    /// There is no such thing, it is of another kind, or may not be read.
    pub(super) fn of(choice: &Choice) -> Result<Target, Failure> {
        if let Some(uri) = &choice.nbd {
            if !["nbd://", "nbd+unix://", "nbds://"].iter().any(|scheme| uri.starts_with(scheme)) {
                return Err(Failure::input(format!("--nbd {uri}: no address of NBD"))
                    .expected("nbd://HOST:PORT/NAME or nbd+unix:///NAME?socket=PATH"));
            }
            let name = uri.clone();
            return Ok(Target {
                word: name.clone(),
                name,
                bytes: 0,
                is_block: false,
                is_nbd: true,
            });
        }
        let is_block = choice.device.is_some();
        let option = if is_block { "--device" } else { "--file" };
        let path = choice.device.as_ref().or(choice.file.as_ref());
        let path = path.ok_or_else(|| Failure::bug("a group without a member"))?;
        let shown = path.display();
        let wrong = |why: std::io::Error| {
            let failure = Failure::machine(format!("{option} {shown}: {why}"));
            match why.kind() {
                ErrorKind::NotFound => Failure::input(format!("{option} {shown}: there is none"))
                    .help("lsblk shows the drives of this machine"),
                ErrorKind::PermissionDenied if rustix::process::geteuid().is_root() => {
                    failure.help("not even root may: does a container forbid it?")
                }
                ErrorKind::PermissionDenied => failure.help("run as root"),
                _ => failure,
            }
        };
        let path = path.canonicalize().map_err(wrong)?;
        let kind = path.metadata().map_err(wrong)?.file_type();
        let fits = if is_block { kind.is_block_device() } else { kind.is_file() };
        if !fits {
            let expected = if is_block { "a block device, as lsblk shows them" } else { "a file" };
            return Err(Failure::input(format!("{option} {shown} is something else"))
                .expected(expected)
                .help("--device is for block devices, --file for files"));
        }
        let bytes = File::open(&path).and_then(|mut file| file.seek(SeekFrom::End(0)));
        let bytes = bytes.map_err(wrong)?;
        if bytes < BYTES_MIN {
            return Err(Failure::input(format!("{option} {shown} has {bytes} bytes"))
                .expected(format!("{BYTES_MIN} or more, so that no cache holds all of it")));
        }
        let name = path.display().to_string();
        let word = serial(&path).filter(|_| is_block).unwrap_or_else(|| name.clone());
        Ok(Target { name, word, bytes, is_block, is_nbd: false })
    }

    /// # Errors
    /// `word` is not what must be said to overwrite it.
    pub(super) fn meant(&self, word: &str) -> Result<(), Failure> {
        if word == self.word {
            return Ok(());
        }
        Err(Failure::input(format!("--overwrite {word} is not {}", self.name))
            .expected(format!("`{}`, if all that is on it may be destroyed", self.word))
            .help("lsblk --output NAME,MODEL,SERIAL,SIZE,MOUNTPOINTS shows what is what"))
    }

    /// # Errors
    /// Somebody uses it.
    pub(super) fn free(&self, overwrite: bool, in_use: bool) -> Result<(), Failure> {
        // A file that others only read is read beside them.
        if in_use || self.is_nbd || (!self.is_block && !overwrite) {
            return Ok(());
        }
        let path = Path::new(&self.name);
        let mut users: Vec<String> = Vec::new();
        let mut add = |device: &Path, found: Vec<String>| {
            users.extend(found.into_iter().map(|user| format!("{}: {user}", device.display())));
        };
        for part in partitions(path) {
            add(&part, attach::holders::of_itself(&part));
        }
        add(path, attach::holders::of(path));
        // The kernel knows more: it gives a device that is held to nobody else.
        const O_EXCL: i32 = 0o200;
        let flags = if self.is_block { O_EXCL } else { 0 };
        let held = OpenOptions::new().read(true).write(overwrite).custom_flags(flags).open(path);
        if let Err(why) = held {
            users.push(format!("{}: {why}", self.name));
        }
        if users.is_empty() {
            return Ok(());
        }
        let failure = Failure::input(format!("{} is in use: {}", self.name, users.join("; ")));
        Err(failure.expected("a drive that nobody else uses").help(if overwrite {
            "end what uses it, if it is the right one"
        } else {
            "unmount it, or read it all the same with --in-use"
        }))
    }
}

/// The partitions of a whole drive.
fn partitions(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().unwrap_or_default();
    let folder = Path::new("/sys/class/block").join(name);
    let below = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let parts = below.filter(|entry| entry.path().join("partition").exists());
    parts.map(|entry| Path::new("/dev").join(entry.file_name())).collect()
}

fn serial(path: &Path) -> Option<String> {
    let folder = Path::new("/sys/class/block").join(path.file_name()?);
    let files = ["device/serial", "serial", "device/wwid", "wwid"];
    let found = files.iter().find_map(|file| std::fs::read_to_string(folder.join(file)).ok())?;
    let word = found.trim().to_string();
    (!word.is_empty()).then_some(word)
}
