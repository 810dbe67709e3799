//! A host: what its processor's time for running code is, so that a guest in virtual time can be
//! charged for it. A profile is a file: shipped in `devices/hosts`, or the user's own, as
//! `blocklab host measure` writes it.

use std::path::Path;
use std::sync::Arc;

use config::bounded::{self, TEXT_BYTES_MAX};
use config::{Duration, Failure, names};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::Nanos;

use crate::files::Files;
use crate::library;
use crate::locate;
use crate::tree::{Node, Text};

/// Code that costs nothing: what is said of a session without a profile.
pub const NONE: &str = "none";
/// Nothing that is charged at once takes longer.
const LONGEST: Duration = Duration(Nanos(100_000_000));
/// Nor a call that nothing else is known of: there are hundreds of kinds.
const LONGEST_OTHER: Duration = Duration(Nanos(999_999));
/// How far a profile can be trusted, as with parts.
const STATUS: [&str; 4] = ["sketch", "datasheet", "calibrated", "validated"];
/// More cores than any host has.
const CORES_MAX: u32 = 4096;

/// A profile.
#[derive(Clone, PartialEq, Debug)]
pub struct HostProfile {
    /// The file's stem, or the path as the user wrote it.
    pub name: String,
    /// How far it can be trusted.
    pub status: String,
    /// What is charged.
    pub costs: Costs,
}

/// What is charged. Every value is the processor's time on the host.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// The processor.
    pub processor: Processor,
    /// One system call, without the bytes that it copies.
    pub call: Calls,
    /// One KiB that a system call copies.
    pub copy: Copies,
    /// What a system call takes longer for pages of the page cache.
    pub cache: Cache,
    /// One request of a block device, from its submission to its end, by the queue's scheduler.
    pub request: Requests,
}

/// The processor.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Processor {
    /// What is due while several tasks can run is divided by their number, at most by this.
    pub cores: u32,
    /// From one task to another.
    pub context_switch: Duration,
    /// A page that a program touches for the first time.
    pub page_fault: Duration,
}

/// System calls, by what they do.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    /// What the program itself computes between two of them, on average: not the host's, so no
    /// profile that is shipped has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<Duration>,
    /// Any that is not one of the others.
    pub other: Duration,
    /// read, pread, readv.
    pub read: Duration,
    /// write, pwrite, writev.
    pub write: Duration,
    /// lseek.
    pub seek: Duration,
    /// open of a file that is there.
    pub open: Duration,
    /// What open takes longer where it makes the file.
    pub create: Duration,
    /// close.
    pub close: Duration,
    /// stat, access, statfs, by a path.
    pub stat: Duration,
    /// stat of an open file.
    pub fstat: Duration,
    /// unlink, rmdir.
    pub remove: Duration,
    /// rename, link, symlink, mkdir.
    pub rename: Duration,
    /// getdents.
    pub list: Duration,
    /// fsync and fdatasync of a file with nothing to write.
    pub sync: Duration,
    /// fork and clone, and the end of that process.
    pub fork: Duration,
    /// execve, without the pages that the program touches.
    pub exec: Duration,
}

/// Copying between a program and the kernel.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Copies {
    /// As read does, from the page cache.
    pub to_program: Duration,
    /// As write does, to new pages of the page cache.
    pub from_program: Duration,
}

/// Pages of the page cache, once for each call whatever the number of pages.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// A read that begins on another page than the one on which the file's last read ended.
    pub found: Duration,
    /// A write that adds pages of its file.
    pub added: Duration,
}

/// Requests of block devices.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// No scheduler.
    pub none: Duration,
    /// mq-deadline.
    #[serde(rename = "mq-deadline")]
    pub mq_deadline: Duration,
    /// Kyber.
    pub kyber: Duration,
    /// BFQ.
    pub bfq: Duration,
}

/// What a profile says about itself.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct About {
    #[serde(rename = "name")]
    _name: String,
    #[serde(rename = "title")]
    _title: String,
    status: String,
}

impl Calls {
    /// It is charged with each call, and most of them are others.
    fn longest_between(&self) -> Duration {
        Duration(Nanos(LONGEST_OTHER.0.0.saturating_sub(self.other.0.0)))
    }

    /// (name, cost) of each kind.
    pub fn all(&self) -> [(&'static str, Duration); 15] {
        [
            ("other", self.other),
            ("read", self.read),
            ("write", self.write),
            ("seek", self.seek),
            ("open", self.open),
            ("create", self.create),
            ("close", self.close),
            ("stat", self.stat),
            ("fstat", self.fstat),
            ("remove", self.remove),
            ("rename", self.rename),
            ("list", self.list),
            ("sync", self.sync),
            ("fork", self.fork),
            ("exec", self.exec),
        ]
    }
}

/// The profile that `name` names, shipped or a path; `None` for [`NONE`].
///
/// # Errors
/// What is wrong with it, with its place.
pub fn host(name: &str) -> Result<Option<HostProfile>, Failure> {
    find(name, &Files::new(Path::new("")))
}

/// The same, of a study's files.
pub(crate) fn find(name: &str, files: &Files) -> Result<Option<HostProfile>, Failure> {
    if name == NONE {
        return Ok(None);
    }
    if library::is_path(name) {
        let read = files.open(name).and_then(|file| bounded::text(file, TEXT_BYTES_MAX));
        let text = read.map_err(|why| {
            Failure::input(format!("cannot read the host's profile {name}: {why}"))
                .help("blocklab host measure > mine.toml makes one of this machine")
        })?;
        // The file's own place: a study may lie elsewhere.
        let place =
            files.locate(name).map_or_else(|_| name.into(), |path| path.display().to_string());
        return parse(name, &Text::new(place, text)).map(Some);
    }
    match library::find(library::hosts(), name) {
        Some(text) => parse(name, &Text::new(format!("devices/hosts/{name}.toml"), text)).map(Some),
        None => {
            let shipped = library::hosts().iter().map(|(host, _)| *host);
            let known = [NONE].into_iter().chain(shipped);
            Err(Failure::input(format!("there is no host named `{name}`"))
                .expected(names::expected(name, known))
                .help(
                    "shipped profiles are in devices/hosts (blocklab list hosts); of this \
                     machine: blocklab host measure > mine.toml, then mine.toml",
                ))
        }
    }
}

/// The same host, where a program computes for so long between two of its calls.
///
/// # Errors
/// When there is no host beside whose code that could be charged, or it is too long.
pub fn with_program(
    host: Option<HostProfile>,
    between: Option<Duration>,
) -> Result<Option<HostProfile>, Failure> {
    let Some(between) = between else { return Ok(host) };
    let what = format!("{between} that a program computes between two calls");
    let Some(mut host) = host else {
        return Err(Failure::input(format!("{what} cannot be charged: there is no host"))
            .help("name whose code is charged with it: --host PROFILE (travel.host)"));
    };
    let longest = host.costs.call.longest_between();
    if between > longest {
        return Err(Failure::input(what).expected(format!("at most {longest}")));
    }
    host.costs.call.between = Some(between);
    Ok(Some(host))
}

/// Read a profile's text.
///
/// # Errors
/// What is wrong with it, with its place.
fn parse(name: &str, text: &Arc<Text>) -> Result<HostProfile, Failure> {
    let mut tree = Node::parse(text)?;
    if tree.get("host").is_none() {
        return Err(Failure::input(format!("`{name}` describes no host"))
            .at(tree.key.place())
            .expected("a table [host], and what its code costs")
            .help("blocklab host measure > mine.toml makes one of this machine"));
    }
    let about: About = locate::read_below(&tree, &["host".into()])?;
    if !STATUS.contains(&about.status.as_str()) {
        let failure = Failure::input(format!("host.status: `{}`", about.status));
        let failure = failure.expected(names::expected(&about.status, STATUS));
        let place = locate::place_of(&tree, &["host".into(), "status".into()]);
        return Err(place.map_or(failure.clone(), |place| failure.at(place)));
    }
    tree.take("host");
    tree.take("source");
    let costs: Costs = locate::read(&tree)
        .map_err(|failure| failure.help("`blocklab host measure` writes every key of today"))?;
    costs.check(&tree)?;
    Ok(HostProfile { name: name.into(), status: about.status, costs })
}

impl Costs {
    /// As a profile's tables.
    ///
    /// # Panics
    /// Never: numbers and words are TOML.
    pub fn toml(&self) -> String {
        toml::to_string(self).expect("numbers and words are TOML")
    }

    fn check(&self, tree: &Node) -> Result<(), Failure> {
        let Costs { processor, call, copy, cache, request } = self;
        let refused = |path: [&str; 2], what: String, expected: String| {
            let path = path.map(String::from);
            let failure = Failure::input(format!("{}: {what}", path.join(".")));
            let failure = failure.expected(expected);
            locate::place_of(tree, &path).map_or(failure.clone(), |place| failure.at(place))
        };
        if !(1..=CORES_MAX).contains(&processor.cores) {
            let expected = format!("1 to {CORES_MAX} cores");
            return Err(refused(["processor", "cores"], processor.cores.to_string(), expected));
        }
        let calls = call.all().map(|(name, cost)| ("call", name, cost));
        let others = [
            ("processor", "context_switch", processor.context_switch),
            ("processor", "page_fault", processor.page_fault),
            ("copy", "to_program", copy.to_program),
            ("copy", "from_program", copy.from_program),
            ("cache", "found", cache.found),
            ("cache", "added", cache.added),
            ("request", "none", request.none),
            ("request", "mq-deadline", request.mq_deadline),
            ("request", "kyber", request.kyber),
            ("request", "bfq", request.bfq),
        ];
        for (table, name, cost) in calls.into_iter().chain(others) {
            let longest = if name == "other" { LONGEST_OTHER } else { LONGEST };
            // A call that takes no time would let a program that waits in a loop wait for ever.
            let least = Duration(Nanos(u64::from(table == "call" && name != "create")));
            if !(least..=longest).contains(&cost) {
                let expected = format!("{least} to {longest}");
                return Err(refused([table, name], cost.to_string(), expected));
            }
        }
        let longest = call.longest_between();
        match call.between.filter(|between| *between > longest) {
            Some(between) => {
                let expected = format!("at most {longest}");
                Err(refused(["call", "between"], between.to_string(), expected))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped() -> &'static str {
        library::hosts()[0].1
    }

    #[test]
    fn every_shipped_profile_is_sound_and_named_after_its_file() {
        assert!(!library::hosts().is_empty());
        for (name, text) in library::hosts() {
            let host = host(name).unwrap().unwrap();
            assert_eq!(host.name, *name);
            assert!(text.contains(&format!("name = \"{name}\"")), "{name}");
        }
        assert_eq!(host(NONE).unwrap(), None);
    }

    #[test]
    fn a_profile_that_is_not_there_names_the_nearest_and_where_they_live() {
        let name = library::hosts()[0].0;
        let told = host(&format!("{name}x")).unwrap_err().to_string();
        assert!(told.contains(&format!("did you mean `{name}`?")), "{told}");
        assert!(told.contains("devices/hosts") && told.contains("blocklab host measure"), "{told}");
        let told = host("./gone.toml").unwrap_err().to_string();
        assert!(told.contains("cannot read the host's profile ./gone.toml"), "{told}");
    }

    #[test]
    fn what_is_wrong_with_a_profile_has_its_line() {
        let line_of = |text: &str, begins: &str| {
            1 + text.lines().position(|line| line.starts_with(begins)).unwrap()
        };
        let told = |text: &str| parse("x", &Text::new("x.toml", text)).unwrap_err().to_string();
        let replaced = |begins: &str, by: &str| {
            let lines = shipped().lines();
            let lines: Vec<&str> =
                lines.map(|line| if line.starts_with(begins) { by } else { line }).collect();
            (line_of(shipped(), begins), lines.join("\n"))
        };
        for (begins, by, words) in [
            ("write =", "wirte = \"1us\"", "did you mean `write`?"),
            ("write =", "write = 500", "a unit"),
            ("write =", "write = \"2s\"", "call.write: 2s; expected 1ns to 100ms"),
            ("seek =", "seek = \"0ns\"", "call.seek: 0ns; expected 1ns to 100ms"),
            ("other =", "other = \"1ms\"", "call.other: 1ms; expected 1ns to 999999ns"),
            (
                "other =",
                "other = \"99us\"\nbetween = \"901us\"",
                "call.between: 901us; expected at most 900999ns",
            ),
            ("status =", "status = \"great\"", "host.status: `great`; expected sketch"),
            ("cores =", "cores = 0", "processor.cores: 0; expected 1 to 4096 cores"),
        ] {
            let (line, text) = replaced(begins, by);
            let told = told(&text);
            assert!(words.split("; expected ").all(|part| told.contains(part)), "{told}");
            let line = line + by.matches('\n').count();
            assert!(told.contains(&format!("x.toml:{line}")), "{line}: {told}");
        }
        let host = || host(library::hosts()[0].0).unwrap();
        let with = |host, ns| with_program(host, Some(Duration(Nanos(ns))));
        assert_eq!(with(host(), 435).unwrap().unwrap().costs.call.between.unwrap().0, Nanos(435));
        let told_of = |failed: Result<_, Failure>| failed.unwrap_err().to_string();
        assert!(told_of(with(None, 435)).contains("435ns that a program computes"));
        assert!(told_of(with(host(), 1_000_000)).contains("at most"));
        let (_, text) = replaced("bfq =", "");
        assert!(told(&text).contains("missing field `bfq`"), "{}", told(&text));
        assert!(told("[part]\nname = \"x\"\n").contains("describes no host"));
    }
}
