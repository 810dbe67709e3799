//! `blocklab new`: a commented study or part to start from.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use study::Failure;

const STUDY: &str = include_str!("../../templates/study.toml");
const PART: &str = include_str!("../../templates/part.toml");

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to start
    kind: Kind,
    /// Its name, in kebab-case: my-question writes my-question.toml
    name: String,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// A question: devices, workloads, a sweep, expectations
    Study,
    /// The parameters of one product, each with its source
    Part,
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        check_name(&self.name)?;
        let template = match self.kind {
            Kind::Study => STUDY,
            Kind::Part => PART,
        };
        let path = PathBuf::from(format!("{}.toml", self.name));
        write_new(&path, &template.replace("{name}", &self.name))?;
        let next = match self.kind {
            Kind::Study => format!("blocklab run {}", path.display()),
            Kind::Part => format!("use it in a study: part = \"{}\"", path.display()),
        };
        if self.json {
            println!("{}", serde_json::json!({ "file": path, "next": next }))
        } else {
            println!("wrote {}\nnext: {next}", path.display())
        }
        Ok(0)
    }
}

fn check_name(name: &str) -> Result<(), Failure> {
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase());
    let letters = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if starts && letters && !name.ends_with('-') && !name.contains("--") {
        return Ok(());
    }
    Err(Failure::input(format!("`{name}` cannot be a name"))
        .expected("kebab-case: small letters, digits and single dashes, such as gc-policies")
        .help("blocklab new study gc-policies"))
}

fn write_new(path: &PathBuf, text: &str) -> Result<(), Failure> {
    let shown = path.display();
    let opened = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = opened.map_err(|why| match why.kind() {
        ErrorKind::AlreadyExists => Failure::input(format!("{shown} exists already"))
            .help("choose another name, or delete the file first"),
        _ => Failure::machine(format!("cannot write {shown}: {why}"))
            .help("cd to a folder you may write to"),
    })?;
    file.write_all(text.as_bytes()).map_err(|why| {
        // Nothing half-written stays behind.
        let _ = std::fs::remove_file(path);
        Failure::machine(format!("cannot write {shown}: {why}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kebab_case() {
        for good in ["a", "gc-policies", "slc2010-x25"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a-", "a--b", "2a", "../a", "a.toml", "é"] {
            assert_eq!(check_name(bad).unwrap_err().exit_code(), 2, "{bad}");
        }
    }

    #[test]
    fn nothing_is_overwritten() {
        let name = format!("blocklab-new-test-{}.toml", std::process::id());
        let path = std::env::temp_dir().join(name);
        write_new(&path, "first").unwrap();
        let second = write_new(&path, "second").unwrap_err();
        let kept = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(second.message.contains("exists already"));
        assert_eq!((second.exit_code(), kept.as_str()), (2, "first"));
    }
}
