//! What /proc says of processes.

use std::fs;

/// What the paper's way reads of a process: a line of `/proc/PID/stat`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stat {
    /// Its name.
    pub name: String,
    /// One letter: R runs, S sleeps, D waits, Z has ended.
    pub state: char,
    /// Ticks since boot when it started.
    pub start_ticks: u64,
    /// Ticks that it waited for block devices (field 42).
    pub io_ticks: u64,
}

/// Read a line of `/proc/PID/stat`; a name may have blanks and brackets in it.
pub fn stat(text: &str) -> Option<Stat> {
    let (open, close) = (text.find('(')?, text.rfind(')')?);
    let name = text.get(open + 1..close)?.to_string();
    let fields: Vec<&str> = text.get(close + 1..)?.split_whitespace().collect();
    // The first after the name is field 3.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let state = fields.first()?.chars().next()?;
    Some(Stat { name, state, start_ticks: number(22)?, io_ticks: number(42)? })
}

/// A value of `/proc/stat`, such as `processes`: forks since boot.
pub fn counter(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

/// Forks since boot.
pub(super) fn forks() -> u64 {
    counter(&fs::read_to_string("/proc/stat").unwrap_or_default(), "processes").unwrap_or(0)
}

/// Processors that tasks may run on.
pub(super) fn processors() -> usize {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let of_one = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    text.lines().filter(of_one).count()
}

/// Numbers of the folders in `path` that have one for a name, in order.
pub(super) fn numbers(path: &str) -> Vec<u32> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut all: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    all.sort_unstable();
    all
}

/// The line of a process, or of a thread of one.
pub(super) fn stat_of(path: &str) -> Option<Stat> {
    stat(&fs::read_to_string(format!("{path}/stat")).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whatever_the_name_is() {
        let line = "61 ((sd) pam 1) S 1 61 61 0 -1 4194624 68 0 3 0 1 2 0 0 20 0 1 0 574 170 85 \
                    18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 0 0 0 42 0 0 0 0\n";
        let stat = stat(line).unwrap();
        assert_eq!((stat.name.as_str(), stat.state), ("(sd) pam 1", 'S'));
        assert_eq!((stat.start_ticks, stat.io_ticks), (574, 42));
        for wrong in ["", "1 (a", "1 (a) S 1", ")(", "1 (a) S x x x x"] {
            assert_eq!(super::stat(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_counter_is_found_by_its_whole_name() {
        let text = "cpu 1\nprocesses_more 3\nprocesses 812\nprocs_running 1\n";
        assert_eq!(counter(text, "processes"), Some(812));
        assert_eq!(counter(text, "procs"), None);
    }
}
