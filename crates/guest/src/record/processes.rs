//! Threads become processes, and processes lines of the record.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::taskstats::{Task, Usage};

/// A process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Process {
    /// The first parent that was seen: later it may be who took it over.
    pub parent: u32,
    /// Its name: the first thread's, else that of any.
    pub name: String,
    /// When it was started.
    pub start_ns: u64,
    /// When its last thread ended; `None` while one lives.
    pub end_ns: Option<u64>,
    /// Its threads, as far as they were heard of.
    pub threads: u32,
    /// What they used.
    pub usage: Usage,
}

/// What is known of processes, by their numbers. A number that is used again is a new process.
#[derive(Default, Debug)]
pub struct Processes {
    /// Those that may still have living threads, and those that have not.
    all: BTreeMap<(u32, u32), Process>,
    generation: BTreeMap<u32, u32>,
    /// What threads had used when the recording began, by their numbers.
    before: BTreeMap<u32, Usage>,
    /// Parents of those that live, as they were first seen, by the process's number.
    parents: BTreeMap<u32, u32>,
    /// Of threads that are not the first: their processes.
    threads: BTreeMap<u32, u32>,
    /// Exit records.
    pub exits: u64,
}

impl Processes {
    /// A thread lives when the recording begins: what it used until then is left out.
    pub fn lived_before(&mut self, task: &Task) {
        self.before.insert(task.pid, task.usage);
        self.seen(task);
    }

    /// A thread lives now: who its process's parent is may be known no more at its end.
    pub fn seen(&mut self, task: &Task) {
        self.parents.entry(task.process).or_insert(task.parent);
    }

    /// The parent of a living process is known.
    pub fn was_seen(&self, process: u32) -> bool {
        self.parents.contains_key(&process)
    }

    /// A thread exited, and was heard of at `now_ns`.
    pub fn exited(&mut self, task: &Task, now_ns: u64) {
        self.exits += 1;
        let process = self.of(task, now_ns);
        let end_ns = process.end_ns.unwrap_or(0).max(now_ns);
        process.end_ns = Some(end_ns);
        // The process has its parent now, and its number may be another's next.
        self.parents.remove(&task.process);
    }

    /// A thread lives at the end of the recording.
    pub fn lives(&mut self, task: &Task, now_ns: u64) {
        self.of(task, now_ns).end_ns = None;
    }

    fn of(&mut self, task: &Task, now_ns: u64) -> &mut Process {
        if task.pid != task.process {
            self.threads.insert(task.pid, task.process);
        }
        let start_ns = now_ns.saturating_sub(task.elapsed_ns);
        // Its number may be another's next.
        let before = self.before.remove(&task.pid).unwrap_or_default();
        let usage = task.usage.since(&before);
        let generation = self.generation.entry(task.process).or_default();
        // A first thread that starts after its process has ended is another process's.
        if let Some(before) = self.all.get(&(task.process, *generation))
            && task.pid == task.process
            && before.end_ns.is_some_and(|end| start_ns > end)
        {
            *generation += 1;
        }
        let key = (task.process, *generation);
        let first = !self.all.contains_key(&key);
        let parent = self.parents.get(&task.process).copied().unwrap_or(task.parent);
        let process = self.all.entry(key).or_default();
        if first {
            process.parent = parent;
        }
        if first || task.pid == task.process {
            process.name.clone_from(&task.name);
        }
        if first || start_ns < process.start_ns {
            process.start_ns = start_ns;
        }
        process.threads += 1;
        process.usage = process.usage.and(&usage);
        process
    }

    /// The process of a task.
    pub fn of_task(&self, task: u32) -> u32 {
        self.threads.get(&task).copied().unwrap_or(task)
    }

    /// All of them with their numbers, in order of their start.
    pub fn in_order(&self) -> Vec<(u32, &Process)> {
        let mut all: Vec<_> = self.all.iter().map(|((pid, _), process)| (*pid, process)).collect();
        all.sort_by_key(|(pid, process)| (process.start_ns, *pid));
        all
    }
}

impl Process {
    /// A line of the record.
    pub fn line(&self, pid: u32) -> String {
        let Process { parent, name, start_ns, end_ns, threads, usage } = self;
        let end = end_ns.map_or("null".into(), |ns| ns.to_string());
        let mut out = format!(
            "{{\"pid\":{pid},\"parent\":{parent},\"name\":{},\"start_ns\":{start_ns},\"end_ns\":\
             {end},\"threads\":{threads}",
            quoted(name)
        );
        for (key, value) in [
            ("cpu_ns", usage.cpu_ns),
            ("queue_ns", usage.queue_ns),
            ("io_ns", usage.io_ns),
            ("io_waits", usage.io_waits),
            ("swap_ns", usage.swap_ns),
            ("reclaim_ns", usage.reclaim_ns),
            ("thrashing_ns", usage.thrashing_ns),
            ("read_bytes", usage.read_bytes),
            ("write_bytes", usage.write_bytes),
            ("read_calls", usage.read_calls),
            ("write_calls", usage.write_calls),
            ("minor_faults", usage.minor_faults),
            ("major_faults", usage.major_faults),
        ] {
            // Writing to a string does not fail.
            let _ = write!(out, ",\"{key}\":{value}");
        }
        out.push_str("}\n");
        out
    }
}

/// A string as JSON has it.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            control if control.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(pid: u32, process: u32, name: &str, elapsed_ns: u64, io_ns: u64) -> Task {
        let usage = Usage { io_ns, ..Usage::default() };
        Task { pid, process, parent: 1, name: name.into(), elapsed_ns, usage }
    }

    #[test]
    fn threads_are_one_process_that_ends_with_the_last() {
        let mut all = Processes::default();
        all.exited(&task(8, 7, "worker", 10, 3), 100);
        all.exited(&task(7, 7, "leader", 50, 4), 120);
        all.exited(&task(9, 7, "other", 5, 1), 110);
        let [(7, process)] = all.in_order()[..] else { panic!("{all:?}") };
        assert_eq!((process.name.as_str(), process.threads, all.exits), ("leader", 3, 3));
        assert_eq!((process.start_ns, process.end_ns, process.usage.io_ns), (70, Some(120), 8));
        all.lives(&task(10, 7, "late", 20, 0), 121);
        assert_eq!(all.in_order()[0].1.end_ns, None);
        assert_eq!([7, 8, 10, 11].map(|task| all.of_task(task)), [7, 7, 7, 11]);
    }

    #[test]
    fn what_was_used_before_the_recording_is_left_out() {
        let mut all = Processes::default();
        all.lived_before(&task(7, 7, "kthread", 90, 40));
        all.exited(&task(7, 7, "kthread", 100, 45), 100);
        all.exited(&task(7, 7, "another", 10, 45), 300);
        let delays: Vec<u64> = all.in_order().iter().map(|(_, one)| one.usage.io_ns).collect();
        assert_eq!(delays, [5, 45]);
    }

    #[test]
    fn the_first_parent_that_is_seen_is_kept() {
        let of =
            |pid: u32, process: u32, parent: u32| Task { parent, ..task(pid, process, "x", 50, 0) };
        let mut all = Processes::default();
        all.lived_before(&of(50, 50, 1));
        all.seen(&of(51, 51, 50));
        assert!(all.was_seen(51) && !all.was_seen(52));
        // Its starter ends, and process 1 takes it over; so is one whose thread ended before.
        all.exited(&of(53, 52, 50), 90);
        for pid in [50, 51, 52] {
            all.exited(&of(pid, pid, 1), 100);
        }
        // Nobody saw this one while its starter lived, and the number's first process is gone.
        assert!(!all.was_seen(51));
        all.lives(&of(51, 51, 7), 300);
        let found: Vec<_> = all.in_order().iter().map(|(pid, one)| (*pid, one.parent)).collect();
        assert_eq!(found, [(52, 50), (50, 1), (51, 50), (51, 7)]);
    }

    #[test]
    fn a_number_that_comes_again_is_another_process() {
        let mut all = Processes::default();
        all.exited(&task(7, 7, "first", 10, 1), 100);
        all.exited(&task(7, 7, "second", 10, 1), 300);
        let names: Vec<&str> = all.in_order().iter().map(|(_, one)| one.name.as_str()).collect();
        assert_eq!(names, ["first", "second"]);
    }

    #[test]
    fn a_line_is_json_whatever_the_name_is() {
        assert_eq!(quoted("a\"b\\c\n\u{7f}é"), "\"a\\\"b\\\\c\\u000a\\u007fé\"");
        let process = Process { name: "x".into(), start_ns: 5, ..Process::default() };
        let line = process.line(3);
        assert!(
            line.starts_with(
                "{\"pid\":3,\"parent\":0,\"name\":\"x\",\"start_ns\":5,\"end_ns\":null"
            )
        );
        assert!(line.ends_with("\"major_faults\":0}\n"));
    }
}
