//! `blocklab man`: manual pages.

use std::path::PathBuf;

use study::Failure;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A folder for the pages, one for each verb, such as ~/.local/share/man/man1
    folder: PathBuf,
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        let folder = self.folder.display();
        let wrong =
            |why: std::io::Error| Failure::machine(format!("cannot write to {folder}: {why}"));
        std::fs::create_dir_all(&self.folder).map_err(wrong)?;
        clap_mangen::generate_to(crate::command(), &self.folder).map_err(wrong)?;
        crate::say(format!("wrote manual pages to {folder}"));
        Ok(0)
    }
}
