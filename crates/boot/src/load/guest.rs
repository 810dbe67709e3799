//! QEMU, started, followed and always ended.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use attach::{PrivateFolder, dies_with_us};
use config::Failure;
use serde_json::{Value, json};

use super::{rom, uefi};
use crate::guest_process::{self, GuestProcess};
use crate::image::{Firmware, Image};
use crate::tool::{self, INIT_REACHED, QEMU};

/// Longest trace. A guest that goes on reading its disk would fill this machine's with it.
const TRACE_BYTES_MAX: u64 = 4 << 30;
/// The guest's disk. With a cache of writes OVMF asks for it to be flushed, which QEMU answers from
/// its main thread even where there is nothing to do: the guest would wait for that.
const DISK: &str = "virtio-blk-pci,drive=disk,ioeventfd=off,write-cache=off,config-wce=off";
/// What a kernel says, as an emergency, of an initramfs that it could not unpack or find room for.
const NOT_UNPACKED: &str = "Initramfs unpacking failed";
/// How often its length is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

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

/// Boot `image` until its init has said that it runs.
pub(super) fn run(image: &Image, limits: Limits) -> Result<Seen, Failure> {
    let folder = PrivateFolder::new()?;
    let seen = run_in(&folder.path, image, limits, "io_uring");
    // Some containers forbid it, and some builds of QEMU lack it: it ends at once, and says so.
    let refused = || text(&folder.path, "qemu").contains("io_uring");
    if seen.is_err() && refused() {
        return run_in(&folder.path, image, limits, "threads");
    }
    seen
}

fn run_in(folder: &Path, image: &Image, limits: Limits, aio: &str) -> Result<Seen, Failure> {
    let wrong = |why: std::io::Error| Failure::machine(format!("{}: {why}", folder.display()));
    let file = |name: &str| folder.join(name);
    let mut child = dies_with_us(&mut command(image, folder, limits, aio)?)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(file("qemu")).map_err(wrong)?)
        .spawn()
        .map_err(|why| tool::missing(QEMU, &why))?;
    let orders = child.stdin.take().expect("stdin is a pipe");
    let answers = child.stdout.take().expect("stdout is a pipe");
    let mut guest = GuestProcess(child);
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
    let ended = follow(&events, &file("trace"), Instant::now() + limits.wall);
    let code = match ended {
        Ok(()) => guest.0.wait().map_err(wrong)?.code(),
        Err(why) => {
            drop(guest);
            return Err(with_last_lines(Failure::machine(why), folder));
        }
    };
    check_end(code, folder, image, limits)?;
    let read = |name: &str| std::fs::read(file(name)).map_err(wrong);
    Ok(Seen { trace: read("trace")?, console: read("console")? })
}

/// The guest's init was reached, and all that the kernel had to unpack before it is there. Our init
/// lies in front, so it runs whatever became of the rest.
fn check_end(
    code: Option<i32>,
    folder: &Path,
    image: &Image,
    limits: Limits,
) -> Result<(), Failure> {
    if code != Some(INIT_REACHED) {
        let message = "the guest ended before its kernel's init ran";
        return Err(with_last_lines(Failure::machine(message), folder));
    }
    let serial = text(folder, "serial");
    let Some(line) = serial.lines().find(|line| line.contains(NOT_UNPACKED)) else {
        return Ok(());
    };
    let (name, said, memory) = (image.recipe.name(), line.trim(), limits.memory_mib);
    Err(Failure::machine(format!("{name}: the kernel did not unpack its initramfs: {said}"))
        .expected("an initramfs that this kernel can unpack, and memory for it")
        .help(format!(
            "`write error` is for want of memory: a kernel gives half of the guest's, here of \
             {memory} MiB, to the files; raise --mem. A packing that is not configured is left out \
             by --pack-initramfs"
        )))
}

/// All that the guest sees is a matter of instructions: time passes with them and jumps when there
/// is nothing to do, the clock of the day is the guest's own, and a request to the disk is answered
/// before the guest goes on, since it is done where it is made, with its memory and the image's
/// pages in place.
fn command(image: &Image, folder: &Path, limits: Limits, aio: &str) -> Result<Command, Failure> {
    let mut qemu = Command::new(QEMU);
    let file = |name: &str| format!("file:{}", folder.join(name).display());
    let path = tool::qemu_name(&image.path);
    let drive = format!("file={path},if=none,id=disk,format=raw,readonly=on,aio={aio}");
    let memory = format!("memory-backend-ram,id=ram,size={}M,prealloc=on", limits.memory_mib);
    qemu.args(["-accel", "tcg", "-icount", "shift=0,sleep=off", "-cpu", "qemu64", "-smp", "1"]);
    qemu.args(["-machine", "pc,memory-backend=ram", "-object", &memory]);
    qemu.args(["-m", &limits.memory_mib.to_string(), "-rtc", "base=2000-01-01,clock=vm"]);
    qemu.args(["-nodefaults", "-display", "none", "-vga", "none", "-nic", "none", "-no-reboot"]);
    qemu.args(["-serial", &file("serial"), "-debugcon", &file("console"), "-qmp", "stdio"]);
    qemu.args(tool::EXIT_DEVICE);
    qemu.args(["-drive", &drive, "-device", DISK]);
    for event in ["virtio_blk_handle_read", "virtio_blk_req_complete", "serial_write"] {
        qemu.args(["-trace", &format!("enable={event}")]);
    }
    // With the time comes the thread, which is what is wanted.
    qemu.args(["-msg", "timestamp=on", "-D"]).arg(folder.join("trace"));
    match image.recipe.firmware {
        Firmware::Bios => rom::add(&mut qemu, folder)?,
        Firmware::Uefi => uefi::add(&mut qemu, folder)?,
    };
    Ok(qemu)
}

/// Wait until QEMU ends.
fn follow(events: &Receiver<String>, trace: &Path, end: Instant) -> Result<(), String> {
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
        if let Some(why) = answer["error"]["desc"].as_str() {
            return Err(format!("QEMU: {why}"));
        }
    }
}

/// A failure with the last lines of the guest, or of QEMU.
fn with_last_lines(failure: Failure, folder: &Path) -> Failure {
    let said = ["qemu", "serial"].map(|name| text(folder, name)).concat();
    guest_process::with_last_lines(failure, said.lines())
}

/// What is in a file, if it is there.
fn text(folder: &Path, name: &str) -> String {
    let bytes = std::fs::read(folder.join(name)).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_init_before_which_not_all_was_unpacked_is_an_error() {
        let folder = PrivateFolder::new().unwrap();
        let image = Image {
            path: "disk".into(),
            kernel: "vmlinuz".into(),
            recipe: crate::image::Recipe::default(),
            file_bytes: 1,
        };
        let check = |code, serial: &str| {
            std::fs::write(folder.path.join("serial"), serial).unwrap();
            check_end(code, &folder.path, &image, Limits::default())
        };
        assert!(check(Some(INIT_REACHED), "").is_ok());
        assert!(check(Some(1), "").is_err() && check(None, "").is_err());
        let said = "[    1.331341] Initramfs unpacking failed: write error";
        let failure = check(Some(INIT_REACHED), &format!("Booting\r\n{said}\r\n")).unwrap_err();
        assert_eq!(failure.exit_code(), 3);
        let name = image.recipe.name();
        let expected = format!("{name}: the kernel did not unpack its initramfs: {said}");
        assert_eq!(failure.message, expected);
        assert!(failure.help.unwrap().contains("here of 512 MiB"));
    }

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
