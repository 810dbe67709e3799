//! What `blocklab-ack` is in a guest of `blocklab crash`; of no use outside of one.

use study::Failure;

#[derive(clap::Args)]
#[command(hide = true)]
pub(crate) struct Args {
    /// What is promised from now on
    text: String,
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        attach::travel::acknowledge(&self.text)?;
        Ok(0)
    }
}
