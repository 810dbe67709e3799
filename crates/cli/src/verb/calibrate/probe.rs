//! `blocklab calibrate probe`: measure a drive with fio.

use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use study::Failure;

use crate::say;
use crate::verb::measured::steady::is_steady;

mod fio;
mod folder;
mod plan;
mod target;

use fio::Fio;
use folder::Folder;
use plan::Job;
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
        let target = Target::of(&self.target)?;
        if let Some(word) = &self.overwrite {
            target.meant(word)?;
        }
        let jobs = plan::jobs(self.overwrite.is_some(), target.is_block);
        if self.dry_run {
            self.say_plan(&target, &jobs);
            return Ok(0);
        }
        let fio = Fio::new(&self.fio, &self.engine, self.runtime)?;
        let overwrite = self.overwrite.is_some();
        target.free(overwrite, self.in_use)?;
        let folder = Folder::open(&self.out, &target, self.runtime, overwrite, &self.engine)?;
        let bar = ProgressBar::new(jobs.iter().map(|job| job.seconds(self.runtime)).sum());
        let style = ProgressStyle::with_template("{msg:32} {bar:24} {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let mut kept = 0;
        let mut rate = None;
        for job in &jobs {
            bar.set_message(job.name.clone());
            let rounds = if job.steady { plan::ROUNDS_MAX } else { 1 };
            let mut iops = Vec::new();
            for round in 1..=rounds {
                let name =
                    if job.steady { format!("{}-{round:02}", job.name) } else { job.name.clone() };
                kept += u32::from(folder.has(&name));
                iops.push(folder.measured(&name, || fio.run(&target, job, rate))?);
                if job.steady && is_steady(&iops) {
                    break;
                }
            }
            if job.steady {
                rate = iops.last().copied();
            }
            bar.inc(job.seconds(self.runtime));
        }
        bar.finish_and_clear();
        let path = folder.merge(&jobs)?;
        let rounds = folder.rounds(&jobs);
        self.say_done(&target, &path, kept, rounds);
        Ok(0)
    }

    fn say_plan(&self, target: &Target, jobs: &[Job]) {
        let seconds: u64 = jobs.iter().map(|job| job.seconds(self.runtime)).sum();
        if self.json {
            let jobs: Vec<_> =
                jobs.iter().map(|job| json!({ "name": job.name, "fio": job.options })).collect();
            say(json!({ "target": target.name, "serial": target.word, "seconds": seconds,
                        "jobs": jobs }));
            return;
        }
        say(format!(
            "{}, {} bytes; to write to it: --overwrite {}",
            target.name, target.bytes, target.word
        ));
        jobs.iter().for_each(|job| say(format!("  {:24} {}", job.name, job.options.join(" "))));
        let filling = if self.overwrite.is_some() { ", and filling it" } else { "" };
        say(format!("about {} minutes{filling}", seconds.div_ceil(60)));
    }

    fn say_done(
        &self,
        target: &Target,
        path: &std::path::Path,
        kept: u32,
        rounds: Option<(u32, bool)>,
    ) {
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
        if let Some((rounds, false)) = rounds {
            notes.push(format!(
                "not steady after {rounds} rounds of random writes; take a longer --runtime"
            ));
        }
        if self.in_use {
            notes.push("it was in use: what others asked of it is in these numbers".into());
        }
        if self.json {
            say(json!({ "target": target.name, "serial": target.word, "measured": path,
                        "notes": notes, "steady": rounds.map(|(_, steady)| steady) }));
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
