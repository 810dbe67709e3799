//! Snapshot boot tried in QEMU: a guest suspends itself, and the loader brings it back.

mod guest;
pub mod inspect;
/// The loader's own, which has no system to test it on.
#[cfg(test)]
#[allow(dead_code)]
#[path = "../../loader/src/pvh/start.rs"]
mod start;
mod trace;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ::guest::Why;
use attach::Unfinished;
use config::Failure;
use resume::Refusal;
use workload::boot_recording::{Read, Recording};

use crate::Accelerator;
use crate::image::archive_of;
use crate::modules;
use crate::tool;
use guest::{Life, NOT_RESUMED, Start};
use trace::Trace;

/// Size of the file system that a guest has mounted.
const MOUNTED_MIB: u32 = 64;
/// The policy by which no page leaves.
pub const EVERYTHING: &str = "everything";

/// A guest to suspend and resume.
#[derive(Clone, Debug)]
pub struct SnapshotGuest {
    /// A vmlinuz.
    pub kernel: PathBuf,
    /// The folder of its modules; found beside the kernel when not said.
    pub modules: Option<PathBuf>,
    /// The guest's memory.
    pub memory_mib: u32,
    /// Of it, what a program fills with what cannot be compressed.
    pub filled_mib: u32,
    /// Of that, what the program works with.
    pub hot_mib: u32,
    /// Which pages leave memory for swap before the image is made.
    pub policy: String,
    /// Is the image packed by LZ4, where that makes it shorter?
    pub packs: bool,
    /// The processor, as QEMU calls it.
    pub processor: String,
    /// How many of them.
    pub processors: u32,
    /// Who starts its kernel, and the loader.
    pub started_by: StartedBy,
    /// What its disks are.
    pub drives: Drives,
    /// What runs its instructions.
    pub accelerator: Accelerator,
    /// Its clock counts instructions, one a nanosecond.
    pub counted: bool,
    /// Time of this machine for each life.
    pub wall: Duration,
}

/// Who starts a guest's kernel, and the loader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartedBy {
    /// QEMU.
    Qemu,
    /// A firmware with UEFI.
    Uefi,
    /// GRUB on a BIOS.
    Grub,
}

/// What disks a guest has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drives {
    /// Those of virtual machines.
    Virtio,
    /// NVMe drives.
    Nvme,
    /// SATA drives behind an AHCI controller.
    Ahci,
}

impl Drives {
    /// What the guest's kernel calls them.
    fn names(self) -> [&'static str; 3] {
        match self {
            Drives::Virtio => ["/dev/vda", "/dev/vdb", "/dev/vdc"],
            // A kernel numbers them as it finds them.
            Drives::Nvme | Drives::Ahci => ["serial:lab0", "serial:lab1", "serial:lab2"],
        }
    }
}

/// Who brings the guest back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resumer {
    /// Our loader, from our image.
    Loader,
    /// A kernel that boots, from the image that the kernel makes.
    Kernel,
    /// Our loader, from the image that the kernel makes, after it was converted.
    Converted,
}

/// What the guest said of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Witness {
    digest: String,
    nonce: String,
    ticks: u64,
}

/// A suspend.
#[derive(Clone, Debug)]
pub struct Suspended {
    before: Witness,
    /// What is in the image: pages, kinds, bytes written; by name. Empty for the kernel's own.
    pub counts: Vec<(String, f64)>,
    /// From the start to the end.
    pub wall_s: f64,
}

/// What became of a guest that was woken.
#[derive(Clone, Debug)]
pub enum Woken {
    /// It lived to its end.
    Back(Resumed),
    /// It suspended itself once more, now that it is known which pages it works with: what is in
    /// that image.
    Again(Vec<(String, f64)>),
}

/// A resume.
#[derive(Clone, Debug)]
pub struct Resumed {
    after: Witness,
    /// How the program came to work again: its pages, its time, what it waited for; by name.
    pub work: Vec<(String, f64)>,
    /// What was read, in order.
    trace: Trace,
    /// What the loader said.
    pub loader: Option<String>,
    /// From the start to the first line of the program that was suspended.
    pub wall_s: f64,
    /// Cycles of the guest's clock: from the machine's start to the loader, in the loader, of these
    /// waiting for disks, and from the jump to the program.
    pub cycles: Option<Cycles>,
}

/// Where the cycles of a resume by the loader went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cycles {
    /// From the machine's start to the loader.
    pub before: u64,
    /// In the loader until all was read, without waiting.
    pub loading: u64,
    /// In the loader after that.
    pub checking: u64,
    /// In the loader, waiting for disks.
    pub waited: u64,
    /// From the jump to the program.
    pub after: u64,
}

impl Cycles {
    /// From what the loader said, if there was one, and from the guest's first line.
    fn read(loader: Option<&str>, resumed: Option<&str>) -> Option<Cycles> {
        let of = |line, name: &str| {
            let found = counts(line).into_iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value as u64)
        };
        let end = of(resumed?, "cycles")?;
        let Some(loader) = loader else {
            // All of it is the kernel's, with its waiting.
            return Some(Cycles { before: 0, loading: end, checking: 0, waited: 0, after: 0 });
        };
        let (entered, loaded) = (of(loader, "entered")?, of(loader, "loaded")?);
        let (waited, jumped) = (of(loader, "waited")?, of(loader, "jumped")?);
        Some(Cycles {
            before: entered,
            loading: loaded.checked_sub(entered)?.checked_sub(waited)?,
            checking: jumped.checked_sub(loaded)?,
            waited,
            after: end.checked_sub(jumped)?,
        })
    }
}

/// The guest's disks.
#[derive(Clone, Debug)]
pub struct Disks {
    /// For the image.
    pub image: PathBuf,
    /// With an ext4, which the guest has mounted.
    pub mounted: PathBuf,
    /// For the pages that leave.
    pub swap: PathBuf,
}

impl Disks {
    /// The files that belong to the image in `image`.
    pub fn of(image: &Path) -> Disks {
        let beside = |end: &str| {
            let mut name = image.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        };
        Disks { image: image.into(), mounted: beside(".disk"), swap: beside(".swap") }
    }

    /// Is each of their names free?
    ///
    /// # Errors
    /// When one is not, or nothing can be written there.
    pub fn check_free(image: &Path) -> Result<(), Failure> {
        Disks::of(image).all().into_iter().try_for_each(study::check_create)
    }

    /// Make them, as new files: that of the image holds zeros. They go again unless they are
    /// finished.
    ///
    /// # Errors
    /// When there is one of them, or the machine lacks mke2fs.
    pub fn new(guest: &SnapshotGuest, image: &Path) -> Result<(Disks, Vec<Unfinished>), Failure> {
        Disks::check_free(image)?;
        let (disks, mut made) = (Disks::of(image), Vec::new());
        // No two are of one size: the loader tells them apart by that.
        let sizes = [guest.memory_mib, MOUNTED_MIB, guest.memory_mib + 1];
        for (path, mib) in disks.all().into_iter().zip(sizes) {
            let wrong = |why: std::io::Error| {
                Failure::machine(format!("cannot write {}: {why}", path.display()))
            };
            let file = std::fs::File::create_new(path).map_err(wrong)?;
            made.push(Unfinished::new(path));
            file.set_len(u64::from(mib) << 20).map_err(wrong)?;
        }
        let mut mke2fs = std::process::Command::new("mke2fs");
        tool::run(mke2fs.args(["-q", "-F", "-t", "ext4"]).arg(&disks.mounted), b"")?;
        Ok((disks, made))
    }

    /// In the order in which a guest has them.
    pub fn all(&self) -> [&Path; 3] {
        [&self.image, &self.mounted, &self.swap]
    }

    /// Is the file system as its kernel left it in order, with what the guest wrote to it after it
    /// came back?
    ///
    /// # Errors
    /// What e2fsck finds, or when the machine lacks it.
    pub fn check(&self) -> Result<(), Failure> {
        let mut e2fsck = std::process::Command::new("e2fsck");
        tool::run(e2fsck.args(["-f", "-n"]).arg(&self.mounted), b"")?;
        let mut debugfs = std::process::Command::new("debugfs");
        let found = tool::run(debugfs.args(["-R", "cat /life"]).arg(&self.mounted), b"")?;
        match found.as_slice() {
            b"before\nafter\n" => Ok(()),
            other => Err(Failure::bug(format!(
                "the file that was written before and after holds {:?}",
                String::from_utf8_lossy(other)
            ))),
        }
    }
}

impl SnapshotGuest {
    /// Is the kernel one, with the modules that a guest needs, and is there such a policy?
    ///
    /// # Errors
    /// When it is not.
    pub fn check(&self) -> Result<(), Failure> {
        self.learns()?;
        self.check_drives()?;
        if self.filled_mib >= self.memory_mib {
            let message = format!("fills {} MiB of {}", self.filled_mib, self.memory_mib);
            return Err(Failure::input(message)
                .expected("less than half of it: an image is made in the other half"));
        }
        if self.hot_mib > self.filled_mib {
            let message = format!("works with {} MiB of {}", self.hot_mib, self.filled_mib);
            return Err(Failure::input(message).expected("at most what is filled"));
        }
        modules::find(&modules::OF_ANY, &self.kernel, self.modules.as_deref()).map(drop)
    }

    /// Has the loader that it is started by a driver for its drives?
    ///
    /// # Errors
    /// When it has none.
    pub fn check_drives(&self) -> Result<(), Failure> {
        let needs_firmware = match self.drives {
            Drives::Virtio => None,
            Drives::Nvme => Some(("NVMe", "--uefi beside --nvme")),
            Drives::Ahci => Some(("SATA", "--uefi beside --ahci")),
        };
        if let Some((kind, expected)) =
            needs_firmware.filter(|_| self.started_by != StartedBy::Uefi)
        {
            let why = format!("{kind} drives: the loader for a BIOS has no driver for them");
            return Err(Failure::input(why).expected(expected));
        }
        Ok(())
    }

    /// Does the policy have to know what an earlier resume touched?
    ///
    /// # Errors
    /// When there is no such policy.
    pub fn learns(&self) -> Result<bool, Failure> {
        policy_learns(&self.policy)
    }

    /// Let the guest suspend itself.
    ///
    /// # Errors
    /// When something is missing, or the guest does not do it: its last lines.
    pub fn suspend(&self, resumer: Resumer, disks: &Disks) -> Result<Suspended, Failure> {
        let life = self.boot(resumer, disks)?;
        let before = life.said("lab: before ").and_then(Witness::read);
        let before = before.ok_or_else(|| life.failure("the guest did not come to its suspend"))?;
        let mut found = life.said("lab: image ").map(counts).unwrap_or_default();
        if resumer == Resumer::Loader && found.is_empty() {
            return Err(life.failure("the guest wrote no image"));
        }
        let dry_run = life.said("lab: dry run ").map(counts).unwrap_or_default();
        found.extend(dry_run.into_iter().filter(|(name, _)| name.starts_with("would_")));
        let counts = match resumer {
            Resumer::Converted => {
                convert(&disks.swap, &disks.image, std::slice::from_ref(&disks.mounted))?
            }
            _ => found,
        };
        Ok(Suspended { before, counts, wall_s: life.ended.as_secs_f64() })
    }

    /// Bring the guest back.
    ///
    /// # Errors
    /// When it does not come back, and why, as the loader said it.
    pub fn wake(&self, resumer: Resumer, disks: &Disks) -> Result<Woken, Failure> {
        let life = match resumer {
            Resumer::Loader | Resumer::Converted => {
                let start = match self.started_by {
                    StartedBy::Qemu => Start::loader(crate::LOADER),
                    StartedBy::Uefi => Start::loader(crate::LOADER_EFI),
                    StartedBy::Grub => Start::grub(None),
                };
                start?.run(self, &disks.all())?
            }
            Resumer::Kernel => self.boot(resumer, disks)?,
        };
        if let Some(why) = life.said(NOT_RESUMED) {
            let image = disks.image.display();
            let failure = Failure::input(format!("{image} is not resumed: {why}"));
            return Err(failure.help(what_to_do(why)));
        }
        let at = life.when("lab: resumed");
        let at = at.ok_or_else(|| life.failure("the guest did not come back"))?;
        if let Some(image) = life.said("lab: image ") {
            return Ok(Woken::Again(counts(image)));
        }
        let after = life.said("lab: after ").and_then(Witness::read);
        let after = after.ok_or_else(|| life.failure("the guest came back and stopped"))?;
        let work = life.said("lab: worked ").map(counts).unwrap_or_default();
        let loader = life.said("blocklab-loader: ").map(str::to_string);
        let cycles = Cycles::read(loader.as_deref(), life.said("lab: resumed"));
        let (wall_s, trace) = (at.as_secs_f64(), Trace::parse(&life.trace));
        Ok(Woken::Back(Resumed { after, work, trace, loader, wall_s, cycles }))
    }

    /// Boot the guest's kernel.
    fn boot(&self, resumer: Resumer, disks: &Disks) -> Result<Life, Failure> {
        let modules = modules::find(&modules::OF_ANY, &self.kernel, self.modules.as_deref())?;
        let mut files = vec![("blocklab-guest".to_string(), crate::GUEST_PROGRAM.to_vec())];
        files.extend(modules);
        let [image, mounted, swap] = self.drives.names();
        let disks_of_resumer = match resumer {
            Resumer::Loader => format!("target={image}"),
            Resumer::Kernel => format!("own={image}"),
            Resumer::Converted => format!("own={swap} prepare={image}"),
        };
        let SnapshotGuest { filled_mib: fill, hot_mib: hot, policy, .. } = self;
        let mut init = format!(
            "rdinit=/blocklab-guest -- snapshot-lab {disks_of_resumer} mounted={mounted} \
             fill={fill} hot={hot} policy={policy}"
        );
        if self.packs {
            init += " compress=lz4";
        }
        // Without swap nothing can leave by the kernel's choice.
        if policy != EVERYTHING && resumer != Resumer::Converted {
            init += &format!(" swap={swap}");
        }
        let initramfs = archive_of(&files);
        let start = match self.started_by {
            StartedBy::Grub => Start::grub(Some((&self.kernel, &initramfs, &init))),
            StartedBy::Qemu | StartedBy::Uefi => Start::kernel(&self.kernel, &initramfs, &init),
        };
        start?.run(self, &disks.all())
    }
}

impl Resumed {
    /// What was computed and read until the program ran again, for the workload `boot`, and, when
    /// something had left memory, until it had worked. `plan` is what the loader reads of the
    /// image, of `image_sectors`; swap lies behind it.
    ///
    /// # Errors
    /// When the machine did not count.
    pub fn recordings(
        &self,
        kernel: &Path,
        plan: &[Read],
        image_sectors: u64,
    ) -> Result<(Recording, Recording), Failure> {
        let cycles = self.cycles.ok_or_else(|| Failure::bug("the guest did not count"))?;
        let read = |instructions: u64| {
            move |&(sector, sectors): &(u64, u32)| Read {
                instructions,
                sector,
                sectors,
                beside: false,
            }
        };
        // The kernel's own resume: what it read of its image.
        let mut reads = plan.to_vec();
        if plan.is_empty() {
            reads.extend(self.trace.of(0).iter().map(read(0)));
        }
        let between = cycles.loading / (reads.len() as u64 + 1);
        reads.iter_mut().for_each(|read| read.instructions = between);
        let name = kernel.file_name().map_or("kernel".into(), |name| name.to_string_lossy());
        let resumed = Recording {
            kernel: name.into_owned(),
            variant: "snapshot".into(),
            file_bytes: reads.iter().map(|read| u64::from(read.sectors) * 512).sum(),
            last_instructions: between + cycles.checking,
            reads,
            start_instructions: cycles.after,
        };
        let work = |name: &str| {
            let found = self.work.iter().find(|(known, _)| known == name);
            found.map_or(0, |(_, value)| *value as u64)
        };
        // Behind the read of its superblock, which is the loader's.
        let swapped = self.trace.of(2).iter().skip(1).take(work("swap_reads") as usize);
        let swapped: Vec<_> = swapped.map(|(at, sectors)| (at + image_sectors, *sectors)).collect();
        let between = work("ran_ns") / (swapped.len() as u64 + 1);
        let mut worked = resumed.clone();
        worked.reads.extend(swapped.iter().map(read(between)));
        match worked.reads.get_mut(resumed.reads.len()) {
            Some(first) => {
                first.instructions += resumed.last_instructions + resumed.start_instructions;
                (worked.last_instructions, worked.start_instructions) = (between, 0);
            }
            None => worked.last_instructions += between,
        }
        Ok((resumed, worked))
    }

    /// Is this a later moment of the life that was suspended?
    ///
    /// # Errors
    /// When it is not: that would be a bug.
    pub fn is_of(&self, suspended: &Suspended) -> Result<(), Failure> {
        suspended.before.same(&self.after)
    }
}

impl Witness {
    fn read(line: &str) -> Option<Witness> {
        let value = |key: &str| {
            let word = line.split_whitespace().find_map(|word| word.strip_prefix(key));
            word.map(str::to_string)
        };
        Some(Witness {
            digest: value("digest=")?,
            nonce: value("nonce=")?,
            ticks: value("ticks=")?.parse().ok()?,
        })
    }

    /// Is `after` a later moment of the same life?
    fn same(&self, after: &Witness) -> Result<(), Failure> {
        let same = (&self.digest, &self.nonce) == (&after.digest, &after.nonce);
        if same && after.ticks > self.ticks {
            return Ok(());
        }
        Err(Failure::bug(format!("the guest came back changed: {self:?} before, {after:?} after")))
    }
}

/// Does this policy have to know what an earlier resume touched?
///
/// # Errors
/// When there is no such policy.
pub fn policy_learns(policy: &str) -> Result<bool, Failure> {
    ::guest::policy_learns(policy).map_err(Failure::input)
}

/// Make an image of ours in `target`, which was prepared on its machine, of the one that a kernel
/// made by itself in `swap`; `disks` are the others of the machine. What is in it, by name.
///
/// # Errors
/// What is wrong with either of them.
pub fn convert(
    swap: &Path,
    target: &Path,
    disks: &[PathBuf],
) -> Result<Vec<(String, f64)>, Failure> {
    let found = ::guest::convert(swap, target, disks).map(|told| counts(&told));
    found.map_err(|why| match why {
        Why::Input(why) => Failure::input(why),
        Why::World(why) => Failure::machine(why),
    })
}

/// `name=number` pairs of a line.
pub fn counts(line: &str) -> Vec<(String, f64)> {
    let pairs = line.split_whitespace().filter_map(|word| word.split_once('='));
    pairs.filter_map(|(name, value)| Some((name.to_string(), value.parse().ok()?))).collect()
}

/// What to do about an image that the loader refused, in its words.
fn what_to_do(why: &str) -> &'static str {
    let is = |refusal: Refusal| why.trim_end() == refusal.to_string();
    if is(Refusal::NoMark) {
        "an image comes back once: make a new one with blocklab snapshot try --keep FILE"
    } else if is(Refusal::Processor) || is(Refusal::Memory) {
        "an image comes back in the machine that it was made in: with its --memory, --processors, \
         and --uefi, --grub, --nvme or --ahci"
    } else if why.contains(" is missing or was written since") {
        "memory and disks are of one moment: put the disks of that moment back, or make a new \
         image with blocklab snapshot try --keep FILE"
    } else {
        "blocklab snapshot info IMAGE checks it; make a new one with snapshot try --keep FILE"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_life_is_not_taken_for_the_same() {
        let line = |nonce: &str, ticks: u64| format!("digest=0a nonce={nonce} ticks={ticks}");
        let read = |text: String| Witness::read(&text).unwrap();
        let before = read(line("77", 8));
        assert_eq!(before.same(&read(line("77", 60))), Ok(()));
        // Booted anew, or with a clock that began again.
        assert!(before.same(&read(line("78", 60))).is_err());
        assert!(before.same(&read(line("77", 8))).is_err());
        assert_eq!(Witness::read("digest=0a nonce=1"), None);
        let loader = "9 pages; cycles entered=100 waited=30 loaded=180 jumped=200";
        let cycles = Cycles { before: 100, loading: 50, checking: 20, waited: 30, after: 50 };
        assert_eq!(Cycles::read(Some(loader), Some(" cycles=250")), Some(cycles));
        assert_eq!(Cycles::read(Some(loader), Some(" cycles=150")), None);
        assert_eq!(counts("pages=3 x create_s=0.5")[1], ("create_s".to_string(), 0.5));
    }

    #[test]
    fn each_refusal_has_its_own_way_on() {
        for (refusal, words) in [
            (Refusal::NoMark, "comes back once"),
            (Refusal::Memory, "--memory"),
            (Refusal::Processor, "--processors"),
            (Refusal::Disk(2), "put the disks of that moment back"),
            (Refusal::Data(7), "snapshot info"),
            (Refusal::Table, "snapshot info"),
        ] {
            assert!(what_to_do(&format!("{refusal}\r")).contains(words), "{refusal}");
        }
    }
}
