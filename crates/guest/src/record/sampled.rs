//! What is looked at again and again: the stat of every process, as the paper does it, and, for
//! pictures, what every process has used so far.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::netlink::Taskstats;
use super::proc;
use super::processes::{Processes, quoted};
use super::taskstats::{Task, Usage};

/// The recorder and its looks may take one part in so many of what all use of the processor: less
/// than 1 %, since some of what it does comes after the last look.
const PART: u64 = 115;
/// But it looks that often in any case: a picture of fewer looks shows nothing.
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
}

/// What the recorder may take of the processor.
struct Budget {
    /// When the recording began, and what the recorder had used until then.
    began_ns: u64,
    before_ns: u64,
    /// What all have used since, as far as the looks and the exits tell.
    all_ns: u64,
}

impl Budget {
    /// How long to rest after a look of `look_ns` of the processor, before another one like it, at
    /// a moment when the recorder has used `own_ns`: until all together will have used enough, if
    /// they go on as they did. That they do not is seen at the next look, and made up for.
    fn rest_ns(&self, now_ns: u64, own_ns: u64, look_ns: u64) -> u64 {
        let own_ns = own_ns.saturating_sub(self.before_ns) + look_ns;
        let lacks_ns = own_ns.saturating_mul(PART).saturating_sub(self.all_ns);
        let elapsed_ns = now_ns.saturating_sub(self.began_ns).max(1);
        let rest_ns =
            u128::from(lacks_ns) * u128::from(elapsed_ns) / u128::from(self.all_ns.max(1));
        rest_ns.min(u128::from(REST_MAX_NS)) as u64
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
    /// What they took of the processor.
    pub(super) cpu_ns: u64,
}

impl Sampler {
    pub(super) fn every(interval: Duration) -> Sampler {
        Sampler { every: Every::new(interval), seen: BTreeMap::new(), samples: 0, cpu_ns: 0 }
    }

    pub(super) fn due_ns(&self) -> u64 {
        self.every.due_ns
    }

    pub(super) fn look(&mut self, now_ns: u64) {
        if !self.every.is_due(now_ns) {
            return;
        }
        let before_ns = cpu_ns();
        self.samples += 1;
        for pid in proc::numbers("/proc") {
            let Some(stat) = proc::stat_of(&format!("/proc/{pid}")) else { continue };
            let known = self.seen.entry((pid, stat.start_ticks)).or_default();
            *known = (stat.name, stat.io_ticks, known.2 + 1);
        }
        self.cpu_ns += cpu_ns() - before_ns;
    }

    pub(super) fn lines(&self) -> String {
        let interval_ns = self.every.interval_ns;
        let Sampler { samples, cpu_ns, seen, .. } = self;
        let mut out = format!(
            "{{\"samples\":{samples},\"sample_interval_ns\":{interval_ns},\"samples_cpu_ns\":\
             {cpu_ns}}}\n"
        );
        for ((pid, start_ticks), (name, io_ticks, seen)) in seen {
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
    budget: Budget,
    looks: u64,
    looks_ns: u64,
    text: String,
}

impl Slices {
    /// With a first look, for what was used before.
    pub(super) fn every(interval: Duration, taskstats: &mut Taskstats) -> Slices {
        let mut slices = Slices {
            every: Every::new(interval),
            before: BTreeMap::new(),
            budget: Budget { began_ns: 0, before_ns: 0, all_ns: 0 },
            looks: 0,
            looks_ns: 0,
            text: String::new(),
        };
        slices.differences(taskstats, |_, _| {});
        slices
    }

    /// The recording begins.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.budget = Budget { began_ns: now_ns, before_ns: cpu_ns(), all_ns: 0 };
        self.every.due_ns = now_ns + self.every.interval_ns;
    }

    pub(super) fn due_ns(&self) -> u64 {
        self.every.due_ns
    }

    /// A task ended. What it used since the last look is not counted where it was seen by one.
    pub(super) fn exited(&mut self, task: &Task) {
        if !self.before.contains_key(&task.process) {
            self.budget.all_ns += task.usage.cpu_ns;
        }
    }

    /// `samples_ns` of the processor went to samples: they take what they take.
    /// Parents are told to `processes`.
    pub(super) fn look(
        &mut self,
        now_ns: u64,
        samples_ns: u64,
        taskstats: &mut Taskstats,
        processes: &mut Processes,
    ) {
        if !self.every.is_due(now_ns) {
            return;
        }
        let cpu_before = cpu_ns();
        let (mut text, mut all_ns) = (std::mem::take(&mut self.text), 0);
        let mut pids = self.differences(taskstats, |pid, [cpu, queue, io]| {
            all_ns += cpu;
            // Writing to a string does not fail.
            let _ = writeln!(text, "{{\"slice\":[{now_ns},{pid},{cpu},{queue},{io}]}}");
        });
        self.text = text;
        // What is told of a whole process does not name its parent.
        pids.retain(|&pid| !processes.was_seen(pid));
        taskstats.threads(&pids).iter().flatten().for_each(|task| processes.seen(task));
        self.budget.all_ns += all_ns;
        let own_ns = cpu_ns();
        let look_ns = own_ns - cpu_before;
        self.looks += 1;
        self.looks_ns += look_ns;
        let rest_ns = self.budget.rest_ns(now_ns, own_ns.saturating_sub(samples_ns), look_ns);
        self.every.due_ns = now_ns + rest_ns.max(self.every.interval_ns);
    }

    /// What each process used since the look before; which there are.
    fn differences(
        &mut self,
        taskstats: &mut Taskstats,
        mut tell: impl FnMut(u32, [u64; 3]),
    ) -> Vec<u32> {
        let pids = proc::numbers("/proc");
        for (pid, sums) in pids.iter().zip(taskstats.processes(&pids)) {
            let Some(Usage { cpu_ns, queue_ns, io_ns, .. }) = sums.map(|sums| sums.usage) else {
                continue;
            };
            let now = [cpu_ns, queue_ns, io_ns];
            let before = self.before.entry(*pid).or_default();
            if now != *before {
                // Less than before: the number is another process's by now.
                let again = (0..3).any(|index| now[index] < before[index]);
                let base = if again { [0; 3] } else { *before };
                *before = now;
                tell(*pid, [0, 1, 2].map(|index| now[index] - base[index]));
            }
        }
        pids
    }

    pub(super) fn lines(&self) -> String {
        let Slices { looks, looks_ns, text, every, .. } = self;
        let interval_ns = every.interval_ns;
        format!(
            "{{\"slice_interval_ns\":{interval_ns},\"looks\":{looks},\"looks_cpu_ns\":\
             {looks_ns}}}\n{text}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_waits_until_all_have_used_enough_for_it() {
        let budget = |all_ns| Budget { began_ns: 1000, before_ns: 50_000, all_ns };
        // 100 us and a look of 20 us are paid by 13.8 ms of all.
        let rest = |all_ns| budget(all_ns).rest_ns(20_001_000, 150_000, 20_000);
        assert_eq!(rest(13_800_000), 0);
        assert_eq!(rest(50_000_000), 0);
        // Half of that in 20 ms: it takes 20 ms more.
        assert_eq!(rest(6_900_000), 20_000_000);
        // All wait: a picture goes on.
        assert_eq!(rest(1000), REST_MAX_NS);
        assert_eq!(rest(0), REST_MAX_NS);
    }
}
