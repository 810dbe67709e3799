//! `blocklab mirror replace`.

use std::path::PathBuf;

use attach::mirror::{NAMES, Request, live, replace};
use serde_json::json;
use study::Failure;

use super::wait::until_member;
use super::{Found, Mirror, Told};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Which device
    #[arg(value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(NAMES))]
    device: String,
    /// The new one
    #[arg(long, value_name = "PATH")]
    with: PathBuf,
    #[command(flatten)]
    mirror: Mirror,
    /// Take the new device although it holds something, all of which is lost: its path once more
    #[arg(long, value_name = "PATH")]
    overwrite: Option<PathBuf>,
    /// Replace although acknowledged flushes may be missing from what is there
    #[arg(long, conflicts_with = "control")]
    accept_loss: bool,
    /// With --control: wait until the new device is a full member
    #[arg(long)]
    wait: bool,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<u8, Failure> {
        let shown = self.with.display().to_string();
        if let Some(other) = self.overwrite.as_ref().filter(|path| **path != self.with) {
            return Err(Failure::input(format!("--overwrite {}", other.display()))
                .expected(format!("the device that is to be used: --overwrite {shown}")));
        }
        let with = self.with.canonicalize().map_err(|why| {
            Failure::input(format!("cannot open {shown}: {why}"))
                .expected("a file or a block device that may be read and written")
        })?;
        let overwrite = self.overwrite.is_some();
        let slot = super::slot(&self.device);
        let about = json!({ "device": NAMES[slot], "with": with, "waited": self.wait });
        let mut told = Told::new(self.json);
        match self.mirror.found(self.wait.then_some("--wait"))? {
            Found::Served(control) => {
                // Whoever is left out after the old one was is the new one.
                let device = self.device;
                let request = Request::Replace { device, with, overwrite };
                let (text, _) = super::tell(&control, &request)?;
                told.step(text);
                if self.wait {
                    let drops = live(&control)?.drops;
                    until_member(&control, slot, drops)?;
                    told.step(format!("{} is a full member", NAMES[slot]));
                }
            }
            Found::AtRest(paths, without) => {
                let start = super::start(paths, without, self.accept_loss);
                replace(&start, &self.device, &self.with, overwrite)?;
                told.step(format!(
                    "from its next start on {shown} is its {0}: mirror serve --{0} {shown}",
                    self.device
                ));
            }
        }
        told.end(about);
        Ok(0)
    }
}
