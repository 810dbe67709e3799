//! `blocklab completions`: what a shell needs to complete command lines.

use clap_complete::Shell;
use study::Failure;

use crate::say;

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
        say(String::from_utf8_lossy(&script).trim_end());
        Ok(0)
    }
}
