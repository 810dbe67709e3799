//! `blocklab boot advise`: what makes this boot faster on this drive. Each change is booted.

use std::path::PathBuf;

use boot::timeline::root;
use boot::timeline::session::{self, Boot, Booted};
use serde_json::{Value, json};
use study::Failure;

use super::record::time;
use crate::say;
use crate::verb::{kernel, travel};

/// Schedulers of the guest's kernel, without the one that it takes by itself.
const SCHEDULERS: [&str; 3] = ["none", "kyber", "bfq"];
/// Read-ahead in KiB beside the usual 128.
const READ_AHEADS_KIB: [u32; 3] = [0, 512, 2048];
/// File systems that the machine must have the tools for.
const FILE_SYSTEMS: [&str; 3] = ["ext2", "xfs", "btrfs"];

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
    /// Charge code the time of this host's processor (`blocklab list hosts`); none: code is free
    #[arg(long, value_name = "PROFILE", default_value = "server-vm-2026")]
    host: String,
    /// The guest's memory
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

impl Args {
    pub(super) fn run(&self) -> Result<(), Failure> {
        study::build_part(&self.device, &[], self.seed)?;
        session::check_unit(&self.until)?;
        let usual = Boot {
            device: self.device.clone(),
            root: root::find(self.root.as_deref())?,
            file_system: session::FILE_SYSTEM.into(),
            scheduler: None,
            read_ahead_kib: None,
            until: self.until.clone(),
            limit: time("--limit", &self.limit)?,
            host: study::host(&self.host)?,
            memory_mib: travel::memory(&self.mem)?,
            slice: None,
            sample: None,
            files: false,
            read_ahead: Vec::new(),
            queue: None,
            seed: self.seed,
            kernel: kernel::find(self.kernel.clone())?,
            program: crate::binary::find()?,
        };
        let before = self.boot("as it is", &usual)?;
        let mut rows = vec![self.ahead(&usual)?];
        for name in SCHEDULERS {
            let boot = Boot { scheduler: Some(name.into()), ..usual.clone() };
            rows.push(self.boot(&format!("scheduler {name}"), &boot)?);
        }
        for kib in READ_AHEADS_KIB {
            let boot = Boot { read_ahead_kib: Some(kib), ..usual.clone() };
            rows.push(self.boot(&format!("read-ahead of {kib} KiB"), &boot)?);
        }
        let mut left_out = Vec::new();
        for name in FILE_SYSTEMS {
            let boot = Boot { file_system: name.into(), ..usual.clone() };
            match self.boot(&format!("file system {name}"), &boot) {
                Ok(row) => rows.push(row),
                // The rest is worth having without it.
                Err(why) => left_out.push(format!("file system {name}: {}", why.message)),
            }
        }
        rows.sort_by(|a, b| a.boot_s.total_cmp(&b.boot_s));
        if self.json {
            say(as_json(&self.device, &before, &rows, &left_out))
        } else {
            show(&self.device, &before, &rows, &left_out)
        }
        Ok(())
    }

    fn boot(&self, change: &str, boot: &Boot) -> Result<Row, Failure> {
        if !self.json {
            eprintln!("booting: {change}");
        }
        Ok(Row::of(change, &session::record(boot)?))
    }

    /// With a list of the files that this boot reads.
    fn ahead(&self, usual: &Boot) -> Result<Row, Failure> {
        let listed = session::record(&Boot { files: true, ..usual.clone() })?;
        let read_ahead = listed.record.files.clone();
        let change = format!("a list of {} files to read ahead", read_ahead.len());
        self.boot(&change, &Boot { read_ahead, ..usual.clone() })
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

fn as_json(device: &str, before: &Row, rows: &[Row], left_out: &[String]) -> Value {
    let row = |row: &Row| {
        json!({
            "change": row.change, "boot_s": row.boot_s, "saved_s": before.boot_s - row.boot_s,
            "read_mb": row.read_mb, "code_s": row.code_s,
        })
    };
    let changes: Vec<Value> = rows.iter().map(row).collect();
    json!({ "device": device, "as_it_is": row(before), "changes": changes, "left_out": left_out })
}

fn show(device: &str, before: &Row, rows: &[Row], left_out: &[String]) {
    say(format!("{device}: {:.3} s as it is", before.boot_s));
    say("  saved s      %  MB read  code s  change");
    for row in [before].into_iter().chain(rows) {
        let saved = before.boot_s - row.boot_s;
        say(format!(
            "{saved:9.3} {:6.1} {:8.1} {:7.3}  {}",
            saved / before.boot_s * 100.0,
            row.read_mb,
            row.code_s,
            row.change
        ));
    }
    left_out.iter().for_each(|why| say(format!("left out: {why}")));
}
