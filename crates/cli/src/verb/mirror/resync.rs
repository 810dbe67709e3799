//! `blocklab mirror resync`.

use std::path::PathBuf;

use attach::mirror::{NAMES, Request, live};
use serde_json::json;
use study::Failure;

use super::Told;
use super::wait::until_member;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Which device
    #[arg(value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(NAMES))]
    device: String,
    /// The socket of `mirror serve --control PATH`
    #[arg(long, value_name = "PATH")]
    control: PathBuf,
    /// Wait until it is a full member
    #[arg(long)]
    wait: bool,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<u8, Failure> {
        let drops = live(&self.control)?.drops;
        let slot = super::slot(&self.device);
        let request = Request::Resync { device: self.device };
        let (text, _) = super::tell(&self.control, &request)?;
        let mut told = Told::new(self.json);
        told.step(text);
        if self.wait {
            until_member(&self.control, slot, drops)?;
            told.step(format!("{} is a full member", NAMES[slot]));
        }
        told.end(json!({ "device": NAMES[slot], "waited": self.wait }));
        Ok(0)
    }
}
