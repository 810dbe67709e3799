//! The one error people see: what is wrong, where, what was expected, what to do next.

use std::fmt;
use std::path::PathBuf;

use serde_json::{Value, json};

/// Whose problem it is; decides the exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Wrong usage or bad input: exit code 2.
    Input,
    /// The machine lacks something: exit code 3.
    Machine,
    /// Somebody asked for the end before there was an answer: exit code 130, as of Ctrl-C.
    Interrupted,
    /// blocklab is wrong: exit code 101, like every Rust program that panics.
    Bug,
}

impl Kind {
    /// As it is called in JSON and in Python.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Input => "input",
            Kind::Machine => "machine",
            Kind::Interrupted => "interrupted",
            Kind::Bug => "bug",
        }
    }
}

/// What code decides on; a failure's words are for people and may change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A file that the input names cannot be opened.
    FileNotOpened,
    /// What was to be done in a guest did not come to its end: it died, hung, or booted again.
    GuestFailed,
}

/// A place in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilePlace {
    /// The file, as the user named it.
    pub file: PathBuf,
    /// Line and column from 1, where the input is text.
    pub line_column: Option<(usize, usize)>,
    /// Byte offset, where the input is binary.
    pub byte: Option<u64>,
    /// The quoted line and the length of the underlined part, where the input is text.
    pub quote: Option<(String, usize)>,
}

/// An error to show to a person.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Whose problem it is.
    pub kind: Kind,
    /// What it is for code, where code treats it differently.
    pub cause: Option<Cause>,
    /// One sentence: what is wrong, with the value.
    pub message: String,
    /// Where.
    pub place: Option<FilePlace>,
    /// What was expected: the allowed names or range, and the nearest valid name.
    pub expected: Option<String>,
    /// What to do next, usually a command.
    pub help: Option<String>,
}

impl Failure {
    /// Wrong usage or bad input.
    pub fn input(message: impl Into<String>) -> Failure {
        Failure {
            kind: Kind::Input,
            cause: None,
            message: message.into(),
            place: None,
            expected: None,
            help: None,
        }
    }

    /// The machine lacks something.
    pub fn machine(message: impl Into<String>) -> Failure {
        Failure { kind: Kind::Machine, ..Failure::input(message) }
    }

    /// The end was asked for before there was an answer.
    pub fn interrupted() -> Failure {
        Failure { kind: Kind::Interrupted, ..Failure::input("interrupted") }
    }

    /// A bug in blocklab.
    pub fn bug(message: impl Into<String>) -> Failure {
        Failure { kind: Kind::Bug, ..Failure::input(message) }
    }

    /// The same failure at `place`.
    #[must_use]
    pub fn at(mut self, place: FilePlace) -> Failure {
        self.place = Some(place);
        self
    }

    /// The same failure, of that: `what: message`.
    #[must_use]
    pub fn of(mut self, what: impl std::fmt::Display) -> Failure {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// The same failure, for code to tell from others.
    #[must_use]
    pub fn caused_by(mut self, cause: Cause) -> Failure {
        self.cause = Some(cause);
        self
    }

    /// The same failure with what was expected.
    #[must_use]
    pub fn expected(mut self, expected: impl Into<String>) -> Failure {
        self.expected = Some(expected.into());
        self
    }

    /// The same failure with what to do next.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Failure {
        self.help = Some(help.into());
        self
    }

    /// As one JSON object, `{ "error": ... }`.
    pub fn to_json(&self) -> Value {
        let place = self.place.as_ref();
        let line_column = place.and_then(|place| place.line_column);
        json!({ "error": {
            "kind": self.kind.name(),
            "exit_code": self.exit_code(),
            "message": self.message,
            "file": place.map(|place| place.file.display().to_string()),
            "line": line_column.map(|(line, _)| line),
            "column": line_column.map(|(_, column)| column),
            "byte": place.and_then(|place| place.byte),
            "expected": self.expected,
            "help": self.help,
        } })
    }

    /// The process's exit code.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Input => 2,
            Kind::Machine => 3,
            Kind::Interrupted => 130,
            Kind::Bug => 101,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        if let Some(place) = &self.place {
            write!(f, "\n  --> {}", place.file.display())?;
            match (place.line_column, place.byte) {
                (Some((line, column)), _) => write!(f, ":{line}:{column}")?,
                (None, Some(byte)) => write!(f, ", byte {byte}")?,
                (None, None) => {}
            }
            if let (Some((line, column)), Some((text, length))) = (place.line_column, &place.quote)
            {
                let number = line.to_string();
                let gutter = " ".repeat(number.len());
                let indent = " ".repeat(column.saturating_sub(1));
                write!(
                    f,
                    "\n{number} | {text}\n{gutter} | {indent}{}",
                    "^".repeat((*length).max(1))
                )?;
            }
        }
        if let Some(expected) = &self.expected {
            write!(f, "\n  = expected: {expected}")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  = help: {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}
