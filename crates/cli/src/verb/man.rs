//! `blocklab man`: manual pages.

use std::path::PathBuf;

use clap::Command;
use clap_mangen::Man;
use study::Failure;

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
        render(command, &mut pages)?;
        for (name, _) in &pages {
            let path = self.folder.join(name);
            study::check_output(&path, || {
                std::fs::read_to_string(&path).is_ok_and(|text| text.contains(MARK))
            })?;
        }
        for (name, page) in &pages {
            study::replace(&self.folder.join(name), page).map_err(|why| {
                Failure::machine(format!(
                    "cannot write {}: {why}",
                    self.folder.join(name).display()
                ))
            })?;
        }
        crate::say(format!("wrote manual pages to {folder}"));
        Ok(0)
    }
}

/// The page of `command`, and of all below it that are shown, each with the name of its file.
fn render(command: Command, pages: &mut Vec<(String, Vec<u8>)>) -> Result<(), Failure> {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        render(verb.clone(), pages)?;
    }
    let man = Man::new(command);
    let mut page = Vec::new();
    man.render(&mut page).map_err(|why| Failure::bug(format!("a manual page: {why}")))?;
    pages.push((man.get_filename(), page));
    Ok(())
}
