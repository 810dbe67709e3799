//! The record of a boot: lines of JSON, as the guest's program writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use attach::travel::Report;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the first line says it is.
pub const FORMAT: &str = "blocklab boot record 1";
/// Longer ones are not records.
const LINES_MAX: usize = 1 << 20;

/// Targets of systemd that are milestones of every boot.
const TARGETS: [&str; 4] =
    ["local-fs.target", "sysinit.target", "basic.target", "graphical.target"];

/// All of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// The first line.
    pub head: Head,
    /// In order of time.
    pub milestones: Vec<Milestone>,
    /// In order of their start.
    pub processes: Vec<Process>,
    /// How the paper's way was done, where it was.
    pub samples: Option<Samples>,
    /// What it saw.
    pub sampled: Vec<Sampled>,
    /// What each process used from one look to the next, where it was looked.
    pub slices: Vec<Slice>,
    /// How it was looked.
    pub looks: Option<Looks>,
    /// Files that were read, where that was asked for.
    pub files: Vec<String>,
    /// Which process had what of them read, most first.
    pub reads: Vec<FileRead>,
    /// Why that is not known, though it was asked for.
    pub unread: Option<String>,
    /// Units of systemd that were started, where it was asked.
    pub units: Vec<Unit>,
    /// What was before the kernel, where the firmware tells.
    pub before_kernel: Option<BeforeKernel>,
    /// In virtual time.
    pub travelled: Option<Travelled>,
    /// In real time, in QEMU.
    pub machine: Option<Machine>,
}

/// What holds for all of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Head {
    /// Always [`FORMAT`].
    pub format: String,
    /// Its version.
    pub kernel: String,
    /// The mark that ends it.
    pub until: String,
    /// It was seen.
    pub reached: bool,
    /// What is missing, and why.
    pub incomplete: Option<String>,
    /// When it ended, since the kernel's start, as all times.
    pub end_ns: u64,
    /// The recorder's process.
    pub recorder: u32,
    /// The init's.
    pub init: u32,
    /// Tasks that were started.
    pub forks: u64,
    /// Tasks that were heard to end.
    pub exits: u64,
    /// Tasks that were not heard of.
    pub lost: u64,
}

/// Something was reached.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Milestone {
    /// What.
    pub milestone: String,
    /// When.
    pub at_ns: u64,
}

/// A process; its counts are of the recording alone.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Of the first parent that was seen: the process that started it, or took it over before.
    pub parent: u32,
    /// Its name, 15 bytes of it.
    pub name: String,
    /// Its start.
    pub start_ns: u64,
    /// Its end; `None` when it lived at the record's.
    pub end_ns: Option<u64>,
    /// Its threads.
    pub threads: u32,
    /// It ran.
    pub cpu_ns: u64,
    /// It waited for the processor.
    pub queue_ns: u64,
    /// It waited for block devices.
    pub io_ns: u64,
    /// So many times.
    pub io_waits: u64,
    /// It waited for swapped pages.
    pub swap_ns: u64,
    /// It waited for memory.
    pub reclaim_ns: u64,
    /// It waited for pages that had been dropped.
    pub thrashing_ns: u64,
    /// From block devices.
    pub read_bytes: u64,
    /// To block devices.
    pub write_bytes: u64,
    /// System calls.
    pub read_calls: u64,
    /// System calls.
    pub write_calls: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
}

/// A unit of systemd.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Unit {
    /// Its name.
    pub unit: String,
    /// What it was at the end: `active`, `inactive` for what has done its work, `failed`.
    pub state: String,
    /// When it was begun.
    pub activating_ns: u64,
    /// When it was reached; `None` for what was not, or leaves no such time.
    pub active_ns: Option<u64>,
    /// Its main process, as systemd numbers it.
    pub main: Option<u64>,
    /// When systemd had started that.
    pub main_start_ns: Option<u64>,
    /// Units that it is ordered after, of those that were started.
    pub after: Vec<String>,
    /// Units that fail without it, of those that were started.
    pub required_by: Vec<String>,
}

/// Times before the kernel's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BeforeKernel {
    /// In the firmware.
    pub firmware_ns: u64,
    /// In the loader.
    pub loader_ns: u64,
}

/// The paper's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Samples {
    /// How often.
    pub samples: u64,
    /// From one to the next.
    pub sample_interval_ns: u64,
    /// What they took of the processor, where the record says so.
    #[serde(default)]
    pub samples_cpu_ns: Option<u64>,
}

/// What a process had read of a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileRead {
    /// The process.
    pub read_by: u32,
    /// So many bytes.
    pub bytes: u64,
    /// The file; `None` for what is the file system's own.
    pub of: Option<String>,
}

/// Looks at what each process used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Looks {
    /// From one to the next at least.
    pub slice_interval_ns: u64,
    /// How many, where the record says so.
    #[serde(default)]
    pub looks: Option<u64>,
    /// What they took of the processor.
    #[serde(default)]
    pub looks_cpu_ns: Option<u64>,
}

/// A process as the paper's way saw it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sampled {
    /// Its number.
    pub sampled: u32,
    /// Its name when it was last seen.
    pub name: String,
    /// Its start, in ticks of 10 ms.
    pub start_ticks: u64,
    /// I/O delay when it was last seen, in ticks.
    pub io_ticks: u64,
    /// So often.
    pub seen: u64,
}

/// What a process used in the time before a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    /// The look.
    pub at_ns: u64,
    /// The process.
    pub pid: u32,
    /// It ran, waited for the processor, and waited for block devices.
    pub used_ns: [u64; 3],
}

/// What a session in virtual time knows beside.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Travelled {
    /// The part.
    pub device: String,
    /// The host that code was charged as, or `none`.
    pub host: String,
    /// Share of the recording with a request in the device.
    pub device_busy_share: f64,
    /// Share of it that was charged for code, where it was.
    pub processor_share: Option<f64>,
    /// Requests that the device was given, and bytes, by operation.
    pub requests: BTreeMap<String, [u64; 2]>,
    /// Of every request.
    pub digest: String,
    /// What it took on this machine.
    pub wall_s: f64,
}

/// What is known beside of a boot in QEMU, in real time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The part.
    pub device: String,
    /// What ran the guest's instructions: KVM, or TCG and why.
    pub accelerator: String,
    /// The kernel's file.
    pub kernel_file: String,
    /// The device took so many times its time.
    pub dilation: u64,
    /// From QEMU's start to that of the kernel's clock: the firmware, and the kernel while it is
    /// loaded and unpacks itself.
    pub before_kernel_ns: u64,
    /// Requests that the device was given, and bytes, by operation.
    pub requests: BTreeMap<String, [u64; 2]>,
    /// How late answers were, at most one in a hundred later.
    pub lateness_p99_us: f64,
    /// Why the device's times are to be doubted; nothing where this machine was fast enough.
    pub doubts: Vec<String>,
    /// What it took on this machine.
    pub wall_s: f64,
}

impl Travelled {
    pub(super) fn of(report: &Report) -> Travelled {
        let disk = &report.disks[0];
        let requests = disk.device.iter().map(|one| (one.op.into(), [one.requests, one.bytes]));
        Travelled {
            device: disk.part.clone(),
            host: report.host.clone(),
            device_busy_share: disk.busy_share,
            processor_share: report.processor_share,
            requests: requests.collect(),
            digest: report.digest.clone(),
            wall_s: report.wall_s,
        }
    }
}

/// A line that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreadable {
    /// From 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|why| why.to_string())
}

impl Record {
    /// With nothing in it but `head`.
    pub fn empty(head: Head) -> Record {
        Record {
            head,
            milestones: Vec::new(),
            processes: Vec::new(),
            samples: None,
            sampled: Vec::new(),
            slices: Vec::new(),
            looks: None,
            files: Vec::new(),
            reads: Vec::new(),
            unread: None,
            units: Vec::new(),
            before_kernel: None,
            travelled: None,
            machine: None,
        }
    }

    /// Read a record.
    ///
    /// # Errors
    /// With the line that is wrong.
    pub fn parse(text: &str) -> Result<Record, Unreadable> {
        let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        let at = |line: usize| move |why: String| Unreadable { line, why };
        let json = |line: usize, text: &str| -> Result<Value, Unreadable> {
            serde_json::from_str(text).map_err(|why| at(line)(why.to_string()))
        };
        let (first, head) = lines.next().ok_or_else(|| at(1)("there is nothing".into()))?;
        let head = json(first, head)?;
        if head["format"] != FORMAT {
            let why = format!("format {}; expected \"{FORMAT}\"", head["format"]);
            return Err(at(first)(why));
        }
        let head: Head = read(head).map_err(at(first))?;
        let mut record = Record::empty(head);
        for (number, line) in lines {
            if number > LINES_MAX {
                return Err(at(number)(format!("expected at most {LINES_MAX} lines")));
            }
            record.take(json(number, line)?).map_err(at(number))?;
        }
        record.check_whole().map_err(at(text.lines().count()))?;
        record.add_targets();
        // Systemd tells its own behind the recorder's.
        record.milestones.sort_by_key(|one| one.at_ns);
        Ok(record)
    }

    /// A record that was cut has fewer tasks than its head says, one that was put together has
    /// some twice.
    fn check_whole(&self) -> Result<(), String> {
        let tasks: u64 = self.processes.iter().map(|one| u64::from(one.threads.max(1))).sum();
        let Head { forks, lost, .. } = self.head;
        if tasks.saturating_add(lost) < forks {
            return Err(format!("it ends after {tasks} tasks; expected the {forks} of its head"));
        }
        let mut seen = BTreeSet::new();
        match self.processes.iter().find(|one| !seen.insert((one.pid, one.start_ns))) {
            Some(Process { pid, .. }) => Err(format!("process {pid} is there twice")),
            None => Ok(()),
        }
    }

    /// Targets on the way are milestones, too.
    fn add_targets(&mut self) {
        for unit in self.units.iter().filter(|unit| TARGETS.contains(&unit.unit.as_str())) {
            let known = self.milestones.iter().any(|one| one.milestone == unit.unit);
            if let Some(at_ns) = unit.active_ns.filter(|_| !known) {
                self.milestones.push(Milestone { milestone: unit.unit.clone(), at_ns });
            }
        }
    }

    fn take(&mut self, line: Value) -> Result<(), String> {
        let has = |key: &str| line.get(key).is_some();
        if has("milestone") {
            self.milestones.push(read(line)?);
        } else if has("pid") {
            self.processes.push(read(line)?);
        } else if has("slice") {
            let [at_ns, pid, cpu, queue, io]: [u64; 5] = read(line["slice"].clone())?;
            let pid = u32::try_from(pid).map_err(|_| format!("no process has number {pid}"))?;
            self.slices.push(Slice { at_ns, pid, used_ns: [cpu, queue, io] });
        } else if has("sampled") {
            self.sampled.push(read(line)?);
        } else if has("samples") {
            self.samples = Some(read(line)?);
        } else if has("slice_interval_ns") {
            self.looks = Some(read(line)?);
        } else if has("read_by") {
            self.reads.push(read(line)?);
        } else if has("unread") {
            self.unread = Some(read(line["unread"].clone())?);
        } else if has("file") {
            self.files.push(read(line["file"].clone())?);
        } else if has("unit") {
            self.units.push(read(line)?);
        } else if has("firmware_ns") {
            self.before_kernel = Some(read(line)?);
        } else if has("travelled") {
            self.travelled = Some(read(line["travelled"].clone())?);
        } else if has("machine") {
            self.machine = Some(read(line["machine"].clone())?);
        } else {
            return Err("a line of no known kind".into());
        }
        Ok(())
    }

    /// When a milestone was reached.
    pub fn at_ns(&self, milestone: &str) -> Option<u64> {
        self.milestones.iter().find(|one| one.milestone == milestone).map(|one| one.at_ns)
    }

    /// From the init's start to the end, or all of the record where it has no such milestone.
    pub fn window_ns(&self) -> (u64, u64) {
        let end = self.at_ns(&self.head.until).unwrap_or(self.head.end_ns);
        (self.start_ns().unwrap_or(0).min(end), end)
    }

    /// When process 1 began, where that is known.
    pub fn start_ns(&self) -> Option<u64> {
        self.at_ns("init").or_else(|| self.at_ns("recorder"))
    }

    /// The boot's own processes: the init, what comes of it, and the kernel's threads; neither the
    /// recorder nor what started it.
    pub fn of_boot(&self) -> impl Iterator<Item = &Process> {
        let parents: BTreeMap<u32, u32> =
            self.processes.iter().map(|one| (one.pid, one.parent)).collect();
        let init = self.head.init;
        let belongs = move |process: &Process| {
            let mut pid = process.pid;
            // A circle of parents, in a broken record, ends.
            for _ in 0..64 {
                if pid == self.head.recorder && pid != init {
                    return false;
                }
                if pid == init || pid == KTHREADD {
                    return true;
                }
                match parents.get(&pid) {
                    Some(&parent) => pid = parent,
                    None => return false,
                }
            }
            false
        };
        self.processes.iter().filter(move |process| belongs(process))
    }

    /// The recorder itself.
    pub fn recorder(&self) -> Option<&Process> {
        self.processes.iter().find(|one| one.pid == self.head.recorder)
    }
}

/// The parent of the kernel's threads.
const KTHREADD: u32 = 2;

impl Process {
    /// It is a thread of the kernel.
    pub fn is_kernel(&self) -> bool {
        self.pid == KTHREADD || self.parent == KTHREADD
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A small record.
    pub(in super::super) const SMALL: &str = concat!(
        "{\"format\":\"blocklab boot record 1\",\"kernel\":\"6.1\",\"until\":\"a.target\",",
        "\"reached\":true,\"incomplete\":null,\"end_ns\":2100,\"recorder\":40,\"init\":41,",
        "\"forks\":3,\"exits\":1,\"lost\":0}\n",
        "{\"milestone\":\"recorder\",\"at_ns\":900}\n{\"milestone\":\"init\",\"at_ns\":1000}\n",
        "{\"milestone\":\"a.target\",\"at_ns\":2000}\n",
        "{\"pid\":1,\"parent\":0,\"name\":\"outside\",\"start_ns\":0,\"end_ns\":null}\n",
        "{\"pid\":30,\"parent\":2,\"name\":\"jbd2/vda-8\",\"start_ns\":10,\"end_ns\":null,",
        "\"io_ns\":70}\n",
        "{\"pid\":40,\"parent\":1,\"name\":\"blocklab-guest\",\"start_ns\":800,\"cpu_ns\":9}\n",
        "{\"pid\":41,\"parent\":40,\"name\":\"systemd\",\"start_ns\":1000,\"end_ns\":null,",
        "\"cpu_ns\":100,\"io_ns\":300}\n",
        "{\"pid\":50,\"parent\":41,\"name\":\"a <b>\",\"start_ns\":1200,\"end_ns\":1800,",
        "\"io_ns\":500,\"cpu_ns\":50,\"queue_ns\":50}\n",
        "{\"slice_interval_ns\":500,\"looks\":3,\"looks_cpu_ns\":6}\n",
        "{\"slice\":[1500,41,60,0,300]}\n",
        "{\"slice\":[1500,50,10,0,200]}\n",
        "{\"read_by\":41,\"bytes\":8192,\"of\":\"/a\"}\n",
        "{\"read_by\":50,\"bytes\":4096,\"of\":null}\n",
        "{\"samples\":2,\"sample_interval_ns\":500,\"samples_cpu_ns\":4}\n",
        "{\"sampled\":41,\"name\":\"systemd\",\"start_ticks\":1,\"io_ticks\":3,\"seen\":2}\n",
    );

    #[test]
    fn a_record_is_read() {
        let record = Record::parse(SMALL).unwrap();
        assert_eq!(record.window_ns(), (1000, 2000));
        let names: Vec<&str> = record.of_boot().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["jbd2/vda-8", "systemd", "a <b>"]);
        assert_eq!(record.recorder().map(|one| one.cpu_ns), Some(9));
        assert_eq!(record.slices[1], Slice { at_ns: 1500, pid: 50, used_ns: [10, 0, 200] });
        assert!(record.processes[1].is_kernel() && !record.processes[3].is_kernel());
    }

    #[test]
    fn what_is_wrong_has_its_line() {
        let told = |text: &str| Record::parse(text).unwrap_err().to_string();
        assert_eq!(told(""), "line 1: there is nothing");
        assert!(told("{}").starts_with("line 1: format null; expected"));
        let broken = format!("{SMALL}{{\"pid\":\"x\"}}\n");
        assert!(told(&broken).starts_with("line 17: "), "{}", told(&broken));
        assert!(told(&format!("{SMALL}\n{{}}")).starts_with("line 18: a line of no known kind"));
        assert!(told(&format!("{SMALL}{{\"slice\":[1,2]}}")).starts_with("line 17: "));
        let (head, rest) = SMALL.split_once('\n').unwrap();
        assert_eq!(told(head), "line 1: it ends after 0 tasks; expected the 3 of its head");
        let twice = told(&format!("{SMALL}{rest}"));
        assert!(twice.starts_with("line 31: process ") && twice.ends_with(" is there twice"));
    }
}
