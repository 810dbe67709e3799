//! What is looked at again and again: the stat of every process, as the paper does it, and, for
//! pictures, what every process has used so far.

use std::collections::BTreeMap;
use std::time::Duration;

use super::netlink::Taskstats;
use super::proc;
use super::processes::quoted;

/// When to look next.
struct Every {
    interval_ns: u64,
    due_ns: u64,
}

impl Every {
    fn new(interval: Duration) -> Every {
        Every { interval_ns: interval.as_nanos() as u64, due_ns: 0 }
    }

    /// True when it is time.
    fn is_due(&mut self, now_ns: u64) -> bool {
        let due = now_ns >= self.due_ns;
        if due {
            self.due_ns = now_ns + self.interval_ns;
        }
        due
    }
}

/// The paper's way: the line of each process in /proc, each interval.
pub(super) struct Sampler {
    every: Every,
    /// By number and start: the name, ticks of I/O delay, and how often it was seen.
    seen: BTreeMap<(u32, u64), (String, u64, u64)>,
    samples: u64,
}

impl Sampler {
    pub(super) fn every(interval: Duration) -> Sampler {
        Sampler { every: Every::new(interval), seen: BTreeMap::new(), samples: 0 }
    }

    pub(super) fn due_ns(&self) -> u64 {
        self.every.due_ns
    }

    pub(super) fn look(&mut self, now_ns: u64) {
        if !self.every.is_due(now_ns) {
            return;
        }
        self.samples += 1;
        for pid in proc::numbers("/proc") {
            let Some(stat) = proc::stat_of(&format!("/proc/{pid}")) else { continue };
            let known = self.seen.entry((pid, stat.start_ticks)).or_default();
            *known = (stat.name, stat.io_ticks, known.2 + 1);
        }
    }

    pub(super) fn lines(&self) -> String {
        let interval_ns = self.every.interval_ns;
        let mut out =
            format!("{{\"samples\":{},\"sample_interval_ns\":{interval_ns}}}\n", self.samples);
        for ((pid, start_ticks), (name, io_ticks, seen)) in &self.seen {
            out.push_str(&format!(
                "{{\"sampled\":{pid},\"name\":{},\"start_ticks\":{start_ticks},\"io_ticks\":\
                 {io_ticks},\"seen\":{seen}}}\n",
                quoted(name)
            ));
        }
        out
    }
}

/// What each process used in each interval.
pub(super) struct Slices {
    every: Every,
    /// Processor, run queue and I/O so far, by number.
    before: BTreeMap<u32, [u64; 3]>,
    text: String,
}

impl Slices {
    pub(super) fn every(interval: Duration) -> Slices {
        Slices { every: Every::new(interval), before: BTreeMap::new(), text: String::new() }
    }

    pub(super) fn due_ns(&self) -> u64 {
        self.every.due_ns
    }

    pub(super) fn look(&mut self, now_ns: u64, taskstats: &mut Taskstats) {
        if !self.every.is_due(now_ns) {
            return;
        }
        // What was used before the first look is left out.
        let first = self.before.is_empty();
        for pid in proc::numbers("/proc") {
            let Some(sums) = taskstats.process(pid) else { continue };
            let now = [sums.usage.cpu_ns, sums.usage.queue_ns, sums.usage.io_ns];
            let before = self.before.entry(pid).or_default();
            if now != *before {
                // Less than before: the number is another process's by now.
                let again = (0..3).any(|index| now[index] < before[index]);
                let base = if again { [0; 3] } else { *before };
                let [cpu, queue, io] = [0, 1, 2].map(|index| now[index] - base[index]);
                *before = now;
                if first {
                    continue;
                }
                self.text.push_str(&format!("{{\"slice\":[{now_ns},{pid},{cpu},{queue},{io}]}}\n"));
            }
        }
    }

    pub(super) fn lines(&self) -> String {
        let interval_ns = self.every.interval_ns;
        format!("{{\"slice_interval_ns\":{interval_ns}}}\n{}", self.text)
    }
}
