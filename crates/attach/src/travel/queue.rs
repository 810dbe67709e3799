//! The record of a queue: from the kernel's tracer to a trace in `blkparse` form.
//!
//! The kernel's lines lack a sequence number; and beside every request (`Q`) stands a note (`m`)
//! that says which request of the same process was the last to complete before it, and how long
//! before. `docs/travel.md` describes the format.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use sim::Histogram;
use study::Failure;

/// Requests that are inside at a time; a kernel has a few hundred.
const OUTSTANDING_MAX: usize = 1 << 16;

/// One line of the tracer: `major,minor cpu seconds.nanoseconds pid action flags ...`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Line<'a> {
    device: &'a str,
    cpu: &'a str,
    time: &'a str,
    time_ns: u64,
    process: u32,
    action: &'a str,
    flags: &'a str,
    /// Sector, length and name, as the kernel wrote them.
    rest: &'a str,
    sector: u64,
    sectors: u64,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Line<'a>> {
        let mut rest = line.trim();
        let mut word = || {
            let (word, after) = rest.split_once(char::is_whitespace)?;
            rest = after.trim_start();
            Some(word)
        };
        // A short minor number is followed by blanks: it is one word all the same.
        let (device, cpu, time) = (word()?, word()?, word()?);
        let (process, action, flags) = (word()?.parse().ok()?, word()?, word()?);
        let (seconds, nanos) = time.split_once('.')?;
        let time_ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
        let time_ns = time_ns.checked_add(nanos.parse::<u64>().ok()?)?;
        let mut numbers = rest.split_whitespace();
        let sector = numbers.next().and_then(|word| word.parse().ok());
        let sectors = numbers.nth(1).and_then(|word| word.parse().ok());
        let (sector, sectors) = (sector.unwrap_or(0), sectors.unwrap_or(0));
        device.contains(',').then_some(Line {
            device,
            cpu,
            time,
            time_ns,
            process,
            action,
            flags,
            rest,
            sector,
            sectors,
        })
    }
}

/// A request that was queued and is not complete.
#[derive(Clone, Copy)]
struct Waiting {
    sequence: u64,
    sectors: u64,
    process: u32,
    queued_ns: u64,
}

#[derive(Default)]
struct Converter {
    sequence: u64,
    /// By (is a read, first sector, sequence).
    waiting: BTreeMap<(bool, u64, u64), Waiting>,
    /// Of each process: its last completed request, and when.
    last: BTreeMap<u32, (u64, u64)>,
    latency: Histogram,
}

impl Converter {
    fn line(&mut self, line: &Line<'_>, out: &mut impl Write) -> io::Result<()> {
        self.sequence += 1;
        let Line { device, cpu, time, process, action, flags, rest, .. } = line;
        if line.action == "Q" {
            self.note(line, out)?;
        }
        let sequence = self.sequence;
        writeln!(
            out,
            "{device:>7} {cpu:>2} {sequence:>8} {time:>15} {process:>5} {action:>2} {flags:>3} \
             {rest}"
        )?;
        match line.action {
            "Q" if line.sectors > 0 && self.waiting.len() < OUTSTANDING_MAX => {
                let (sectors, process) = (line.sectors, line.process);
                let waiting = Waiting { sequence, sectors, process, queued_ns: line.time_ns };
                self.waiting.insert((reads(line), line.sector, sequence), waiting);
            }
            "C" => self.complete(line),
            _ => {}
        }
        Ok(())
    }

    /// What the request that follows may have waited for.
    fn note(&mut self, line: &Line<'_>, out: &mut impl Write) -> io::Result<()> {
        let Some(&(after, at)) = self.last.get(&line.process) else { return Ok(()) };
        let Line { device, cpu, time, process, .. } = line;
        let (sequence, since) = (self.sequence, line.time_ns.saturating_sub(at));
        self.sequence += 1;
        writeln!(
            out,
            "{device:>7} {cpu:>2} {sequence:>8} {time:>15} {process:>5}  m   N after={after} \
             since={since}"
        )
    }

    /// Every queued request inside the completed range is complete.
    fn complete(&mut self, line: &Line<'_>) {
        let (kind, end) = (reads(line), line.sector + line.sectors);
        let inside = self.waiting.range((kind, line.sector, 0)..(kind, end, 0));
        let inside: Vec<_> = inside
            .filter(|(key, waiting)| key.1 + waiting.sectors <= end)
            .map(|(key, waiting)| (*key, *waiting))
            .collect();
        for (key, waiting) in inside {
            self.waiting.remove(&key);
            self.last.insert(waiting.process, (waiting.sequence, line.time_ns));
            self.latency.record(line.time_ns.saturating_sub(waiting.queued_ns));
        }
    }
}

fn reads(line: &Line<'_>) -> bool {
    line.flags.starts_with('R')
}

/// Convert the tracer's text in `from` to a trace in `to`; returns the time of every request from
/// the queue to its end, in nanoseconds.
///
/// # Errors
/// When events were lost, or a file cannot be read or written.
pub(super) fn convert(from: &Path, to: &Path, lost: u64) -> Result<Histogram, Failure> {
    if lost > 0 {
        return Err(Failure::machine(format!("{lost} events of the queue were lost"))
            .help("record a shorter run"));
    }
    let failed = |why: io::Error| {
        Failure::machine(format!("cannot write the trace {}: {why}", to.display()))
            .help("name a file in a folder that exists and has room")
    };
    let mut source = BufReader::new(File::open(from).map_err(failed)?);
    let mut sink = BufWriter::new(File::create(to).map_err(failed)?);
    let mut converter = Converter::default();
    let mut text = String::new();
    while source.read_line(&mut text).map_err(failed)? > 0 {
        if let Some(line) = Line::parse(&text) {
            converter.line(&line, &mut sink).map_err(failed)?;
        }
        text.clear();
    }
    sink.flush().map_err(failed)?;
    Ok(converter.latency)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tracers_lines_become_blkparses() {
        let text = "\
253,0    0     5.000001000    77  Q  RA 2048 + 8 [fio]
253,0    0     5.000001256    77  Q   R 2056 + 8 [fio]
253,0    0     5.000002000    77  D  RA 2048 + 16 [fio]
253,0    0     5.000102000     0  C  RA 2048 + 16 [0]
253,0    0     5.000103000    77  Q  WS 8 + 8 [fio]
";
        let (mut converter, mut out) = (Converter::default(), Vec::new());
        for line in text.lines() {
            converter.line(&Line::parse(line).unwrap(), &mut out).unwrap();
        }
        let out = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[0], "  253,0  0        1     5.000001000    77  Q  RA 2048 + 8 [fio]");
        assert!(lines[4].ends_with("m   N after=2 since=1000"), "{}", lines[4]);
        assert!(lines[5].contains("        6     5.000103000    77  Q  WS 8 + 8 [fio]"));
        assert_eq!(converter.latency.count(), 2);
        assert_eq!(converter.waiting.len(), 1);
    }

    #[test]
    fn what_is_no_event_is_no_line() {
        assert_eq!(Line::parse("CPU:0 [LOST 3 EVENTS]"), None);
        assert_eq!(Line::parse(""), None);
        let flush = Line::parse("253,0 0 1.000000000 5 Q FWS [jbd2]").unwrap();
        assert_eq!((flush.sectors, flush.flags), (0, "FWS"));
    }
}
