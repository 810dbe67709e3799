//! A file that somebody is going to write to, kept from being mounted meanwhile.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use study::Failure;

use crate::{holders, loops};

/// Whoever was killed holds a device until the kernel has let go of its files.
const PATIENCE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(20);

/// Hold the loop devices that are made of `file`, so that they are not mounted while somebody
/// else writes to it; but for the one named `own`.
///
/// # Errors
/// When one of them is in use.
pub(crate) fn hold_above(file: &Path, own: Option<&str>) -> Result<Vec<File>, Failure> {
    let mut held = Vec::new();
    for name in loops::above(file, Path::new(loops::BLOCKS))
        .iter()
        .filter(|name| Some(name.as_str()) != own)
    {
        let device = Path::new("/dev").join(name);
        let users = match exclusively(&device) {
            Ok(open) => {
                held.push(open);
                continue;
            }
            Err(why) if why.kind() == ErrorKind::ResourceBusy => {
                let mut users = holders::of(&device);
                if users.is_empty() {
                    users.push(why.to_string());
                }
                users
            }
            // Without a user's right to open it, what can be seen must do.
            Err(_) => holders::of(&device),
        };
        if !users.is_empty() {
            let (shown, users) = (file.display(), users.join("; "));
            let text =
                format!("{shown} is in use: {}, which is made of it: {users}", device.display());
            return Err(Failure::input(text)
                .expected("a file that nobody else uses")
                .help("stop that one first, if it is the right file"));
        }
    }
    Ok(held)
}

/// Refused by the kernel while it is mounted or part of something else.
fn exclusively(device: &Path) -> io::Result<File> {
    let began = Instant::now();
    loop {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlags::EXCL.bits() as i32);
        match options.open(device) {
            Err(why) if why.kind() == ErrorKind::ResourceBusy && began.elapsed() < PATIENCE => {
                std::thread::sleep(POLL);
            }
            other => return other,
        }
    }
}
