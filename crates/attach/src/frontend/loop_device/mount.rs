//! A FUSE file system that no folder shows: it is mounted nowhere, so nothing of it can stay.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen,
};
use study::Failure;

/// Our end of a new connection to the kernel.
pub(super) fn connect() -> Result<File, Failure> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/fuse").map_err(|why| {
        let failure = Failure::machine(format!("cannot open /dev/fuse: {why}"));
        match why.kind() {
            io::ErrorKind::NotFound => failure.help("sudo modprobe fuse"),
            _ => failure.help("run as root, or use --as nbd, which needs no permission"),
        }
    })
}

/// Mount what is served at the other end of `connection`. Nobody need be answering yet.
pub(super) fn mount(connection: BorrowedFd<'_>) -> Result<OwnedFd, Failure> {
    let number = connection.as_raw_fd().to_string();
    let mounted = || -> rustix::io::Result<OwnedFd> {
        let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
        for (key, value) in [
            ("source", "blocklab"),
            ("fd", number.as_str()),
            ("rootmode", "40000"),
            ("user_id", "0"),
            ("group_id", "0"),
        ] {
            fsconfig_set_string(&context, key, value)?;
        }
        fsconfig_create(&context)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOSUID;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
    };
    mounted().map_err(|why| {
        let failure = Failure::machine(format!("cannot mount a FUSE file system: {why}"));
        match why {
            rustix::io::Errno::PERM => {
                failure.help("run as root, or use --as nbd, which needs no permission")
            }
            _ => failure.help("use --as nbd, which needs nothing of the kernel"),
        }
    })
}

/// Open a file of the mounted folder for direct I/O.
pub(super) fn open(folder: &OwnedFd, name: &str, read_only: bool) -> Result<OwnedFd, Failure> {
    let access = if read_only { OFlags::RDONLY } else { OFlags::RDWR };
    let flags = access | OFlags::DIRECT | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty()).map_err(|why| {
        Failure::machine(format!("the kernel does not open our own file: {why}"))
            .help("use --as nbd, which needs nothing of the kernel")
    })
}
