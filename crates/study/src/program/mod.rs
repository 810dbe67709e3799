//! What a program says about itself: one file and one line each. A parser reads the output of a
//! program that ended well; the time that it took is measured whatever it says.

mod scan;

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A metric as a table declares it: name, unit (as in `docs/metrics.md`) and meaning.
pub(crate) type Declared = (&'static str, &'static str, &'static str);

/// A program whose output is understood.
pub(crate) struct Parser {
    name: &'static str,
    /// What must be installed, where the name says it.
    executable: Option<&'static str>,
    /// Every metric that it may report.
    metrics: &'static [Declared],
    read: fn(&str) -> Result<Numbers, String>,
}

/// Metrics by name. What a program left out is not in it.
pub type Numbers = BTreeMap<&'static str, f64>;

macro_rules! programs {
    ($($module:ident)*) => {
        $(mod $module;)*
        const ALL: &[&Parser] = &[$(&$module::PROGRAM),*];
    };
}

programs! {
    command
    fio
    postmark
    bonnie
    dbench
}

/// How the output of a travelled command is read.
#[derive(Clone, Copy)]
pub struct Program(&'static Parser);

impl Program {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Program> {
        ALL.iter().map(|definition| Program(definition))
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// What must be installed.
    pub fn executable(&self) -> Option<&'static str> {
        self.0.executable
    }

    /// Every metric that it may report.
    pub(crate) fn metrics(&self) -> &'static [Declared] {
        self.0.metrics
    }

    /// Read what it wrote to its standard output.
    ///
    /// # Errors
    /// When that is not such a program's; says what is missing.
    pub fn read(&self, output: &str) -> Result<Numbers, String> {
        (self.0.read)(output)
    }
}

impl Default for Program {
    fn default() -> Program {
        Program(&command::PROGRAM)
    }
}

impl PartialEq for Program {
    fn eq(&self, other: &Program) -> bool {
        self.name() == other.name()
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Program {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Program {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Program, D::Error> {
        const NAMES: [&str; ALL.len()] = {
            let mut names = [""; ALL.len()];
            let mut index = 0;
            while index < ALL.len() {
                names[index] = ALL[index].name;
                index += 1;
            }
            names
        };
        let name = String::deserialize(from)?;
        let known = Program::all().find(|program| program.name() == name);
        known.ok_or_else(|| de::Error::unknown_variant(&name, &NAMES))
    }
}

impl JsonSchema for Program {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Program".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let names: Vec<&str> = Program::all().map(|program| program.name()).collect();
        schemars::json_schema!({ "type": "string", "enum": names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_output_is_said_to_be_none() {
        for program in Program::all() {
            let nothing = program.read("");
            assert_eq!(nothing.is_ok(), program.name() == "command", "{program:?}");
        }
    }

    #[test]
    fn a_metric_has_its_programs_name() {
        for program in Program::all() {
            let first = program.name().split('+').next().unwrap();
            let own = |name: &str| name.starts_with(&format!("{first}_"));
            assert!(program.metrics().iter().all(|(name, ..)| own(name)), "{program:?}");
        }
    }
}
