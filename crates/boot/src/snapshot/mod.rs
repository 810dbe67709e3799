//! Snapshot boot tried in QEMU: a guest suspends itself, and the loader brings it back.

mod guest;
pub mod inspect;
mod modules;

use std::path::{Path, PathBuf};
use std::time::Duration;

use config::Failure;
use workload::boot_recording::{Read, Recording};

use crate::image::archive_of;
use crate::tool;
use guest::{Life, Start};

/// Size of the file system that a guest has mounted.
const MOUNTED_MIB: u32 = 64;

/// A guest to suspend and resume.
#[derive(Clone, Debug)]
pub struct Lab {
    /// A vmlinuz.
    pub kernel: PathBuf,
    /// The folder of its modules; found beside the kernel when not said.
    pub modules: Option<PathBuf>,
    /// The guest's memory.
    pub memory_mib: u32,
    /// Of it, what is filled with what cannot be compressed.
    pub filled_mib: u32,
    /// What the guest's kernel shall get the image down to.
    pub bytes_max: Option<u64>,
    /// The processor, as QEMU calls it.
    pub processor: String,
    /// Its clock counts instructions, one a nanosecond.
    pub counted: bool,
    /// Time of this machine for each life.
    pub wall: Duration,
}

/// Who brings the guest back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Our loader, from our image.
    Loader,
    /// A kernel that boots, from the image that the kernel makes.
    Kernel,
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

/// A resume.
#[derive(Clone, Debug)]
pub struct Resumed {
    after: Witness,
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
    /// In the loader, without waiting.
    pub computed: u64,
    /// In the loader, waiting for disks.
    pub waited: u64,
    /// From the jump to the program.
    pub after: u64,
}

impl Cycles {
    fn read(loader: &str, resumed: &str) -> Option<Cycles> {
        let of = |line, name: &str| {
            let found = counts(line).into_iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value as u64)
        };
        let (entered, jumped) = (of(loader, "entered")?, of(loader, "jumped")?);
        let waited = of(loader, "waited")?;
        Some(Cycles {
            before: entered,
            computed: jumped.checked_sub(entered)?.checked_sub(waited)?,
            waited,
            after: of(resumed, "cycles")?.checked_sub(jumped)?,
        })
    }
}

/// The guest's disks: one for the image, and one with the file system that it has mounted.
#[derive(Clone, Debug)]
pub struct Disks {
    /// For the image.
    pub image: PathBuf,
    /// With an ext4.
    pub mounted: PathBuf,
}

impl Disks {
    /// Make both, as new files: the image's holds zeros.
    ///
    /// # Errors
    /// When there is one of them, or the machine lacks mke2fs.
    pub fn new(lab: &Lab, image: &Path, mounted: &Path) -> Result<Disks, Failure> {
        for (path, mib) in [(image, lab.memory_mib), (mounted, MOUNTED_MIB)] {
            let wrong = |why: std::io::Error| {
                Failure::input(format!("{}: {why}", path.display())).expected("a name that is free")
            };
            let file = std::fs::File::create_new(path).map_err(wrong)?;
            file.set_len(u64::from(mib) << 20).map_err(wrong)?;
        }
        let mut mke2fs = std::process::Command::new("mke2fs");
        tool::run(mke2fs.args(["-q", "-F", "-t", "ext4"]).arg(mounted), b"")?;
        Ok(Disks { image: image.into(), mounted: mounted.into() })
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

impl Lab {
    /// Is the kernel one, with the modules that a guest needs?
    ///
    /// # Errors
    /// When it is not.
    pub fn check(&self) -> Result<(), Failure> {
        modules::find(&self.kernel, self.modules.as_deref()).map(drop)
    }

    /// Let the guest suspend itself.
    ///
    /// # Errors
    /// When something is missing, or the guest does not do it: its last lines.
    pub fn suspend(&self, way: Way, disks: &Disks) -> Result<Suspended, Failure> {
        let life = self.boot(way, disks)?;
        let before = life.said("lab: before ").and_then(Witness::read);
        let before = before.ok_or_else(|| life.failure("the guest did not come to its suspend"))?;
        let counts = life.said("lab: image ").map(counts).unwrap_or_default();
        if way == Way::Loader && counts.is_empty() {
            return Err(life.failure("the guest wrote no image"));
        }
        Ok(Suspended { before, counts, wall_s: life.ended.as_secs_f64() })
    }

    /// Bring the guest back.
    ///
    /// # Errors
    /// When it does not come back, and why, as the loader said it.
    pub fn wake(&self, way: Way, disks: &Disks) -> Result<Resumed, Failure> {
        let life = match way {
            Way::Loader => Start::loader()?.run(self, &[&disks.image, &disks.mounted])?,
            Way::Kernel => self.boot(way, disks)?,
        };
        if let Some(why) = life.said("blocklab-loader: not resumed: ") {
            return Err(Failure::input(format!("not resumed: {why}")));
        }
        let at = life.when("lab: resumed");
        let at = at.ok_or_else(|| life.failure("the guest did not come back"))?;
        let after = life.said("lab: after ").and_then(Witness::read);
        let after = after.ok_or_else(|| life.failure("the guest came back and stopped"))?;
        let loader = life.said("blocklab-loader: ").map(str::to_string);
        let cycles = life.said("lab: resumed").zip(loader.as_deref());
        let cycles = cycles.and_then(|(resumed, loader)| Cycles::read(loader, resumed));
        Ok(Resumed { after, loader, wall_s: at.as_secs_f64(), cycles })
    }

    /// Boot the guest's kernel.
    fn boot(&self, way: Way, disks: &Disks) -> Result<Life, Failure> {
        let modules = modules::find(&self.kernel, self.modules.as_deref())?;
        let mut files = vec![("blocklab-guest".to_string(), crate::GUEST_PROGRAM.to_vec())];
        files.extend(modules);
        let target = match way {
            Way::Loader => "/dev/vda",
            Way::Kernel => "swap:/dev/vda",
        };
        let bytes = self.bytes_max.map(|bytes| format!(" {bytes}")).unwrap_or_default();
        let filled = self.filled_mib;
        let init =
            format!("rdinit=/blocklab-guest -- snapshot-lab {target} /dev/vdb {filled}{bytes}");
        let start = Start::kernel(&self.kernel, &archive_of(&files), &init)?;
        start.run(self, &[&disks.image, &disks.mounted])
    }
}

impl Resumed {
    /// What the loader computed and read of `disks`, for the workload `boot`.
    ///
    /// # Errors
    /// When the image cannot be read again, or the machine did not count.
    pub fn recording(&self, kernel: &Path, plan: &[(u64, u32)]) -> Result<Recording, Failure> {
        let cycles = self.cycles.ok_or_else(|| Failure::bug("the guest did not count"))?;
        let between = cycles.computed / (plan.len() as u64 + 1);
        let read =
            |&(sector, sectors): &(u64, u32)| Read { instructions: between, sector, sectors };
        let name = kernel.file_name().map_or("kernel".into(), |name| name.to_string_lossy());
        Ok(Recording {
            kernel: name.into_owned(),
            variant: "snapshot".into(),
            file_bytes: plan.iter().map(|(_, sectors)| u64::from(*sectors) * 512).sum(),
            reads: plan.iter().map(read).collect(),
            last_instructions: between,
            start_instructions: cycles.after,
        })
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

/// `name=number` pairs.
fn counts(line: &str) -> Vec<(String, f64)> {
    let pairs = line.split_whitespace().filter_map(|word| word.split_once('='));
    pairs.filter_map(|(name, value)| Some((name.to_string(), value.parse().ok()?))).collect()
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
        let loader = "9 pages; cycles entered=100 waited=30 jumped=200";
        let cycles = Cycles { before: 100, computed: 70, waited: 30, after: 50 };
        assert_eq!(Cycles::read(loader, " cycles=250"), Some(cycles));
        assert_eq!(Cycles::read(loader, " cycles=150"), None);
        assert_eq!(counts("pages=3 x create_s=0.5")[1], ("create_s".to_string(), 0.5));
    }
}
