//! `blocklab mirror destroy`.

use attach::mirror::{NAMES, destroy};
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
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<u8, Failure> {
        let without = super::slots(&self.without);
        let array = destroy(&self.devices.paths(), without, self.yes_destroy.as_deref())?;
        let array = format!("{array:032x}");
        if self.json {
            say(serde_json::json!({ "array": array }))
        } else {
            say(format!("mirror {array} is no more; data blocks were not erased"))
        }
        Ok(0)
    }
}
