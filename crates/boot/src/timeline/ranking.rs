//! Who waited longest for storage.

use std::collections::BTreeMap;

use serde::Serialize;

use super::record::{FileRead, Machine, Process, Record};
use super::units;

/// Ticks in which the paper's way counts.
const TICK_NS: u64 = 10_000_000;

/// A place in the ranking.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Row {
    /// The process's name.
    pub name: String,
    /// Its number.
    pub pid: u32,
    /// It is a thread of the kernel.
    pub kernel: bool,
    /// I/O delay.
    pub io_ns: u64,
    /// So many waits.
    pub io_waits: u64,
    /// On the processor.
    pub cpu_ns: u64,
    /// In the run queue.
    pub queue_ns: u64,
    /// Read.
    pub read_bytes: u64,
    /// Written.
    pub write_bytes: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
}

impl Row {
    fn of(process: &Process) -> Row {
        Row {
            name: process.name.clone(),
            pid: process.pid,
            kernel: process.is_kernel(),
            io_ns: process.io_ns,
            io_waits: process.io_waits,
            cpu_ns: process.cpu_ns,
            queue_ns: process.queue_ns,
            read_bytes: process.read_bytes,
            write_bytes: process.write_bytes,
            major_faults: process.major_faults,
        }
    }
}

/// All processes of a boot and the kernel's threads, who waited longest first.
pub fn ranking(record: &Record) -> Vec<Row> {
    let mut rows: Vec<Row> = record.of_boot().map(Row::of).collect();
    rows.sort_by_key(|row| (std::cmp::Reverse((row.io_ns, row.cpu_ns)), row.pid));
    rows
}

/// How far the paper's way is off.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Bias {
    /// From one look to the next.
    pub interval_ns: u64,
    /// Looks.
    pub samples: u64,
    /// What they took of the processor, where the record says so.
    pub cpu_ns: Option<u64>,
    /// Processes of the boot that it never saw.
    pub unseen: usize,
    /// Their I/O delay.
    pub unseen_io_ns: u64,
    /// I/O delay of all of them, exactly.
    pub exact_io_ns: u64,
    /// And as it was seen.
    pub sampled_io_ns: u64,
    /// The first names of its ranking.
    pub leaders: Vec<String>,
}

/// Compare with the samples, where there are any.
pub fn bias(record: &Record, leaders: usize) -> Option<Bias> {
    let samples = record.samples?;
    let all: Vec<&Process> = record.of_boot().collect();
    let seen = |process: &&&Process| record.sampled.iter().any(|one| one.sampled == process.pid);
    let unseen: Vec<&&Process> = all.iter().filter(|process| !seen(process)).collect();
    let mut sampled: Vec<_> = record
        .sampled
        .iter()
        .filter(|one| all.iter().any(|process| process.pid == one.sampled))
        .collect();
    sampled.sort_by_key(|one| (std::cmp::Reverse(one.io_ticks), one.sampled));
    let sum = |delays: &mut dyn Iterator<Item = u64>| delays.fold(0, u64::saturating_add);
    Some(Bias {
        interval_ns: samples.sample_interval_ns,
        samples: samples.samples,
        cpu_ns: samples.samples_cpu_ns,
        unseen: unseen.len(),
        unseen_io_ns: sum(&mut unseen.iter().map(|process| process.io_ns)),
        exact_io_ns: sum(&mut all.iter().map(|process| process.io_ns)),
        sampled_io_ns: sum(&mut sampled.iter().map(|one| one.io_ticks.saturating_mul(TICK_NS))),
        leaders: sampled.iter().take(leaders).map(|one| one.name.clone()).collect(),
    })
}

/// The first `rows` of the ranking, where processes are known.
fn table(record: &Record, rows: usize) -> Vec<String> {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut lines = Vec::new();
    if !record.processes.is_empty() {
        lines.push(format!(
            "{:>11} {:>6} {:>11} {:>11} {:>8} {:>8}  process",
            "I/O delay s", "waits", "processor s", "run queue s", "read MB", "writ. MB"
        ));
    }
    for row in ranking(record).iter().take(rows) {
        let name = if row.kernel { format!("[{}]", row.name) } else { row.name.clone() };
        lines.push(format!(
            "{:11.6} {:6} {:11.6} {:11.6} {:8.2} {:8.2}  {name}",
            seconds(row.io_ns),
            row.io_waits,
            seconds(row.cpu_ns),
            seconds(row.queue_ns),
            row.read_bytes as f64 / 1e6,
            row.write_bytes as f64 / 1e6,
        ));
    }
    lines
}

/// A file, and the process that it came into memory for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FileRow {
    /// Its path; `None` for what is the file system's own.
    pub file: Option<String>,
    /// So much of it.
    pub bytes: u64,
    /// For this process.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

/// What came into memory for the boot's processes, most first, where that was recorded.
pub fn files(record: &Record) -> Vec<FileRow> {
    let names: BTreeMap<u32, &str> =
        record.of_boot().map(|process| (process.pid, process.name.as_str())).collect();
    let row = |read: &FileRead| {
        let name = (*names.get(&read.read_by)?).to_string();
        Some(FileRow { file: read.of.clone(), bytes: read.bytes, pid: read.read_by, name })
    };
    record.reads.iter().filter_map(row).collect()
}

/// The first `rows` of them.
fn table_of_files(record: &Record, rows: usize) -> Vec<String> {
    let all = files(record);
    let mut lines: Vec<String> = record.unread.iter().cloned().collect();
    if !all.is_empty() {
        lines.push("files by the bytes that came into memory for a process, read or new:".into());
        lines.push(format!("{:>9}  {:<16} file", "MB", "process"));
    }
    lines.extend(all.iter().take(rows).map(|row| {
        let file = row.file.as_deref().unwrap_or("(folders and tables of the file system)");
        format!("{:9.3}  {:<16} {file}", row.bytes as f64 / 1e6, row.name)
    }));
    lines
}

/// How a boot in real time was done.
fn of_machine(machine: &Machine) -> Vec<String> {
    let Machine { device, accelerator, kernel_file, wall_s, .. } = machine;
    let slower = match machine.dilation {
        1 => String::new(),
        times => format!(" and {times} times slower"),
    };
    let mut lines = vec![
        format!(
            "{device} in real time{slower}, {kernel_file} in QEMU by {accelerator}: not the same \
             twice; {wall_s:.1} s of wall time"
        ),
        format!(
            "{:.6} s from QEMU's start to the kernel's clock",
            machine.before_kernel_ns as f64 / 1e9
        ),
    ];
    let requests = machine.requests.iter();
    let requests: Vec<String> = requests
        .map(|(op, [count, bytes])| format!("{count} {op} ({:.1} MB)", *bytes as f64 / 1e6))
        .collect();
    lines.push(format!(
        "requests: {}; answers late by at most {:.0} us but for one in a hundred",
        requests.join(", "),
        machine.lateness_p99_us
    ));
    lines
        .extend(machine.doubts.iter().map(|why| format!("the device's times are doubtful: {why}")));
    lines
}

/// What the recorder took itself, and how much of that for looks and samples.
fn of_recorder(record: &Record) -> Option<String> {
    let recorder = record.recorder()?;
    let (start, end) = record.window_ns();
    let own = recorder.cpu_ns as f64;
    let all = record.of_boot().map(|one| one.cpu_ns as f64).sum::<f64>() + own;
    let share = |ns: f64| ns / all.max(1.0) * 100.0;
    let looks = record.looks.and_then(|one| Some(("looks", one.looks?, one.looks_cpu_ns?)));
    let samples = record.samples.map(|one| ("samples", one.samples, one.samples_cpu_ns));
    let samples = samples.and_then(|(what, count, ns)| Some((what, count, ns?)));
    let parts: Vec<String> = looks
        .into_iter()
        .chain(samples)
        .map(|(what, count, ns)| format!("; {count} {what} {:.2} %", share(ns as f64)))
        .collect();
    Some(format!(
        "the recorder itself: {:.6} s of processor, {:.2} % of the time and {:.2} % of the \
         processor's{}",
        own / 1e9,
        own / (end - start).max(1) as f64 * 100.0,
        share(own),
        parts.concat()
    ))
}

/// What a person reads: milestones, shares, and the first `rows` of the ranking.
pub fn lines(record: &Record, rows: usize) -> Vec<String> {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let (start, end) = record.window_ns();
    let head = &record.head;
    // Some tools begin with the kernel.
    let of = if record.start_ns().is_some() { " of process 1" } else { "" };
    let mut lines = vec![format!("{} after {:.6} s{of}", head.until, seconds(end - start))];
    if let Some(travelled) = &record.travelled {
        let device_s = travelled.device_busy_share * 100.0;
        let code = travelled.processor_share.map_or("code was free".into(), |share| {
            format!("code took {:.1} % of it (as on {})", share * 100.0, travelled.host)
        });
        let device = &travelled.device;
        lines.push(format!("{device} was busy {device_s:.1} % of the recording, {code}"));
    }
    lines.extend(record.machine.iter().flat_map(of_machine));
    let ends = [head.until.as_str(), "init", "recorder"];
    for one in record.milestones.iter().filter(|one| !ends.contains(&one.milestone.as_str())) {
        if one.at_ns > start {
            lines.push(format!("{} after {:.6} s", one.milestone, seconds(one.at_ns - start)));
        } else if one.at_ns < start {
            let before = seconds(start - one.at_ns);
            lines.push(format!("{} {before:.6} s before process 1", one.milestone));
        }
    }
    if let Some(before) = record.before_kernel {
        let (firmware, loader) = (seconds(before.firmware_ns), seconds(before.loader_ns));
        lines.push(format!("before the kernel: firmware {firmware:.6} s, loader {loader:.6} s"));
    }
    if start > 0 && record.travelled.is_none() {
        lines.push(format!("process 1 {:.6} s after the kernel's start", seconds(start)));
    }
    lines.extend(of_recorder(record));
    if let Some(why) = &head.incomplete {
        lines.push(format!("the record is incomplete: {why}"));
    }
    lines.extend(table(record, rows));
    lines.extend(table_of_files(record, rows));
    lines.extend(units::lines(record, rows));
    if let Some(bias) = bias(record, 5) {
        lines.push(format!(
            "every {:.3} s, as the paper looks: {:.2} s of I/O delay instead of {:.2} s, {} \
             processes unseen ({:.2} s); first: {}",
            seconds(bias.interval_ns),
            seconds(bias.sampled_io_ns),
            seconds(bias.exact_io_ns),
            bias.unseen,
            seconds(bias.unseen_io_ns),
            bias.leaders.join(", ")
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::SMALL;
    use super::*;

    #[test]
    fn who_waits_longest_comes_first_and_the_recorder_not_at_all() {
        let record = Record::parse(SMALL).unwrap();
        let names: Vec<String> = ranking(&record).into_iter().map(|row| row.name).collect();
        assert_eq!(names, ["a <b>", "systemd", "jbd2/vda-8"]);
        let text = lines(&record, 2).join("\n");
        assert!(text.starts_with("a.target after 0.000001 s of process 1"), "{text}");
        assert!(text.contains("the recorder itself") && !text.contains("[jbd2"), "{text}");
        assert!(text.contains(" systemd          /a\n"), "{text}");
        assert!(text.contains("; 3 looks ") && text.contains("; 2 samples "), "{text}");
    }

    #[test]
    fn the_papers_way_is_compared_with_the_exact_one() {
        let bias = bias(&Record::parse(SMALL).unwrap(), 5).unwrap();
        assert_eq!((bias.unseen, bias.unseen_io_ns, bias.exact_io_ns), (2, 570, 870));
        assert_eq!((bias.sampled_io_ns, bias.leaders), (30_000_000, vec!["systemd".to_string()]));
    }
}
