//! What is looked at again and again: the stat of every process, as the paper does it, and, for
//! pictures, what every process has used so far.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::netlink::Taskstats;
use super::proc;
use super::processes::quoted;

/// A look is not followed by another for so many times what it took: on a slow machine the recorder
/// would be what is recorded.
const REST: u64 = 250;
/// But at most for so long: a picture of fewer looks shows nothing.
const REST_MAX_NS: u64 = 1_000_000_000;

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

    /// The look that was begun then is done, and took so much of the processor.
    fn rest(&mut self, began_ns: u64, cpu_ns: u64) {
        self.due_ns = self.due_ns.max(began_ns + (cpu_ns * REST).min(REST_MAX_NS));
    }
}

/// What this thread used of the processor so far.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
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
        let cpu_before = cpu_ns();
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
        self.every.rest(now_ns, cpu_ns() - cpu_before);
    }

    pub(super) fn lines(&self) -> String {
        let interval_ns = self.every.interval_ns;
        format!("{{\"slice_interval_ns\":{interval_ns}}}\n{}", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_takes_long_is_followed_by_a_longer_rest() {
        let mut every = Every::new(Duration::from_millis(20));
        assert!(every.is_due(5_000_000));
        every.rest(5_000_000, 50_000);
        assert_eq!(every.due_ns, 25_000_000);
        every.rest(5_000_000, 2_000_000);
        assert_eq!(every.due_ns, 505_000_000);
        every.rest(5_000_000, 20_000_000);
        assert_eq!(every.due_ns, 1_005_000_000);
    }
}
