//! `blocklab boot`: boot images, where the time of loading a kernel goes, and who waits after it.

mod advise;
mod install;
mod record;

use std::path::{Path, PathBuf};
use std::time::Duration;

use boot::compose::{Times, compose, crossover};
use boot::image::{self, FileSystem, Firmware, Initramfs, Packing, Recipe, Variant};
use boot::load::{self, Limits};
use serde_json::{Value, json};
use study::Failure;
use workload::Until;
use workload::boot_recording::Recording;

use super::travel;
use crate::{interrupt, say};

/// Longest recording that is read.
const RECORDING_BYTES_MAX: u64 = 256 << 20;
/// The two that the crossover is between.
const LIGHT: &str = "plain";
const DENSE: &str = "shipped";

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: BootVerb,
}

#[derive(clap::Subcommand)]
enum BootVerb {
    /// Make a disk image that boots a kernel to an init that ends the guest
    Image {
        /// A vmlinuz, or the ELF file in it
        kernel: PathBuf,
        #[command(flatten)]
        stored: Stored,
        /// The image, which must not be there yet
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// One JSON object on stdout
        #[arg(long)]
        json: bool,
    },
    /// Change what may make a boot faster on a drive, boot with each change, and say what it saves
    Advise(advise::Args),
    /// Boot a kernel in QEMU, or take recordings, and say what loading it takes on devices
    Load(Load),
    /// Make the root file system of a small Debian for `boot record`, once
    Root(record::Root),
    /// Boot a root file system in virtual time or in QEMU; say who waits until a unit is reached
    Record(record::Args),
    /// Put the recorder into this machine beside its usual boot, or take it out again
    Install(install::Args),
    /// Fetch the record of this machine's boot
    Collect(install::Collect),
    /// Show records again, beside each other, and as pictures
    Report(record::Report),
}

/// How a kernel is stored. `image` makes the first of what is named, `load` boots each with each.
#[derive(clap::Args, Default)]
struct Stored {
    /// What starts the loader: bios, uefi; `load` takes several (default: bios)
    #[arg(long)]
    firmware: Vec<String>,
    /// The kernel: shipped, plain, gzip, lzo, xz, lz4, zstd, and with UEFI uki, one file; `load`
    /// takes several (default: all, or those as shipped with an initramfs; of `image`: plain)
    #[arg(long)]
    variant: Vec<String>,
    /// The file system: ext2, ext4, fat; `load` takes several (default: ext2; UEFI reads fat)
    #[arg(long)]
    file_system: Vec<String>,
    /// An initramfs, which is unpacked before our init runs instead of its own
    #[arg(long, value_name = "FILE")]
    initramfs: Option<PathBuf>,
    /// How it is stored, whatever it was: plain, gzip, lzo, xz, lz4, zstd; `load` takes several
    /// (default: all)
    #[arg(long, value_name = "WAY", requires = "initramfs")]
    pack_initramfs: Vec<String>,
}

/// What [`Stored`] takes: a recording is of one way already.
const STORED: [&str; 5] = ["firmware", "variant", "file_system", "initramfs", "pack_initramfs"];

#[derive(clap::Args)]
struct Load {
    /// A vmlinuz to boot in each variant
    #[arg(required_unless_present = "recording", conflicts_with = "recording")]
    kernel: Option<PathBuf>,
    #[command(flatten)]
    stored: Stored,
    /// A recording instead of a boot; may be given several times
    #[arg(long, value_name = "FILE", conflicts_with_all = STORED)]
    recording: Vec<PathBuf>,
    /// Keep the recordings in this folder, as KERNEL-VARIANT.boot
    #[arg(long, value_name = "DIR", conflicts_with = "recording")]
    record: Option<PathBuf>,
    /// A part to load from; may be given several times
    #[arg(long, value_name = "PART", default_values = ["wd-80g-5400", "mlc-970pro-like"])]
    device: Vec<String>,
    /// Speed of the processor
    #[arg(long, value_name = "NUMBER", default_value_t = 3_000_000_000)]
    instructions_per_second: u64,
    /// Seconds of this machine that a boot may take
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    wall_limit: u64,
    /// The guest's memory: a kernel gives half of it to what it unpacks of an initramfs
    #[arg(long, value_name = "SIZE", default_value = "512M", conflicts_with = "recording")]
    mem: String,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        match self.verb {
            BootVerb::Image { kernel, stored, out, json } => {
                let recipe = stored.only()?;
                study::check_create(&out)?;
                let image = interrupt::tidily(|| image::make(&kernel, &recipe, &out))?;
                let variant = image.recipe.name();
                let (path, bytes) = (out.display(), image.file_bytes);
                if json {
                    say(json!({
                        "image": path.to_string(), "variant": variant, "kernel_bytes": bytes,
                    }))
                } else {
                    say(format!("{path}: {variant}, {bytes} bytes"))
                }
            }
            BootVerb::Load(load) => interrupt::tidily(|| load.run())?,
            BootVerb::Advise(order) => order.run()?,
            BootVerb::Root(root) => root.run()?,
            BootVerb::Record(record) => record.run()?,
            BootVerb::Install(order) => order.run()?,
            BootVerb::Collect(order) => order.run()?,
            BootVerb::Report(report) => report.run()?,
        }
        Ok(0)
    }
}

impl Stored {
    /// Every combination of what is named that can be: one file needs UEFI, and UEFI reads FAT.
    fn all(&self) -> Result<Vec<Recipe>, Failure> {
        let usual = match self.initramfs {
            Some(_) => vec![Variant::Shipped, Variant::Uki],
            None => Variant::ALL.to_vec(),
        };
        let firmwares = named("firmware", &self.firmware, &Firmware::ALL.map(|f| (f.name(), f)))?;
        let variants = named("variant", &self.variant, &Variant::ALL.map(|v| (v.name(), v)))?;
        let kinds = FileSystem::ALL.map(|kind| (kind.name(), kind));
        let file_systems = named("file system", &self.file_system, &kinds)?;
        let mut ways = vec![("plain", None)];
        ways.extend(Packing::ALL.map(|packing| (packing.name(), Some(packing))));
        let packings = named("packing", &self.pack_initramfs, &ways)?;
        let initramfs: Vec<_> = match &self.initramfs {
            None => vec![None],
            Some(file) => (packings.unwrap_or(ways.iter().map(|way| way.1).collect()).into_iter())
                .map(|packing| Some(Initramfs { file: file.clone(), packing }))
                .collect(),
        };
        let variants = variants.unwrap_or(usual);
        let (mut recipes, mut not) = (Vec::new(), None);
        for firmware in firmwares.unwrap_or(vec![Firmware::default()]) {
            let usual = [firmware.usual_file_system()];
            for &variant in &variants {
                for &file_system in file_systems.as_deref().unwrap_or(&usual) {
                    let initramfs = initramfs.iter().cloned();
                    let recipe = |initramfs| Recipe { firmware, variant, file_system, initramfs };
                    let (possible, no): (Vec<_>, Vec<_>) =
                        initramfs.map(recipe).partition(|recipe| recipe.impossible().is_none());
                    recipes.extend(possible);
                    not = not.or_else(|| no.first()?.impossible());
                }
            }
        }
        match not {
            Some(why) if recipes.is_empty() => {
                Err(Failure::input(why).expected("--firmware uefi, and --file-system fat for it"))
            }
            _ => Ok(recipes),
        }
    }

    /// The one that an image is made by.
    fn only(&self) -> Result<Recipe, Failure> {
        let one = |names: &Vec<String>, usual: &str| {
            if names.is_empty() { vec![usual.to_string()] } else { names.clone() }
        };
        let (variant, file_system) = (one(&self.variant, LIGHT), self.file_system.clone());
        let pack_initramfs = one(&self.pack_initramfs, "plain");
        let (initramfs, firmware) = (self.initramfs.clone(), self.firmware.clone());
        let all = Stored { firmware, variant, file_system, initramfs, pack_initramfs }.all()?;
        match <[Recipe; 1]>::try_from(all) {
            Ok([recipe]) => Ok(recipe),
            Err(all) => {
                let names: Vec<String> = all.iter().map(Recipe::name).collect();
                Err(Failure::input(format!("an image of {}", names.join(", ")))
                    .expected("one: an image holds one kernel, and boots by one firmware"))
            }
        }
    }
}

/// The values called `names`; `None` when there are no names.
fn named<T: Clone>(
    what: &str,
    names: &[String],
    known: &[(&str, T)],
) -> Result<Option<Vec<T>>, Failure> {
    let find = |name: &String| {
        let found = known.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        found.ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            Failure::input(format!("{what} `{name}`")).expected(names.join(", "))
        })
    };
    let twice = (1..names.len()).find(|&index| names[..index].contains(&names[index]));
    if let Some(index) = twice {
        let message = format!("{what} `{}` is named twice", names[index]);
        return Err(Failure::input(message).expected("each once"));
    }
    let found: Vec<T> = names.iter().map(find).collect::<Result<_, _>>()?;
    Ok((!found.is_empty()).then_some(found))
}

/// What a guest of QEMU's may take.
fn limits(wall_s: u64, mem: &str) -> Result<Limits, Failure> {
    let wrong = |_| Failure::input(format!("--mem {mem}")).expected("less than 4096T");
    let memory_mib = u32::try_from(travel::memory(mem)?).map_err(wrong)?;
    Ok(Limits { wall: Duration::from_secs(wall_s), memory_mib })
}

impl Load {
    fn run(&self) -> Result<(), Failure> {
        let recordings = match &self.kernel {
            Some(kernel) => self.record(kernel)?,
            None => self.recording.iter().map(|path| read(path)).collect::<Result<_, _>>()?,
        };
        let mut rows = Vec::new();
        for device in &self.device {
            for recording in &recordings {
                let mut part = study::build_part(device, &[], 1)?;
                let speed = self.instructions_per_second;
                let times = compose(recording, part.device.as_mut(), speed, Until::Init)?;
                rows.push(Row { device, recording, times });
            }
        }
        if self.json {
            say(self.as_json(&rows))
        } else {
            self.show(&rows)
        }
        Ok(())
    }

    /// Boot each way to store it.
    fn record(&self, kernel: &Path) -> Result<Vec<Recording>, Failure> {
        let limits = limits(self.wall_limit, &self.mem)?;
        let mut recordings = Vec::new();
        let recipes = self.stored.all()?;
        let kept = self.places(kernel, &recipes)?;
        // What is wrong with a device is told before anything boots, too.
        for device in &self.device {
            study::build_part(device, &[], 1)?;
        }
        for (nth, recipe) in recipes.iter().enumerate() {
            let boot = load::boot_recipe(kernel, recipe, limits)?;
            if !self.json {
                let told = told(&boot);
                crate::warn(format!("{}: {told}", recipe.name()));
            }
            if let Some(path) = kept.get(nth) {
                study::create(path, boot.recording.to_string().as_bytes())?;
            }
            recordings.push(boot.recording);
        }
        Ok(recordings)
    }

    /// A new file for each recording that is to be kept; found out before anything boots.
    fn places(&self, kernel: &Path, recipes: &[Recipe]) -> Result<Vec<PathBuf>, Failure> {
        let Some(folder) = &self.record else { return Ok(Vec::new()) };
        std::fs::create_dir_all(folder).map_err(|why| {
            Failure::input(format!("--record {}: {why}", folder.display()))
                .expected("a folder, or a name that is free")
        })?;
        let kernel = kernel.file_name().unwrap_or_default().to_string_lossy();
        let name = |recipe: &Recipe| folder.join(format!("{kernel}-{}.boot", recipe.name()));
        let places: Vec<PathBuf> = recipes.iter().map(name).collect();
        places.iter().try_for_each(|path| study::check_create(path))?;
        Ok(places)
    }

    fn crossovers<'a>(&'a self, rows: &'a [Row<'a>]) -> impl Iterator<Item = (&'a str, Value)> {
        self.device.iter().filter_map(|device| {
            let of = |variant| {
                rows.iter().find(|row| row.device == device && row.recording.variant == variant)
            };
            let (light, dense) = (of(LIGHT)?, of(DENSE)?);
            let at = crossover(light.times, dense.times, self.instructions_per_second);
            let bytes = light.recording.read_bytes() as f64;
            Some((
                device.as_str(),
                at.map_or(Value::Null, |at| {
                    json!({
                        "device_factor": at.device_factor,
                        "bandwidth_mb_s": bytes / 1e6 / (light.times.device_s * at.device_factor),
                        "instructions_per_second": at.instructions_per_second,
                    })
                }),
            ))
        })
    }

    fn as_json(&self, rows: &[Row]) -> Value {
        let crossovers: serde_json::Map<_, _> =
            self.crossovers(rows).map(|(device, at)| (device.into(), at)).collect();
        let rows: Vec<Value> = rows.iter().map(|row| row.as_json(winner(rows, row))).collect();
        let speed = self.instructions_per_second;
        json!({ "instructions_per_second": speed, "rows": rows, "crossovers": crossovers })
    }

    fn show(&self, rows: &[Row]) {
        let names = rows.iter().map(|row| row.recording.variant.len());
        let width = names.max().unwrap_or_default().max(8);
        say(format!(
            "{:16} {:width$} {:>7} {:>6} {:>11} {:>9} {:>8}",
            "device", "variant", "MB", "reads", "processor s", "device s", "total s"
        ));
        for row in rows {
            let (recording, times) = (row.recording, row.times);
            let line = format!(
                "{:16} {:width$} {:7.1} {:6} {:11.3} {:9.3} {:8.3}  {}",
                row.device,
                recording.variant,
                recording.read_bytes() as f64 / 1e6,
                recording.reads.len(),
                times.processor_s,
                times.device_s,
                times.total_s(),
                if winner(rows, row) { "fastest" } else { "" }
            );
            say(line.trim_end());
        }
        for (device, at) in self.crossovers(rows) {
            say(match at["bandwidth_mb_s"].as_f64() {
                None => format!("{device}: {LIGHT} and {DENSE} are never equal"),
                Some(bandwidth) => format!(
                    "{device}: {LIGHT} and {DENSE} are equal at {bandwidth:.1} MB/s of {LIGHT} \
                     (each answer {:.2} times as long), or at {:.2} x 10^9 instructions/s",
                    at["device_factor"].as_f64().unwrap_or_default(),
                    at["instructions_per_second"].as_f64().unwrap_or_default() / 1e9
                ),
            });
        }
    }
}

/// One recording on one device.
struct Row<'a> {
    device: &'a String,
    recording: &'a Recording,
    times: Times,
}

impl Row<'_> {
    fn as_json(&self, fastest: bool) -> Value {
        json!({
            "device": self.device,
            "kernel": self.recording.kernel,
            "variant": self.recording.variant,
            "file_bytes": self.recording.file_bytes,
            "read_bytes": self.recording.read_bytes(),
            "reads": self.recording.reads.len(),
            "load_instructions": self.recording.load_instructions(),
            "start_instructions": self.recording.start_instructions,
            "processor_s": self.times.processor_s,
            "device_s": self.times.device_s,
            "total_s": self.times.total_s(),
            "fastest": fastest,
        })
    }
}

/// No other on the device is faster.
fn winner(rows: &[Row], row: &Row) -> bool {
    let mut others = rows.iter().filter(|other| other.device == row.device);
    others.all(|other| other.times.total_s() >= row.times.total_s())
}

/// What a boot counted, in a line.
fn told(boot: &load::Boot) -> String {
    let giga = |instructions: u64| instructions as f64 / 1e9;
    let recording = &boot.recording;
    let waits = boot.warning().map_or(String::new(), |warning| format!("; {warning}"));
    format!(
        "{} bytes, {} reads; 10^9 instructions: {:.4} before the load, {:.4} to load, {:.4} from \
         there to the kernel's init; {:.4} from reset{waits}",
        recording.file_bytes,
        recording.reads.len() as u64 + boot.before_reads + boot.after_reads,
        giga(boot.before_instructions),
        giga(recording.load_instructions()),
        giga(recording.start_instructions),
        giga(boot.init_instructions),
    )
}

fn read(path: &Path) -> Result<Recording, Failure> {
    let shown = path.display();
    let wrong = |why: String| Failure::input(format!("recording {shown}: {why}"));
    let text = study::read_text(path, RECORDING_BYTES_MAX)
        .map_err(|why| wrong(why.to_string()).expected("a file of boot load --record"))?;
    Recording::parse(&text).map_err(|why| wrong(why.to_string()))
}

/// Boot `kernel` in each way that the recordings of `known` (a key and a file each) were made, into
/// `folder`; returns what `--set` lays over a study to replay the new ones.
pub(super) fn record_anew(
    kernel: &Path,
    known: &[(String, PathBuf)],
    folder: &Path,
) -> Result<Vec<String>, Failure> {
    if known.is_empty() {
        return Err(Failure::input("--live, but the study replays no recorded boot")
            .help("blocklab run boot/kernel-image --live VMLINUZ"));
    }
    std::fs::create_dir_all(folder).map_err(|why| {
        Failure::input(format!("{}: {why}", folder.display()))
            .expected("a folder, or a name that is free")
            .help("name another place with --out DIR")
    })?;
    let mut all = Vec::new();
    for (key, file) in known {
        let stored = Stored { variant: vec![read(file)?.variant], ..Stored::default() };
        let recipe = stored.only()?;
        let path = folder.join(format!("{}.boot", recipe.name()));
        // What is replaced is a recording.
        study::check_output(&path, || read(&path).is_ok())?;
        all.push((key, recipe, path));
    }
    let mut sets = Vec::new();
    for (key, recipe, path) in all {
        crate::warn(format!("booting {} kernel of {}", recipe.name(), kernel.display()));
        let recording = load::boot_recipe(kernel, &recipe, Limits::default())?.recording;
        let wrong = |why: std::io::Error| Failure::machine(format!("{}: {why}", path.display()));
        study::replace(&path, recording.to_string().as_bytes()).map_err(wrong)?;
        let path = std::path::absolute(&path).map_err(wrong)?;
        sets.push(format!("{key}={}", path.display()));
    }
    Ok(sets)
}
