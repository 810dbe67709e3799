//! `blocklab boot advise`: what makes this boot faster on this drive. Each change is booted.

use std::path::{Path, PathBuf};

use boot::compose::compose;
use boot::image::{self, Initramfs, Packing, Recipe, Variant};
use boot::load;
use boot::timeline::record::Record;
use boot::timeline::root::{self, Kind};
use boot::timeline::session::{self, Boot, Booted};
use boot::timeline::units;
use serde_json::{Value, json};
use study::Failure;
use workload::Until;
use workload::boot_recording::Recording;

use super::record::{HOST, cached_root, whole_seconds};
use crate::say;
use crate::verb::{kernel, travel};

/// Schedulers of the guest's kernel, without the one that it takes by itself.
const SCHEDULERS: [&str; 3] = ["none", "kyber", "bfq"];
/// Read-ahead in KiB beside the usual 128.
const READ_AHEADS_KIB: [u32; 3] = [0, 512, 2048];
/// Requests at a time, where the drive takes more.
const QUEUE_DEPTHS: [u32; 3] = [1, 4, 32];
/// File systems that the machine must have the tools for.
const FILE_SYSTEMS: [&str; 3] = ["ext2", "xfs", "btrfs"];
/// Services of the ranking that are tried, beside those of the chain.
const SERVICES: usize = 5;
/// A kernel's boots that are shipped: what `boot load` recorded of Debian's 6.1.
const RECORDINGS: [&str; 7] = [
    "traces/boot/debian-6.1-shipped.boot",
    "traces/boot/debian-6.1-plain.boot",
    "traces/boot/debian-6.1-gzip.boot",
    "traces/boot/debian-6.1-lzo.boot",
    "traces/boot/debian-6.1-xz.boot",
    "traces/boot/debian-6.1-lz4.boot",
    "traces/boot/debian-6.1-zstd.boot",
];
/// A change whose name is known before its files are counted.
const AHEAD: &str = "a list of files to read ahead";
/// What is told of the kernel in any case.
const LOADS: &str = "ways to store the kernel";
/// How distributions pack an initramfs.
const USUAL_INITRAMFS: Packing = Packing::Zstd;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The part to boot from
    #[arg(long, value_name = "PART")]
    device: String,
    /// The tar file of a root file system with systemd [default: the one of `boot root`]
    #[arg(long, value_name = "FILE")]
    root: Option<PathBuf>,
    /// Until this unit is active
    #[arg(long, value_name = "UNIT", default_value = "multi-user.target")]
    until: String,
    /// Try only changes with this in their names, such as `without` or `at a time` (`kernel`: none,
    /// only ways to store it); may be given several times
    #[arg(long, value_name = "WORDS")]
    only: Vec<String>,
    /// Load this vmlinuz in each way to store it [default: recorded loads of Debian's 6.1]
    #[arg(long, value_name = "FILE")]
    vmlinuz: Option<PathBuf>,
    /// And with this initramfs, packed in each way
    #[arg(long, value_name = "FILE", requires = "vmlinuz")]
    initramfs: Option<PathBuf>,
    /// Speed of the processor that loads the kernel
    #[arg(long, value_name = "NUMBER", default_value_t = 3_000_000_000)]
    instructions_per_second: u64,
    /// Seconds of this machine that a load may take
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    wall_limit: u64,
    /// Charge code the time of this host's processor (`blocklab list hosts`); none: code is free
    #[arg(long, value_name = "PROFILE", default_value = HOST)]
    host: String,
    /// The guest's memory, of the boots and of the loads of --vmlinuz
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    mem: String,
    /// Root of the device's random streams and of the guest's random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// End a boot that is not done after so much virtual time
    #[arg(long, value_name = "TIME", default_value = "2min")]
    limit: String,
    /// A User-Mode Linux with time travel [default: the one `blocklab kernel build` made]
    #[arg(long, value_name = "PATH")]
    kernel: Option<PathBuf>,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

/// A change, and the boot with it.
struct Row {
    change: String,
    boot_s: f64,
    read_mb: f64,
    code_s: f64,
}

/// A way to store the kernel or its initramfs, and loading it.
struct Load {
    variant: String,
    total_s: f64,
    processor_s: f64,
    read_mb: f64,
    /// Of the way that is usual.
    usual_s: f64,
}

/// What came of all changes.
#[derive(Default)]
struct Tried {
    rows: Vec<Row>,
    loads: Vec<Load>,
    left_out: Vec<String>,
    warnings: Vec<String>,
}

impl Args {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let depth_max =
            study::build_part(&self.device, &[], self.seed)?.device.limits().queue_depth_max;
        session::check_unit("--until", &self.until)?;
        let options = self.options()?;
        // What is wrong with a kernel is told before anything is built or boots.
        self.vmlinuz.as_deref().map_or(Ok(()), image::check)?;
        let mut tried = Tried::default();
        let usual = Boot {
            kernel: kernel::find_or_build(self.kernel.clone())?,
            root: match &self.root {
                Some(_) => options.root.clone(),
                None => cached_root(Kind::Plain, self.json)?,
            },
            ..options
        };
        let (before, record) = self.boot("as it is", &usual)?;
        let Services { asked, needed } = services(&record);
        let without = asked.into_iter().map(|unit| {
            let change = format!("without {unit}");
            (change, Boot { mask: vec![unit], ..usual.clone() })
        });
        let changes: Vec<_> = changes(&usual, depth_max).into_iter().chain(without).collect();
        let names = changes.iter().map(|(change, _)| change).chain(&needed);
        self.check_only(names.map(String::as_str).chain([AHEAD, LOADS]))?;
        self.load_each(&mut tried)?;
        tried.left_out.extend(needed.into_iter().filter(|why| self.wants(why)));
        if self.wants(AHEAD) {
            tried.rows.push(self.ahead(&usual)?);
        }
        for (change, boot) in changes {
            if self.wants(&change) {
                tried.add(&change, self.boot(&change, &boot))?;
            }
        }
        tried.rows.sort_by(|a, b| a.boot_s.total_cmp(&b.boot_s));
        if self.json {
            say(self.as_json(&before, &tried))
        } else {
            self.show(&before, &tried)
        }
        Ok(())
    }

    fn wants(&self, change: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|words| change.contains(words.as_str()))
    }

    /// Each of the words is in the name of one of `changes`, which a boot told.
    fn check_only<'a>(
        &self,
        changes: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<(), Failure> {
        let is_in_none =
            |words: &&String| !changes.clone().any(|change| change.contains(words.as_str()));
        match self.only.iter().find(is_in_none) {
            None => Ok(()),
            Some(words) => Err(Failure::input(format!("--only {words}: no change is called so"))
                .expected(format!("words of: {}", changes.collect::<Vec<_>>().join("; ")))),
        }
    }

    /// The usual boot, as far as it is told by options.
    fn options(&self) -> Result<Boot, Failure> {
        let root = self.root.as_deref().map(|file| root::find(Some(file))).transpose()?;
        Ok(Boot {
            device: self.device.clone(),
            root: root.unwrap_or_default(),
            file_system: session::FILE_SYSTEM.into(),
            scheduler: None,
            read_ahead_kib: None,
            queue_depth: None,
            mask: Vec::new(),
            until: self.until.clone(),
            limit: whole_seconds("--limit", &self.limit)?,
            host: study::host(&self.host)?,
            memory_mib: travel::memory(&self.mem)?,
            slice: None,
            sample: None,
            files: false,
            read_ahead: Vec::new(),
            queue: None,
            seed: self.seed,
            kernel: PathBuf::new(),
            program: crate::binary::find()?,
        })
    }

    fn boot(&self, change: &str, boot: &Boot) -> Result<(Row, Record), Failure> {
        if !self.json {
            crate::warn(format!("booting: {change}"));
        }
        let booted = session::record(boot)?;
        Ok((Row::of(change, &booted), booted.record))
    }

    /// With a list of the files that this boot reads.
    fn ahead(&self, usual: &Boot) -> Result<Row, Failure> {
        let listed = session::record(&Boot { files: true, ..usual.clone() })?;
        let read_ahead = listed.record.files.clone();
        let change = format!("a list of {} files to read ahead", read_ahead.len());
        Ok(self.boot(&change, &Boot { read_ahead, ..usual.clone() })?.0)
    }

    /// The kernel stored in each way, and its initramfs, loaded from the drive.
    fn load_each(&self, tried: &mut Tried) -> Result<(), Failure> {
        let recordings = match &self.vmlinuz {
            None => RECORDINGS.iter().map(|name| shipped(name)).collect::<Result<Vec<_>, _>>()?,
            Some(vmlinuz) => self.record_loads(vmlinuz, tried)?,
        };
        let mut all = Vec::new();
        for recording in recordings {
            let mut part = study::build_part(&self.device, &[], self.seed)?;
            let speed = self.instructions_per_second;
            let times = compose(&recording, part.device.as_mut(), speed, Until::Init)?;
            all.push(Load {
                total_s: times.total_s(),
                processor_s: times.processor_s,
                read_mb: recording.read_bytes() as f64 / 1e6,
                usual_s: 0.0,
                variant: recording.variant,
            });
        }
        tried.loads = beside_usual(all);
        Ok(())
    }

    /// Loads of a kernel, booted. One that fails is left out, but for the first: what is wrong with
    /// that one is wrong with all.
    fn record_loads(&self, vmlinuz: &Path, tried: &mut Tried) -> Result<Vec<Recording>, Failure> {
        let limits = super::limits(self.wall_limit, &self.mem)?;
        let mut all = Vec::new();
        for recipe in recipes(self.initramfs.as_ref()) {
            if !self.json {
                crate::warn(format!("loading: {}", recipe.name()));
            }
            match load::boot_recipe(vmlinuz, &recipe, limits) {
                Ok(boot) => {
                    let warned = boot.warning().map(|why| format!("{}: {why}", recipe.name()));
                    tried.warnings.extend(warned);
                    all.push(boot.recording);
                }
                Err(why) if all.is_empty() => return Err(why),
                Err(why) => tried.left_out.push(format!("{}: {}", recipe.name(), why.message)),
            }
        }
        Ok(all)
    }

    fn as_json(&self, before: &Row, tried: &Tried) -> Value {
        let row = |row: &Row| {
            json!({
                "change": row.change, "boot_s": row.boot_s, "saved_s": before.boot_s - row.boot_s,
                "read_mb": row.read_mb, "code_s": row.code_s,
            })
        };
        let load = |load: &Load| {
            json!({
                "variant": load.variant, "total_s": load.total_s, "saved_s": load.saved_s(),
                "read_mb": load.read_mb, "processor_s": load.processor_s,
            })
        };
        let changes: Vec<Value> = tried.rows.iter().map(row).collect();
        let loads: Vec<Value> = tried.loads.iter().map(load).collect();
        json!({
            "device": self.device, "as_it_is": row(before), "changes": changes,
            "left_out": tried.left_out, "loads": loads, "warnings": tried.warnings,
            "instructions_per_second": self.instructions_per_second,
        })
    }

    fn show(&self, before: &Row, tried: &Tried) {
        say(format!("{}: {:.3} s as it is", self.device, before.boot_s));
        say("  saved s      %  MB read  code s  change");
        for row in [before].into_iter().chain(&tried.rows) {
            let saved = before.boot_s - row.boot_s;
            say(format!(
                "{:9.3} {:6.1} {:8.1} {:7.3}  {}",
                rounded(saved, 3),
                rounded(saved / before.boot_s * 100.0, 1),
                row.read_mb,
                row.code_s,
                row.change
            ));
        }
        tried.left_out.iter().for_each(|why| say(format!("left out: {why}")));
        let what = match &self.vmlinuz {
            Some(vmlinuz) => vmlinuz.display().to_string(),
            None => "Debian's kernel 6.1, as it was recorded".into(),
        };
        say(format!(
            "before it, loading {what}, at {:.2} x 10^9 instructions/s:",
            self.instructions_per_second as f64 / 1e9
        ));
        say("  saved s      %  MB read  code s  total s  stored");
        for load in &tried.loads {
            say(format!(
                "{:9.3} {:6.1} {:8.1} {:7.3} {:8.3}  {}",
                rounded(load.saved_s(), 3),
                rounded(load.saved_s() / load.usual_s * 100.0, 1),
                load.read_mb,
                load.processor_s,
                load.total_s,
                load.variant
            ));
        }
        tried.warnings.iter().for_each(|warning| say(format!("warning: {warning}")));
    }
}

/// To so many digits, so that what is less than the last one has no sign.
fn rounded(value: f64, digits: i32) -> f64 {
    let one = 10f64.powi(digits);
    (value * one).round() / one + 0.0
}

/// What is changed of how the kernel reads.
fn changes(usual: &Boot, depth_max: u32) -> Vec<(String, Boot)> {
    let mut all = Vec::new();
    for name in SCHEDULERS {
        let boot = Boot { scheduler: Some(name.into()), ..usual.clone() };
        all.push((format!("scheduler {name}"), boot));
    }
    for kib in READ_AHEADS_KIB {
        let boot = Boot { read_ahead_kib: Some(kib), ..usual.clone() };
        all.push((format!("read-ahead of {kib} KiB"), boot));
    }
    for depth in QUEUE_DEPTHS.into_iter().filter(|&depth| depth < depth_max) {
        let boot = Boot { queue_depth: Some(depth), ..usual.clone() };
        let requests = if depth == 1 { "request" } else { "requests" };
        all.push((format!("{depth} {requests} at a time"), boot));
    }
    for name in FILE_SYSTEMS {
        let boot = Boot { file_system: name.into(), ..usual.clone() };
        all.push((format!("file system {name}"), boot));
    }
    all
}

/// Services that a boot waits for.
#[derive(Default)]
struct Services {
    /// Those that nothing started needs.
    asked: Vec<String>,
    /// Why the others are left as they are.
    needed: Vec<String>,
}

/// The services of the chain, and the first of the ranking.
fn services(record: &Record) -> Services {
    let is_service = |name: &String| name.ends_with(".service");
    let chain = units::chain(record).into_iter().map(|link| link.unit);
    let ranking = units::units(record).into_iter().filter(|row| row.io_ns > 0);
    let ranking = ranking.map(|row| row.unit).filter(is_service).take(SERVICES);
    let mut names: Vec<String> = Vec::new();
    for name in chain.filter(is_service).chain(ranking) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut all = Services::default();
    for name in names {
        let unit = record.units.iter().find(|unit| unit.unit == name);
        match unit.and_then(|unit| unit.required_by.first()) {
            None => all.asked.push(name),
            Some(other) => all.needed.push(format!("without {name}: {other} requires it")),
        }
    }
    all
}

/// Every way to store the kernel for a BIOS, and to pack the initramfs where there is one.
fn recipes(initramfs: Option<&PathBuf>) -> Vec<Recipe> {
    let kernels = Variant::ALL.map(|variant| Recipe { variant, ..Recipe::default() });
    let packed = initramfs.into_iter().flat_map(|file| {
        let ways = std::iter::once(None).chain(Packing::ALL.map(Some));
        ways.map(|packing| {
            let initramfs = Some(Initramfs { file: file.clone(), packing });
            Recipe { variant: Variant::Shipped, initramfs, ..Recipe::default() }
        })
    });
    kernels.into_iter().chain(packed).filter(|recipe| recipe.impossible().is_none()).collect()
}

/// A recorded load that the binary carries.
fn shipped(name: &str) -> Result<Recording, Failure> {
    let wrong = |why: String| Failure::bug(format!("{name}: {why}"));
    let bytes = study::library::file(name).ok_or_else(|| wrong("it is not shipped".into()))?;
    let text = std::str::from_utf8(bytes).map_err(|why| wrong(why.to_string()))?;
    Recording::parse(text).map_err(|why| wrong(why.to_string()))
}

/// Each load beside the usual one of its kind: the kernel as it is shipped, an initramfs as
/// distributions pack it.
fn beside_usual(mut all: Vec<Load>) -> Vec<Load> {
    let with = |packing: &str| format!("{}-initramfs-{packing}", Variant::Shipped.name());
    for usual in [Variant::Shipped.name().to_string(), with(USUAL_INITRAMFS.name())] {
        let of_kind = |load: &Load| load.variant.contains("-initramfs-") == usual.contains('-');
        let usual_s = all.iter().find(|load| load.variant == usual).map(|load| load.total_s);
        for load in all.iter_mut().filter(|load| of_kind(load)) {
            load.usual_s = usual_s.unwrap_or(load.total_s);
        }
    }
    all.sort_by(|a, b| a.total_s.total_cmp(&b.total_s));
    all
}

impl Load {
    fn saved_s(&self) -> f64 {
        self.usual_s - self.total_s
    }
}

impl Tried {
    fn add(&mut self, change: &str, booted: Result<(Row, Record), Failure>) -> Result<(), Failure> {
        match booted {
            Ok((row, _)) => self.rows.push(row),
            Err(why) if why.kind == study::Kind::Interrupted => return Err(why),
            // The rest is worth having without it.
            Err(why) => self.left_out.push(format!("{change}: {}", why.message)),
        }
        Ok(())
    }
}

impl Row {
    fn of(change: &str, booted: &Booted) -> Row {
        let (start, end) = booted.record.window_ns();
        let disk = &booted.report.disks[0];
        let read = disk.device.iter().filter(|one| one.op == "read").map(|one| one.bytes);
        let boot_s = (end - start) as f64 / 1e9;
        Row {
            change: change.into(),
            boot_s,
            read_mb: read.sum::<u64>() as f64 / 1e6,
            code_s: booted.report.processor_share.unwrap_or_default() * boot_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(variant: &str, total_s: f64) -> Load {
        Load { variant: variant.into(), total_s, processor_s: 0.0, read_mb: 0.0, usual_s: 0.0 }
    }

    #[test]
    fn each_load_is_beside_the_usual_one_of_its_kind() {
        let all = [("shipped", 2.0), ("lzo", 1.0), ("shipped-initramfs-zstd", 5.0)];
        let mut all: Vec<Load> = all.map(|(name, s)| load(name, s)).into();
        all.push(load("shipped-initramfs-plain", 4.0));
        let told: Vec<_> =
            beside_usual(all).iter().map(|one| (one.variant.clone(), one.saved_s())).collect();
        let expected = [
            ("lzo", 1.0),
            ("shipped", 0.0),
            ("shipped-initramfs-plain", 1.0),
            ("shipped-initramfs-zstd", 0.0),
        ];
        assert_eq!(told, expected.map(|(name, s)| (name.to_string(), s)));
    }

    #[test]
    fn nothing_has_no_sign() {
        let found = [-0.0004, 0.0, -0.0006].map(|value| format!("{:.3}", rounded(value, 3)));
        assert_eq!(found, ["0.000", "0.000", "-0.001"]);
    }

    #[test]
    fn a_kernel_without_an_initramfs_is_stored_in_each_way_once() {
        // All but the one file, which is started by UEFI only.
        let kernels = Variant::ALL.len() - 1;
        assert_eq!(recipes(None).len(), kernels);
        let with = recipes(Some(&"initrd".into()));
        assert_eq!(with.len(), kernels + 1 + Packing::ALL.len());
        assert!(with.iter().all(|recipe| recipe.impossible().is_none()));
        let names: std::collections::BTreeSet<String> = with.iter().map(Recipe::name).collect();
        assert_eq!(names.len(), with.len());
    }

    #[test]
    fn services_are_tried_but_for_those_that_others_need() {
        let lines = concat!(
            "{\"format\":\"blocklab boot record 1\",\"kernel\":\"6.1\",\"until\":\"a.target\",",
            "\"reached\":true,\"incomplete\":null,\"end_ns\":100,\"recorder\":4,\"init\":1,",
            "\"forks\":1,\"exits\":0,\"lost\":0}\n{\"milestone\":\"init\",\"at_ns\":0}\n",
            "{\"pid\":1,\"parent\":0,\"name\":\"init\",\"start_ns\":0}\n",
            "{\"pid\":6,\"parent\":1,\"name\":\"logger\",\"start_ns\":10,\"io_ns\":7}\n",
            "{\"unit\":\"a.target\",\"activating_ns\":90,\"active_ns\":90,",
            "\"after\":[\"slow.service\"]}\n",
            "{\"unit\":\"slow.service\",\"activating_ns\":20,\"active_ns\":80,",
            "\"after\":[\"first.service\"]}\n",
            "{\"unit\":\"first.service\",\"activating_ns\":5,\"active_ns\":15,",
            "\"required_by\":[\"slow.service\"]}\n",
            "{\"unit\":\"logger.service\",\"activating_ns\":9,\"active_ns\":95,\"main\":6}\n",
        );
        let found = services(&Record::parse(lines).unwrap());
        assert_eq!(found.asked, ["slow.service", "logger.service"]);
        assert_eq!(found.needed, ["without first.service: slow.service requires it"]);
    }
}
