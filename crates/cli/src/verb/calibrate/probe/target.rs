//! What is measured, and whether it may be.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use config::quoted;
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
    /// Open as long as it is measured: the kernel then gives it to nobody else who wants it for
    /// himself, as who mounts it does, and its number to no other drive.
    held: Option<File>,
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
                held: None,
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
        let bytes = File::open(&path).and_then(|file| size(&file)).map_err(wrong)?;
        if bytes < BYTES_MIN {
            return Err(Failure::input(format!("{option} {shown} has {bytes} bytes"))
                .expected(format!("{BYTES_MIN} or more, so that no cache holds all of it")));
        }
        let name = path.display().to_string();
        let word = word_of(&path, is_block);
        Ok(Target { name, word, bytes, is_block, is_nbd: false, held: None })
    }

    /// # Errors
    /// `word` is not what must be said to overwrite it.
    pub(super) fn meant(&self, word: &str) -> Result<(), Failure> {
        if word == self.word || self.is_block && with_single_blanks(word) == self.word {
            return Ok(());
        }
        let right = quoted(&self.word);
        Err(Failure::input(format!("--overwrite {} is not {}", quoted(word), self.name))
            .expected(format!("--overwrite {right}, if all that is on it may be destroyed"))
            .help("lsblk --output NAME,MODEL,SERIAL,SIZE,MOUNTPOINTS shows what is what"))
    }

    /// Hold it for as long as it is measured.
    ///
    /// # Errors
    /// Somebody uses it.
    pub(super) fn hold(&mut self, overwrite: bool, in_use: bool) -> Result<(), Failure> {
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
        match OpenOptions::new().read(true).write(overwrite).custom_flags(flags).open(path) {
            Ok(held) => self.held = Some(held),
            Err(why) => users.push(format!("{}: {why}", self.name)),
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

    /// fio opens it by its name: is that still what is held?
    ///
    /// # Errors
    /// It is not.
    pub(super) fn unchanged(&self) -> Result<(), Failure> {
        let Some(held) = &self.held else { return Ok(()) };
        let path = Path::new(&self.name);
        let about = |file: &File| {
            let found = file.metadata()?;
            let one = if self.is_block { (0, found.rdev()) } else { (found.dev(), found.ino()) };
            Ok((one, size(file)?))
        };
        let known: std::io::Result<_> = about(held);
        let why = match File::open(path).and_then(|file| Ok((about(&file)?, known?))) {
            Err(why) => why.to_string(),
            Ok(((one, _), (held, _))) if one != held => "it is another one now".into(),
            Ok(((_, bytes), _)) if bytes != self.bytes => {
                format!("it has {bytes} bytes now, for {}", self.bytes)
            }
            Ok(_) => match word_of(path, self.is_block) {
                word if word == self.word => return Ok(()),
                word => format!("it is {word} now, and was {}", self.word),
            },
        };
        Err(Failure::machine(format!("{} has changed while it was probed: {why}", self.name))
            .expected("the drive that was there when the probe began")
            .help("lsblk --output NAME,MODEL,SERIAL,SIZE,MOUNTPOINTS shows what is what"))
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

fn size(mut file: &File) -> std::io::Result<u64> {
    file.seek(SeekFrom::End(0))
}

/// What must be said to overwrite it.
fn word_of(path: &Path, is_block: bool) -> String {
    let name = path.file_name().filter(|_| is_block);
    let word = name.and_then(|name| serial(&Path::new("/sys/class/block").join(name)));
    word.unwrap_or_else(|| path.display().to_string())
}

/// The serial number of the drive that has this folder of /sys, as lsblk shows it.
fn serial(folder: &Path) -> Option<String> {
    let text = |file: &str| std::fs::read(folder.join(file)).ok();
    // SCSI has it in a page of its own, behind four bytes of its kind and length.
    let page = || Some(text("device/vpd_pg80")?.get(4..)?.to_vec());
    let word = |bytes: Option<Vec<u8>>| {
        let word = with_single_blanks(&String::from_utf8_lossy(&bytes?).replace('\0', " "));
        (!word.is_empty()).then_some(word)
    };
    let before = ["device/serial", "serial"].iter().find_map(|file| word(text(file)));
    let after = || ["device/wwid", "wwid"].iter().find_map(|file| word(text(file)));
    before.or_else(|| word(page())).or_else(after)
}

/// Drives pad their numbers, and a shell leaves one blank of several.
fn with_single_blanks(word: &str) -> String {
    word.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serial_number_of_a_scsi_drive_goes_before_its_name() {
        let folder = attach::PrivateFolder::new().unwrap();
        std::fs::create_dir(folder.path.join("device")).unwrap();
        let write = |name: &str, bytes: &[u8]| {
            std::fs::write(folder.path.join(name), bytes).unwrap();
            serial(&folder.path)
        };
        let wwid = b"t10.ATA     Samsung SSD 860 EVO 1TB         S3Z9NX0M123456      \n";
        let long = "t10.ATA Samsung SSD 860 EVO 1TB S3Z9NX0M123456".to_string();
        assert_eq!(write("device/wwid", wwid), Some(long));
        let page = b"\0\x80\0\x14      S3Z9NX0M123456";
        assert_eq!(write("device/vpd_pg80", page), Some("S3Z9NX0M123456".into()));
        // A drive may have one without a number in it.
        assert!(write("device/vpd_pg80", b"\0\x80\0\x04    ").unwrap().starts_with("t10.ATA "));
        assert_eq!(write("device/serial", b"S64DNL0T  99 \n"), Some("S64DNL0T 99".into()));
    }

    #[test]
    fn one_blank_is_as_good_as_several() {
        let target = Target {
            name: "/dev/sda".into(),
            word: "t10.ATA X 1".into(),
            bytes: 0,
            is_block: true,
            is_nbd: false,
            held: None,
        };
        assert!(target.meant("t10.ATA     X    1   ").is_ok());
        assert!(target.meant("t10.ATA X1").is_err());
    }
}
