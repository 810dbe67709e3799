//! fio iolog: what `write_iolog` of fio records, versions 2 and 3.
//!
//! # What it models
//! One request per `read`, `write`, `trim`, `sync` or `datasync` line; both syncs are flushes.
//! Every file is a device of its own, numbered in the order of the `add` lines.
//!
//! # Equation
//! First line: `fio version 3 iolog`. Then `microseconds file action [byte-offset bytes]`.
//! Version 2 has no first column; its `wait` lines move the clock on by that many microseconds.
//!
//! # Parameters
//! None.
//!
//! # What it leaves out
//! `open` and `close`; requests of a version 2 log have no time when none of the first 65,536 has a
//! `wait` behind it, else those before the first are at 0.
//!
//! # Validated against
//! Logs written by fio 3.33.
//!
//! # References
//! fio documentation, "Trace file format v2" and "v3".

use std::io::Write as _;

use sim::{Lba, Nanos, Op, Request, SECTOR_BYTES};

use crate::cursor::{Cursor, LENGTH, OFFSET, sectors_of};
use crate::error::{Fault, printable};
use crate::lines::{LineParser, Text};
use crate::sink::Sink;
use crate::{Carries, Record, Writer};

without_parameters! {
    /// fio iologs have no parameters.
    Params => Text(Iolog::default())
}

const US: u64 = 1_000;
/// Requests that are held back for a first `wait`.
const HELD_MAX: usize = 1 << 16;
/// Files in one log; bounds memory against a damaged log.
const FILES_MAX: usize = 1024;

#[derive(Clone, Default)]
struct Iolog {
    /// 0 until the first line was read.
    version: u8,
    files: Vec<Vec<u8>>,
    /// Version 2: sum of all waits, in nanoseconds, once there was one.
    clock: Option<u64>,
    /// Version 2: requests so far, while there was none.
    held: Vec<Record>,
    /// There were so many that they have no time.
    untimed: bool,
}

impl LineParser for Iolog {
    const FORMAT: &'static str = "iolog";
    const CERTAINTY: u8 = 100;
    const LAST_FIELD_CAN_BE_CUT: bool = true;

    #[inline]
    fn line(&mut self, line: &mut Cursor<'_>, sink: &mut Sink<'_>) -> Result<(), Fault> {
        if self.version == 0 {
            return self.header(line);
        }
        if line.is_blank() {
            return Ok(());
        }
        let stamp = match self.version {
            3 => Some(line.scaled(US, "a time in whole microseconds")?),
            _ => None,
        };
        line.skip_blanks();
        let file_at = line.at();
        let file = line.word("a file name")?;
        line.skip_blanks();
        let at = line.at();
        let op = match line.word(ACTION)? {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Discard,
            b"sync" | b"datasync" => Op::Flush,
            b"add" => {
                self.add(file)
                    .ok_or(Fault { at: file_at as u32, expected: "at most 1024 files" })?;
                return line.end();
            }
            b"open" | b"close" => return line.end(),
            b"wait" if self.version == 2 => return self.wait(line, sink),
            _ => return line.fault(at, ACTION),
        };
        let Some(device) = self.files.iter().position(|known| known == file) else {
            return line.fault(file_at, "a file that an earlier line added");
        };
        line.skip_blanks();
        let at = line.at();
        let offset = line.number(OFFSET)?;
        let bytes = line.number(LENGTH)?;
        line.end()?;
        let (lba, sectors) = sectors_of(offset, bytes).or_else(|why| line.fault(at, why))?;
        let request = match op {
            Op::Flush => Request::flush(),
            _ => Request::new(op, Lba(lba), sectors),
        };
        let before = sink.out.len();
        sink.push(stamp.or(self.clock), device as u32, request);
        if self.version == 2 && self.clock.is_none() && !self.untimed {
            self.held.extend(sink.out.drain(before..));
            if self.held.len() == HELD_MAX {
                self.untimed = true;
                sink.out.append(&mut self.held);
            }
        }
        Ok(())
    }

    fn finish(&mut self, sink: &mut Sink<'_>) {
        sink.out.append(&mut self.held);
    }

    fn device_name(&self, device: u32) -> String {
        self.files.get(device as usize).map_or_else(|| device.to_string(), |f| printable(f))
    }

    fn writer(&self) -> Option<Box<dyn Writer>> {
        Some(Box::new(Print))
    }
}

const ACTION: &str = "read, write, trim, sync, datasync, add, open or close";

impl Iolog {
    #[cold]
    fn header(&mut self, line: &mut Cursor<'_>) -> Result<(), Fault> {
        self.version = match line.rest() {
            b"fio version 2 iolog" => 2,
            b"fio version 3 iolog" => 3,
            _ => return line.fault_here("\"fio version 2 iolog\" or \"fio version 3 iolog\""),
        };
        Ok(())
    }

    #[cold]
    fn add(&mut self, file: &[u8]) -> Option<()> {
        if !self.files.iter().any(|known| known == file) {
            if self.files.len() == FILES_MAX {
                return None;
            }
            self.files.push(file.to_vec());
        }
        Some(())
    }

    fn wait(&mut self, line: &mut Cursor<'_>, sink: &mut Sink<'_>) -> Result<(), Fault> {
        line.skip_blanks();
        let at = line.at();
        let span = line.scaled(US, "microseconds to wait")?;
        line.number(LENGTH)?;
        let clock = self.clock.unwrap_or(0).checked_add(span);
        let expected = "waits that add up to less than 584 years";
        self.clock = Some(clock.ok_or(Fault { at: at as u32, expected })?);
        // What came before the first of them came at 0.
        let begin = |record| Record { time: Some(Nanos(0)), ..record };
        sink.out.extend(self.held.drain(..).map(begin));
        line.end()
    }
}

/// Writes version 3 with one file, whose name fio lets a job replace.
struct Print;

const FILE: &str = "/dev/blocklab";

impl Writer for Print {
    fn carries(&self) -> Carries {
        Carries { time_ns: Some(US), flush: true, discard: true, ..Carries::NOTHING }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        let header = format!("fio version 3 iolog\n0 {FILE} add\n0 {FILE} open\n");
        out.extend_from_slice(header.as_bytes());
    }

    fn record(&mut self, record: &Record, _: Option<&str>, out: &mut Vec<u8>) {
        let request = &record.request;
        let time = record.time.unwrap_or_default().0 / US;
        let action = match request.op {
            Op::Read => "read",
            Op::Write => "write",
            Op::Discard => "trim",
            Op::Flush => "sync",
        };
        let (offset, bytes) = (request.lba.0 * SECTOR_BYTES, request.bytes().0);
        // Writing into memory cannot fail.
        let _ = writeln!(out, "{time} {FILE} {action} {offset} {bytes}");
    }
}
