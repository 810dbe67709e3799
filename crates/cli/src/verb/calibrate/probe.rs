//! `blocklab calibrate probe`: measure a drive with fio.

use std::path::PathBuf;

use config::quoted;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use study::Failure;

use crate::say;
use crate::verb::measured::steady::is_steady;

mod fio;
mod folder;
mod plan;
mod target;

use fio::{Call, Fio};
use folder::Folder;
use plan::{Job, Length, Wish};
use target::Target;

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    target: target::Choice,
    /// A folder for what was measured: a new one, or that of a probe which was interrupted
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Write to it, too, which DESTROYS ALL THAT IS ON IT; its serial number says that it is meant
    /// (what has none is named again)
    #[arg(long, value_name = "SERIAL")]
    overwrite: Option<String>,
    /// Hours that writing it twice over at random may take, before steady state is looked for; a
    /// round of that takes a fortieth at most. 0: without it
    #[arg(long, value_name = "HOURS", default_value_t = 6, requires = "overwrite",
          value_parser = clap::value_parser!(u32).range(0..=1000))]
    precondition: u32,
    /// Read a drive that is mounted or otherwise in use
    #[arg(long, conflicts_with = "overwrite")]
    in_use: bool,
    /// Seconds that each load is measured for
    #[arg(long, value_name = "SECONDS", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=3600))]
    runtime: u32,
    /// The fio to use
    #[arg(long, value_name = "PATH", default_value = "fio")]
    fio: PathBuf,
    /// How fio asks a device or a file
    #[arg(long, value_name = "NAME", default_value = "io_uring")]
    engine: String,
    /// Say what would be measured, and measure nothing
    #[arg(long)]
    dry_run: bool,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<u8, Failure> {
        let mut target = Target::of(&self.target)?;
        if let Some(word) = &self.overwrite {
            target.meant(word)?;
        }
        let wish = Wish {
            overwrite: self.overwrite.is_some(),
            is_block: target.is_block,
            runtime: self.runtime,
            hours: self.precondition,
        };
        let jobs = plan::jobs(&wish);
        if self.dry_run {
            self.say_plan(&target, &jobs);
            return Ok(0);
        }
        let fio = Fio::new(&self.fio, &self.engine, self.runtime)?;
        target.hold(wish.overwrite, self.in_use)?;
        let folder = Folder::open(&self.out, &target, &wish, &self.engine)?;
        let longest = jobs.iter().map(|job| job.seconds_max(self.runtime)).max();
        let anew = folder.begin_anew(&jobs, longest.unwrap_or_default())?;
        let anew = anew.map(|why| format!("it was filled and all was measured anew: {why}"));
        if let Some(anew) = &anew {
            crate::warn(format!("note: {anew}"));
        }
        let kept = self.measure(&fio, &target, &folder, &jobs)?;
        let path = folder.merge(&jobs)?;
        let notes = anew.into_iter().chain(self.notes(&target, &folder, &jobs, kept)).collect();
        self.say_done(&target, &path, notes, folder.rounds(&jobs).map(|(_, steady)| steady));
        Ok(0)
    }

    /// How many of them were measured before.
    fn measure(
        &self,
        fio: &Fio,
        target: &Target,
        folder: &Folder,
        jobs: &[Job],
    ) -> Result<u32, Failure> {
        let seconds = |job: &Job| job.seconds(self.runtime, target.bytes);
        let bar = ProgressBar::new(jobs.iter().map(seconds).sum());
        let style = ProgressStyle::with_template("{msg:32} {bar:24} {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let mut kept = 0;
        let mut rate = None;
        for job in jobs {
            let mut iops = Vec::new();
            for name in job.names() {
                bar.set_message(name.clone());
                kept += u32::from(folder.has(&name));
                iops.push(folder.measured(&name, || {
                    target.unchanged()?;
                    let capacity = capacity(target, folder, jobs);
                    fio.run(target, &Call { job, name: &name, capacity, rate })
                })?);
                if job.steady && is_steady(&iops) {
                    break;
                }
            }
            if job.steady {
                rate = iops.last().copied();
            }
            bar.inc(seconds(job));
        }
        bar.finish_and_clear();
        Ok(kept)
    }

    fn say_plan(&self, target: &Target, jobs: &[Job]) {
        let seconds = |job: &Job| job.seconds(self.runtime, target.bytes);
        let total: u64 = jobs.iter().map(seconds).sum();
        if self.json {
            let list = |job: &Job| {
                json!({ "name": job.name, "fio": job.options, "rounds_max": job.rounds,
                        "bytes": job.bytes(target.bytes), "seconds": seconds(job) })
            };
            let jobs: Vec<_> = jobs.iter().map(list).collect();
            say(json!({ "target": target.name, "serial": target.word, "bytes": target.bytes,
                        "seconds": total, "jobs": jobs }));
            return;
        }
        let bytes = match target.is_nbd {
            true => "as many bytes as its server has".into(),
            false => format!("{} bytes", target.bytes),
        };
        say(format!(
            "{}, {bytes}; to write to it: --overwrite {}",
            target.name,
            quoted(&target.word)
        ));
        for job in jobs {
            let extent = job.told(target.bytes);
            say(format!("  {:16} {:44} {extent}", job.name, job.options.join(" ")).trim_end());
        }
        let minutes = total.div_ceil(60);
        say(match &self.overwrite {
            None => format!("about {minutes} minutes"),
            Some(_) if target.is_nbd => {
                format!("about {minutes} minutes, and what writing all of it takes")
            }
            Some(_) => format!("about {minutes} minutes, {}", plan::ASSUMED),
        });
    }

    /// What is to be known of what was measured.
    fn notes(&self, target: &Target, folder: &Folder, jobs: &[Job], kept: u32) -> Vec<String> {
        let mut notes = Vec::new();
        if kept > 0 {
            notes.push(format!("{kept} of the loads were measured before"));
        }
        if self.overwrite.is_none() {
            notes.push(
                "read only: what was never written, or was discarded, is read from no flash; \
                 is it full?"
                    .to_string(),
            );
        }
        if let Some(job) = jobs.iter().find(|job| job.name == plan::PRECONDITION) {
            let times = folder.written(job) as f64 / capacity(target, folder, jobs).max(1) as f64;
            if times < 0.99 * plan::PRECONDITION_TIMES as f64 {
                notes.push(format!(
                    "before steady state was looked for, it was written {times:.2} times over at \
                     random, not {}: more than {} hours are --precondition HOURS",
                    plan::PRECONDITION_TIMES,
                    self.precondition
                ));
            }
        }
        if let Some((rounds, false)) = folder.rounds(jobs) {
            notes.push(format!(
                "not steady after {rounds} rounds of random writes: what was measured of writes \
                 is of no state that lasts"
            ));
        }
        if self.in_use {
            notes.push("it was in use: what others asked of it is in these numbers".into());
        }
        notes
    }

    fn say_done(
        &self,
        target: &Target,
        path: &std::path::Path,
        notes: Vec<String>,
        steady: Option<bool>,
    ) {
        if self.json {
            say(json!({ "target": target.name, "serial": target.word, "measured": path,
                        "notes": notes, "steady": steady }));
            return;
        }
        say(format!("measured {} into {}", target.name, path.display()));
        notes.iter().for_each(|note| say(format!("note: {note}")));
        say(format!(
            "next: blocklab calibrate --from {} --base PART --out MINE.toml",
            path.display()
        ));
    }
}

/// Bytes of the drive: what an NBD server has is known once it is filled.
fn capacity(target: &Target, folder: &Folder, jobs: &[Job]) -> u64 {
    let fill = jobs.iter().find(|job| matches!(job.length, Length::Whole));
    match target.bytes {
        0 => fill.map_or(0, |job| folder.written(job)),
        bytes => bytes,
    }
}
