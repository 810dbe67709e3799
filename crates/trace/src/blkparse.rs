//! blkparse: the text that `blkparse` prints of a Linux block trace.
//!
//! # What it models
//! One request per event of the chosen action. `Q` is what programs and file systems asked for; `D`
//! is what the device was sent after merging and scheduling. A leading `F` in the flags is a flush
//! before the request, a trailing `F` is FUA, `FN` is a flush alone; an `S` marks a write that is
//! waited for. The process is the event's pid.
//!
//! # Equation
//! Line: `major,minor cpu sequence seconds.nanoseconds pid action flags [sector + sectors] [name]`.
//! With `responses`, a request's response is the time of the completions (`C`) that cover its
//! last sector minus its own. Of a queued one it is also known how long its task's plug kept it
//! back: from `P`, behind the first request of the plug, to `U`.
//!
//! # Parameters
//! `action`, `responses`.
//!
//! # What it leaves out
//! Read-ahead and metadata flags; passthrough commands; notes (`m`), times between events (`-t`)
//! and the summary.
//!
//! # Validated against
//! Recordings of ext2 and ext3 under Postmark, dbench and Bonnie++; counts by `awk`.
//!
//! # References
//! blkparse(1), "default output format"; `blk_fill_rwbs` in Linux' `kernel/trace/blktrace.c`.

use std::collections::BTreeMap;
use std::io::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Lba, Op, Request};

use crate::cursor::Cursor;
use crate::error::{Absent, Fault, printable};
use crate::events::Events;
use crate::lines::{LineParser, Text};
use crate::sink::Sink;
use crate::{Carries, Context, Format, Record, Writer};

/// Parameters of the blkparse format.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// The event that makes a request.
    pub action: Action,
    /// Look up each request's completion to learn its response time.
    pub responses: bool,
}

/// An event in the life of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub enum Action {
    /// Queued: what was asked for.
    #[default]
    Q,
    /// A request was allocated for it.
    G,
    /// Inserted into the I/O scheduler.
    I,
    /// Dispatched to the device, merged and scheduled.
    D,
    /// Completed.
    C,
}

impl Action {
    const ALL: [Action; 5] = [Action::Q, Action::G, Action::I, Action::D, Action::C];

    fn letter(self) -> u8 {
        match self {
            Action::Q => b'Q',
            Action::G => b'G',
            Action::I => b'I',
            Action::D => b'D',
            Action::C => b'C',
        }
    }

    /// Where no event has this action and some have another: that, and which have. `seen` tells
    /// whether any has.
    pub(crate) fn absent(self, seen: impl Fn(Action) -> bool) -> Option<Absent> {
        let set = |action: Action| format!("action={}", action.letter() as char);
        let others = Action::ALL.into_iter().filter(|action| seen(*action)).map(set);
        let others = others.collect::<Vec<_>>().join(" or ");
        (!seen(self) && !others.is_empty()).then(|| Absent {
            message: format!("no event has the action {}", self.letter() as char),
            expected: format!("{others}, which the trace has"),
        })
    }
}

impl Params {
    /// Build the format.
    pub fn build(&self, context: &Context) -> Box<dyn Format> {
        let events = Events::new(self.responses || context.responses);
        let (wanted, action) = (self.action, self.action.letter());
        let (names, named) = (BTreeMap::new(), None);
        Box::new(Text(Blkparse { wanted, action, seen: 0, events, names, named }))
    }
}

#[derive(Clone)]
struct Blkparse {
    wanted: Action,
    /// Its letter.
    action: u8,
    /// The letters that are some event's action, a bit each.
    seen: u32,
    events: Events,
    /// What each process was called when it was last seen: until it runs its program, it has the
    /// name of the one that started it.
    names: BTreeMap<u32, Box<[u8]>>,
    /// The process seen last and its name, so that a run of its events costs one comparison each.
    named: Option<(u32, Box<[u8]>)>,
}

/// Process names kept; bounds memory against a damaged trace.
const NAMES_MAX: usize = 4096;

/// What the flags of an event say; `op` is `None` for a passthrough command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flags {
    pub(crate) preflush: bool,
    pub(crate) op: Option<Op>,
    pub(crate) fua: bool,
    pub(crate) sync: bool,
}

impl Flags {
    #[inline]
    fn parse(word: &[u8]) -> Option<Flags> {
        let preflush = word.len() > 1 && word[0] == b'F';
        let rest = &word[usize::from(preflush)..];
        let op = match rest.first()? {
            b'R' => Some(Op::Read),
            b'W' => Some(Op::Write),
            b'D' | b'E' => Some(Op::Discard),
            b'F' => Some(Op::Flush),
            b'N' if preflush => Some(Op::Flush),
            b'N' => None,
            _ => return None,
        };
        let (mut fua, mut sync) = (false, false);
        for flag in &rest[1..] {
            match flag {
                b'F' => fua = true,
                b'S' => sync = true,
                b'A' | b'M' | b'B' | b'E' => {}
                _ => return None,
            }
        }
        Some(Flags { preflush: preflush && op != Some(Op::Flush), op, fua, sync })
    }
}

/// Where an event happened.
pub(crate) struct Event {
    pub(crate) time: u64,
    pub(crate) device: u32,
    pub(crate) process: u32,
    pub(crate) flags: Flags,
}

/// The beginning of a line up to the flags: an event and its action. None for a line without one:
/// a note, or blkparse's summary.
#[inline]
pub(crate) fn begin<'a>(line: &mut Cursor<'a>) -> Result<Option<(Event, &'a [u8])>, Fault> {
    line.skip_blanks();
    if !line.peek().is_ascii_digit() {
        return summary(line).map(|()| None);
    }
    let major = line.number_u32_to(b',', "a device such as 8,0")?;
    let minor = line.number_u32("a device such as 8,0")?;
    let device = device_number(major, minor).ok_or(Fault { at: 0, expected: "a device" })?;
    line.number_u32("a CPU number")?;
    line.number("a sequence number")?;
    let time = line.decimal(9, "a time in seconds")?;
    let process = line.number_u32("a process id")?;
    let action = line.word("an action such as Q, D or C")?;
    if action.len() > 2 || !action[0].is_ascii_alphabetic() {
        line.skip_back(action.len());
        return line.fault_here("an action such as Q, D or C");
    }
    if action == b"m" {
        return Ok(None);
    }
    let word = line.word("flags such as R or WS")?;
    let Some(flags) = Flags::parse(word) else {
        line.skip_back(word.len());
        return line.fault_here("flags such as R, WS or FN");
    };
    Ok(Some((Event { time, device, process, flags }, action)))
}

/// First sector and sectors; 0 where there are none.
#[inline]
pub(crate) fn extent(line: &mut Cursor<'_>) -> Result<(u64, u32), Fault> {
    line.skip_blanks();
    if !line.peek().is_ascii_digit() {
        return Ok((0, 0));
    }
    let sector = line.sector()?;
    line.skip_blanks();
    if line.peek() != b'+' {
        return Ok((sector, 0));
    }
    line.skip(1);
    Ok((sector, line.sectors()?))
}

/// Whether the bytes of a passthrough command come next: `(12 00 00 00 38 ..)`, behind a length in
/// bytes or the flags. Goes over `(   3912)`, the time since the request's event before, which
/// `blkparse -t` prints there.
#[inline]
pub(crate) fn is_command(line: &mut Cursor<'_>) -> bool {
    line.skip_blanks();
    if line.peek() != b'(' {
        return false;
    }
    let rest = &line.rest()[1..];
    let Some(end) = rest.iter().position(|b| *b == b')') else { return false };
    let is_time = rest[..end].trim_ascii().iter().all(u8::is_ascii_digit);
    if is_time {
        line.skip(end + 2);
    }
    !is_time
}

impl LineParser for Blkparse {
    const FORMAT: &'static str = "blkparse";
    const CERTAINTY: u8 = 95;
    const LAST_FIELD_CAN_BE_CUT: bool = false;

    #[inline]
    fn line(&mut self, line: &mut Cursor<'_>, sink: &mut Sink<'_>) -> Result<(), Fault> {
        let Some((event, action)) = begin(line)? else { return Ok(()) };
        let wanted = action == [self.action];
        if let [letter] = action {
            self.seen |= bit(*letter);
        }
        let completes = self.events.pairs() && action == b"C";
        if self.events.pairs() && self.action == b'Q' {
            match action {
                b"P" => self.events.plug(event.process),
                b"U" | b"UT" => self.events.unplug(event.process, event.time),
                _ => {}
            }
        }
        if !wanted && !completes {
            // Not ours, but a line that stops here was cut off.
            line.skip_blanks();
            return if line.is_at_end() { line.fault_here("sectors or a name") } else { Ok(()) };
        }
        self.event(line, sink, &event, wanted)
    }

    fn finish(&mut self, sink: &mut Sink<'_>) {
        self.events.finish(sink);
    }

    fn absent(&self) -> Option<Absent> {
        self.wanted.absent(|action| self.seen & bit(action.letter()) != 0)
    }

    fn device_name(&self, device: u32) -> String {
        device_name(device)
    }

    fn process_name(&self, process: u32) -> Option<String> {
        self.names.get(&process).map(|name| printable(name))
    }

    fn writer(&self) -> Option<Box<dyn Writer>> {
        Some(Box::new(Print { action: self.action as char, sequence: 0 }))
    }
}

impl Blkparse {
    #[cold]
    fn remember(&mut self, process: u32, name: &[u8]) {
        // A completion's brackets hold an error number.
        let known = self.names.contains_key(&process) || self.names.len() < NAMES_MAX;
        if self.action != b'C' && known {
            self.names.insert(process, name.into());
        }
    }

    /// The part of the line behind the flags of an event that counts.
    #[inline]
    fn event(
        &mut self,
        line: &mut Cursor<'_>,
        sink: &mut Sink<'_>,
        event: &Event,
        wanted: bool,
    ) -> Result<(), Fault> {
        let Some(op) = event.flags.op else {
            sink.remarks.skip("passthrough commands");
            return Ok(());
        };
        let (mut sector, mut sectors) = (0, 0);
        // A flush may carry an address without a meaning.
        if op == Op::Flush {
            line.skip_to(b'[');
        } else {
            (sector, sectors) = extent(line)?;
        }
        if is_command(line) && sectors == 0 {
            sink.remarks.skip("passthrough commands");
            return Ok(());
        }
        let name = name(line)?;
        let is_same =
            |(process, last): &(u32, Box<[u8]>)| *process == event.process && **last == *name;
        if wanted && !self.named.as_ref().is_some_and(is_same) {
            self.named = Some((event.process, name.into()));
            self.remember(event.process, name);
        }
        let bare = sectors == 0 && event.flags.preflush;
        let request = match op {
            Op::Flush => Request::flush(),
            _ if bare => Request::flush(),
            _ => Request::new(op, Lba(sector), sectors),
        };
        let request = Request {
            process: event.process,
            fua: event.flags.fua && request.op == Op::Write,
            sync: event.flags.sync && request.op == Op::Write,
            ..request
        };
        if !wanted {
            self.events.complete(sink, event.time, event.device, request);
            return Ok(());
        }
        if event.flags.preflush && !bare {
            let flush = Request { process: event.process, ..Request::flush() };
            self.events.issue(sink, event.time, event.device, flush);
        }
        self.events.issue(sink, event.time, event.device, request);
        Ok(())
    }
}

/// A letter's own bit, in either case.
#[inline]
fn bit(letter: u8) -> u32 {
    1 << (letter & 31)
}

/// `[name]`, the end of every event that counts.
#[inline]
fn name<'a>(line: &mut Cursor<'a>) -> Result<&'a [u8], Fault> {
    line.skip_blanks();
    let rest = line.rest();
    match rest {
        [b'[', inner @ .., b']'] if !inner.contains(&0) => Ok(inner),
        _ => line.fault_here("a name in brackets, such as [fio]"),
    }
}

/// Kernels number a device as major << 20 | minor.
pub(crate) fn device_number(major: u32, minor: u32) -> Option<u32> {
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}

/// What the kernel calls the device of such a number.
pub(crate) fn device_name(device: u32) -> String {
    format!("{},{}", device >> 20, device & 0xf_ffff)
}

/// Lines that blkparse prints around the events.
fn summary(line: &mut Cursor<'_>) -> Result<(), Fault> {
    const STARTS: [&[u8]; 18] = [
        b"CPU",
        b"Total (",
        b"Reads ",
        b"Read ",
        b"Writes ",
        b"Write ",
        b"PC Reads ",
        b"PC Read ",
        b"PC Writes ",
        b"PC Write ",
        b"IO unplugs",
        b"Timer unplugs",
        b"Throughput (",
        b"Events (",
        b"Skips:",
        b"Input file ",
        b"Requeue",
        b"Discards ",
    ];
    let rest = line.rest();
    if rest.is_empty() || STARTS.iter().any(|start| rest.starts_with(start)) {
        Ok(())
    } else {
        line.fault_here("an event (a device such as 8,0 first) or blkparse's summary")
    }
}

/// Prints events the way blkparse does.
struct Print {
    action: char,
    sequence: u64,
}

impl Writer for Print {
    fn carries(&self) -> Carries {
        Carries {
            time_ns: Some(1),
            flush: true,
            discard: true,
            fua: true,
            process: true,
            response: false,
            needs_response: false,
            device: true,
            numbers_devices: false,
        }
    }

    fn record(&mut self, record: &Record, process: Option<&str>, out: &mut Vec<u8>) {
        self.sequence += 1;
        let request = &record.request;
        let time = record.time.unwrap_or_default().0;
        let flags = match (request.op, request.fua, request.sync) {
            (Op::Read, false, _) => "R",
            (Op::Read, true, _) => "RF",
            (Op::Write, false, false) => "W",
            (Op::Write, false, true) => "WS",
            (Op::Write, true, false) => "WF",
            (Op::Write, true, true) => "WFS",
            (Op::Flush, ..) => "FN",
            (Op::Discard, ..) => "D",
        };
        let (major, minor) = (record.device >> 20, record.device & 0xf_ffff);
        let (sequence, pid, action) = (self.sequence, request.process, self.action);
        let name = process.unwrap_or("blocklab");
        let (seconds, nanos) = (time / 1_000_000_000, time % 1_000_000_000);
        // Writing into memory cannot fail.
        let _ = write!(
            out,
            "{major:>3},{minor:<3}  0 {sequence:>8} {seconds:>5}.{nanos:09} {pid:>5}  \
             {action} {flags:>3} "
        );
        let _ = match request.op {
            Op::Flush => writeln!(out, "[{name}]"),
            _ => writeln!(out, "{} + {} [{name}]", request.lba.0, request.sectors),
        };
    }
}
