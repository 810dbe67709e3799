//! fio job files: sections, inheritance, comments.

use std::collections::BTreeSet;
use std::fmt;

use super::engine;
use super::keys::{self, Standing};
use super::options::Options;
use super::value::{Dialect, Value};

/// The jobs of one file.
#[derive(Clone, PartialEq, Debug)]
pub struct JobFile {
    /// One per section, before `numjobs` clones it.
    pub jobs: Vec<JobSpec>,
    /// What was accepted without effect, and why.
    pub notes: Vec<String>,
    /// What the `[global]` sections said, in order.
    pub global: Vec<(String, String)>,
}

/// One job section with everything it inherits.
#[derive(Clone, PartialEq, Debug)]
pub struct JobSpec {
    /// The section's name.
    pub name: String,
    /// Its options.
    pub options: Options,
    /// What the section itself said, in order.
    pub given: Vec<(String, String)>,
}

/// What is wrong with a job file, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobFileError {
    /// The file, as the user named it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// The line itself.
    pub quote: String,
    /// What is wrong, with the value and what was expected.
    pub message: String,
}

impl fmt::Display for JobFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

impl std::error::Error for JobFileError {}

/// One `key=value` line.
#[derive(Clone, Copy)]
struct Entry<'a> {
    key: &'a str,
    value: Option<&'a str>,
    line: usize,
}

struct Section<'a> {
    name: &'a str,
    line: usize,
    entries: Vec<Entry<'a>>,
}

/// Read a fio job file. `name` is used in messages only.
///
/// # Errors
/// Names the line of the first unknown key, refused key, wrong value or malformed line.
pub fn parse_job_file(name: &str, text: &str) -> Result<JobFile, JobFileError> {
    let reader = Reader { name, text };
    let sections = reader.sections()?;
    let mut file = JobFile { jobs: Vec::new(), notes: Vec::new(), global: Vec::new() };
    let mut inherited: Vec<Entry> = Vec::new();
    let mut noted = BTreeSet::new();
    for section in sections {
        for entry in &section.entries {
            reader.note(entry, &mut noted, &mut file.notes)?;
        }
        let own = section.entries.iter().map(owned);
        // As in fio, which looks at six letters of the name.
        if section.name.starts_with("global") {
            file.global.extend(own);
            // Values are checked here too, so that a fault is reported even before any job.
            let mut options = Options::of_file();
            reader.apply(&mut options, &section.entries)?;
            inherited.extend(section.entries);
            continue;
        }
        let given = own.collect();
        let mut options = Options::of_file();
        let all: Vec<Entry> = inherited.iter().chain(&section.entries).copied().collect();
        reader.apply(&mut options, &all)?;
        options.check().map_err(|(key, message)| {
            let found = all.iter().rev().find(|e| e.key == key || same_key(key, e.key));
            let line = found.map_or(section.line, |e| e.line);
            let base = all.iter().rev().find(|e| e.key == "kb_base").and_then(|e| e.value);
            let is_usual = base.is_none_or(|base| base == "1024");
            let units = found.filter(|_| is_usual).and_then(decimal).unwrap_or_default();
            reader.error(line, 1, format!("job \"{}\": {message}{units}", section.name))
        })?;
        engine::set_waits(&mut options);
        file.notes.extend(engine::limit_depth(section.name, &mut options));
        file.jobs.push(JobSpec { name: section.name.into(), options, given });
    }
    if file.jobs.is_empty() {
        Err(reader.error(
            text.lines().count().max(1),
            1,
            "no job: expected a section such as [randread] other than [global]",
        ))
    } else {
        Ok(file)
    }
}

fn owned(entry: &Entry) -> (String, String) {
    (entry.key.into(), entry.value.unwrap_or("1").into())
}

struct Reader<'a> {
    name: &'a str,
    text: &'a str,
}

impl<'a> Reader<'a> {
    fn error(&self, line: usize, column: usize, message: impl Into<String>) -> JobFileError {
        let quote = self.text.lines().nth(line - 1).unwrap_or_default();
        JobFileError {
            file: self.name.into(),
            line,
            column,
            quote: quote.chars().take(200).collect(),
            message: message.into(),
        }
    }

    fn sections(&self) -> Result<Vec<Section<'a>>, JobFileError> {
        let mut sections: Vec<Section> = Vec::new();
        for (index, raw) in self.text.lines().enumerate() {
            let line = index + 1;
            // As in fio, ; and # start a comment anywhere.
            let content = raw.split([';', '#']).next().unwrap_or_default().trim();
            if content.is_empty() {
                continue;
            }
            if let Some(rest) = content.strip_prefix('[') {
                sections.push(Section {
                    name: self.section_name(rest, line)?,
                    line,
                    entries: Vec::new(),
                });
                continue;
            }
            let entry = self.entry(content, line)?;
            let Some(section) = sections.last_mut() else {
                let message = "expected a section such as [global] before the first key";
                return Err(self.error(line, 1, message));
            };
            if let Some(first) = section.entries.iter().find(|e| same_key(e.key, entry.key)) {
                let message = format!(
                    "\"{}\" was given in line {} of this section already: keep one of them",
                    entry.key, first.line
                );
                return Err(self.error(line, 1, message));
            }
            section.entries.push(entry);
        }
        Ok(sections)
    }

    fn section_name(&self, rest: &'a str, line: usize) -> Result<&'a str, JobFileError> {
        let Some(name) = rest.strip_suffix(']') else {
            return Err(self.error(line, 1, "expected \"]\" at the end of the section's name"));
        };
        match name.trim() {
            "" => Err(self.error(line, 2, "expected a job's name between [ and ]")),
            name => Ok(name),
        }
    }

    fn entry(&self, content: &'a str, line: usize) -> Result<Entry<'a>, JobFileError> {
        let (key, value) = match content.split_once('=') {
            Some((key, value)) => (key.trim(), Some(value.trim())),
            None => (content, None),
        };
        if key == "include" || key.starts_with("include ") {
            let message = "include is not supported: paste the included file here";
            return Err(self.error(line, 1, message));
        }
        Ok(Entry { key, value, line })
    }

    /// Refuse keys that are unknown or unsupported, and collect a remark on harmless ones.
    fn note(
        &self,
        entry: &Entry,
        noted: &mut BTreeSet<&'static str>,
        notes: &mut Vec<String>,
    ) -> Result<(), JobFileError> {
        let Some(key) = keys::find(entry.key) else {
            let near = keys::nearest_key(entry.key);
            let hint = near.map_or("see docs/workloads.md for the keys".to_string(), |near| {
                format!("did you mean \"{near}\"?")
            });
            let message = format!("unknown key \"{}\"; {hint}", entry.key);
            return Err(self.error(entry.line, 1, message));
        };
        // fio's own values of keys without effect have them, too.
        if key.standing.setter().is_some()
            && entry.value.is_some_and(|value| value.starts_with('(') || value.contains('$'))
        {
            let message = format!(
                "variables and expressions are not supported: write the value of \"{}\" out",
                entry.key
            );
            return Err(self.error(entry.line, 1, message));
        }
        let (effect, why) = match key.standing {
            Standing::Honoured(_) => return Ok(()),
            Standing::Refused(_) if entry.value.is_some_and(|v| keys::is_usual(entry.key, v)) => {
                ("has no effect", "with this value it asks for nothing")
            }
            Standing::Refused(advice) => {
                let message = format!("the key \"{}\" is not supported: {advice}", entry.key);
                return Err(self.error(entry.line, 1, message));
            }
            Standing::Harmless(why) => ("has no effect", why),
            Standing::InPart(_, why) => ("counts in part", why),
        };
        if noted.insert(key_name(key.names, entry.key)) {
            let place = format!("{}:{}: {}", self.name, entry.line, entry.key);
            notes.push(format!("{place} {effect}: {why}"));
        }
        Ok(())
    }

    fn apply(&self, options: &mut Options, entries: &[Entry]) -> Result<(), JobFileError> {
        // kb_base decides how every other number is read, wherever it stands.
        let mut kb_base = 1024;
        for entry in entries.iter().filter(|entry| entry.key == "kb_base") {
            kb_base = match entry.value {
                Some("1024") => 1024,
                Some("1000") => 1000,
                other => {
                    let got = other.unwrap_or_default();
                    let message = format!("kb_base: expected 1024 or 1000, got \"{got}\"");
                    return Err(self.error(entry.line, 1, message));
                }
            };
        }
        for entry in entries {
            let Some(set) = keys::find(entry.key).and_then(|key| key.standing.setter()) else {
                continue;
            };
            let value = Value { text: entry.value, dialect: Dialect::Job { kb_base } };
            set(options, value).map_err(|message| {
                let line = self.text.lines().nth(entry.line - 1).unwrap_or_default();
                let column = line.find('=').map_or(1, |at| line[..at].chars().count() + 2);
                self.error(entry.line, column, format!("{}: {message}", entry.key))
            })?;
        }
        Ok(())
    }
}

/// What a size of `4KiB` is, whose name is that of another number everywhere else.
fn decimal(entry: &Entry) -> Option<String> {
    let mut sizes = entry.value?.split([',', '-', ':', '/']).map(str::trim);
    let size = sizes.find(|size| size.to_ascii_lowercase().ends_with("kib"))?;
    let number = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let value = Value { text: Some(size), dialect: Dialect::Job { kb_base: 1024 } };
    let bytes = value.bytes().ok()?;
    Some(format!("; {size} is {bytes} bytes in a job file, as in fio: {number}k is binary"))
}

/// True when both names mean one key.
fn same_key(a: &str, b: &str) -> bool {
    a == b || keys::find(a).is_some_and(|key| honoured(key) && key.names.contains(&b))
}

/// Harmless keys share one entry per reason, so only honoured ones have synonyms.
fn honoured(key: &keys::Key) -> bool {
    matches!(key.standing, Standing::Honoured(_))
}

fn key_name(names: &'static [&'static str], given: &str) -> &'static str {
    names.iter().copied().find(|name| *name == given).unwrap_or(names[0])
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
