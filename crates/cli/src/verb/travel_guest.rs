//! The first process of a guest of `blocklab travel`; of no use outside of one.

use std::path::PathBuf;

use study::Failure;

#[derive(clap::Args)]
#[command(hide = true)]
pub(crate) struct Args {
    /// The host's folder with the plan
    control: PathBuf,
    /// What a kernel adds to its own command line
    #[arg(hide = true)]
    rest: Vec<String>,
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        if std::process::id() != 1 {
            return Err(Failure::input("travel-guest is for the first process of a guest")
                .help("blocklab travel PART -- COMMAND"));
        }
        drop(self.rest);
        attach::travel::init(&self.control)
    }
}
