//! The CPU time that a guest takes of this machine. It costs the guest no virtual time, so it says
//! how far a result may be off.

use rustix::process::Pid;

/// CPU time of a guest's processes, at the moments that matter.
#[derive(Default)]
pub(super) struct FreeCpu {
    /// The guest's process group.
    pub(super) group: Option<Pid>,
    /// Seconds since its boot at the program's start and at its end.
    marks_s: [Option<f64>; 2],
}

impl FreeCpu {
    /// The program begins (0) or has ended (1); what comes later is not looked at.
    pub(super) fn mark(&mut self, which: usize) {
        if let Some(mark) = self.marks_s.get_mut(which) {
            *mark = self.group.map(seconds_of);
        }
    }

    /// Seconds since its boot.
    pub(super) fn so_far_s(&self) -> f64 {
        self.group.map_or(0.0, seconds_of)
    }

    /// Seconds while the program ran.
    pub(super) fn seconds(&self) -> Option<f64> {
        let [began, ended] = self.marks_s;
        Some(ended? - began?)
    }
}

/// CPU seconds of a group's processes, and of the ended ones that they waited for.
fn seconds_of(group: Pid) -> f64 {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let texts = processes.filter_map(|entry| std::fs::read(entry.path().join("stat")).ok());
    let of_group = |text: Vec<u8>| ticks(&String::from_utf8_lossy(&text), group);
    let ticks: u64 = texts.filter_map(of_group).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// User's and system's time, own and of children, in the text of `/proc/<process>/stat`; `None`
/// when it is of another group.
fn ticks(text: &str, group: Pid) -> Option<u64> {
    // The name may have blanks and brackets in it.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let is_of_group = fields.get(2)?.parse() == Ok(group.as_raw_nonzero().get());
    is_of_group.then(|| fields.get(11..15)?.iter().map(|word| word.parse::<u64>().ok()).sum())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_a_group_are_found_behind_any_name() {
        let text = "12 (a b) c) S 1 77 77 0 -1 4194560 160 0 0 0 5 6 70 800 20 0 1 0 99 8 9";
        assert_eq!(ticks(text, Pid::from_raw(77).unwrap()), Some(881));
        assert_eq!(ticks(text, Pid::from_raw(78).unwrap()), None);
        assert_eq!(ticks("12 (sh) S 1 77", Pid::from_raw(77).unwrap()), None);
    }

    #[test]
    fn a_group_that_computes_takes_time() {
        let mut cpu = FreeCpu { group: Some(rustix::process::getpgrp()), ..FreeCpu::default() };
        cpu.mark(0);
        assert_eq!(cpu.seconds(), None);
        let mut turns = 0u64;
        while cpu.seconds().unwrap_or(0.0) < 0.02 {
            (0..1_000_000).for_each(|_| turns = std::hint::black_box(turns + 1));
            cpu.mark(1);
        }
    }
}
