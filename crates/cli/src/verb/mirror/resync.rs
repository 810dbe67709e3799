//! `blocklab mirror resync`.

use std::path::PathBuf;

use attach::array::{NAMES, Request, live};
use study::Failure;

use super::wait::until_member;
use crate::say;

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
}

impl Args {
    pub(super) fn run(self) -> Result<u8, Failure> {
        let drops = live(&self.control)?.drops;
        let slot = super::slot(&self.device);
        let (text, _) = super::tell(&self.control, &Request::Resync { device: self.device })?;
        say(text);
        if self.wait {
            until_member(&self.control, slot, drops)?;
            say(format!("{} is a full member", NAMES[slot]));
        }
        Ok(0)
    }
}
