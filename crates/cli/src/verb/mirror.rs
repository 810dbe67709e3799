//! `blocklab mirror`: the hetero-mirror.

mod create;
mod serve;
mod status;
mod torture;

use std::path::PathBuf;

use attach::array::{NAMES, Paths};
use mirror::DEVICES;
use study::Failure;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Make a mirror of two files or block devices
    Create(create::Args),
    /// Start a mirror and serve it until a signal, or until CMD ends
    Serve(Box<serve::Args>),
    /// Tell what a mirror is: from its devices, or from the process that serves it
    Status(status::Args),
    /// Try to break the mirror's protocol on simulated devices, one run per seed
    Torture(torture::Args),
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        match self.what {
            What::Create(args) => args.run(),
            What::Serve(args) => args.run(),
            What::Status(args) => args.run(),
            What::Torture(args) => args.run(),
        }
    }
}

/// The devices of a mirror.
#[derive(clap::Args)]
struct Devices {
    /// The leg that reads prefer, usually the SSD: a file or a block device
    #[arg(long, value_name = "PATH")]
    fast: PathBuf,
    /// The other leg, usually the disk
    #[arg(long, value_name = "PATH")]
    slow: PathBuf,
    /// A small log on a third device
    #[arg(long, value_name = "PATH")]
    witness: Option<PathBuf>,
}

impl Devices {
    fn paths(self) -> Paths {
        let Devices { fast, slow, witness } = self;
        Paths { fast, slow, witness }
    }
}

/// Which devices are named by `--without`.
fn slots(names: &[String]) -> [bool; DEVICES] {
    NAMES.map(|name| names.iter().any(|named| named == name))
}
