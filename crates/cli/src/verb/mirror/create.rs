//! `blocklab mirror create`.

use std::path::PathBuf;

use attach::array::{Plan, create};
use mirror::Mode;
use models::config::Size;
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
    /// Take this device although it holds something, all of which is lost; may be repeated
    #[arg(long, value_name = "PATH")]
    overwrite: Vec<PathBuf>,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<u8, Failure> {
        let bytes = self.size.map(|text| {
            let size = Size::parse(&text).map(|size| size.0.0);
            size.map_err(|why| Failure::input(format!("--size {text}: {why}")))
        });
        let mode = match self.mode.as_str() {
            "strict" => Mode::Strict,
            "relaxed" => Mode::Relaxed,
            _ => Mode::Log,
        };
        let paths = self.devices.paths();
        let plan = Plan { paths, bytes: bytes.transpose()?, mode, overwrite: self.overwrite };
        let created = create(&plan)?;
        let array = format!("{:032x}", created.array);
        match self.json {
            true => say(json!({
                "array": array,
                "bytes": created.bytes,
                "log_bytes": created.log_bytes,
                "mode": self.mode,
            })),
            false => say(format!(
                "mirror {array}: {} bytes for the host, logs of {} bytes, mode {}",
                created.bytes, created.log_bytes, self.mode
            )),
        }
        Ok(0)
    }
}
