//! `blocklab list`: what there is to choose from.

use study::Failure;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        let names = models::registry::DeviceModel::NAMES;
        if self.json {
            println!("{}", serde_json::json!({ "device": names }));
        } else {
            names.iter().for_each(|name| println!("device.{name}"));
        }
        Ok(0)
    }
}
