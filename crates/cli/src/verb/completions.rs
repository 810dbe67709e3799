//! `blocklab completions`: what a shell needs to complete command lines.

use std::io::Write;

use clap_complete::Shell;
use study::Failure;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// For this shell
    shell: Shell,
}

impl Args {
    #[allow(clippy::unnecessary_wraps)] // as every verb
    pub(crate) fn run(self) -> Result<u8, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::command(), "blocklab", &mut script);
        // Whoever closed it early has seen enough.
        let _ = std::io::stdout().write_all(&script);
        Ok(0)
    }
}
