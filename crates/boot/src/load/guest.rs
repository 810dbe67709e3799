//! QEMU, started, followed and always ended.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use attach::{PrivateFolder, dies_with_us};
use config::Failure;
use serde_json::{Value, json};

use super::uefi;
use crate::image::{Firmware, Image};
use crate::tool::{self, INIT_REACHED, QEMU};

/// Times of a load are in these; they are on only while it lasts, because they are many.
const CLOCK_EVENTS: &str = "memory_region_ops_read";
/// Longest trace. A guest that goes on reading the clock would fill the disk with it.
const TRACE_BYTES_MAX: u64 = 4 << 30;
/// How often its length is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Lines of a guest that an error shows.
const LAST_LINES: usize = 5;

/// What a guest may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Time of this machine.
    pub wall: Duration,
    /// The guest's memory.
    pub memory_mib: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { wall: Duration::from_secs(300), memory_mib: 512 }
    }
}

/// What a boot left behind.
pub(super) struct Seen {
    pub(super) trace: Vec<u8>,
    pub(super) console: Vec<u8>,
}

/// A process that is killed and waited for.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Boot `image` until its init has said that it runs.
pub(super) fn run(image: &Image, limits: Limits) -> Result<Seen, Failure> {
    let folder = PrivateFolder::new()?;
    let wrong = |why: std::io::Error| Failure::machine(format!("{}: {why}", folder.path.display()));
    let file = |name: &str| folder.path.join(name);
    let mut child = dies_with_us(&mut command(image, &folder.path, limits)?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(file("qemu")).map_err(wrong)?)
        .spawn()
        .map_err(|why| tool::missing(QEMU, &why))?;
    let orders = child.stdin.take().expect("stdin is a pipe");
    let answers = child.stdout.take().expect("stdout is a pipe");
    let mut guest = Guest(child);
    let (send, events) = channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(answers).lines().map_while(Result::ok);
        lines.map_while(|line| send.send(line).ok()).for_each(drop);
    });
    let order = |(name, arguments): (&str, Value)| {
        let line = json!({ "execute": name, "arguments": arguments });
        // When QEMU has ended, its answers end, too.
        drop(writeln!(&orders, "{line}"));
    };
    order(("qmp_capabilities", json!({})));
    if image.recipe.firmware == Firmware::Uefi {
        uefi::orders().into_iter().for_each(order);
    }
    let end = Instant::now() + limits.wall;
    let ended = follow(&events, order, &file("trace"), image.recipe.stops(), end);
    let code = match ended {
        Ok(()) => guest.0.wait().map_err(wrong)?.code(),
        Err(why) => {
            drop(guest);
            return Err(with_last_lines(Failure::machine(why), &folder.path));
        }
    };
    if code != Some(INIT_REACHED) {
        let message = "the guest ended before its kernel's init ran";
        return Err(with_last_lines(Failure::machine(message), &folder.path));
    }
    let read = |name: &str| std::fs::read(file(name)).map_err(wrong);
    Ok(Seen { trace: read("trace")?, console: read("console")? })
}

fn command(image: &Image, folder: &Path, limits: Limits) -> Result<Command, Failure> {
    let mut qemu = Command::new(QEMU);
    let file = |name: &str| format!("file:{}", folder.join(name).display());
    let drive =
        format!("file={},if=none,id=disk,format=raw,snapshot=on", tool::qemu_name(&image.path));
    qemu.args(["-accel", "tcg", "-icount", "shift=0,sleep=on", "-machine", "pc"]);
    qemu.args(["-cpu", "qemu64", "-smp", "1", "-m", &limits.memory_mib.to_string()]);
    qemu.args(["-nodefaults", "-display", "none", "-vga", "none", "-nic", "none", "-no-reboot"]);
    qemu.args(["-serial", &file("serial"), "-debugcon", &file("console"), "-qmp", "stdio"]);
    qemu.args(tool::EXIT_DEVICE);
    // The guest stops itself where tracing begins and ends.
    qemu.args(["-device", "pvpanic,ioport=0x505", "-action", "panic=pause"]);
    // Without a thread for the disk, a request is in the trace where the guest makes it.
    qemu.args(["-drive", &drive, "-device", "virtio-blk-pci,drive=disk,ioeventfd=off"]);
    qemu.args(["-trace", "enable=virtio_blk_handle_read", "-D"]).arg(folder.join("trace"));
    if image.recipe.firmware == Firmware::Uefi {
        uefi::add(&mut qemu, folder)?;
    }
    Ok(qemu)
}

/// Turn the clock's events on at the guest's first stop and off at its last, until QEMU ends.
fn follow(
    events: &Receiver<String>,
    order: impl Fn((&str, Value)),
    trace: &Path,
    last_stop: u32,
    end: Instant,
) -> Result<(), String> {
    let mut stops = 0;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let line = match events.recv_timeout(left.min(LOOK_EVERY)) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                return Err("the guest did not come to its kernel's init in time".into());
            }
            Err(RecvTimeoutError::Timeout) => {
                let bytes = std::fs::metadata(trace).map_or(0, |found| found.len());
                if bytes > TRACE_BYTES_MAX {
                    return Err(format!("the guest's loader does not end: {bytes} bytes of trace"));
                }
                continue;
            }
        };
        let answer: Value = serde_json::from_str(&line).unwrap_or_default();
        if answer["event"] == "STOP" {
            stops += 1;
            if stops == 1 || stops == last_stop {
                let state = json!({ "name": CLOCK_EVENTS, "enable": stops == 1 });
                order(("trace-event-set-state", state));
            }
            order(("cont", json!({})));
        } else if let Some(why) = answer["error"]["desc"].as_str() {
            return Err(format!("QEMU: {why}"));
        }
    }
}

/// A failure with the last lines of the guest, or of QEMU.
fn with_last_lines(failure: Failure, folder: &Path) -> Failure {
    let text = |name| std::fs::read(folder.join(name)).unwrap_or_default();
    let said = [text("qemu"), text("serial")].concat();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    match lines.as_slice() {
        [] => failure.help("it said nothing; a slow machine needs a longer --wall-limit"),
        lines => failure.help(format!(
            "its last lines:\n{}",
            lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_what_the_guest_said_last() {
        let folder = PrivateFolder::new().unwrap();
        let quiet = with_last_lines(Failure::machine("ended"), &folder.path);
        assert!(quiet.help.unwrap().contains("said nothing"));
        std::fs::write(folder.path.join("serial"), "1\n2\n3\n4\n\nKernel panic\nend\n").unwrap();
        let help = with_last_lines(Failure::machine("ended"), &folder.path).help.unwrap();
        assert_eq!(help, "its last lines:\n2\n3\n4\nKernel panic\nend");
    }
}
