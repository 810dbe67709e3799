//! `/dev/snapshot`: the kernel's interface for suspending to disk from a program.
//!
//! Linux, `Documentation/power/userland-swsusp.rst`.

use std::fs::File;
use std::io::Read;

use resume::machine::Range;
use resume::{Header, PAGE_BYTES};
use rustix::io::Errno;
use rustix::ioctl::{Getter, IntegerSetter, NoArg, Updater, ioctl, opcode};

use super::{machine, renew};
use crate::policy::{self, After, Known, Left, Policy};

const GROUP: u8 = b'3';
const IMAGE_SIZE: &str = "/sys/power/image_size";

/// An image as a kernel gives it.
pub(super) trait Source {
    /// Its size.
    fn bytes(&self) -> Result<u64, String>;
    /// The next page of it.
    fn page(&mut self, page: &mut [u8; PAGE_BYTES]) -> Result<(), String>;
    /// All was read and is durable elsewhere: from here on nobody may resume from the source.
    fn give_up(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// What a suspend does to a machine, one step a function.
pub(super) trait Machine: Source {
    /// Stop all other programs.
    fn freeze(&mut self) -> Result<(), String>;
    /// The size of an image that the kernel reclaims memory for, unless it is told another.
    fn image_size(&self) -> Result<u64, String>;
    /// Set that size.
    fn prefer(&mut self, bytes: u64) -> Result<(), String>;
    /// Make the image; returns a second time when it is resumed.
    fn create(&mut self) -> Result<Created, String>;
    /// Let the image go. The kernel's own threads, which stood still, go on, and write.
    fn free(&mut self);
    /// Let all other programs go on.
    fn thaw(&mut self);

    /// Let the pages leave that the policy chooses.
    fn swap_out(&mut self, policy: &dyn Policy, known: &Known) -> Result<(Left, After), String> {
        policy::swap_out(policy, known)
    }

    /// Make durable what was written to disks.
    fn flush_disks(&mut self) -> Result<(), String> {
        machine::flush_disks()
    }

    /// What a header says of it.
    fn header(&self, map: &[Range]) -> Result<Header, String> {
        machine::header(map)
    }

    /// Let its random numbers be others than those of an earlier use of the image.
    fn renew(&mut self) -> Result<(), String> {
        renew::renew()
    }
}

/// The interface, open. What it froze it thaws when it goes.
pub(super) struct Snapshot {
    file: File,
    frozen: bool,
}

/// What `create` returned from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Created {
    /// The image was made and can be read.
    Now,
    /// The image was resumed: this is a later life.
    Resumed,
}

impl Snapshot {
    /// Open it.
    pub(super) fn open() -> Result<Snapshot, String> {
        let file = File::open("/dev/snapshot").map_err(|why| {
            let known = std::fs::read_to_string("/sys/kernel/security/lockdown");
            if known.is_ok_and(|lockdown| !lockdown.contains("[none]")) {
                "/dev/snapshot: the kernel is locked down (Secure Boot), which forbids it".into()
            } else {
                format!("/dev/snapshot: {why}; expected root, and a kernel with CONFIG_HIBERNATION")
            }
        })?;
        Ok(Snapshot { file, frozen: false })
    }
}

impl Machine for Snapshot {
    fn freeze(&mut self) -> Result<(), String> {
        const FREEZE: u32 = opcode::none(GROUP, 1);
        // SAFETY: the request takes no argument.
        unsafe { ioctl(&self.file, NoArg::<FREEZE>::new()) }.map_err(|why| told("freeze", why))?;
        self.frozen = true;
        Ok(())
    }

    fn image_size(&self) -> Result<u64, String> {
        let wrong = |why: String| format!("{IMAGE_SIZE}: {why}");
        let text = std::fs::read_to_string(IMAGE_SIZE).map_err(|why| wrong(why.to_string()))?;
        text.trim().parse().map_err(|_| wrong(format!("`{}`: expected a number", text.trim())))
    }

    fn prefer(&mut self, bytes: u64) -> Result<(), String> {
        const PREFER: u32 = opcode::none(GROUP, 18);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: the request takes a number in place of a pointer.
        unsafe { ioctl(&self.file, IntegerSetter::<PREFER>::new_usize(bytes)) }
            .map_err(|why| told("prefer", why))
    }

    fn create(&mut self) -> Result<Created, String> {
        const CREATE: u32 = opcode::write::<i32>(GROUP, 17);
        let mut suspended: i32 = -1;
        {
            let place = &mut suspended;
            // SAFETY: the kernel writes an `int` to the place that it is given, before it returns.
            unsafe { ioctl(&self.file, Updater::<CREATE, i32>::new(place)) }
                .map_err(|why| told("create", why))?;
        }
        Ok(if suspended == 0 { Created::Resumed } else { Created::Now })
    }

    fn free(&mut self) {
        const FREE: u32 = opcode::none(GROUP, 5);
        // SAFETY: the request takes no argument.
        let _ = unsafe { ioctl(&self.file, NoArg::<FREE>::new()) };
    }

    fn thaw(&mut self) {
        const UNFREEZE: u32 = opcode::none(GROUP, 2);
        if std::mem::take(&mut self.frozen) {
            // SAFETY: the request takes no argument.
            let _ = unsafe { ioctl(&self.file, NoArg::<UNFREEZE>::new()) };
        }
    }
}

impl Source for Snapshot {
    fn bytes(&self) -> Result<u64, String> {
        const SIZE: u32 = opcode::read::<i64>(GROUP, 14);
        // SAFETY: the kernel writes an `loff_t`.
        let bytes = unsafe { ioctl(&self.file, Getter::<SIZE, i64>::new()) };
        bytes.map(|bytes| bytes as u64).map_err(|why| told("size", why))
    }

    fn page(&mut self, page: &mut [u8; PAGE_BYTES]) -> Result<(), String> {
        (&self.file).read_exact(page).map_err(|why| format!("/dev/snapshot: read: {why}"))
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.thaw();
    }
}

fn told(what: &str, why: Errno) -> String {
    let more = match why {
        Errno::NOMEM => "; expected more free memory than the image takes, or swap",
        Errno::NOSPC => "; expected swap for what must leave memory",
        _ => "",
    };
    format!("/dev/snapshot: {what}: {why}{more}")
}
