//! `blocklab doctor`: what this machine can do, and the one command that unlocks the rest.

mod checks;

use std::io::IsTerminal;

use serde::Serialize;
use study::Failure;

/// Exit code when something required is missing.
const MACHINE_LACKS: u8 = 3;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

/// One thing looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Check {
    name: &'static str,
    /// What it is good for.
    unlocks: &'static str,
    ok: bool,
    /// Without it nothing runs.
    required: bool,
    /// What was found.
    found: String,
    /// The one command that provides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        let checks = checks::all();
        if self.json {
            let ok = lacking(&checks) == 0;
            crate::say(serde_json::json!({ "ok": ok, "checks": checks }));
        } else {
            let text = show(&checks, std::io::stdout().is_terminal());
            crate::say(text.trim_end());
        }
        Ok(if lacking(&checks) == 0 { 0 } else { MACHINE_LACKS })
    }
}

/// How many required things are missing.
fn lacking(checks: &[Check]) -> usize {
    checks.iter().filter(|check| check.required && !check.ok).count()
}

fn show(checks: &[Check], colour: bool) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for check in checks {
        let (word, code) = match (check.ok, check.required) {
            (true, _) => ("ok     ", 32),
            (false, true) => ("missing", 31),
            (false, false) => ("missing", 33),
        };
        let word = if colour { format!("\x1b[{code}m{word}\x1b[0m") } else { word.into() };
        out += &format!("{word}  {:width$}  {}\n", check.name, check.found);
        if !check.ok {
            let indent = " ".repeat("missing".len() + width + 4);
            out += &format!("{indent}for {}\n", check.unlocks);
            if let Some(command) = &check.command {
                out += &format!("{indent}get it: {command}\n");
            }
        }
    }
    let optional = checks.iter().filter(|check| !check.required && !check.ok).count();
    out += &match (lacking(checks), optional) {
        (0, 0) => "This machine can do everything.\n".into(),
        (0, n) => format!("This machine can run studies; {n} optional thing(s) are missing.\n"),
        (n, _) => format!("This machine cannot run blocklab: {n} required thing(s) are missing.\n"),
    };
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ok: bool, required: bool) -> Check {
        Check {
            name: "fio",
            unlocks: "comparisons with real devices",
            ok,
            required,
            found: "fio-3.36".into(),
            command: (!ok).then(|| "sudo apt-get install fio".into()),
        }
    }

    #[test]
    fn only_required_things_fail() {
        assert_eq!(lacking(&[check(true, true), check(false, false)]), 0);
        assert_eq!(lacking(&[check(false, true)]), 1);
    }

    #[test]
    fn what_is_missing_comes_with_its_command() {
        let text = show(&[check(true, true), check(false, false)], false);
        let expected = "\
ok       fio  fio-3.36
missing  fio  fio-3.36
              for comparisons with real devices
              get it: sudo apt-get install fio
This machine can run studies; 1 optional thing(s) are missing.
";
        assert_eq!(text, expected);
    }

    #[test]
    fn every_missing_thing_on_this_machine_has_a_command() {
        for check in checks::all() {
            assert!(check.ok || check.command.is_some(), "{check:?}");
        }
    }
}
