//! Units of systemd: what each cost, and the chain of them that made the boot as long as it is.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::record::{Process, Record, Unit};

/// Longer chains are not shown.
const LINKS_MAX: usize = 200;

/// A unit, and what its main process and what came of it used.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Row {
    /// The unit.
    pub unit: String,
    /// From its begin until it was reached; `None` where it was not.
    pub start_ns: Option<u64>,
    /// Processes.
    pub processes: usize,
    /// I/O delay.
    pub io_ns: u64,
    /// On the processor.
    pub cpu_ns: u64,
    /// In the run queue.
    pub queue_ns: u64,
    /// Read.
    pub read_bytes: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
}

/// A link of the chain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Link {
    /// The unit; `systemd` for process 1 before it begins the first.
    pub unit: String,
    /// From here.
    pub from_ns: u64,
    /// Until it was reached.
    pub to_ns: u64,
    /// Its processes waited so long for storage, and could have overlapped.
    pub io_ns: u64,
    /// And ran.
    pub cpu_ns: u64,
}

/// Which process is the main one of which unit, by the process's place in the record.
///
/// Systemd's numbers are those of its own namespace, in which the init is 1. Both count alike from
/// the init on, but for the kernel's threads, which have numbers outside of it only.
fn mains(record: &Record) -> BTreeMap<usize, &str> {
    let init = record.head.init;
    let ends: BTreeMap<u32, Option<u64>> =
        record.processes.iter().map(|process| (process.pid, process.end_ns)).collect();
    // One that puts itself into the background is process 1's once its starter has ended.
    let taken_over = |process: &Process| {
        let starter_end = ends.get(&process.parent).copied().flatten();
        starter_end.is_some_and(|at| process.end_ns.is_none_or(|end| at < end))
    };
    let children: BTreeMap<u64, usize> = record
        .processes
        .iter()
        .enumerate()
        .filter(|(_, process)| process.parent == init || taken_over(process))
        .map(|(place, process)| (u64::from(process.pid), place))
        .collect();
    let kernels: BTreeSet<u64> = record
        .processes
        .iter()
        .filter(|process| process.is_kernel() && process.pid > init && init > 1)
        .map(|process| u64::from(process.pid))
        .collect();
    let main = |unit: &Unit| {
        let inside = unit.main?.checked_add(u64::from(init))?.checked_sub(1)?;
        let pid =
            kernels.iter().fold(inside, |pid, taken| pid.saturating_add((*taken <= pid).into()));
        let place = *children.get(&pid)?;
        // Systemd writes down when it has started one: an earlier moment is of another process.
        let started = record.processes[place].start_ns;
        unit.main_start_ns.is_none_or(|at| started <= at).then_some(place)
    };
    record.units.iter().filter_map(|unit| Some((main(unit)?, unit.unit.as_str()))).collect()
}

/// The unit of each process that has one, in the order of the record's processes: that of the
/// nearest main process above it.
fn unit_of(record: &Record) -> Vec<Option<&str>> {
    let mains = mains(record);
    let places: BTreeMap<u32, usize> =
        record.processes.iter().enumerate().map(|(place, one)| (one.pid, place)).collect();
    let find = |start: usize| {
        let (mut at, mut seen) = (start, BTreeSet::new());
        // A number that is used again may make a ring of parents.
        while seen.insert(at) {
            if let Some(unit) = mains.get(&at) {
                return Some(*unit);
            }
            at = *places.get(&record.processes[at].parent)?;
        }
        None
    };
    (0..record.processes.len()).map(find).collect()
}

/// The units that had processes or took time, by I/O delay.
pub fn units(record: &Record) -> Vec<Row> {
    let mut used: BTreeMap<&str, Vec<&Process>> = BTreeMap::new();
    for (process, unit) in record.processes.iter().zip(unit_of(record)) {
        if let Some(unit) = unit {
            used.entry(unit).or_default().push(process);
        }
    }
    let (_, end) = record.window_ns();
    let mut rows: Vec<Row> = record
        .units
        .iter()
        .filter(|unit| unit.activating_ns <= end)
        .map(|unit| {
            let processes = used.get(unit.unit.as_str()).map_or(&[][..], Vec::as_slice);
            let sum = |value: fn(&Process) -> u64| {
                processes.iter().map(|one| value(one)).fold(0, u64::saturating_add)
            };
            Row {
                unit: unit.unit.clone(),
                start_ns: unit.active_ns.map(|at| at.saturating_sub(unit.activating_ns)),
                processes: processes.len(),
                io_ns: sum(|one| one.io_ns),
                cpu_ns: sum(|one| one.cpu_ns),
                queue_ns: sum(|one| one.queue_ns),
                read_bytes: sum(|one| one.read_bytes),
                major_faults: sum(|one| one.major_faults),
            }
        })
        .filter(|row| row.processes > 0 || row.start_ns.is_some_and(|ns| ns > 0))
        .collect();
    rows.sort_by(|a, b| (b.io_ns, b.start_ns, &a.unit).cmp(&(a.io_ns, a.start_ns, &b.unit)));
    rows
}

/// The chain that ends with the recording's last unit, in order of time: each began once the one
/// before it was reached, the last of those that it is ordered after.
pub fn chain(record: &Record) -> Vec<Link> {
    let by_name: BTreeMap<&str, &Unit> =
        record.units.iter().map(|unit| (unit.unit.as_str(), unit)).collect();
    let rows: BTreeMap<String, Row> =
        units(record).into_iter().map(|row| (row.unit.clone(), row)).collect();
    let (start, end) = record.window_ns();
    let mut links = Vec::new();
    let mut next = by_name.get(record.head.until.as_str()).copied();
    let mut first_ns = end;
    let mut seen = BTreeSet::new();
    while let Some(unit) = next.filter(|unit| seen.insert(unit.unit.as_str())) {
        let row = rows.get(&unit.unit);
        links.push(Link {
            unit: unit.unit.clone(),
            from_ns: unit.activating_ns.max(start),
            to_ns: unit.active_ns.unwrap_or(end).clamp(start, end),
            io_ns: row.map_or(0, |row| row.io_ns),
            cpu_ns: row.map_or(0, |row| row.cpu_ns),
        });
        first_ns = unit.activating_ns.max(start);
        let before = unit.after.iter().filter_map(|name| by_name.get(name.as_str()).copied());
        next = before
            .filter(|one| one.active_ns.is_some_and(|at| at <= unit.activating_ns))
            .max_by_key(|one| (one.active_ns, &one.unit))
            // What an initramfs began is not process 1's.
            .filter(|one| one.activating_ns >= start && links.len() < LINKS_MAX);
    }
    // Where nobody knows when process 1 began, what is before the first unit is not its alone.
    if !links.is_empty() && first_ns > start && record.start_ns().is_some() {
        let init = record.processes.iter().find(|process| process.pid == record.head.init);
        links.push(Link {
            unit: "systemd".into(),
            from_ns: start,
            to_ns: first_ns.min(end),
            io_ns: init.map_or(0, |init| init.io_ns),
            cpu_ns: init.map_or(0, |init| init.cpu_ns),
        });
    }
    links.reverse();
    links
}

/// How long a unit took to start, in seconds, where that is known.
pub(super) fn told_start(start_ns: Option<u64>) -> String {
    start_ns.map_or("-".into(), |ns| format!("{:.6}", ns as f64 / 1e9))
}

/// What a person reads of them.
pub fn lines(record: &Record, rows: usize) -> Vec<String> {
    if record.units.is_empty() || rows == 0 {
        return Vec::new();
    }
    let seconds = |ns: u64| ns as f64 / 1e9;
    let (start, _) = record.window_ns();
    let mut out = vec!["units of systemd by the I/O delay of their processes:".to_string()];
    out.push(format!(
        "{:>11} {:>11} {:>11} {:>8} {:>7}  unit",
        "I/O delay s", "processor s", "to start s", "read MB", "faults"
    ));
    for row in units(record).iter().take(rows) {
        let start = told_start(row.start_ns);
        out.push(format!(
            "{:11.6} {:11.6} {start:>11} {:8.2} {:7}  {}",
            seconds(row.io_ns),
            seconds(row.cpu_ns),
            row.read_bytes as f64 / 1e6,
            row.major_faults,
            row.unit
        ));
    }
    out.push(format!("the chain of units to {}:", record.head.until));
    out.push(format!("{:>11} {:>11} {:>11}  unit", "from s", "took s", "I/O delay s"));
    for link in chain(record) {
        out.push(format!(
            "{:11.6} {:11.6} {:11.6}  {}",
            seconds(link.from_ns.saturating_sub(start)),
            seconds(link.to_ns.saturating_sub(link.from_ns)),
            seconds(link.io_ns),
            link.unit
        ));
    }
    out
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::record::tests::SMALL;
    use super::*;

    /// The small record, with units.
    pub(in super::super) fn with_units() -> Record {
        let lines = concat!(
            "{\"milestone\":\"systemd\",\"at_ns\":1010}\n",
            "{\"firmware_ns\":7,\"loader_ns\":3}\n",
            "{\"unit\":\"a.target\",\"state\":\"active\",\"activating_ns\":1950,",
            "\"active_ns\":1950,\"after\":[\"b.service\",\"c.service\",\"later.service\"]}\n",
            "{\"unit\":\"b.service\",\"activating_ns\":1190,\"active_ns\":1900,\"main\":10,",
            "\"main_start_ns\":1210,\"after\":[\"c.service\",\"a.target\"]}\n",
            "{\"unit\":\"c.service\",\"activating_ns\":1100,\"active_ns\":1150}\n",
            "{\"unit\":\"later.service\",\"activating_ns\":1100,\"active_ns\":1990}\n",
            // Started between b's process and when systemd had written that down.
            "{\"pid\":52,\"parent\":41,\"name\":\"another\",\"start_ns\":1209,\"io_ns\":7}\n",
            "{\"pid\":51,\"parent\":50,\"name\":\"child\",\"start_ns\":1300,\"io_ns\":40}\n",
        );
        Record::parse(&format!("{SMALL}{lines}")).unwrap()
    }

    #[test]
    fn a_unit_has_its_main_process_and_what_came_of_it() {
        let rows = units(&with_units());
        assert_eq!(
            (rows[0].unit.as_str(), rows[0].processes, rows[0].io_ns),
            ("b.service", 2, 540)
        );
        assert_eq!(rows[0].start_ns, Some(710));
        assert_eq!(rows.len(), 3, "a target took no time and had no process");
    }

    #[test]
    fn a_thread_of_the_kernel_has_no_number_in_the_namespace() {
        let mut record = with_units();
        record.units[1].main = Some(9);
        assert_eq!(units(&record)[0].processes, 0);
        let thread = Process { pid: 45, parent: 2, start_ns: 1150, ..Process::default() };
        record.processes.push(thread);
        assert_eq!(
            (units(&record)[0].unit.as_str(), units(&record)[0].processes),
            ("b.service", 2)
        );
    }

    #[test]
    fn what_outlives_its_starter_is_the_units_that_started_it() {
        let mut record = with_units();
        let place = |pid: u32| {
            let processes = &with_units().processes;
            processes.iter().position(|process| process.pid == pid).unwrap()
        };
        // b's process ends, and its child goes on, taken over by process 1 or not.
        record.processes[place(50)].end_ns = Some(1400);
        record.processes[place(51)].end_ns = Some(1900);
        assert_eq!((units(&record)[0].processes, units(&record)[0].io_ns), (2, 540));
        // The child is the main process, as `Type=forking` has it.
        record.units[1].main = Some(11);
        record.units[1].main_start_ns = Some(1400);
        let row = &units(&record)[0];
        assert_eq!((row.unit.as_str(), row.processes, row.io_ns), ("b.service", 1, 40));
        // Not one whose starter is there: that is no child of process 1.
        record.processes[place(50)].end_ns = None;
        assert!(units(&record).iter().all(|row| row.processes == 0));
    }

    #[test]
    fn the_chain_goes_back_by_who_was_reached_last() {
        let links = chain(&with_units());
        let told: Vec<_> =
            links.iter().map(|link| (link.unit.as_str(), link.from_ns, link.to_ns)).collect();
        let expected = [
            ("systemd", 1000, 1100),
            ("c.service", 1100, 1150),
            ("b.service", 1190, 1900),
            ("a.target", 1950, 1950),
        ];
        assert_eq!(told, expected);
        let mut ring = with_units();
        ring.units[2].after = vec!["b.service".into()];
        ring.units[1].active_ns = Some(1100);
        assert!(chain(&ring).len() <= 4);
        assert_eq!(chain(&Record::parse(SMALL).unwrap()), []);
    }

    #[test]
    fn lines_show_units_and_their_chain() {
        let text = lines(&with_units(), 5).join("\n");
        assert!(text.contains("  b.service\n") && text.ends_with("  a.target"), "{text}");
        assert!(lines(&Record::parse(SMALL).unwrap(), 5).is_empty());
    }
}
