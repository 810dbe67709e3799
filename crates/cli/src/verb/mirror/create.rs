//! `blocklab mirror create`.

use std::path::PathBuf;

use attach::mirror::{CreateOptions, EXTENT_BYTES, create, mode};
use config::Size;
use serde_json::json;
use study::Failure;

use super::Devices;
use crate::say;

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    devices: Devices,
    /// What the host is offered, such as 10GiB [default: all that the smaller leg has room for]
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// When a write and a flush may be acknowledged: docs/mirror.md says what each mode loses
    #[arg(long, default_value = "log", value_parser = ["strict", "log", "relaxed"])]
    mode: String,
    /// The log of each device [default: 0.25 % of the smaller leg, from 4 MiB to 256 MiB]
    #[arg(long, value_name = "SIZE")]
    log: Option<String>,
    /// Each extent that may differ after a crash; 1,013 at a time, so random writes over more than
    /// 1,013 extents wait for each other [default: 1MiB]
    #[arg(long, value_name = "SIZE")]
    extent: Option<String>,
    /// Take this device although it holds something, all of which is lost; may be repeated
    #[arg(long, value_name = "PATH")]
    overwrite: Vec<PathBuf>,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<u8, Failure> {
        let size = |option: &str, text: Option<String>| {
            let parsed = text.map(|text| {
                let size = Size::parse(&text).map(|size| size.0.0);
                size.map_err(|why| Failure::input(format!("--{option} {text}: {why}")))
            });
            parsed.transpose()
        };
        let bytes = size("size", self.size)?;
        let log_bytes = size("log", self.log)?;
        let extent_bytes = size("extent", self.extent)?.unwrap_or(EXTENT_BYTES);
        let mode = mode(&self.mode)?;
        let paths = self.devices.paths();
        let overwrite = self.overwrite;
        let plan = CreateOptions { paths, bytes, mode, log_bytes, extent_bytes, overwrite };
        let created = create(&plan)?;
        let array = format!("{:032x}", created.array);
        if self.json {
            say(json!({
                "array": array,
                "bytes": created.bytes,
                "log_bytes": created.log_bytes,
                "mode": self.mode,
            }))
        } else {
            say(format!(
                "mirror {array}: {} bytes for the host, logs of {} bytes, mode {}",
                created.bytes, created.log_bytes, self.mode
            ))
        }
        Ok(0)
    }
}
