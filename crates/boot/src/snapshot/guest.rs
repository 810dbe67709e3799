//! QEMU, whose serial line is read with the time of each line, and which is always ended.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use attach::{PrivateFolder, dies_with_us};
use config::Failure;

use super::{Drives, SnapshotGuest};
use crate::tool::{self, QEMU};

/// What the loader says when it does nothing.
pub(super) const NOT_RESUMED: &str = "blocklab-loader: not resumed: ";
/// Lines of a guest that an error shows.
const LAST_LINES: usize = 5;
/// Most lines that are kept.
const LINES_MAX: usize = 100_000;

/// What QEMU starts.
pub(super) struct Start {
    folder: PrivateFolder,
    arguments: Vec<PathBuf>,
}

/// What a guest said, and when it ended.
pub(super) struct Life {
    lines: Vec<(Duration, String)>,
    pub(super) ended: Duration,
    /// What it read, in QEMU's words, if it counted.
    pub(super) trace: Vec<u8>,
}

struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Start {
    /// A kernel with an initramfs and `init` behind its command line.
    pub(super) fn kernel(kernel: &Path, initramfs: &[u8], init: &str) -> Result<Start, Failure> {
        let folder = PrivateFolder::new()?;
        let path = write(&folder, "initramfs", initramfs)?;
        // A guest that the host keeps waiting believes that its timer does not work.
        let line = format!("console=ttyS0 quiet loglevel=4 panic=-1 no_timer_check {init}");
        let arguments = ["-kernel".into(), kernel.into(), "-initrd".into(), path];
        let arguments = [&arguments[..], &["-append".into(), line.into()]].concat();
        Ok(Start { folder, arguments })
    }

    /// The loader.
    pub(super) fn loader(uefi: bool) -> Result<Start, Failure> {
        let folder = PrivateFolder::new()?;
        let loader = if uefi { crate::LOADER_EFI } else { crate::LOADER };
        let path = write(&folder, "loader", loader)?;
        Ok(Start { folder, arguments: vec!["-kernel".into(), path] })
    }

    /// QEMU as the guest is set up.
    fn command(
        &self,
        guest: &SnapshotGuest,
        disks: &[&Path],
        trace: &Path,
    ) -> Result<Command, Failure> {
        let mut qemu = Command::new(QEMU);
        qemu.args(["-accel", guest.accelerator.name(), "-machine", "pc"]);
        qemu.args(["-cpu", &guest.processor]);
        qemu.args(["-m", &guest.memory_mib.to_string(), "-nodefaults", "-display", "none"]);
        qemu.args(["-vga", "none", "-nic", "none", "-no-reboot", "-serial", "stdio"]);
        qemu.args(tool::EXIT_DEVICE);
        if guest.drives == Drives::Ahci {
            qemu.args(["-device", "ahci,id=ahci"]);
        }
        // A comma in a name of QEMU's is written twice.
        for (index, disk) in disks.iter().enumerate() {
            let shown = disk.display().to_string().replace(',', ",,");
            let interface = if guest.drives == Drives::Virtio { "virtio" } else { "none" };
            let drive = format!("file={shown},if={interface},format=raw,id=disk{index}");
            qemu.args(["-drive", &drive]);
            let device = match guest.drives {
                Drives::Virtio => continue,
                Drives::Nvme => format!("nvme,drive=disk{index},serial=lab{index}"),
                Drives::Ahci => {
                    format!("ide-hd,drive=disk{index},bus=ahci.{index},serial=lab{index}")
                }
            };
            qemu.args(["-device", &device]);
        }
        qemu.args(&self.arguments);
        qemu.args(["-smp", &guest.processors.to_string()]);
        if guest.uefi {
            qemu.arg("-bios").arg(tool::uefi_firmware()?);
        }
        if guest.counted {
            qemu.args(["-icount", "shift=0,sleep=on"]);
            qemu.args(["-trace", "enable=virtio_blk_handle_read", "-D"]).arg(trace);
        }
        Ok(qemu)
    }

    /// Run it to its end.
    pub(super) fn run(self, setup: &SnapshotGuest, disks: &[&Path]) -> Result<Life, Failure> {
        let trace = self.folder.path.join("trace");
        let mut qemu = self.command(setup, disks, &trace)?;
        let errors = self.folder.path.join("qemu");
        let wrong = |why: std::io::Error| Failure::machine(format!("{}: {why}", errors.display()));
        let began = Instant::now();
        let mut child = dies_with_us(&mut qemu)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&errors).map_err(wrong)?)
            .spawn()
            .map_err(|why| tool::missing(QEMU, &why))?;
        let serial = child.stdout.take().expect("stdout is a pipe");
        let mut guest = Guest(child);
        let (send, lines) = channel();
        std::thread::spawn(move || {
            let mut serial = BufReader::new(serial);
            let mut line = Vec::new();
            while serial.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
                let text = String::from_utf8_lossy(&line).trim().to_string();
                if send.send((began.elapsed(), text)).is_err() {
                    return;
                }
                line.clear();
            }
        });
        let mut life = Life { lines: Vec::new(), ended: Duration::ZERO, trace: Vec::new() };
        loop {
            let left = setup.wall.saturating_sub(began.elapsed());
            match lines.recv_timeout(left) {
                // A firmware would go on with what it starts next.
                Ok(line) if line.1.contains(NOT_RESUMED) => {
                    life.lines.push(line);
                    drop(guest);
                    return Ok(life);
                }
                Ok(line) if life.lines.len() < LINES_MAX => life.lines.push(line),
                Ok(_) => return Err(life.failure("the guest does not stop talking")),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(life.failure("the guest was not done in time"));
                }
            }
        }
        guest.0.wait().map_err(wrong)?;
        life.ended = began.elapsed();
        if setup.counted {
            life.trace = std::fs::read(&trace).map_err(wrong)?;
        }
        let said = std::fs::read_to_string(&errors).unwrap_or_default();
        if life.lines.is_empty() && !said.is_empty() {
            let last = said.lines().last().unwrap_or_default();
            return Err(Failure::machine(format!("QEMU: {last}")));
        }
        Ok(life)
    }
}

fn write(folder: &PrivateFolder, name: &str, bytes: &[u8]) -> Result<PathBuf, Failure> {
    let path = folder.path.join(name);
    std::fs::write(&path, bytes)
        .map_err(|why| Failure::machine(format!("{}: {why}", path.display())))?;
    Ok(path)
}

impl Life {
    /// What follows `head` in the first line with it.
    pub(super) fn said(&self, head: &str) -> Option<&str> {
        self.lines.iter().find_map(|(_, line)| Some(&line[line.find(head)? + head.len()..]))
    }

    /// When that line came.
    pub(super) fn when(&self, head: &str) -> Option<Duration> {
        self.lines.iter().find(|(_, line)| line.contains(head)).map(|(at, _)| *at)
    }

    /// A failure with the guest's own words, or its last lines.
    pub(super) fn failure(&self, what: &str) -> Failure {
        let failure = Failure::machine(what);
        if let Some(why) = self.said("lab: error: ") {
            return failure.help(format!("the guest: {why}"));
        }
        let from = self.lines.len().saturating_sub(LAST_LINES);
        let last: Vec<&str> = self.lines[from..].iter().map(|(_, line)| line.as_str()).collect();
        match last.as_slice() {
            [] => failure.help("it said nothing; a slow machine needs a longer --wall-limit"),
            last => failure.help(format!("its last lines:\n{}", last.join("\n"))),
        }
    }
}
