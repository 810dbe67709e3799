//! Drives out of TOML.

use config::device::Context;
use flash::device::{disksim_ssd, ssd};
use serde::Deserialize;
use sim::{Device, Rng};

/// The drives of this crate, by their names in TOML.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Drive {
    Ssd(Box<ssd::Params>),
    DisksimSsd(disksim_ssd::Params),
}

/// The drive of a document with one table, its random numbers from the stream called `stream`.
pub(crate) fn build(text: &str, stream: &str) -> Box<dyn Device> {
    let table: toml::Table = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    let drive: Drive = table.try_into().unwrap_or_else(|e| panic!("{text}: {e}"));
    let context = Context { rng: Rng::new(1, stream) };
    let built = match drive {
        Drive::Ssd(params) => params.build(&context),
        Drive::DisksimSsd(params) => params.build(&context),
    };
    built.unwrap_or_else(|e| panic!("{text}: {e}"))
}
