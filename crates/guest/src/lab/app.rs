//! A program in the lab's guest: memory that cannot be compressed, of which a part is worked with.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use resume::checksum;

use super::random;
use crate::{PAGE_BYTES, cycles};

/// The pages that are worked with lie in groups of so many.
const GROUP_PAGES: usize = 8;
/// Between two rounds of work, when it goes on by itself.
const PAUSE: Duration = Duration::from_millis(100);
/// Its control group.
const GROUP: &str = "/sys/fs/cgroup/program";

/// The verb `lab-program MIB HOT_MIB`: answers a line to each line that it is given.
pub(crate) fn verb(arguments: &[String]) -> Result<u8, String> {
    let number = |index: usize| -> Result<usize, String> {
        arguments.get(index).and_then(|text| text.parse().ok()).ok_or("expected MIB HOT_MIB".into())
    };
    let (mib, hot_mib) = (number(0)?, number(1)?);
    let memory = Arc::new(random(mib << 20)?);
    let hot = Arc::new(hot_groups(memory.len(), hot_mib << 20));
    for line in std::io::stdin().lines() {
        match line.map_err(|why| why.to_string())?.as_str() {
            "touch" => {
                let began = Instant::now();
                let (ran, start) = (ran_ns()?, cycles());
                let seen = touch(&memory, &hot);
                println!(
                    "pages={} cycles={} wall_ns={} ran_ns={} seen={seen:x}",
                    hot.len() * GROUP_PAGES,
                    cycles() - start,
                    began.elapsed().as_nanos(),
                    ran_ns()? - ran
                );
            }
            "work" => {
                let (memory, hot) = (memory.clone(), hot.clone());
                std::thread::spawn(move || {
                    loop {
                        touch(&memory, &hot);
                        std::thread::sleep(PAUSE);
                    }
                });
                println!("it works");
            }
            _ => println!("digest={:08x}", checksum(&memory)),
        }
    }
    Ok(0)
}

/// Where the groups begin that are worked with: by lot, in an order that is not theirs in memory.
fn hot_groups(bytes: usize, hot_bytes: usize) -> Vec<usize> {
    let group = GROUP_PAGES * PAGE_BYTES as usize;
    let groups = bytes / group;
    // Multiplying by a number without a common factor visits each group once.
    let step = (((groups * 5 / 8) | 1)..).find(|step| gcd(*step, groups.max(1)) == 1).unwrap_or(1);
    let count = (hot_bytes / group).min(groups);
    (0..count).map(|index| index * step % groups * group).collect()
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Read a word of each page of the groups.
fn touch(memory: &[u8], groups: &[usize]) -> u64 {
    let pages = |start: &usize| {
        let start = *start;
        (0..GROUP_PAGES).map(move |page| start + page * PAGE_BYTES as usize)
    };
    groups.iter().flat_map(pages).fold(0, |seen, at| {
        // SAFETY: the byte lies in the slice; volatile, so that it is read.
        seen ^ u64::from(unsafe { (&raw const memory[at]).read_volatile() })
    })
}

/// Time that this thread has computed.
fn ran_ns() -> Result<u64, String> {
    const PATH: &str = "/proc/thread-self/schedstat";
    let text = fs::read_to_string(PATH).map_err(|why| format!("{PATH}: {why}"))?;
    let first = text.split(' ').next().and_then(|word| word.parse().ok());
    first.ok_or_else(|| format!("{PATH}: `{text}`"))
}

/// The program, as the lab sees it.
pub(super) struct App {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl App {
    /// Start it, in a control group of its own.
    pub(super) fn start(mib: usize, hot_mib: usize) -> Result<App, String> {
        let wrong = |why: std::io::Error| format!("the lab's program: {why}");
        let mut command = Command::new("/proc/self/exe");
        command.args(["lab-program".to_string(), mib.to_string(), hot_mib.to_string()]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(wrong)?;
        let orders = child.stdin.take().expect("stdin is a pipe");
        let answers = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let told = |path: &str, why: std::io::Error| format!("{path}: {why}");
        let set = |path: String, text: String| fs::write(&path, text).map_err(|w| told(&path, w));
        set("/sys/fs/cgroup/cgroup.subtree_control".into(), "+memory".into())?;
        fs::create_dir(GROUP).map_err(|why| told(GROUP, why))?;
        set(format!("{GROUP}/cgroup.procs"), child.id().to_string())?;
        Ok(App { child, orders, answers })
    }

    /// Give it an order, and wait for its answer.
    pub(super) fn ask(&mut self, order: &str) -> Result<String, String> {
        let mut answer = String::new();
        let asked = writeln!(self.orders, "{order}");
        match asked.and_then(|()| self.answers.read_line(&mut answer)) {
            Ok(1..) => Ok(answer.trim().into()),
            _ => Err(self.why_it_ended()),
        }
    }

    fn why_it_ended(&mut self) -> String {
        match self.child.wait().map(|status| status.signal()) {
            // Nothing else kills it.
            Ok(Some(_)) => {
                "the kernel has killed the program that fills memory: there is too little \
                            of it; expected a larger --memory, or a smaller --fill"
                    .into()
            }
            _ => "the lab's program ended".into(),
        }
    }

    /// Pages that it had to wait for.
    pub(super) fn major_faults(&self) -> Result<u64, String> {
        let path = format!("/proc/{}/stat", self.child.id());
        let text = fs::read_to_string(&path).map_err(|why| format!("{path}: {why}"))?;
        let field = text.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(9));
        field.and_then(|word| word.parse().ok()).ok_or_else(|| format!("{path}: `{text}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_visited_once_and_not_in_order() {
        let mib = 1 << 20;
        let groups = hot_groups(150 * mib, 20 * mib);
        assert_eq!(groups.len(), 20 * mib / (8 * 4096));
        let mut sorted = groups.clone();
        sorted.sort_unstable();
        assert_ne!(sorted, groups);
        sorted.dedup();
        assert_eq!(sorted.len(), groups.len());
        assert!(sorted.iter().all(|at| at % (8 * 4096) == 0 && at + 8 * 4096 <= 150 * mib));
        assert_eq!(hot_groups(mib, 2 * mib).len(), 32);
        assert_eq!(hot_groups(0, mib), [0; 0]);
    }
}
