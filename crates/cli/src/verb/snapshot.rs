//! `blocklab snapshot`: a machine back from its image, straight from the boot loader.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use boot::Accelerator;
use boot::snapshot::{
    Disks, Drives, EVERYTHING, Resumed, Resumer, SnapshotGuest, StartedBy, Suspended, Woken,
    convert, inspect,
};
use serde_json::{Value, json};
use study::Failure;
use workload::boot_recording::Read;

use crate::{interrupt, say};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: SnapshotVerb,
}

#[derive(clap::Subcommand)]
enum SnapshotVerb {
    /// Suspend a guest in QEMU and bring it back by the loader, and show that nothing was lost
    Try(Try),
    /// Bring a guest back from the image that `try --keep` left
    Boot(Boot),
    /// The programs for a machine of your own, into a new folder: the suspend tool and the loader
    Tools {
        /// A folder that is made
        folder: PathBuf,
        /// One JSON object on stdout
        #[arg(long)]
        json: bool,
    },
    /// Convert another image to ours, so that the loader resumes it
    ResumeFrom(ResumeFrom),
    /// Check an image, and say what is in it
    Info {
        /// A disk, partition or file with an image
        image: PathBuf,
        /// One JSON object on stdout
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
struct Try {
    /// A vmlinuz, as a package of a distribution has it
    kernel: PathBuf,
    /// Where its modules are [default: beside it, as in the package]
    #[arg(long, value_name = "DIR")]
    modules: Option<PathBuf>,
    #[command(flatten)]
    guest: Guest,
    /// How much of its memory a program fills with what cannot be compressed
    #[arg(long, value_name = "MIB", default_value_t = 60)]
    fill: u32,
    /// How much of that it works with [default: 10, or all of it]
    #[arg(long, value_name = "MIB")]
    hot: Option<u32>,
    /// Which pages leave memory for swap before the image is made: everything, kernel[:BYTES],
    /// all-out, program:NAMES, group:NAMES, kind:KINDS, record, prefetch, age[:SECONDS],
    /// random:SHARE
    #[arg(long, value_name = "POLICY", default_value = EVERYTHING)]
    policy: String,
    /// Pack each MiB of the image that becomes shorter so; one that is converted stays as the
    /// kernel packed it
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Compress::None)]
    compress: Compress,
    /// Suspend and resume the same guest by its own kernel, too
    #[arg(long)]
    against: bool,
    /// Suspend it by its own kernel, convert that image, and resume it by the loader, too
    #[arg(long)]
    converted: bool,
    /// Count instructions, and keep in this new folder what was computed and read, for the workload
    /// `boot`: until the program ran again, and until it had worked
    #[arg(long, value_name = "DIR", conflicts_with = "keep")]
    record: Option<PathBuf>,
    /// Keep the image in this new file, the other disks in FILE.disk and FILE.swap; do not resume
    #[arg(long, value_name = "FILE", conflicts_with_all = ["against", "converted"])]
    keep: Option<PathBuf>,
}

/// How an image is packed.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Compress {
    /// Not at all
    None,
    /// By LZ4
    Lz4,
}

#[derive(clap::Args)]
struct Boot {
    /// What `try --keep` left; it can be used once
    image: PathBuf,
    #[command(flatten)]
    guest: Guest,
}

/// What another image is.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// A Linux kernel's own, in swap: plain, LZO or LZ4
    Swsusp,
}

#[derive(clap::Args)]
struct ResumeFrom {
    /// What the image is
    format: Format,
    /// The disk, partition or file with swap that has the image; it is only swap again afterwards
    swap: PathBuf,
    /// What `blocklab-guest suspend --prepare` was given on that machine
    target: PathBuf,
    /// The other disks of the machine that were in use, whole
    #[arg(long = "disk", value_name = "DISK")]
    disks: Vec<PathBuf>,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl ResumeFrom {
    fn run(&self) -> Result<(), Failure> {
        let Format::Swsusp = self.format;
        let found = convert(&self.swap, &self.target, &self.disks)?;
        if self.json {
            say(json!({ "image": self.target.display().to_string(), "counts": pairs(&found) }));
        } else {
            say(format!("{}: {}", self.target.display(), told(&found)));
        }
        Ok(())
    }
}

/// What runs a guest.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Choice {
    /// KVM, if a small guest has booted with it on this machine
    Auto,
    /// KVM
    Kvm,
    /// QEMU's translation
    Tcg,
}

/// The machine of a guest.
#[derive(clap::Args)]
struct Guest {
    /// Its memory
    #[arg(long, value_name = "MIB", default_value_t = 512,
          value_parser = clap::value_parser!(u32).range(96..=1 << 20))]
    memory: u32,
    /// Its processor, as QEMU calls it
    #[arg(long, value_name = "NAME", default_value = "qemu64")]
    processor: String,
    /// How many of them
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=64))]
    processors: u32,
    /// It starts by UEFI, and the loader is a program for that
    #[arg(long)]
    uefi: bool,
    /// GRUB starts it on a BIOS, from a disk of its own: the loader first, and the kernel when
    /// there is nothing to resume
    #[arg(long, conflicts_with = "uefi")]
    grub: bool,
    /// Its disks are NVMe drives
    #[arg(long, conflicts_with = "ahci")]
    nvme: bool,
    /// What runs it: KVM, where a guest boots with it, else QEMU's translation
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Choice::Auto)]
    accelerator: Choice,
    /// Its disks are SATA drives
    #[arg(long)]
    ahci: bool,
    /// Seconds of this machine that each of its lives may take
    #[arg(long, value_name = "SECONDS", default_value_t = 300,
          value_parser = clap::value_parser!(u64).range(1..))]
    wall_limit: u64,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Guest {
    fn snapshot_guest(&self) -> SnapshotGuest {
        SnapshotGuest {
            kernel: PathBuf::new(),
            modules: None,
            memory_mib: self.memory,
            filled_mib: 0,
            hot_mib: 0,
            policy: EVERYTHING.into(),
            accelerator: Accelerator::Tcg("as asked".into()),
            packs: false,
            counted: false,
            processor: self.processor.clone(),
            processors: self.processors,
            started_by: match (self.uefi, self.grub) {
                (true, _) => StartedBy::Uefi,
                (_, true) => StartedBy::Grub,
                _ => StartedBy::Qemu,
            },
            drives: match (self.nvme, self.ahci) {
                (true, _) => Drives::Nvme,
                (_, true) => Drives::Ahci,
                _ => Drives::Virtio,
            },
            wall: Duration::from_secs(self.wall_limit),
        }
    }

    /// `guest` with what runs it.
    fn accelerated(
        &self,
        guest: SnapshotGuest,
        kernel: Option<&Path>,
    ) -> Result<SnapshotGuest, Failure> {
        let accelerator = match self.accelerator {
            Choice::Kvm if guest.counted => {
                return Err(Failure::input("--accelerator kvm: it does not count instructions")
                    .expected("tcg or auto beside --record"));
            }
            Choice::Kvm => Accelerator::Kvm,
            Choice::Tcg => guest.accelerator.clone(),
            Choice::Auto if guest.counted => Accelerator::Tcg("instructions are counted".into()),
            Choice::Auto => Accelerator::of_this_machine(kernel)?,
        };
        Ok(SnapshotGuest { accelerator, ..guest })
    }
}

impl Boot {
    fn run(&self) -> Result<(), Failure> {
        let disks = Disks::of(&self.image);
        for path in disks.all() {
            std::fs::metadata(path)
                .map_err(|why| Failure::input(format!("{}: {why}", path.display())))?;
        }
        let guest = self.guest.snapshot_guest();
        guest.check_drives()?;
        let guest = self.guest.accelerated(guest, None)?;
        let Woken::Back(resumed) = guest.wake(Resumer::Loader, &disks)? else {
            return Err(Failure::bug("it suspended itself again"));
        };
        disks.check().map_err(|why| match why.kind {
            // No loader can tell on which bus the kernel that it wakes knew its disks.
            study::Kind::Bug => Failure { kind: study::Kind::Input, ..why }.help(
                "the guest came back and did not reach its disk: are --nvme, --ahci, --uefi and \
                 --grub those of `snapshot try`? the image is used now",
            ),
            _ => why,
        })?;
        if self.guest.json {
            say(json!({
                "resume_s": resumed.wall_s, "loader": resumed.loader,
                "accelerator": guest.accelerator.name(),
            }));
        } else {
            say(format!("by {}", guest.accelerator));
            say(told_resume(&resumed));
        }
        Ok(())
    }
}

fn told_resume(resumed: &Resumed) -> String {
    let loader = resumed.loader.as_deref().map(|said| format!("  loader: {said}\n"));
    let at = resumed.wall_s;
    let work = |name: &str| {
        let found = resumed.work.iter().find(|(known, _)| known == name);
        found.map_or(0.0, |(_, value)| *value)
    };
    format!(
        "{}  resumed {at:.2} s after the machine's start; its program worked with {} pages in \
         {:.3} s, {} major faults, {} reads of swap",
        loader.unwrap_or_default(),
        work("pages"),
        work("wall_ns") / 1e9,
        work("major_faults"),
        work("swap_reads")
    )
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        interrupt::tidily(|| self.verb.run()).map(|()| 0)
    }
}

impl SnapshotVerb {
    fn run(self) -> Result<(), Failure> {
        match self {
            SnapshotVerb::Try(order) => order.run()?,
            SnapshotVerb::Boot(order) => order.run()?,
            SnapshotVerb::ResumeFrom(order) => order.run()?,
            SnapshotVerb::Tools { folder, json } => write_tools(&folder, json)?,
            SnapshotVerb::Info { image, json } => {
                let found = inspect::image(&image)?;
                let pairs = found.as_pairs();
                if json {
                    say(Value::Object(pairs.into_iter().collect()));
                } else {
                    let bare = |value: &Value| value.to_string().trim_matches('"').to_string();
                    pairs
                        .iter()
                        .for_each(|(name, value)| say(format!("{name:16} {}", bare(value))));
                }
            }
        }
        Ok(())
    }
}

/// What runs elsewhere, each as a file.
fn write_tools(folder: &Path, json: bool) -> Result<(), Failure> {
    let wrong = |why: std::io::Error| Failure::input(format!("{}: {why}", folder.display()));
    std::fs::create_dir(folder).map_err(|why| wrong(why).expected("a name that is free"))?;
    // A part of it would be in the way of the next try.
    let made = attach::Unfinished::new(folder);
    write_each(folder, json)?;
    made.finished();
    Ok(())
}

fn write_each(folder: &Path, json: bool) -> Result<(), Failure> {
    let wrong = |why: std::io::Error| Failure::machine(format!("{}: {why}", folder.display()));
    let mut written = Vec::new();
    for (name, bytes) in [
        ("blocklab-guest", boot::GUEST_PROGRAM),
        ("blocklab.efi", boot::LOADER_EFI),
        ("blocklab-loader", boot::LOADER),
        ("blocklab-multiboot", boot::LOADER_MULTIBOOT),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, bytes).map_err(wrong)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).map_err(wrong)?;
        written.push(path.display().to_string());
    }
    if json {
        say(json!({ "written": written }));
    } else {
        written.iter().for_each(say);
    }
    Ok(())
}

/// A guest that went and came back.
struct Cycle {
    resumer: Resumer,
    suspended: Suspended,
    resumed: Resumed,
    /// What the loader reads of the image.
    reads: Vec<Read>,
}

impl Try {
    fn run(&self) -> Result<(), Failure> {
        let guest = SnapshotGuest {
            kernel: self.kernel.clone(),
            modules: self.modules.clone(),
            filled_mib: self.fill,
            hot_mib: self.hot.unwrap_or(10.min(self.fill)),
            policy: self.policy.clone(),
            packs: self.compress == Compress::Lz4,
            counted: self.record.is_some(),
            ..self.guest.snapshot_guest()
        };
        // What was asked for is looked at before what the machine lacks.
        if (self.keep.is_some() || self.converted) && guest.learns()? {
            let option = if self.keep.is_some() { "--keep" } else { "--converted" };
            let message = format!("{option}: `{}` learns from resumes", self.policy);
            return Err(Failure::input(message).expected("a policy that does not"));
        }
        self.keep.as_deref().map_or(Ok(()), Disks::check_free)?;
        self.record.as_deref().map_or(Ok(()), study::check_create)?;
        guest.check()?;
        let guest = self.guest.accelerated(guest, Some(&self.kernel))?;
        if let Some(path) = &self.keep {
            let (disks, unfinished) = Disks::new(&guest, path)?;
            let suspended = guest.suspend(Resumer::Loader, &disks)?;
            unfinished.into_iter().for_each(attach::Unfinished::finished);
            return self.tell(&guest, &[], Some((path, &suspended)));
        }
        if let Some(folder) = &self.record {
            std::fs::create_dir(folder).map_err(|why| {
                Failure::input(format!("recordings {}: {why}", folder.display()))
                    .expected("a name that is free")
            })?;
        }
        self.cycles(&guest).inspect_err(|_| {
            // It was made just now; with a part of the recordings it stays.
            let _ = self.record.as_ref().map(std::fs::remove_dir);
        })
    }

    fn cycles(&self, guest: &SnapshotGuest) -> Result<(), Failure> {
        let mut cycles = vec![cycle(guest, Resumer::Loader)?];
        if self.against {
            cycles.push(cycle(guest, Resumer::Kernel)?);
        }
        if self.converted {
            cycles.push(cycle(guest, Resumer::Converted)?);
        }
        if let Some(folder) = &self.record {
            self.keep_recordings(folder, &cycles)?;
        }
        self.tell(guest, &cycles, None)
    }

    /// A file for each resumer and each moment.
    fn keep_recordings(&self, folder: &Path, cycles: &[Cycle]) -> Result<(), Failure> {
        let image_sectors = u64::from(self.guest.memory) << 11;
        for cycle in cycles {
            let (resumed, worked) =
                cycle.resumed.recordings(&self.kernel, &cycle.reads, image_sectors)?;
            for (recording, end) in [(resumed, "resumed"), (worked, "worked")] {
                let path = folder.join(format!("{}-{end}.boot", cycle.name()));
                study::create(&path, recording.to_string().as_bytes())?;
            }
        }
        Ok(())
    }

    fn tell(
        &self,
        guest: &SnapshotGuest,
        cycles: &[Cycle],
        kept: Option<(&Path, &Suspended)>,
    ) -> Result<(), Failure> {
        let ratio = match cycles {
            [ours, kernel, ..] if kernel.resumer == Resumer::Kernel => {
                Some(kernel.resumed.wall_s / ours.resumed.wall_s)
            }
            _ => None,
        };
        if self.guest.json {
            let cycles: Vec<Value> = cycles.iter().map(Cycle::as_json).collect();
            let kept = kept.map(|(path, suspended)| {
                json!({ "image": path.display().to_string(), "counts": counts(suspended) })
            });
            say(json!({
                "accelerator": guest.accelerator.name(), "cycles": cycles, "ratio": ratio,
                "kept": kept,
            }));
            return Ok(());
        }
        say(format!("by {}", guest.accelerator));
        if let Some((path, suspended)) = kept {
            say(format!("{}: {}", path.display(), told(&suspended.counts)));
        }
        for cycle in cycles {
            say(format!("{}: suspended in {:.2} s", cycle.name(), cycle.suspended.wall_s));
            if !cycle.suspended.counts.is_empty() {
                say(format!("  image: {}", told(&cycle.suspended.counts)));
            }
            say(told_resume(&cycle.resumed));
            say("  its memory, its clock and its file system are those of before");
        }
        if let Some(ratio) = ratio {
            say(format!("the loader is {ratio:.1} times as fast as the kernel's own resume"));
        }
        Ok(())
    }
}

fn cycle(guest: &SnapshotGuest, resumer: Resumer) -> Result<Cycle, Failure> {
    let folder = attach::PrivateFolder::new()?;
    let (disks, _unfinished) = Disks::new(guest, &folder.path.join("image"))?;
    let mut suspended = guest.suspend(resumer, &disks)?;
    let (resumed, reads) = loop {
        let reads = match resumer {
            Resumer::Loader | Resumer::Converted => {
                inspect::image(&disks.image)?.reads(guest.started_by == StartedBy::Uefi)
            }
            Resumer::Kernel => Vec::new(),
        };
        match guest.wake(resumer, &disks)? {
            Woken::Back(resumed) => break (resumed, reads),
            Woken::Again(counts) => suspended.counts = counts,
        }
    };
    resumed.is_of(&suspended)?;
    disks.check()?;
    if resumer != Resumer::Kernel {
        // It was used: a second time must be refused.
        match guest.wake(resumer, &disks) {
            Ok(_) => return Err(Failure::bug("an image was resumed twice")),
            Err(why) if why.message.contains("not resumed") => {}
            Err(why) => return Err(why),
        }
    }
    Ok(Cycle { resumer, suspended, resumed, reads })
}

fn counts(suspended: &Suspended) -> Value {
    pairs(&suspended.counts)
}

fn pairs(found: &[(String, f64)]) -> Value {
    Value::Object(found.iter().map(|(name, value)| (name.clone(), json!(value))).collect())
}

/// The counts of an image in a line.
fn told(counts: &[(String, f64)]) -> String {
    let of = |name: &str| {
        let found = counts.iter().find(|(known, _)| known == name);
        found.map_or(0.0, |(_, value)| *value)
    };
    let stored = match of("stored") {
        stored if stored < of("data") => format!(" (packed to {stored})"),
        _ => String::new(),
    };
    format!(
        "{} pages: {} of data{stored}, {} of zeros, {} of one word; {:.1} MB written, {:.1} MB \
         more in swap",
        of("pages"),
        of("data"),
        of("zero"),
        of("word"),
        of("written_bytes") / 1e6,
        of("swapped") * 4096.0 / 1e6
    )
}

impl Cycle {
    fn name(&self) -> &'static str {
        match self.resumer {
            Resumer::Loader => "loader",
            Resumer::Kernel => "kernel",
            Resumer::Converted => "converted",
        }
    }

    fn as_json(&self) -> Value {
        json!({
            "way": self.name(),
            "counts": counts(&self.suspended),
            "suspend_s": self.suspended.wall_s,
            "resume_s": self.resumed.wall_s,
            "loader": self.resumed.loader,
            "work": pairs(&self.resumed.work),
            "cycles": self.resumed.cycles.map(|cycles| json!({
                "before": cycles.before, "loading": cycles.loading, "waited": cycles.waited,
                "checking": cycles.checking, "after": cycles.after,
            })),
        })
    }
}
