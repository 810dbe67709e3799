//! `blocklab mirror status`.

use std::path::PathBuf;

use attach::array::{NAMES, Offline, Paths, ask, status};
use serde_json::Value;
use study::Failure;

use crate::say;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Ask the process that was started with `mirror serve --control PATH`
    #[arg(long, value_name = "PATH", conflicts_with_all = ["fast", "slow", "witness"])]
    control: Option<PathBuf>,
    /// The fast leg of a mirror, served or not
    #[arg(long, value_name = "PATH", required_unless_present = "control")]
    fast: Option<PathBuf>,
    /// The slow leg
    #[arg(long, value_name = "PATH", required_unless_present = "control")]
    slow: Option<PathBuf>,
    /// The witness
    #[arg(long, value_name = "PATH")]
    witness: Option<PathBuf>,
    /// Do not look at this device; may be repeated
    #[arg(long, value_name = "NAME",
          value_parser = clap::builder::PossibleValuesParser::new(NAMES))]
    without: Vec<String>,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<u8, Failure> {
        if let Some(path) = &self.control {
            let line = ask(path)?;
            let strange = |_| Failure::input(format!("{} is no mirror's", path.display()));
            let live: Value = serde_json::from_str(&line).map_err(strange)?;
            match self.json {
                true => say(line),
                false => lines(&live).iter().for_each(say),
            }
            return Ok(0);
        }
        let (Some(fast), Some(slow)) = (self.fast, self.slow) else {
            return Err(Failure::bug("the legs are required arguments"));
        };
        let paths = Paths { fast, slow, witness: self.witness };
        let offline = status(&paths, super::slots(&self.without))?;
        match self.json {
            true => say(serde_json::to_string(&offline)
                .map_err(|why| Failure::bug(why.to_string()))?),
            false => shown(&offline).iter().for_each(say),
        }
        Ok(0)
    }
}

/// Each field of a running mirror.
fn lines(live: &Value) -> Vec<String> {
    let fields = live.as_object().into_iter().flatten();
    fields.map(|(name, value)| format!("{:<22}{value}", name.replace('_', " "))).collect()
}

fn shown(offline: &Offline) -> Vec<String> {
    let stop = if offline.clean { "stopped in order" } else { "in use, or not stopped in order" };
    let mut lines = vec![format!(
        "mirror {}: {} bytes, mode {}, started {} times, {stop}",
        offline.array, offline.bytes, offline.mode, offline.starts
    )];
    for device in &offline.devices {
        let own = match &device.trouble {
            Some(trouble) => trouble.clone(),
            None => format!("{}, has seen start {}", device.membership, device.starts),
        };
        lines.push(format!("{:<8}{}: {own}", device.name, device.path));
    }
    lines
}
