//! `blocklab snapshot`: a machine back from its image, straight from the boot loader.

use std::path::{Path, PathBuf};
use std::time::Duration;

use boot::snapshot::{Lab, Resumed, Suspended, Way, inspect};
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
    /// The guest's memory
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    memory: u32,
    /// How much of it a program fills with what cannot be compressed
    #[arg(long, value_name = "MIB", default_value_t = 60)]
    fill: u32,
    /// What the guest's kernel shall reclaim memory down to before the image is made
    #[arg(long, value_name = "BYTES")]
    size: Option<u64>,
    /// The processor, as QEMU calls it
    #[arg(long, value_name = "NAME", default_value = "qemu64")]
    processor: String,
    /// Suspend and resume the same guest by its own kernel, too
    #[arg(long)]
    against: bool,
    /// Keep the image, which was not used yet, in this new file, and do not resume it
    #[arg(long, value_name = "FILE", conflicts_with = "against")]
    keep: Option<PathBuf>,
    /// Seconds of this machine that each life of the guest may take
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    wall_limit: u64,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        match self.verb {
            SnapshotVerb::Try(order) => order.run()?,
            SnapshotVerb::Info { image, json } => {
                let found = inspect::image(&image)?;
                match json {
                    true => say(json!(found.as_pairs().into_iter().collect::<serde_json::Map<_, _>>())),
                    false => found.as_pairs().iter().for_each(|(name, value)| {
                        say(format!("{name:16} {}", value.to_string().trim_matches('"')));
                    }),
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
}

impl Try {
    fn run(&self) -> Result<(), Failure> {
        let lab = Lab {
            kernel: self.kernel.clone(),
            modules: self.modules.clone(),
            memory_mib: self.memory,
            filled_mib: self.fill,
            bytes_max: self.size,
            processor: self.processor.clone(),
            wall: Duration::from_secs(self.wall_limit),
        };
        if let Some(path) = &self.keep {
            lab.new_disk(path)?;
            let suspended = lab.suspend(Way::Loader, path).inspect_err(|_| remove(path))?;
            return self.tell(&[], Some((path, &suspended)));
        }
        let mut cycles = vec![cycle(&lab, Way::Loader)?];
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
        if self.json {
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
            if let Some(loader) = &cycle.resumed.loader {
                say(format!("  loader: {loader}"));
            }
            say(format!(
                "  resumed {:.2} s after the machine's start; memory, nonce and clock are those of \
                 before",
                cycle.resumed.wall_s
            ));
        }
        if let Some(ratio) = ratio {
            say(format!("the loader is {ratio:.1} times as fast as the kernel's own resume"));
        }
        Ok(())
    }
}

fn cycle(lab: &Lab, way: Way) -> Result<Cycle, Failure> {
    let folder = attach::PrivateFolder::new()?;
    let disk = folder.path.join("disk");
    lab.new_disk(&disk)?;
    let suspended = lab.suspend(way, &disk)?;
    let resumed = lab.resume(way, &disk, &suspended)?;
    if way == Way::Loader {
        // It was used: a second time must be refused.
        match lab.resume(way, &disk, &suspended) {
            Ok(_) => return Err(Failure::bug("an image was resumed twice")),
            Err(why) if why.message.contains("not resumed") => {}
            Err(why) => return Err(why),
        }
    }
    Ok(Cycle { way, suspended, resumed })
}

fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
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
        })
    }
}
