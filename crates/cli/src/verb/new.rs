//! `blocklab new`: a commented study or part to start from.

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
        study::check_create(&path)?;
        study::create(&path, template.replace("{name}", &self.name).as_bytes())?;
        let next = match self.kind {
            Kind::Study => format!("blocklab run {}", path.display()),
            Kind::Part => format!("use it in a study: part = \"{}\"", path.display()),
        };
        if self.json {
            crate::say(serde_json::json!({ "file": path, "next": next }))
        } else {
            crate::say(format!("wrote {}\nnext: {next}", path.display()))
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
}
