//! `blocklab boot install` and `collect`: the boot of a machine of the user's, recorded.

use std::path::{Path, PathBuf};

use boot::install::{self, RECORD, WORDS};
use boot::timeline::ranking;
use boot::timeline::record::Record;
use serde_json::json;
use study::Failure;

use super::record::{read_as, replaceable, told};
use crate::say;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The root of the system
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Record until this unit is active
    #[arg(long, value_name = "UNIT", default_value = "multi-user.target")]
    until: String,
    /// Take out again what was installed
    #[arg(long, conflicts_with = "until")]
    remove: bool,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub(super) struct Collect {
    /// The root of the system
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Keep the record in this file
    #[arg(long, value_name = "FILE", default_value = "out/boot/this-machine.record")]
    out: PathBuf,
    /// Places of the ranking that are shown
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    rows: usize,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let shown = |path: &PathBuf| path.display().to_string();
        if self.remove {
            let gone: Vec<String> = install::remove(&self.root)?.iter().map(shown).collect();
            match self.json {
                true => say(json!({ "removed": gone })),
                false if gone.is_empty() => say("nothing was installed"),
                false => gone.iter().for_each(|path| say(format!("removed {path}"))),
            }
            return Ok(());
        }
        let installed = install::install(&self.root, &self.until)?;
        let entry = installed.entry.as_ref().map(shown);
        if self.json {
            let files: Vec<String> = installed.files.iter().map(shown).collect();
            let note = &installed.note;
            say(json!({ "files": files, "entry": entry, "words": WORDS, "note": note }));
            return Ok(());
        }
        installed.files.iter().for_each(|path| say(format!("wrote {}", shown(path))));
        match entry {
            Some(path) => {
                say(format!("wrote {path}"));
                installed.note.iter().for_each(|note| say(format!("note: {note}")));
                say("Start the machine by the entry `This system, recorded by blocklab`;");
            }
            None => {
                say("No boot loader that is known was found: start the machine once with");
                say(format!("    {WORDS}"));
                say("added to the kernel's command line;");
            }
        }
        // The record lies in the memory of the system that was started, which has it as its `/`.
        say("then, in it, before it is started again: blocklab boot collect");
        let remove = install::command("install --remove", &self.root);
        say(format!("To take it out again: {remove}"));
        Ok(())
    }
}

impl Collect {
    pub(super) fn run(&self) -> Result<(), Failure> {
        make_folder(&self.out)?;
        replaceable(&self.out)?;
        let from = self.root.join(RECORD);
        let shown = from.display();
        let bytes = std::fs::metadata(&from).map(|found| found.len());
        match bytes {
            Ok(0) => {
                return Err(Failure::machine(format!("{shown}: the boot is still recorded"))
                    .help("it ends when the unit is reached, or after ten minutes"));
            }
            Ok(_) => {}
            Err(why) => {
                return Err(Failure::machine(format!("no recorded boot: {shown}: {why}")).help(
                    format!(
                        "{}, then start the machine by the entry that it made",
                        install::command("install", &self.root)
                    ),
                ));
            }
        }
        let record = read_as(&from, Record::parse)?;
        copy(&from, &self.out)?;
        if self.json {
            say(told(&self.out, &record))
        } else {
            ranking::lines(&record, self.rows).into_iter().for_each(say);
            say(format!("record {}", self.out.display()));
        }
        Ok(())
    }
}

fn make_folder(file: &Path) -> Result<(), Failure> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.map_or(Ok(()), std::fs::create_dir_all).map_err(|why| {
        Failure::input(format!("cannot make the folder of {}: {why}", file.display()))
            .help("--out FILE names another place")
    })
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let copied = std::fs::read(from).and_then(|all| study::replace(to, &all));
    copied.map_err(|why| {
        Failure::machine(format!("cannot write {}: {why}", to.display()))
            .help("--out FILE names another place")
    })
}
