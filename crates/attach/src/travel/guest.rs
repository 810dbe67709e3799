//! The User-Mode Linux process: how it is started, and that it ends.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, kill_process_group, waitid,
};
use study::Failure;

use super::memory;

/// The kernel takes no longer command line.
const COMMAND_LINE_MAX: usize = 2000;
/// How long a guest that was asked to end may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the kernel is told.
pub(super) struct Boot<'a> {
    pub(super) kernel: &'a Path,
    /// Its first process.
    pub(super) program: &'a Path,
    pub(super) memory_mib: u64,
    /// Requests a device takes at a time.
    pub(super) queue_depth: u32,
    /// How many disks there are.
    pub(super) disks: usize,
    /// Further words for it.
    pub(super) words: &'a [String],
    /// The folder with the plan.
    pub(super) control: &'a Path,
    /// The folder with the sockets, and for the kernel's own files.
    pub(super) folder: &'a Path,
}

/// The calendar's socket in the folder.
pub(super) const CALENDAR: &str = "calendar";
/// The folder with the plan, as the kernel's process finds it.
const CONTROL: &str = "/proc/self/cwd/control";

/// A disk's socket in the folder.
pub(super) fn socket(index: usize) -> String {
    format!("disk{index}")
}

/// How a guest ended that did not end by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Killed {
    /// By somebody, or by this machine's kernel.
    Signal(i32),
    /// What it wrote to its memory had no room on this machine.
    NoRoom,
}

/// A running guest.
pub(super) struct Guest {
    child: Child,
    ended: Option<WaitIdStatus>,
    log: PathBuf,
}

impl Boot<'_> {
    fn arguments(&self) -> Result<Vec<String>, Failure> {
        let mut all = vec![
            format!("mem={}M", self.memory_mib),
            // Left out, the kernel puts these two behind everything, where they are init's.
            "root=98:0".into(),
            "console=tty0".into(),
            "rootfstype=hostfs".into(),
            "rootflags=/".into(),
            "ro".into(),
            format!("init={}", self.program.display()),
            "norandmaps".into(),
            "random.trust_cpu=off".into(),
            "raid=noautodetect".into(),
            "quiet".into(),
            "loglevel=4".into(),
            "con=null".into(),
            "con0=null,fd:1".into(),
            "uml_dir=./".into(),
            format!("virtio_blk.queue_depth={}", self.queue_depth),
            format!("time-travel=ext:{CALENDAR}"),
        ];
        // The kernel's random numbers begin with its command line, so no name of ours in it may
        // change from run to run. 2 is virtio's number of a block device.
        all.extend((0..self.disks).map(|index| format!("virtio_uml.device={}:2", socket(index))));
        all.extend(self.words.iter().cloned());
        all.extend(["--".into(), "travel-guest".into(), CONTROL.into()]);
        let length: usize = all.iter().map(|word| word.len() + 1).sum();
        if length > COMMAND_LINE_MAX {
            return Err(Failure::machine("the guest's command line is too long")
                .help("put blocklab into a folder with a shorter name"));
        }
        if let Some(spaced) = all.iter().find(|word| word.contains(char::is_whitespace)) {
            return Err(Failure::machine(format!("`{spaced}`: no blanks, please"))
                .help("move blocklab to a folder whose name has none"));
        }
        Ok(all)
    }

    /// Start the guest.
    pub(super) fn start(&self) -> Result<Guest, Failure> {
        let kernel = self.kernel.display();
        let unusable = |why: io::Error| Failure::machine(format!("cannot run {kernel}: {why}"));
        let link = self.folder.join("control");
        std::os::unix::fs::symlink(self.control, link).map_err(unusable)?;
        let log = self.folder.join("kernel.log");
        let file = File::create(&log).map_err(unusable)?;
        let errors = file.try_clone().map_err(unusable)?;
        let mut command = Command::new(self.kernel);
        command.args(self.arguments()?).current_dir(self.folder).process_group(0);
        command.env_clear().env("HOME", self.folder);
        command.env("TMPDIR", memory::files().unwrap_or(self.folder));
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        // SAFETY: it runs between fork and exec and calls only what is async-signal-safe.
        unsafe { command.pre_exec(confine) };
        let child = command.spawn().map_err(|why| {
            unusable(why).help("blocklab kernel build makes one; --kernel PATH takes another")
        })?;
        Ok(Guest { child, ended: None, log })
    }
}

/// Make the process that becomes the kernel die with us, lie where it always lies, and learn
/// nothing random from the host.
fn confine() -> io::Result<()> {
    // Asked so, and not killed, the kernel takes the processes of its programs with it.
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    // SAFETY: it touches no memory. That it fails costs nothing but repeatable addresses.
    unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) };
    forbid_randomness()
}

/// `getrandom` fails, as in kernels that do not have it. The guest's own programs are not
/// affected: their calls go to the guest's kernel before this filter sees them.
fn forbid_randomness() -> io::Result<()> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        step(LOAD, 0, 0, 0),
        step(EQUAL, 0, 1, libc::SYS_getrandom as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies the program, which lives until after the call.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) != 0
    };
    if refused { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl Guest {
    /// Its process group.
    pub(super) fn group(&self) -> Option<Pid> {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Stop it until what this gives is dropped. Virtual time does not notice.
    pub(super) fn stopped(&self) -> impl Drop + use<> {
        struct Stopped(Option<Pid>);
        impl Drop for Stopped {
            fn drop(&mut self) {
                self.0.map(|pid| kill_process(pid, Signal::CONT));
            }
        }
        // A guest that has ended may have given its number away.
        let pid = self.group().filter(|_| self.ended.is_none());
        Stopped(pid.filter(|&pid| kill_process(pid, Signal::STOP).is_ok()))
    }

    /// What its kernel writes.
    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// True when it has ended. It keeps its number, which is that of its group.
    pub(super) fn has_ended(&mut self) -> bool {
        if self.ended.is_none() {
            let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            let status = self.group().map(|pid| waitid(WaitId::Pid(pid), how));
            self.ended = status.and_then(|status| status.ok().flatten());
        }
        self.ended.is_some()
    }

    /// Wait for a guest that is about to end by itself.
    pub(super) fn wait(&mut self) {
        let began = Instant::now();
        while !self.has_ended() && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// If this machine ended it. When it ends by itself its kernel exits, or aborts.
    pub(super) fn killed(&self) -> Option<Killed> {
        // A kernel that finds no room for a page has caught SIGBUS, and panics.
        if self.last_words().contains("Kernel mode signal 7") {
            return Some(Killed::NoRoom);
        }
        match self.ended.as_ref()?.terminating_signal()? {
            libc::SIGBUS => Some(Killed::NoRoom),
            signal @ libc::SIGKILL => Some(Killed::Signal(signal)),
            _ => None,
        }
    }

    /// The last lines the kernel wrote.
    pub(super) fn last_words(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let told = |line: &&str| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with("epollctl add err")
        };
        let lines: Vec<&str> = text.lines().filter(told).collect();
        let panic = lines.iter().position(|line| line.contains("Kernel panic"));
        let from = panic.unwrap_or(lines.len().saturating_sub(8));
        let shown: Vec<&str> = lines[from..].iter().take(8).copied().collect();
        shown.join("\n")
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let Some(pid) = self.group() else { return };
        if !self.has_ended() {
            // Asked so, the kernel ends the processes of its programs before itself.
            let _ = kill_process(pid, Signal::TERM);
            self.wait();
        }
        // Of one that was killed they live on, as programs of this machine.
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{PidfdFlags, pidfd_open};

    use super::*;
    use crate::private_folder::PrivateFolder;

    #[test]
    fn the_programs_of_a_killed_kernel_go_with_it() {
        let folder = PrivateFolder::new().unwrap();
        let log = folder.path.join("kernel.log");
        let script = "sleep 1000 > /dev/null 2>&1 & echo $! > kernel.log; kill -9 $$";
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(&folder.path).process_group(0);
        let mut guest = Guest { child: command.spawn().unwrap(), ended: None, log };
        while !guest.has_ended() {
            std::thread::yield_now();
        }
        assert_eq!(guest.killed(), Some(Killed::Signal(9)));
        let program = Pid::from_raw(guest.last_words().parse().unwrap()).unwrap();
        let program = pidfd_open(program, PidfdFlags::empty()).unwrap();
        drop(guest);
        let mut wait = [PollFd::from_borrowed_fd(program.as_fd(), PollFlags::IN)];
        let longest = Timespec { tv_sec: 10, tv_nsec: 0 };
        assert_eq!(poll(&mut wait, Some(&longest)), Ok(1), "it runs on");
    }
}
