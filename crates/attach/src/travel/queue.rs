//! The record of the queues: from the kernel's tracer to a trace of the first disk in `blkparse`
//! form, and to the latency of every disk's requests at the block layer.
//!
//! The kernel's lines lack a sequence number; and beside every request (`Q`) stands a note (`m`)
//! that says which request of the same process was the last to complete before it, and how long
//! before. `docs/travel.md` describes the format.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::ops::Range;
use std::path::Path;

use sim::{Histogram, Op};
use study::Failure;

use super::plan::Findings;

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
struct Waiting {
    sequence: u64,
    /// Its sectors that are not: the kernel queues a request once and completes the pieces that it
    /// splits it into.
    left: Vec<Range<u64>>,
    process: u32,
    queued_ns: u64,
}

impl Waiting {
    /// The sectors of `done` are complete; whether that ends the request.
    fn take(&mut self, done: &Range<u64>) -> bool {
        let rest = |left: &Range<u64>| {
            let before = left.start..left.end.min(done.start);
            let after = left.start.max(done.end)..left.end;
            [before, after].into_iter().filter(|piece| !piece.is_empty())
        };
        self.left = self.left.iter().flat_map(rest).collect();
        self.left.is_empty()
    }
}

/// From the queue to the end, in nanoseconds, by operation; those that ended before the program
/// did, and those after it. What has no sectors, as a flush, is not in it.
#[derive(Default, Debug)]
pub(super) struct Latencies(pub(super) [[Histogram; 4]; 2]);

impl Latencies {
    /// Of both phases together.
    pub(super) fn both(&self) -> [Histogram; 4] {
        let [mut both, rest] = self.0.clone();
        both.iter_mut().zip(&rest).for_each(|(all, more)| all.merge(more));
        both
    }
}

#[derive(Default)]
struct Converter {
    sequence: u64,
    /// By (operation, first sector, sequence).
    waiting: BTreeMap<(u8, u64, u64), Waiting>,
    /// Sectors of the longest request that was queued, by operation.
    longest: [u64; 4],
    /// Of each process: its last completed request, and when.
    last: BTreeMap<u32, (u64, u64)>,
    /// When the program ended.
    ended_ns: u64,
    latencies: Latencies,
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
                let (op, process) = (operation(line), line.process);
                let all = line.sector..line.sector.saturating_add(line.sectors);
                let left = vec![all];
                let waiting = Waiting { sequence, left, process, queued_ns: line.time_ns };
                let longest = &mut self.longest[op as usize];
                *longest = line.sectors.max(*longest);
                self.waiting.insert((op as u8, line.sector, sequence), waiting);
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

    /// Every queued request of which the completed range is the rest is complete.
    fn complete(&mut self, line: &Line<'_>) {
        let op = operation(line);
        let done = line.sector..line.sector.saturating_add(line.sectors);
        // One that begins before the range may reach into it.
        let from = line.sector.saturating_sub(self.longest[op as usize]);
        let mut ended = Vec::new();
        for (key, waiting) in self.waiting.range_mut((op as u8, from, 0)..(op as u8, done.end, 0)) {
            if waiting.take(&done) {
                ended.push(*key);
            }
        }
        for waiting in ended.iter().filter_map(|key| self.waiting.remove(key)) {
            self.last.insert(waiting.process, (waiting.sequence, line.time_ns));
            let phase = usize::from(line.time_ns > self.ended_ns);
            let latency = &mut self.latencies.0[phase][op as usize];
            latency.record(line.time_ns.saturating_sub(waiting.queued_ns));
        }
    }
}

/// By the letters of `blkparse`: a leading `F` is a flush before it.
fn operation(line: &Line<'_>) -> Op {
    match line.flags.trim_start_matches('F').chars().next() {
        Some('R') => Op::Read,
        Some('W') => Op::Write,
        Some('D') => Op::Discard,
        _ => Op::Flush,
    }
}

/// Convert the tracer's text in `from`: the first disk's to a trace in `to`. Returns how long
/// requests took at the block layer, by disk.
///
/// # Errors
/// When events were lost, or a file cannot be read or written.
pub(super) fn convert(
    from: &Path,
    to: &Path,
    findings: &Findings,
) -> Result<Vec<Latencies>, Failure> {
    if findings.queue_lost > 0 {
        return Err(Failure::machine(format!(
            "{} events of the queue were lost",
            findings.queue_lost
        ))
        .help("record a shorter run"));
    }
    let failed = |why: io::Error| {
        Failure::machine(format!("cannot write the trace {}: {why}", to.display()))
            .help("name a file in a folder that exists and has room")
    };
    let mut source = BufReader::new(File::open(from).map_err(failed)?);
    let mut sink = BufWriter::new(File::create(to).map_err(failed)?);
    let of_disk = |_| Converter { ended_ns: findings.ended_ns, ..Converter::default() };
    let mut converters: Vec<Converter> = findings.numbers.iter().map(of_disk).collect();
    let mut text = String::new();
    while source.read_line(&mut text).map_err(failed)? > 0 {
        if let Some(line) = Line::parse(&text)
            && let Some(disk) = findings.numbers.iter().position(|number| number == line.device)
        {
            let written = match disk {
                0 => converters[0].line(&line, &mut sink),
                other => converters[other].line(&line, &mut io::sink()),
            };
            written.map_err(failed)?;
        }
        text.clear();
    }
    sink.flush().map_err(failed)?;
    Ok(converters.into_iter().map(|converter| converter.latencies).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What has read `text`, and what it wrote.
    fn converted(text: &str) -> (Converter, String) {
        let mut converter = Converter { ended_ns: u64::MAX, ..Converter::default() };
        let mut out = Vec::new();
        for line in text.lines() {
            converter.line(&Line::parse(line).unwrap(), &mut out).unwrap();
        }
        (converter, String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_split_request_ends_with_its_last_piece() {
        let text = "\
253,0 0 1.000000000 77 Q W 0 + 2048 [fio]
253,0 0 1.000001000 78 Q W 2048 + 8 [fio]
253,0 0 1.000050000  0 C W 1024 + 1032 [0]
253,0 0 1.000060000 77 Q R 0 + 8 [fio]
253,0 0 1.000070000  0 C W 0 + 1024 [0]
253,0 0 1.000080000 77 Q R 8 + 8 [fio]
";
        let (converter, out) = converted(text);
        let writes = &converter.latencies.0[0][Op::Write as usize];
        assert_eq!((writes.count(), writes.min(), writes.max()), (2, Some(49_000), Some(70_000)));
        let left: Vec<_> = converter.waiting.keys().map(|key| (key.0, key.1)).collect();
        assert_eq!(left, [(Op::Read as u8, 0), (Op::Read as u8, 8)]);
        // What was read after the last piece may have waited for it, what came before not.
        let notes: Vec<&str> = out.lines().filter(|line| line.contains(" m ")).collect();
        assert_eq!(notes.len(), 1, "{out}");
        assert!(notes[0].ends_with("N after=1 since=10000"), "{out}");
    }

    #[test]
    fn the_tracers_lines_become_blkparses() {
        let text = "\
253,0    0     5.000001000    77  Q  RA 2048 + 8 [fio]
253,0    0     5.000001256    77  Q   R 2056 + 8 [fio]
253,0    0     5.000002000    77  D  RA 2048 + 16 [fio]
253,0    0     5.000102000     0  C  RA 2048 + 16 [0]
253,0    0     5.000103000    77  Q  WS 8 + 8 [fio]
";
        let (converter, out) = converted(text);
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[0], "  253,0  0        1     5.000001000    77  Q  RA 2048 + 8 [fio]");
        assert!(lines[4].ends_with("m   N after=2 since=1000"), "{}", lines[4]);
        assert!(lines[5].contains("        6     5.000103000    77  Q  WS 8 + 8 [fio]"));
        let [program, rest] = &converter.latencies.0;
        assert_eq!((program[Op::Read as usize].count(), rest[Op::Read as usize].count()), (2, 0));
        assert_eq!(program[Op::Read as usize].max(), Some(101_000));
        assert_eq!(converter.waiting.len(), 1);
    }

    #[test]
    fn the_disks_and_the_phases_are_kept_apart() {
        let text = "\
253,0    0     1.000000000    77  Q  FWS 0 + 8 [a]
253,16   0     1.000000000    77  Q  DS 0 + 8 [a]
253,0    0     1.000002000    77  C  FWS 0 + 8 [0]
253,16   0     1.000005000    77  C  DS 0 + 8 [0]
253,32   0     1.000005000    77  C  DS 0 + 8 [0]
";
        let folder = std::env::temp_dir().join(format!("blocklab-queue-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (from, to) = (folder.join("from"), folder.join("to"));
        std::fs::write(&from, text).unwrap();
        let mut findings = Findings { ended_ns: 1_000_002_000, ..Findings::default() };
        findings.numbers = vec!["253,0".into(), "253,16".into()];
        let latencies = convert(&from, &to, &findings).unwrap();
        let trace = std::fs::read_to_string(&to).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(trace.lines().count(), 2);
        assert_eq!(latencies[0].0[0][Op::Write as usize].max(), Some(2000));
        assert_eq!(latencies[1].0[1][Op::Discard as usize].max(), Some(5000));
        assert_eq!(latencies[1].0[0][Op::Discard as usize].count(), 0);
    }

    #[test]
    fn what_is_no_event_is_no_line() {
        assert_eq!(Line::parse("CPU:0 [LOST 3 EVENTS]"), None);
        assert_eq!(Line::parse(""), None);
        let flush = Line::parse("253,0 0 1.000000000 5 Q FWS [jbd2]").unwrap();
        assert_eq!((flush.sectors, flush.flags), (0, "FWS"));
    }
}
