//! The control socket: one line in, one line out.
//!
//! ```text
//! inject KIND range=0+4KiB [op=read] [by=10ms] [after=9] [one-in=100] [count=3] [export=NAME]
//! lift ID|all [export=NAME]     faults [export=NAME]     status     save
//! power-cut [export=NAME]       quit
//! ```
//!
//! Answers begin with `ok` or `error`.

use std::path::Path;

use config::{Duration, Size};
use sim::Op;
use study::Failure;

use crate::control_socket::{self, ANSWER_MAX, Server};
use crate::fault::{FaultId, Kind, Rule};

/// What the control socket can be asked.
#[derive(Clone, PartialEq, Debug)]
pub enum Verb {
    /// Inject a fault. A range of `None` is the whole device.
    Inject(Rule),
    /// Lift one fault, or all.
    Lift(Option<FaultId>),
    /// Tell which faults there are.
    Faults,
    /// Tell what was measured so far.
    Status,
    /// Save the device's state beside its data.
    Save,
    /// Cut the power and give it back.
    PowerCut,
    /// End the session.
    Quit,
}

/// One line, understood.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// What to do.
    pub verb: Verb,
    /// To which export; `None` is the first.
    pub export: Option<String>,
}

/// Names of the verbs.
const VERBS: [&str; 7] = ["inject", "lift", "faults", "status", "save", "power-cut", "quit"];

/// Understand a line.
///
/// # Errors
/// Says what was expected.
pub fn parse(line: &str) -> Result<Line, String> {
    let mut words = line.split_whitespace();
    let verb = words.next().unwrap_or_default();
    let mut words = Words::of(words);
    let export = words.take("export").map(String::from);
    let verb = match verb {
        "inject" => Verb::Inject(rule(&mut words)?),
        "lift" => Verb::Lift(match words.take_name() {
            Some("all") => None,
            Some(id) => {
                let id = id.parse().map_err(|_| format!("`{id}` is no fault; ask for `faults`"))?;
                Some(FaultId(id))
            }
            None => return Err("which fault? a number that `faults` shows, or all".into()),
        }),
        "faults" => Verb::Faults,
        "status" => Verb::Status,
        "save" => Verb::Save,
        "power-cut" => Verb::PowerCut,
        "quit" => Verb::Quit,
        other => {
            let near = study::nearest(other, VERBS).map(|n| format!("; did you mean `{n}`?"));
            let all = VERBS.join(", ");
            return Err(format!("`{other}` is not one of {all}{}", near.unwrap_or_default()));
        }
    };
    words.end()?;
    Ok(Line { verb, export })
}

/// Send a line to the session with the control socket `path`, and return what it answers.
///
/// # Errors
/// When the line is none, which is known before anybody is asked, or nobody answers.
pub fn ask(path: &Path, line: &str) -> Result<String, Failure> {
    let understood = parse(line)
        .map_err(|why| Failure::input(why).help("blocklab attach ctl --help, or docs/attach.md"))?;
    // To write a large drive's state takes as long as it takes.
    let wait = (understood.verb != Verb::Save).then_some(ANSWER_MAX);
    control_socket::ask(path, line, wait, SERVER)
}

const SERVER: Server = Server {
    listens: "no session listens on",
    start: "start one with: blocklab attach PART --control PATH",
    verb: "attach",
};

/// The words of a line that were not used yet: options, `key=value`, and others.
pub(crate) struct Words<'a> {
    options: Vec<(&'a str, &'a str)>,
    names: Vec<&'a str>,
}

impl<'a> Words<'a> {
    pub(crate) fn of(words: impl Iterator<Item = &'a str>) -> Words<'a> {
        let (options, names): (Vec<&str>, Vec<&str>) = words.partition(|word| word.contains('='));
        Words { options: options.iter().filter_map(|word| word.split_once('=')).collect(), names }
    }

    pub(crate) fn take(&mut self, key: &str) -> Option<&'a str> {
        let at = self.options.iter().position(|(known, _)| *known == key)?;
        Some(self.options.remove(at).1)
    }

    fn take_name(&mut self) -> Option<&'a str> {
        (!self.names.is_empty()).then(|| self.names.remove(0))
    }

    /// Nothing is left.
    pub(crate) fn end(self) -> Result<(), String> {
        if let Some(extra) = self.names.first() {
            return Err(format!("there is nothing to do with `{extra}`"));
        }
        match self.options.first() {
            Some((key, _)) => Err(format!("there is no option `{key}` here")),
            None => Ok(()),
        }
    }

    fn number(&mut self, key: &str) -> Result<Option<u64>, String> {
        let parse = |text: &str| text.parse().ok().filter(|&n: &u64| n > 0);
        match self.take(key) {
            None => Ok(None),
            Some(text) => match parse(text) {
                Some(number) => Ok(Some(number)),
                None => Err(format!("{key}={text}: expected a whole number from 1 on")),
            },
        }
    }
}

/// A fault: its kind, and the options of a rule.
pub(crate) fn rule(options: &mut Words) -> Result<Rule, String> {
    let by = options.take("by");
    let time = || {
        let text = by.ok_or("slow needs a time, such as by=10ms")?;
        strikes("by", text, Duration::parse(text)?.0.0)
    };
    let distance = || {
        let text = by.ok_or("misdirected needs a distance, such as by=4KiB")?;
        strikes("by", text, bytes(text)?)
    };
    let kind = match options.take_name() {
        Some("error") => Kind::Error,
        Some("hang") => Kind::Hang,
        Some("slow") => Kind::Slow(time()?),
        Some("torn") => Kind::Torn,
        Some("lost") => Kind::Lost,
        Some("misdirected") => Kind::Misdirected(distance()?),
        Some("stale") => Kind::Stale,
        Some("rot") => Kind::Rot,
        other => {
            let all = Kind::NAMES.join(", ");
            return Err(match other {
                Some(other) => format!("`{other}` is not one of {all}"),
                None => format!("which fault? one of {all}"),
            });
        }
    };
    if by.is_some() && !matches!(kind, Kind::Slow(_) | Kind::Misdirected(_)) {
        return Err(format!("there is no option `by` for {}", kind.name()));
    }
    let range = match options.take("range") {
        None => 0..u64::MAX,
        Some(text) => {
            let parts = text
                .split_once('+')
                .ok_or_else(|| format!("range={text}: expected START+LENGTH, such as 1MiB+4KiB"))?;
            let (start, length) = (bytes(parts.0)?, strikes("range", text, bytes(parts.1)?)?);
            start..start.checked_add(length).ok_or("the range ends beyond any device")?
        }
    };
    let op = options.take("op").map(|text| {
        let found = Op::ALL.into_iter().find(|op| op.name() == text);
        found.ok_or_else(|| format!("op={text}: expected read, write, flush or discard"))
    });
    let one_in = options.number("one-in")?.unwrap_or(1);
    let after = options.number("after")?.unwrap_or(0);
    let (op, count) = (op.transpose()?, options.number("count")?);
    check_operation(kind, op)?;
    Ok(Rule { op, after, one_in, count, ..Rule::always(kind, range) })
}

/// A fault that never strikes would look like software that stands it.
fn check_operation(kind: Kind, op: Option<Op>) -> Result<(), String> {
    let can = kind.operations();
    match op {
        Some(op) if !can.contains(&op) => {
            let (kind, op) = (kind.name(), op.name());
            let all: Vec<&str> = can.iter().map(|op| op.name()).collect();
            let all = all.join(", ");
            Err(format!("op={op}: {kind} strikes nothing of that kind; op={all}, or no op"))
        }
        _ => Ok(()),
    }
}

/// The same of an extent of nothing.
fn strikes(key: &str, text: &str, extent: u64) -> Result<u64, String> {
    match extent {
        0 => Err(format!("{key}={text}: it would never strike; expected more than 0")),
        extent => Ok(extent),
    }
}

/// `4KiB`, or a bare number of bytes.
fn bytes(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(bytes) => Ok(bytes),
        Err(_) => Size::parse(text).map(|size| size.0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let line =
            parse("inject slow range=1MiB+4096 op=read by=10ms after=5 one-in=3 count=2").unwrap();
        let rule = Rule {
            kind: Kind::Slow(10_000_000),
            range: (1 << 20)..(1 << 20) + 4096,
            op: Some(Op::Read),
            after: 5,
            one_in: 3,
            count: Some(2),
        };
        assert_eq!(line, Line { verb: Verb::Inject(rule), export: None });
        assert_eq!(parse("lift all export=b").unwrap().export.unwrap(), "b");
        assert_eq!(parse("lift 7").unwrap().verb, Verb::Lift(Some(FaultId(7))));
        assert_eq!(parse(" status ").unwrap().verb, Verb::Status);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (line, said) in [
            ("inject", "one of error, hang"),
            ("inject slow", "by=10ms"),
            ("inject slow by=10", "with a unit"),
            ("inject rot by=3", "no option `by`"),
            ("inject error range=7", "START+LENGTH"),
            ("inject error range=1+18446744073709551615", "beyond any device"),
            ("inject lost range=0+0", "range=0+0: it would never strike"),
            ("inject misdirected by=0", "by=0: it would never strike"),
            ("inject slow by=0s", "by=0s: it would never strike"),
            ("inject error op=trim", "expected read"),
            (
                "inject torn op=read",
                "op=read: torn strikes nothing of that kind; op=write, or no op",
            ),
            ("inject lost op=flush", "op=write"),
            ("inject misdirected op=discard by=4KiB", "op=write"),
            ("inject stale op=write", "op=read"),
            ("inject rot op=write", "op=read"),
            ("inject error one-in=0", "from 1 on"),
            ("inject error twice", "nothing to do with `twice`"),
            ("lift", "which fault?"),
            ("lift x", "`x` is no fault"),
            ("statsu", "did you mean `status`?"),
            ("status now=1", "no option `now`"),
            ("", "is not one of"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
