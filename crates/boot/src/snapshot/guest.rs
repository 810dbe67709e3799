//! QEMU, whose serial line is read with the time of each line, and which is always ended.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use attach::{PrivateFolder, dies_with_us};
use config::Failure;

use super::{Drives, SnapshotGuest, StartedBy};
use crate::guest_process::{GuestProcess, with_last_lines};
use crate::image;
use crate::tool::{self, QEMU};

/// GRUB's commands: the loader, unless it was there just now and found nothing to resume.
const GRUB_MENU: &str = "\
if cmostest 0x77:0; then
    cmosclean 0x77:0
    linux /boot/kernel LINE
    initrd /boot/initramfs
else
    multiboot /boot/blocklab-multiboot
fi
boot
";
/// What the loader says when it does nothing.
pub(super) const NOT_RESUMED: &str = "blocklab-loader: not resumed: ";
/// Most lines that are kept.
const LINES_MAX: usize = 100_000;

/// Tells the kernel where its console is, and to stop when it panics. A guest that the host keeps
/// waiting believes that its timer does not work.
const COMMAND_LINE: &str = "console=ttyS0 quiet loglevel=4 panic=-1 no_timer_check";

/// What QEMU starts.
pub(super) struct Start {
    folder: PrivateFolder,
    arguments: Vec<PathBuf>,
    /// Does the machine go on after the loader found nothing to resume?
    goes_on: bool,
}

/// What a guest said, and when it ended.
#[derive(Default)]
pub(super) struct Life {
    lines: Vec<(Duration, String)>,
    pub(super) ended: Duration,
    /// What it read, in QEMU's words, if it counted.
    pub(super) trace: Vec<u8>,
    /// Where its disks are.
    folders: Vec<PathBuf>,
    /// The one of them that had no room at its end.
    full: Option<PathBuf>,
}

impl Start {
    /// A kernel with an initramfs and `init` behind its command line.
    pub(super) fn kernel(kernel: &Path, initramfs: &[u8], init: &str) -> Result<Start, Failure> {
        let folder = PrivateFolder::new()?;
        let path = write(&folder, "initramfs", initramfs)?;
        let line = format!("{COMMAND_LINE} {init}");
        let arguments = ["-kernel".into(), kernel.into(), "-initrd".into(), path];
        let arguments = [&arguments[..], &["-append".into(), line.into()]].concat();
        Ok(Start { folder, arguments, goes_on: false })
    }

    /// The loader, as the virtual machine or its firmware starts it.
    pub(super) fn loader(bytes: &[u8]) -> Result<Start, Failure> {
        let folder = PrivateFolder::new()?;
        let path = write(&folder, "loader", bytes)?;
        Ok(Start { folder, arguments: vec!["-kernel".into(), path], goes_on: false })
    }

    /// GRUB on a BIOS, with the loader; and with a kernel, which it boots when there is nothing to
    /// resume.
    pub(super) fn grub(normal: Option<(&Path, &[u8], &str)>) -> Result<Start, Failure> {
        let folder = PrivateFolder::new()?;
        let kernel = normal.map_or(Ok(Vec::new()), |(path, ..)| {
            let wrong =
                |why: std::io::Error| Failure::input(format!("kernel {}: {why}", path.display()));
            std::fs::read(path).map_err(wrong)
        })?;
        let (initramfs, init) = normal.map_or((&[][..], ""), |(_, files, init)| (files, init));
        let menu = GRUB_MENU.replace("LINE", &format!("{COMMAND_LINE} {init}"));
        let files = [("kernel", &kernel[..]), ("initramfs", initramfs)];
        let files = [&files[..], &[("blocklab-multiboot", crate::LOADER_MULTIBOOT)]].concat();
        let path = folder.path.join("grub.img");
        image::with_menu(&path, &menu, &files, &["normal", "test", "cmostest"])?;
        let shown = tool::qemu_name(&path);
        let drive = format!("file={shown},if=none,format=raw,id=grub");
        let device = "ide-hd,drive=grub,bootindex=0";
        let arguments = ["-drive", &drive, "-device", device].map(PathBuf::from).to_vec();
        Ok(Start { folder, arguments, goes_on: normal.is_some() })
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
        qemu.args(["-vga", "none", "-nic", "none", "-serial", "stdio"]);
        if !self.goes_on {
            qemu.arg("-no-reboot");
        }
        qemu.args(tool::EXIT_DEVICE);
        if guest.drives == Drives::Ahci {
            qemu.args(["-device", "ahci,id=ahci"]);
        }
        // A comma in a name of QEMU's is written twice.
        for (index, disk) in disks.iter().enumerate() {
            let shown = tool::qemu_name(disk);
            let interface = if guest.drives == Drives::Virtio { "virtio" } else { "none" };
            // The guest is told of a disk of ours that is full; otherwise it would wait for room.
            let drive =
                format!("file={shown},if={interface},format=raw,id=disk{index},werror=report");
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
        if guest.started_by == StartedBy::Uefi {
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
        let mut guest = GuestProcess(child);
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
        let folders = disks.iter().filter_map(|disk| Some(disk.parent()?.to_path_buf())).collect();
        let mut life = Life { folders, ..Life::default() };
        loop {
            let left = setup.wall.saturating_sub(began.elapsed());
            match lines.recv_timeout(left) {
                // A firmware would go on with what it starts next.
                Ok(line) if line.1.contains(NOT_RESUMED) && !self.goes_on => {
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
        // Now, as long as what is ours beside the disks takes its room, too.
        life.full = life.full().cloned();
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

    /// A folder of its disks without room.
    fn full(&self) -> Option<&PathBuf> {
        self.folders.iter().find(|folder| attach::has_no_room(folder))
    }

    /// A failure with the guest's own words, or its last lines.
    pub(super) fn failure(&self, what: &str) -> Failure {
        if let Some(place) = self.full.as_ref().or_else(|| self.full()) {
            let place = place.display();
            return Failure::machine(format!("{what}: no room is left in {place} for its disks"))
                .help("make room there; without --keep they are in TMPDIR");
        }
        let failure = Failure::machine(what);
        if let Some(why) = self.said("lab: error: ") {
            return failure.help(format!("the guest: {why}"));
        }
        with_last_lines(failure, self.lines.iter().map(|(_, line)| line.as_str()))
    }
}
