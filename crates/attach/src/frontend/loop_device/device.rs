//! The loop device that makes a block device of a file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use study::Failure;

use crate::frontend::block_queue::BlockQueue;

const CTL_GET_FREE: libc::Ioctl = 0x4c82;
const CONFIGURE: libc::Ioctl = 0x4c0a;
const READ_ONLY: u32 = 1;
const AUTOCLEAR: u32 = 4;
const DIRECT_IO: u32 = 16;
/// Others look for a free device at the same time.
const TRIES: usize = 64;

/// `struct loop_config` with the `struct loop_info64` inside it.
#[repr(C)]
struct Config {
    fd: u32,
    block_size: u32,
    /// Device, inode, real device, offset, size limit.
    places: [u64; 5],
    number: u32,
    encryption: [u32; 2],
    flags: u32,
    file_name: [u8; 64],
    encryption_name: [u8; 64],
    encryption_key: [u8; 32],
    init: [u64; 2],
    reserved: [u64; 8],
}

/// A bound loop device. The kernel frees it when the last user is gone, even if we are killed.
#[derive(Debug)]
pub(super) struct LoopDevice {
    /// `/dev/loop0`.
    pub(super) path: PathBuf,
    file: Option<File>,
    pub(super) queue: BlockQueue,
}

impl LoopDevice {
    /// Bind a free loop device to `backing`; `shown` is what `losetup` lists as its file.
    pub(super) fn bind(
        backing: &OwnedFd,
        shown: &str,
        block_bytes: u32,
        read_only: bool,
    ) -> Result<LoopDevice, Failure> {
        let lacking = |what: String| {
            Failure::machine(what)
                .help("run as root after: sudo modprobe loop; or use --as nbd, which needs neither")
        };
        let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control");
        let control = control.map_err(|why| lacking(format!("/dev/loop-control: {why}")))?;
        for _ in 0..TRIES {
            // SAFETY: the request takes no argument; the descriptor is open.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), CTL_GET_FREE) };
            if number < 0 {
                let why = io::Error::last_os_error();
                return Err(lacking(format!("there is no free loop device: {why}")));
            }
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let file = OpenOptions::new().read(true).write(!read_only).open(&path);
            let file = file.map_err(|why| lacking(format!("{}: {why}", path.display())))?;
            match configure(&file, backing, shown, block_bytes, read_only) {
                Ok(()) => {
                    let queue = BlockQueue::of(&path);
                    return Ok(LoopDevice { path, file: Some(file), queue });
                }
                Err(why) if why.raw_os_error() == Some(libc::EBUSY) => {}
                Err(why) => return Err(lacking(format!("cannot bind {}: {why}", path.display()))),
            }
        }
        Err(lacking("every free loop device was taken by somebody else".into()))
    }

    /// Undo the settings and give the device back; it stays while others use it.
    pub(super) fn release(&mut self) {
        self.queue.undo();
        self.file = None;
    }

    /// True while somebody else uses the device that was given back.
    fn is_bound(&self) -> bool {
        self.queue.sysfs("loop").exists()
    }

    /// Wait until nobody uses the device any more; false when that takes longer than `patience`.
    pub(super) fn wait_until_free(&self, patience: Duration) -> bool {
        let began = std::time::Instant::now();
        while self.is_bound() {
            if began.elapsed() > patience {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        self.release();
    }
}

fn configure(
    device: &File,
    backing: &OwnedFd,
    shown: &str,
    block_bytes: u32,
    read_only: bool,
) -> io::Result<()> {
    let mut file_name = [0; 64];
    for (to, from) in file_name.iter_mut().take(63).zip(shown.bytes()) {
        *to = from;
    }
    let config = Config {
        fd: backing.as_raw_fd() as u32,
        block_size: block_bytes,
        places: [0; 5],
        number: 0,
        encryption: [0; 2],
        flags: AUTOCLEAR | DIRECT_IO | if read_only { READ_ONLY } else { 0 },
        file_name,
        encryption_name: [0; 64],
        encryption_key: [0; 32],
        init: [0; 2],
        reserved: [0; 8],
    };
    // SAFETY: `Config` has the layout the request reads, and it lives across the call.
    match unsafe { libc::ioctl(device.as_raw_fd(), CONFIGURE, &raw const config) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_reads_what_we_lay_out() {
        assert_eq!(size_of::<Config>(), 8 + 232 + 64);
        assert_eq!(std::mem::offset_of!(Config, flags), 8 + 52);
        assert_eq!(std::mem::offset_of!(Config, reserved), 8 + 232);
    }
}
