//! A program that runs while the device is there, and whose end is the session's.

use std::io::IsTerminal;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, Signal, kill_process_group};
use study::Failure;

use crate::frontend::Address;
use crate::realtime;

/// A running program and whatever it started: they are one process group.
#[derive(Debug)]
pub(crate) struct Captive {
    child: Child,
    status: Option<ExitStatus>,
    asked_to_end: bool,
    /// It has the terminal that was ours.
    has_terminal: bool,
}

/// Have what `command` starts killed when the thread that starts it ends, however that comes.
pub fn dies_with_us(command: &mut Command) -> &mut Command {
    told_of_our_end(command, Signal::KILL)
}

/// A command that runs `program`, and that asks it, and all that it started, to end when the thread
/// that starts it ends, however that comes.
pub fn ends_with_us(program: &str) -> Command {
    // A program that waits for a child of its own may ignore a signal to itself alone.
    const SCRIPT: &str = "trap 'trap - TERM; kill -s TERM 0' TERM; \"$@\" & wait $!";
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", SCRIPT, "sh", program]).process_group(0);
    told_of_our_end(&mut shell, Signal::TERM);
    shell
}

fn told_of_our_end(command: &mut Command, signal: Signal) -> &mut Command {
    let tell = move || Ok(rustix::process::set_parent_process_death_signal(Some(signal))?);
    // SAFETY: the call in it is async-signal-safe and touches no memory of ours.
    unsafe { command.pre_exec(tell) }
}

impl Captive {
    /// Run `command` by the shell, with the address in its variables.
    pub(crate) fn start(command: &str, address: &Address) -> Result<Captive, Failure> {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(command).envs(address.variables.iter().cloned()).process_group(0);
        let (has_terminal, private_mounts) = (owns_terminal(), address.private_mounts);
        // SAFETY: every call in it is async-signal-safe and touches no memory of ours.
        unsafe {
            shell.pre_exec(move || {
                // When we are killed without a chance to clean up, it must not stay behind.
                rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
                if has_terminal {
                    take_terminal();
                }
                realtime::set_io_flusher(false);
                if private_mounts {
                    keep_mounts_private()?;
                }
                Ok(())
            });
        }
        let child = shell.spawn().map_err(|why| {
            Failure::machine(format!("cannot run /bin/sh: {why}")).help("install a shell")
        })?;
        Ok(Captive { child, status: None, asked_to_end: false, has_terminal })
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            // One that cannot be waited for is not there any more.
            self.status = self.child.try_wait().unwrap_or(Some(ExitStatus::from_raw(0)));
        }
        self.status
    }

    /// Make it end, with whatever it started.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Ask it to end; the second time, make it.
    pub(crate) fn end(&mut self) {
        self.signal(if self.asked_to_end { Signal::KILL } else { Signal::TERM });
        self.asked_to_end = true;
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            // It may have ended in the meantime.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Captive {
    fn drop(&mut self) {
        // Nothing of it stays, not even what the shell left in the background.
        self.kill();
        if self.ended().is_none() {
            let _ = self.child.wait();
        }
        if self.has_terminal {
            take_terminal();
        }
    }
}

/// From here on, what this process mounts is gone when it and its children are.
fn keep_mounts_private() -> rustix::io::Result<()> {
    use rustix::mount::{MountPropagationFlags as Propagation, mount_change};
    use rustix::thread::{UnshareFlags, unshare_unsafe};
    // SAFETY: it runs between fork and exec, in the only thread there is; only mounts are unshared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    mount_change(c"/", Propagation::DOWNSTREAM | Propagation::REC)
}

/// True when stdin is a terminal whose foreground is our process group.
fn owns_terminal() -> bool {
    // SAFETY: neither call touches memory; a descriptor that is no terminal gives an error.
    std::io::stdin().is_terminal() && unsafe { libc::tcgetpgrp(0) == libc::getpgrp() }
}

/// Make the calling process's group the foreground of the terminal at stdin.
fn take_terminal() {
    // SAFETY: none of the calls touches memory of ours, and all are async-signal-safe. A group in
    // the background is stopped for this unless it ignores the signal.
    unsafe {
        let before = libc::signal(libc::SIGTTOU, libc::SIG_IGN);
        libc::tcsetpgrp(0, libc::getpgrp());
        libc::signal(libc::SIGTTOU, before);
    }
}

/// The exit code a shell would report.
pub(crate) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::Stdio;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn what_a_program_started_is_asked_to_end_with_us() {
        // It waits for a child, and does nothing about a signal to itself alone. One that came
        // before there is that child would be all that it is asked; the child says so itself, as a
        // fork that is no program yet still has the trap.
        let script = "trap : TERM; sh -c 'echo; exec sleep 1000' & wait; wait";
        let started = || {
            let mut program = ends_with_us("sh");
            let mut child = program.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
            child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
            child
        };
        let mut child = std::thread::spawn(started).join().unwrap();
        let group = Pid::from_child(&child);
        assert!(!child.wait().unwrap().success());
        let deadline = Instant::now() + Duration::from_secs(60);
        while rustix::process::test_kill_process_group(group).is_ok() {
            assert!(Instant::now() < deadline, "something of it goes on");
            std::thread::yield_now();
        }
    }
}
