//! `blocklab host`: profiles of the processor that `travel --host` charges.

use std::path::PathBuf;

use study::Failure;

use crate::{interrupt, say};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: HostVerb,
}

#[derive(clap::Subcommand)]
enum HostVerb {
    /// Measure what this machine's processor needs for its kernel's code: a profile on stdout
    Measure {
        /// Where files are made and removed; its file system is part of what is measured
        #[arg(long, value_name = "DIR", default_value = ".")]
        dir: PathBuf,
        /// What the profile calls itself
        #[arg(long, value_name = "NAME", default_value = "mine")]
        name: String,
        /// The values as one JSON object on stdout, instead of a file
        #[arg(long)]
        json: bool,
    },
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        let HostVerb::Measure { dir, name, json } = self.verb;
        if !dir.is_dir() {
            return Err(Failure::input(format!("--dir {} is no folder", dir.display()))
                .expected("a folder with room for some 200 MiB"));
        }
        let measured = interrupt::tidily(|| attach::host::measure(&dir))?;
        if json {
            say(serde_json::json!({ "host": name, "costs": measured.costs }));
        } else {
            say(measured.toml(&name).trim_end());
        }
        Ok(0)
    }
}
