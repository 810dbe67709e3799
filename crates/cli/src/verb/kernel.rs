//! `blocklab kernel`: the kernel that `travel` boots.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use attach::travel::kernel::{self, Built, Progress};
use indicatif::{ProgressBar, ProgressStyle};
use study::Failure;

use crate::{interrupt, say};

/// Without a terminal there is one line per this long.
const LINE_EVERY: Duration = Duration::from_secs(15);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: KernelVerb,
}

#[derive(clap::Subcommand)]
enum KernelVerb {
    /// Build it from the distribution's source into the cache, once
    Build {
        /// An unpacked tree, or a tar file of one [default: /usr/src/linux-source-*, by apt]
        #[arg(long, value_name = "DIR")]
        source: Option<PathBuf>,
        /// One JSON object on stdout
        #[arg(long)]
        json: bool,
    },
    /// Say which kernels there are
    Status {
        /// One JSON object on stdout
        #[arg(long)]
        json: bool,
    },
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        match self.verb {
            KernelVerb::Build { source, json } => interrupt::tidily(|| build(source, json)),
            KernelVerb::Status { json } => status(json),
        }
    }
}

/// The kernel to travel with.
pub(crate) fn find(wanted: Option<PathBuf>) -> Result<PathBuf, Failure> {
    kernel::find(wanted)
}

/// The same, built first where there is none yet.
pub(crate) fn find_or_build(wanted: Option<PathBuf>) -> Result<PathBuf, Failure> {
    let is_there = kernel::all(&kernel::cache()?).iter().any(|built| built.current);
    if wanted.is_some() || is_there {
        return find(wanted);
    }
    crate::warn("building the kernel that travel boots, once, some minutes");
    Ok(shown_build(None)?.path)
}

/// Build it, and show how far that is.
fn shown_build(source: Option<&Path>) -> Result<Built, Failure> {
    if std::io::stderr().is_terminal() {
        let bar = ProgressBar::new(1000);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
            bar.set_style(style);
        }
        let result = kernel::build(source, |progress| match progress {
            Progress::Begins(what) => bar.set_message(what.to_string()),
            Progress::Lacks(option) => bar.println(lacks(option)),
            Progress::Compiled(share) => bar.set_position((share * 1000.0) as u64),
        });
        bar.finish_and_clear();
        result
    } else {
        let mut said = Instant::now();
        kernel::build(source, |progress| match progress {
            Progress::Begins(what) => crate::warn(format!("kernel: {what}")),
            Progress::Lacks(option) => crate::warn(lacks(option)),
            Progress::Compiled(share) if said.elapsed() >= LINE_EVERY => {
                said = Instant::now();
                crate::warn(format!("kernel: {:3.0} %", share * 100.0));
            }
            Progress::Compiled(_) => {}
        })
    }
}

fn build(source: Option<PathBuf>, json: bool) -> Result<u8, Failure> {
    let began = Instant::now();
    let built = shown_build(source.as_deref())?;
    if json {
        say(serde_json::json!({
            "version": built.version, "path": built.path, "wall_s": began.elapsed().as_secs_f64()
        }));
        return Ok(0);
    }
    let seconds = began.elapsed().as_secs();
    let when = if seconds > 1 { format!(", built in {seconds} s") } else { String::new() };
    say(format!("Linux {}{when}: {}", built.version, built.path.display()));
    let taken = kernel::find(None)?;
    if taken != built.path {
        crate::warn(format!(
            "travel and studies take the newest version there is, {}; `travel --kernel` takes \
             another",
            taken.display()
        ));
    }
    Ok(0)
}

fn lacks(option: &str) -> String {
    format!("kernel: this source is not as {option} of `blocklab travel` needs it: 6.1 is")
}

fn status(json: bool) -> Result<u8, Failure> {
    let all = kernel::all(&kernel::cache()?);
    if json {
        let kernels: Vec<_> = all
            .iter()
            .map(|built| {
                serde_json::json!({
                    "version": built.version, "path": built.path, "current": built.current
                })
            })
            .collect();
        let ready = all.iter().any(|built| built.current);
        // Whoever builds for tests tells a build that failed from one that cannot be.
        let lacks = if ready { None } else { kernel::lacks().map(|(lacks, _)| lacks) };
        say(serde_json::json!({ "ready": ready, "kernels": kernels, "lacks": lacks }));
        return Ok(0);
    }
    for built in &all {
        let old = if built.current { "" } else { " (an older configuration: not used)" };
        say(format!("Linux {}: {}{old}", built.version, built.path.display()));
    }
    if !all.iter().any(|built| built.current) {
        say(match kernel::lacks() {
            None => "no kernel to travel with; get it: blocklab kernel build".into(),
            Some((lacks, commands)) => {
                format!("no kernel to travel with; its build lacks {lacks}; get it: {commands}")
            }
        });
    }
    Ok(0)
}
