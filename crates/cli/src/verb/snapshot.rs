//! `blocklab snapshot`: a machine back from its image, straight from the boot loader.

use std::path::{Path, PathBuf};
use std::time::Duration;

use boot::snapshot::{Disks, Lab, Resumed, Suspended, Way, inspect};
use serde_json::{Value, json};
use study::Failure;

use crate::say;

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
    /// What the guest's kernel shall reclaim memory down to before the image is made
    #[arg(long, value_name = "BYTES")]
    size: Option<u64>,
    /// Suspend and resume the same guest by its own kernel, too
    #[arg(long)]
    against: bool,
    /// Count instructions, and keep what the loader computed and read, for the workload `boot`, in
    /// this new file
    #[arg(long, value_name = "FILE", conflicts_with = "keep")]
    record: Option<PathBuf>,
    /// Keep the image in this new file, and the disk that is mounted in FILE.disk; do not resume
    #[arg(long, value_name = "FILE", conflicts_with = "against")]
    keep: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Boot {
    /// What `try --keep` left; it can be used once
    image: PathBuf,
    #[command(flatten)]
    guest: Guest,
}

/// The machine of a guest.
#[derive(clap::Args)]
struct Guest {
    /// Its memory
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    memory: u32,
    /// Its processor, as QEMU calls it
    #[arg(long, value_name = "NAME", default_value = "qemu64")]
    processor: String,
    /// Seconds of this machine that each of its lives may take
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    wall_limit: u64,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Guest {
    fn lab(&self) -> Lab {
        Lab {
            kernel: PathBuf::new(),
            modules: None,
            memory_mib: self.memory,
            filled_mib: 0,
            bytes_max: None,
            counted: false,
            processor: self.processor.clone(),
            wall: Duration::from_secs(self.wall_limit),
        }
    }
}

impl Boot {
    fn run(&self) -> Result<(), Failure> {
        let disks = Disks { image: self.image.clone(), mounted: disk_beside(&self.image) };
        for path in [&disks.image, &disks.mounted] {
            std::fs::metadata(path)
                .map_err(|why| Failure::input(format!("{}: {why}", path.display())))?;
        }
        let resumed = self.guest.lab().wake(Way::Loader, &disks)?;
        disks.check()?;
        if self.guest.json {
            say(json!({ "resume_s": resumed.wall_s, "loader": resumed.loader }));
        } else {
            say(told_resume(&resumed));
        }
        Ok(())
    }
}

/// The disk that a guest had mounted when it was suspended to `image`.
fn disk_beside(image: &Path) -> PathBuf {
    let mut name = image.as_os_str().to_owned();
    name.push(".disk");
    name.into()
}

fn told_resume(resumed: &Resumed) -> String {
    let loader = resumed.loader.as_deref().map(|said| format!("  loader: {said}\n"));
    let at = resumed.wall_s;
    format!("{}  resumed {at:.2} s after the machine's start", loader.unwrap_or_default())
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        match self.verb {
            SnapshotVerb::Try(order) => order.run()?,
            SnapshotVerb::Boot(order) => order.run()?,
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
        Ok(0)
    }
}

/// A guest that went and came back.
struct Cycle {
    way: Way,
    suspended: Suspended,
    resumed: Resumed,
    /// What the loader reads of the image.
    reads: Vec<(u64, u32)>,
}

impl Try {
    fn run(&self) -> Result<(), Failure> {
        let lab = Lab {
            kernel: self.kernel.clone(),
            modules: self.modules.clone(),
            filled_mib: self.fill,
            bytes_max: self.size,
            counted: self.record.is_some(),
            ..self.guest.lab()
        };
        // What was asked for is looked at before what the machine lacks.
        lab.check()?;
        if let Some(path) = &self.keep {
            let disks = Disks::new(&lab, path, &disk_beside(path))?;
            let suspended = lab.suspend(Way::Loader, &disks).inspect_err(|_| {
                let _ = std::fs::remove_file(&disks.image);
                let _ = std::fs::remove_file(&disks.mounted);
            })?;
            return self.tell(&[], Some((path, &suspended)));
        }
        let mut cycles = vec![cycle(&lab, Way::Loader)?];
        if let Some(path) = &self.record {
            let recording = cycles[0].resumed.recording(&self.kernel, &cycles[0].reads)?;
            let mut file = std::fs::File::create_new(path).map_err(|why| {
                Failure::input(format!("recording {}: {why}", path.display()))
                    .expected("a name that is free")
            })?;
            std::io::Write::write_all(&mut file, recording.to_string().as_bytes())
                .map_err(|why| Failure::machine(format!("{}: {why}", path.display())))?;
        }
        if self.against {
            cycles.push(cycle(&lab, Way::Kernel)?);
        }
        self.tell(&cycles, None)
    }

    fn tell(&self, cycles: &[Cycle], kept: Option<(&Path, &Suspended)>) -> Result<(), Failure> {
        let ratio = match cycles {
            [ours, kernel] => Some(kernel.resumed.wall_s / ours.resumed.wall_s),
            _ => None,
        };
        if self.guest.json {
            let cycles: Vec<Value> = cycles.iter().map(Cycle::as_json).collect();
            let kept = kept.map(|(path, suspended)| {
                json!({ "image": path.display().to_string(), "counts": counts(suspended) })
            });
            say(json!({ "cycles": cycles, "ratio": ratio, "kept": kept }));
            return Ok(());
        }
        if let Some((path, suspended)) = kept {
            say(format!("{}: {}", path.display(), told(suspended)));
        }
        for cycle in cycles {
            say(format!("{}: suspended in {:.2} s", cycle.name(), cycle.suspended.wall_s));
            if !cycle.suspended.counts.is_empty() {
                say(format!("  image: {}", told(&cycle.suspended)));
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

fn cycle(lab: &Lab, way: Way) -> Result<Cycle, Failure> {
    let folder = attach::PrivateFolder::new()?;
    let path = |name: &str| folder.path.join(name);
    let disks = Disks::new(lab, &path("image"), &path("mounted"))?;
    let suspended = lab.suspend(way, &disks)?;
    let reads = match way {
        Way::Loader => inspect::image(&disks.image)?.reads().to_vec(),
        Way::Kernel => Vec::new(),
    };
    let resumed = lab.wake(way, &disks)?;
    resumed.is_of(&suspended)?;
    disks.check()?;
    if way == Way::Loader {
        // It was used: a second time must be refused.
        match lab.wake(way, &disks) {
            Ok(_) => return Err(Failure::bug("an image was resumed twice")),
            Err(why) if why.message.contains("not resumed") => {}
            Err(why) => return Err(why),
        }
    }
    Ok(Cycle { way, suspended, resumed, reads })
}

fn counts(suspended: &Suspended) -> Value {
    let pairs = suspended.counts.iter().map(|(name, value)| (name.clone(), json!(value)));
    Value::Object(pairs.collect())
}

/// The counts of an image in a line.
fn told(suspended: &Suspended) -> String {
    let of = |name: &str| {
        let found = suspended.counts.iter().find(|(known, _)| known == name);
        found.map_or(0.0, |(_, value)| *value)
    };
    format!(
        "{} pages: {} of data, {} of zeros, {} of one word; {:.1} MB written",
        of("pages"),
        of("data"),
        of("zero"),
        of("word"),
        of("written_bytes") / 1e6
    )
}

impl Cycle {
    fn name(&self) -> &'static str {
        match self.way {
            Way::Loader => "loader",
            Way::Kernel => "kernel",
        }
    }

    fn as_json(&self) -> Value {
        json!({
            "way": self.name(),
            "counts": counts(&self.suspended),
            "suspend_s": self.suspended.wall_s,
            "resume_s": self.resumed.wall_s,
            "loader": self.resumed.loader,
            "cycles": self.resumed.cycles.map(|cycles| json!({
                "before": cycles.before, "computed": cycles.computed,
                "waited": cycles.waited, "after": cycles.after,
            })),
        })
    }
}
