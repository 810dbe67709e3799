//! The control device: making, starting, stopping and deleting block devices.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use study::Failure;

use super::wire::{self, DeviceInfo, Parameters, command};

const PATH: &str = "/dev/ublk-control";

/// The open control device and a ring to it.
pub(super) struct Control {
    file: File,
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
}

impl Control {
    pub(super) fn open() -> Result<Control, Failure> {
        let file = OpenOptions::new().read(true).write(true).open(PATH).map_err(|why| {
            let failure = Failure::machine(format!("cannot open {PATH}: {why}"));
            match why.kind() {
                io::ErrorKind::NotFound => failure.help(
                    "sudo modprobe ublk_drv; a kernel without it (before 6.5, or built without \
                     CONFIG_BLK_DEV_UBLK) has no ublk: use --as loop",
                ),
                _ => failure.help("run as root, or use --as nbd, which needs no permission"),
            }
        })?;
        let ring = IoUring::builder().build(4).map_err(|why| refused_ring(&why))?;
        Ok(Control { file, ring })
    }

    /// Give one command, wait until it is done, and return what is in `buffer` then.
    fn run(&mut self, code: u32, device: u32, data: u64, buffer: Vec<u8>) -> io::Result<Vec<u8>> {
        let buffer = std::mem::ManuallyDrop::new(buffer);
        let address = if buffer.is_empty() { 0 } else { buffer.as_ptr() as u64 };
        let order = wire::control(device, address, buffer.len() as u16, data);
        let fd = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd80::new(fd, code).cmd(order).build();
        // SAFETY: the buffer is given up unless the kernel has said that it is done with it.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        loop {
            match self.ring.submit_and_wait(1) {
                Err(why) if why.kind() != io::ErrorKind::Interrupted => return Err(why),
                _ => {}
            }
            let Some(done) = self.ring.completion().next() else { continue };
            let buffer = std::mem::ManuallyDrop::into_inner(buffer);
            return match done.result() {
                0.. => Ok(buffer),
                error => Err(io::Error::from_raw_os_error(-error)),
            };
        }
    }

    /// Make a device; what it became.
    pub(super) fn add(&mut self, wanted: &DeviceInfo) -> io::Result<DeviceInfo> {
        self.run(command::ADD, wanted.device, 0, wanted.encode())
            .map(|bytes| DeviceInfo::decode(&bytes))
    }

    pub(super) fn set_parameters(&mut self, device: u32, all: &Parameters) -> io::Result<()> {
        self.run(command::SET_PARAMETERS, device, 0, all.encode()).map(drop)
    }

    /// Let the block device appear. Its first requests must be served meanwhile.
    pub(super) fn start(&mut self, device: u32) -> io::Result<()> {
        let process = u64::from(std::process::id());
        self.run(command::START, device, process, Vec::new()).map(drop)
    }

    /// Let the block device go. Its last requests must be served meanwhile.
    pub(super) fn stop(&mut self, device: u32) -> io::Result<()> {
        self.run(command::STOP, device, 0, Vec::new()).map(drop)
    }

    /// Delete a device that nobody serves.
    pub(super) fn delete(&mut self, device: u32) -> io::Result<()> {
        self.run(command::DELETE, device, 0, Vec::new()).map(drop)
    }

    fn info(&mut self, device: u32) -> io::Result<DeviceInfo> {
        self.run(command::GET_INFO, device, 0, vec![0; DeviceInfo::BYTES])
            .map(|bytes| DeviceInfo::decode(&bytes))
    }

    /// Devices of ours whose server is no more.
    pub(super) fn abandoned(&mut self) -> Vec<u32> {
        let is_running = |process| PathBuf::from(format!("/proc/{process}")).exists();
        let abandoned = |device: &u32| {
            self.info(*device).is_ok_and(|info| wire::is_abandoned(&info, is_running))
        };
        numbers().into_iter().filter(abandoned).collect()
    }
}

fn refused_ring(why: &io::Error) -> Failure {
    Failure::machine(format!("the kernel gives no io_uring: {why}"))
        .help("sudo sysctl kernel.io_uring_disabled=0; or use --as loop")
}

/// The numbers of all ublk devices there are.
fn numbers() -> Vec<u32> {
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    let number = |name: std::ffi::OsString| name.to_str()?.strip_prefix("ublkc")?.parse().ok();
    let mut all: Vec<u32> = entries.filter_map(|entry| number(entry.file_name())).collect();
    all.sort_unstable();
    all
}
