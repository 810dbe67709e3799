//! `blocklab mirror`: the hetero-mirror.

mod torture;

use study::Failure;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Try to break the mirror's protocol on simulated devices, one run per seed
    Torture(torture::Args),
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        match self.what {
            What::Torture(args) => args.run(),
        }
    }
}
