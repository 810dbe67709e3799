//! `blocklab man`: manual pages.

use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;
use study::Failure;

use crate::write::replace;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A folder for the pages, one for each verb, such as ~/.local/share/man/man1
    folder: PathBuf,
}

/// What each page of ours has within its first lines.
const MARK: &str = ".TH blocklab";

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        let folder = self.folder.display();
        std::fs::create_dir_all(&self.folder).map_err(|why| {
            Failure::input(format!("cannot make the folder {folder}: {why}"))
                .expected("a folder, or a name that is free")
        })?;
        let mut command = crate::command().disable_help_subcommand(true);
        command.build();
        let mut pages = Vec::new();
        render(command, &self.folder, &mut pages)?;
        for (path, _) in &pages {
            study::check_output(path, || {
                std::fs::read_to_string(path).is_ok_and(|text| text.contains(MARK))
            })?;
        }
        for (path, page) in &pages {
            replace(path, page)?;
        }
        crate::say(format!("wrote manual pages to {folder}"));
        Ok(0)
    }
}

/// The page of `command`, and of all below it that are shown, each with its file in `folder`.
fn render(
    command: Command,
    folder: &Path,
    pages: &mut Vec<(PathBuf, Vec<u8>)>,
) -> Result<(), Failure> {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        render(verb.clone(), folder, pages)?;
    }
    let man = Man::new(command);
    let mut page = Vec::new();
    man.render(&mut page).map_err(|why| Failure::bug(format!("a manual page: {why}")))?;
    pages.push((folder.join(man.get_filename()), page));
    Ok(())
}
