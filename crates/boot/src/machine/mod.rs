//! A distribution's boot in QEMU on a modelled device, in real time, recorded: with a kernel of its
//! own, an initramfs, udev and a screen. Not the same twice.
//!
//! The device is a disk by vhost-user, served by a session of this process. The guest's program is
//! the init of the initramfs, mounts the root, and becomes the recorder that is its process 1. It
//! writes the record to a second disk, and says so on the serial line.

mod disk;
mod screen;
mod serial;
mod served;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use attach::{PrivateFolder, dies_with_us};
use config::Failure;
use serde_json::json;
use study::BuiltPart;

use crate::guest_process::{GuestProcess, with_last_lines};
use crate::image::archive_of;
use crate::modules::{self, OF_VIRTIO};
use crate::timeline::record::{Machine, Record};
use crate::timeline::session::RecorderOptions;
use crate::tool::{self, QEMU};
use crate::{Accelerator, GUEST_PROGRAM};
use disk::Tree;
use screen::Screen;
use serial::{Heard, Said, Serial};
use served::Served;

/// Longest record.
const RECORD_BYTES_MAX: u64 = 256 << 20;
/// How often a screen is looked at: a picture is known to be there so much later at most.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a machine takes to end that has begun to.
const ENDING: Duration = Duration::from_secs(1);
/// After the record is there: how long a login prompt and a picture are waited for, at least.
const PATIENCE: Duration = Duration::from_secs(15);
/// And as a part of the time that it took to be there: a busy machine is slow at this, too.
const PATIENCE_PART: u32 = 4;
/// The kernel's command line. A guest that the host keeps waiting believes that its timer does not
/// work.
const WORDS: &str = "console=ttyS0 quiet loglevel=4 panic=-1 no_timer_check random.trust_cpu=on \
                     delayacct";
/// A frame buffer that a program finds as /dev/fb0: 800 x 600, 24 bits a pixel.
const FRAME_BUFFER: &str = "vga=0x315";

/// What to boot, and how.
#[derive(Clone)]
pub struct MachineBoot {
    /// The tar file of the root.
    pub root: PathBuf,
    /// The kernel; `None` for the root's own.
    pub kernel: Option<PathBuf>,
    /// The folder of its modules; found beside the kernel when not said.
    pub modules: Option<PathBuf>,
    /// Units that are not started.
    pub mask: Vec<String>,
    /// Until this unit of systemd is active.
    pub until: String,
    /// Time of the guest that it may take.
    pub limit: config::Duration,
    /// Time of this machine for all of it.
    pub wall: Duration,
    /// The guest's memory.
    pub memory_mib: u64,
    /// How often to look what every process used, for pictures; `None` for never.
    pub slice: Option<config::Duration>,
    /// How often to read every process's stat, as the paper does; `None` for never.
    pub sample: Option<config::Duration>,
    /// Find out which files are read.
    pub files: bool,
    /// A program reads these first.
    pub read_ahead: Vec<String>,
    /// The device takes so many times its time.
    pub dilation: u64,
    /// Root of the device's random streams.
    pub seed: u64,
}

/// A boot that is ready to be done, on one device after the other.
pub struct Ready {
    boot: MachineBoot,
    tree: Tree,
    kernel: PathBuf,
    initramfs: Vec<u8>,
    accelerator: Accelerator,
}

/// A disk to boot from.
pub struct RootDisk {
    device: String,
    folder: PrivateFolder,
    part: BuiltPart,
    start: attach::Start,
}

/// What came of it.
pub struct Recorded {
    /// The record, as it is kept.
    pub text: String,
    /// The same, read.
    pub record: Record,
}

impl MachineBoot {
    /// The recorder's options, one a line.
    fn options(&self) -> String {
        let options = RecorderOptions {
            until: &self.until,
            limit: self.limit,
            slice: self.slice,
            sample: self.sample,
            files: self.files,
            mask: &self.mask,
        };
        options.words().iter().map(|word| format!("{word}\n")).collect()
    }
}

impl Ready {
    /// Unpack the root, find the kernel and its modules, and what runs the guest.
    ///
    /// # Errors
    /// When something of that is missing.
    pub fn new(boot: MachineBoot) -> Result<Ready, Failure> {
        let find = |kernel: &PathBuf| modules::find(&OF_VIRTIO, kernel, boot.modules.as_deref());
        // What is wrong with a kernel that is named is told before much is done.
        let named = boot.kernel.as_ref().map(find).transpose()?;
        let tree = Tree::unpack(&boot.root)?;
        let own = || tree.kernel().ok_or_else(|| no_kernel(&boot.root));
        let kernel = boot.kernel.clone().map_or_else(own, Ok)?;
        let mut files = named.map_or_else(|| find(&kernel), Ok)?;
        files.push(("init".into(), GUEST_PROGRAM.to_vec()));
        files.push(("record".into(), boot.options().into_bytes()));
        if !boot.read_ahead.is_empty() {
            let list: String = boot.read_ahead.iter().map(|path| format!("{path}\n")).collect();
            files.push(("read-ahead".into(), list.into_bytes()));
        }
        let initramfs = archive_of(&files);
        let accelerator = Accelerator::of_this_machine(Some(&kernel))?;
        Ok(Ready { boot, tree, kernel, initramfs, accelerator })
    }

    /// The root on a disk of the part `device`.
    ///
    /// # Errors
    /// When it does not fit, or there is no room for it here.
    pub fn disk(&self, device: &str) -> Result<RootDisk, Failure> {
        let folder = PrivateFolder::for_large_files()?;
        let image = folder.path.join("root");
        let mut part = study::build_part(device, &[], self.boot.seed)?;
        self.tree.image(&image, part.device.limits().capacity.0)?;
        let start = attach::Start::with_image(&mut part, &image)?;
        Ok(RootDisk { device: device.into(), folder, part, start })
    }

    /// Boot from that disk, and record.
    ///
    /// # Errors
    /// When the unit is not reached: with the guest's last lines.
    pub fn record(&self, disk: RootDisk) -> Result<Recorded, Failure> {
        let RootDisk { device, folder, part, start } = disk;
        let began = Instant::now();
        let served = Served::start(part, start, self.boot.dilation)?;
        let seen = self.follow(&served, &folder.path);
        // The guest is gone by now, whatever it did. Without its disk it ends, too.
        let Some(report) = served.end()? else {
            return Err(Failure::interrupted());
        };
        let seen = seen?;
        let machine = Machine {
            wall_s: began.elapsed().as_secs_f64(),
            ..self.machine(&device, &seen, &report)
        };
        let line = json!({ "machine": machine });
        let text = format!("{}{line}\n", seen.text);
        let record = Record::parse(&text)
            .map_err(|why| Failure::bug(format!("the guest's record cannot be read: {why}")))?;
        if record.head.reached {
            return Ok(Recorded { text, record });
        }
        let why = record.head.incomplete.as_deref().unwrap_or("it said nothing");
        let boot = &self.boot;
        let failure = Failure::machine(format!("{} was not reached: {why}", boot.until))
            .expected(format!("a unit that is active after at most {}", boot.limit));
        Err(with_last_lines(failure, seen.serial.lines()))
    }

    fn machine(&self, device: &str, seen: &Seen, report: &attach::Report) -> Machine {
        let measured = &report.devices[0].measured;
        let requests = measured.operations.iter();
        Machine {
            device: device.into(),
            accelerator: self.accelerator.to_string(),
            kernel_file: name_of(&self.kernel),
            dilation: report.dilation,
            before_kernel_ns: seen.before_kernel_ns,
            requests: requests.map(|one| (one.op.into(), [one.requests, one.bytes])).collect(),
            lateness_p99_us: measured.lateness.us.p99,
            doubts: measured.doubts.clone(),
            wall_s: 0.0,
        }
    }

    fn command(&self, folder: &Path, sockets: [&Path; 2]) -> Result<Command, Failure> {
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            fs::write(&path, bytes)
                .map_err(|why| Failure::machine(format!("{}: {why}", path.display())))?;
            Ok::<_, Failure>(path)
        };
        let initramfs = write("initramfs", &self.initramfs)?;
        let record = write("record", b"")?;
        let file = fs::File::options().write(true).open(&record);
        file.and_then(|file| file.set_len(RECORD_BYTES_MAX))
            .map_err(|why| Failure::machine(format!("{}: {why}", record.display())))?;
        let [disk, monitor] = sockets.map(tool::qemu_name);
        let mib = self.boot.memory_mib;
        let mut qemu = Command::new(QEMU);
        qemu.args(["-accel", self.accelerator.name(), "-cpu", "max", "-smp", "1"]);
        // The session sees the guest's memory.
        qemu.args(["-machine", "pc,memory-backend=ram", "-m", &mib.to_string(), "-object"]);
        qemu.arg(format!("memory-backend-memfd,id=ram,size={mib}M,share=on"));
        qemu.args(["-nodefaults", "-no-user-config", "-display", "none", "-vga", "std"]);
        qemu.args(["-nic", "none", "-no-reboot", "-serial", "stdio", "-qmp"]);
        qemu.arg(format!("unix:{monitor},server=on,wait=off"));
        qemu.args(["-chardev", &format!("socket,id=root,path={disk}")]);
        qemu.args(["-device", "vhost-user-blk-pci,chardev=root", "-drive"]);
        qemu.arg(format!(
            "file={},if=none,id=record,format=raw,cache=unsafe",
            tool::qemu_name(&record)
        ));
        let serial = guest::RECORD_SERIAL;
        qemu.args(["-device", &format!("virtio-blk-pci,drive=record,serial={serial}")]);
        qemu.arg("-kernel").arg(&self.kernel).arg("-initrd").arg(initramfs);
        qemu.args(["-append", &format!("{WORDS} {FRAME_BUFFER} -- boot")]);
        Ok(qemu)
    }

    /// Start the guest and follow it until its record is there.
    fn follow(&self, served: &Served, folder: &Path) -> Result<Seen, Failure> {
        let monitor = served.folder().join("monitor");
        let mut qemu = self.command(folder, [&served.socket(), &monitor])?;
        let errors = folder.join("qemu");
        let wrong = |why: std::io::Error| Failure::machine(format!("{}: {why}", errors.display()));
        let began = Instant::now();
        let mut child = dies_with_us(&mut qemu)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&errors).map_err(wrong)?)
            .spawn()
            .map_err(|why| tool::missing(QEMU, &why))?;
        let serial = Serial::of(child.stdout.take().expect("stdout is a pipe"));
        let guest = GuestProcess(child);
        let mut seen = Seen::new(serial, began);
        while !seen.is_whole() {
            if began.elapsed() > self.boot.wall {
                return Err(seen.failure("the guest was not done in time"));
            }
            if served.has_ended() {
                return Err(Failure::interrupted());
            }
            seen.listen(&errors)?;
            if let Err(why) = seen.look(&monitor, folder) {
                return Err(seen.asked_in_vain(why, &errors));
            }
        }
        drop(guest);
        let text = fs::read(folder.join("record")).map_err(wrong)?;
        seen.finish(&text)?;
        Ok(seen)
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn no_kernel(root: &Path) -> Failure {
    Failure::input(format!("root {}: there is no kernel in its folder boot", root.display()))
        .expected("a root with a kernel's package, or --kernel VMLINUZ with its modules")
        .help("leave --root out: a root with Debian's kernel is made")
}

/// The guest's clock, as far as its lines tell: its time and ours, of the first and the last.
#[derive(Default)]
struct Clock {
    first: Option<(Instant, u64)>,
    last: Option<(Instant, u64)>,
}

impl Clock {
    fn sync(&mut self, at: Instant, guest_ns: u64) {
        self.first.get_or_insert((at, guest_ns));
        self.last = Some((at, guest_ns));
    }

    /// What the guest's clock showed then; it may be a little faster or slower than ours.
    fn guest_ns(&self, at: Instant) -> Option<u64> {
        let ((first, from), (last, to)) = (self.first?, self.last?);
        let host_ns = last.duration_since(first).as_nanos() as f64;
        let speed = if host_ns > 0.0 { (to - from) as f64 / host_ns } else { 1.0 };
        let ns = |time: Duration| (time.as_nanos() as f64 * speed) as u64;
        match at.checked_duration_since(first) {
            Some(after) => Some(from + ns(after)),
            None => Some(from.saturating_sub(ns(first.duration_since(at)))),
        }
    }
}

/// What was seen of a guest.
struct Seen {
    serial: Serial,
    began: Instant,
    clock: Clock,
    screen: Option<Screen>,
    looked: Instant,
    /// Seen from outside: name and moment.
    milestones: Vec<(&'static str, Instant)>,
    /// Bytes of the record, and when it was said to be there.
    recorded: Option<(usize, Instant)>,
    text: String,
    before_kernel_ns: u64,
}

impl Seen {
    fn new(serial: Serial, began: Instant) -> Seen {
        Seen {
            serial,
            began,
            clock: Clock::default(),
            screen: None,
            looked: began,
            milestones: Vec::new(),
            recorded: None,
            text: String::new(),
            before_kernel_ns: 0,
        }
    }

    /// The record is there, and all that was waited for beside it, or patience is over.
    fn is_whole(&self) -> bool {
        let all = self.milestones.len() == 2;
        self.recorded.is_some_and(|(_, at)| {
            let patience = PATIENCE.max(at.duration_since(self.began) / PATIENCE_PART);
            all || at.elapsed() > patience
        })
    }

    /// Hear what it says next; `errors` is what QEMU said.
    fn listen(&mut self, errors: &Path) -> Result<(), Failure> {
        match self.serial.listen(LOOK_EVERY) {
            Heard::Some(all) => all.into_iter().try_for_each(|(at, said)| self.take(at, said)),
            Heard::Nothing => Ok(()),
            Heard::End => Err(self.ended(errors)),
        }
    }

    fn take(&mut self, at: Instant, said: Said) -> Result<(), Failure> {
        let Said::Ours(said) = said else {
            self.milestones.push(("login prompt", at));
            return Ok(());
        };
        let words: Vec<&str> = said.split_whitespace().collect();
        let number = |word: &str| word.parse::<u64>().ok();
        match words.as_slice() {
            ["initramfs", "at", ns] => self.clock.sync(at, number(ns).unwrap_or(0)),
            ["recorded", bytes, "at", ns] => {
                self.clock.sync(at, number(ns).unwrap_or(0));
                self.recorded = Some((number(bytes).unwrap_or(0) as usize, at));
            }
            ["error:", ..] => {
                let why = said.trim_start_matches("error: ");
                return Err(Failure::machine(format!("the guest could not boot: {why}")));
            }
            _ => {}
        }
        Ok(())
    }

    /// Look at the screen, when it is time.
    fn look(&mut self, monitor: &Path, folder: &Path) -> Result<(), Failure> {
        // What was shown before the initramfs is the firmware's and the kernel's.
        if self.clock.first.is_none() || self.looked.elapsed() < LOOK_EVERY {
            return Ok(());
        }
        self.looked = Instant::now();
        let screen = match &mut self.screen {
            Some(screen) => screen,
            None => self.screen.insert(Screen::open(monitor, folder)?),
        };
        if let Some(at) = screen.look()? {
            self.milestones.push(("first picture", at));
        }
        Ok(())
    }

    fn failure(&self, what: &str) -> Failure {
        with_last_lines(Failure::machine(what), self.serial.lines())
    }

    /// Its monitor did not answer. Of a machine that ends while it is asked, how it ended says more
    /// than `why`.
    fn asked_in_vain(&mut self, why: Failure, errors: &Path) -> Failure {
        let asked = Instant::now();
        while asked.elapsed() < ENDING {
            if let Err(told) = self.listen(errors) {
                return told;
            }
        }
        why
    }

    /// It ended by itself; `errors` is what QEMU said.
    fn ended(&self, errors: &Path) -> Failure {
        let said = fs::read_to_string(errors).unwrap_or_default();
        match said.lines().last() {
            Some(why) if self.serial.lines().next().is_none() => {
                Failure::machine(format!("QEMU: {why}"))
            }
            _ => self.failure("the guest ended before its record was there"),
        }
    }

    /// Take the record from its disk, and add what was seen from outside.
    fn finish(&mut self, disk: &[u8]) -> Result<(), Failure> {
        let bytes = self.recorded.map_or(0, |(bytes, _)| bytes);
        let text = disk.get(..bytes).and_then(|text| std::str::from_utf8(text).ok());
        let text = text.ok_or_else(|| Failure::bug("the guest's record is not on its disk"))?;
        self.text = text.to_string();
        for (name, at) in &self.milestones {
            if let Some(at_ns) = self.clock.guest_ns(*at) {
                let line = json!({ "milestone": name, "at_ns": at_ns });
                self.text.push_str(&format!("{line}\n"));
            }
        }
        if let Some((at, guest_ns)) = self.clock.first {
            let since = at.duration_since(self.began).as_nanos() as u64;
            self.before_kernel_ns = since.saturating_sub(guest_ns);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_machine_that_ends_while_it_is_asked_has_ended() {
        let (mut line, serial) = UnixStream::pair().unwrap();
        line.write_all(b"Kernel panic - not syncing\n").unwrap();
        let mut seen = Seen::new(Serial::of(serial), Instant::now());
        let mut ask = || {
            let gone = Failure::machine("QEMU's monitor: Connection reset by peer");
            seen.asked_in_vain(gone, Path::new("/nonexistent")).to_string()
        };
        let lives = ask();
        assert!(lives.contains("QEMU's monitor"), "{lives}");
        drop(line);
        let ended = ask();
        assert!(ended.contains("ended before its record") && ended.contains("panic"), "{ended}");
    }
}
