//! `blocklab mirror destroy`.

use attach::array::{NAMES, destroy};
use study::Failure;

use super::Devices;
use crate::say;

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    devices: Devices,
    /// Leave this device as it is: it is gone; may be repeated
    #[arg(long, value_name = "NAME",
          value_parser = clap::builder::PossibleValuesParser::new(NAMES))]
    without: Vec<String>,
    /// The mirror's id, which `status` tells, or its first eight digits or more
    #[arg(long, value_name = "ID")]
    yes_destroy: Option<String>,
}

impl Args {
    pub(super) fn run(self) -> Result<u8, Failure> {
        let without = super::slots(&self.without);
        let array = destroy(&self.devices.paths(), without, self.yes_destroy.as_deref())?;
        say(format!("mirror {array:032x} is no more; data blocks were not erased"));
        Ok(0)
    }
}
