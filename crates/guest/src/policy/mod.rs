//! Which pages leave memory before an image is made of the rest: one policy a file and a line.
//!
//! What leaves goes to swap while all programs stand still: `MADV_PAGEOUT` writes a page and leaves
//! its copy in the swap cache, which would be in the image; reclaiming as much from the program's
//! control group drops just those copies, because they are the first that the kernel looks at.

mod age;
mod all_out;
mod everything;
mod group;
mod kernel;
mod kind;
mod prefetch;
mod process;
mod program;
mod random;
mod record;
mod record_file;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::PAGE_BYTES;
use process::{Advice, Kind, Process};
use record_file::RecordFile;

/// A page of a program that is in memory.
pub(crate) struct Page<'a> {
    /// The program's name.
    program: &'a str,
    /// Its control group, below the root's.
    group: &'a str,
    /// What it is for.
    kind: Kind,
    /// Its address over the size of a page.
    number: u64,
    /// Was it touched since an earlier resume?
    touched: bool,
}

/// A choice.
pub(crate) trait Policy {
    /// Does this page leave?
    fn leaves(&self, page: &Page) -> bool;

    /// What the kernel shall reclaim memory down to by its own choice, if it shall.
    fn kernel_bytes(&self) -> Option<u64> {
        None
    }

    /// Are touched pages fetched as soon as the machine is back?
    fn fetches(&self) -> bool {
        false
    }

    /// How long does it watch programs before they stand still, if it does? What they did not touch
    /// meanwhile leaves.
    fn watches(&self) -> Option<Duration> {
        None
    }

    /// Does it have to know what earlier resumes touched?
    fn learns(&self) -> bool {
        false
    }
}

/// What follows the name of a policy, behind a colon.
type Make = fn(Option<&str>) -> Result<Box<dyn Policy>, String>;

/// The policies, one file and one line each.
const POLICIES: [(&str, &str, Make); 10] = [
    ("everything", "all pages are in the image", everything::make),
    ("kernel", "what the kernel takes back when asked for BYTES [default: 0]", kernel::make),
    ("all-out", "no page of a program is in the image", all_out::make),
    ("program", "those of the programs NAME,... leave", program::make),
    ("group", "those of the control groups NAME,... and below leave", group::make),
    ("kind", "those of a kind leave: heap, stack, anonymous, file, shared", kind::make),
    ("record", "what earlier resumes touched stays, the rest leaves", record::make),
    ("prefetch", "all leave; what earlier resumes touched is fetched at once", prefetch::make),
    ("age", "what no program touched in the last SECONDS leaves [default: 10]", age::make),
    ("random", "this share of the pages leaves, by lot", random::make),
];

/// Make the policy that `text` names.
pub(crate) fn find(text: &str) -> Result<Box<dyn Policy>, String> {
    let (name, argument) = match text.split_once(':') {
        Some((name, argument)) => (name, Some(argument)),
        None => (text, None),
    };
    match POLICIES.iter().find(|(known, ..)| *known == name) {
        Some((.., make)) => make(argument).map_err(|why| format!("--policy {text}: {why}")),
        None => Err(format!("--policy {text}: expected one of\n{}", help())),
    }
}

/// The policies, a line each.
pub(crate) fn help() -> String {
    POLICIES.map(|(name, does, _)| format!("  {name:11} {does}\n")).concat()
}

fn no_argument(argument: Option<&str>) -> Result<(), String> {
    argument.map_or(Ok(()), |_| Err("expected nothing behind its name".into()))
}

/// What left.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Left {
    /// Pages that were told to leave.
    pub(crate) pages: u64,
    /// Pages of programs that stayed.
    pub(crate) kept: u64,
}

/// What a policy that learns knows from earlier suspends, and where it is kept.
#[derive(Default)]
pub(crate) struct Known {
    record: RecordFile,
    path: Option<PathBuf>,
}

impl Known {
    /// Read it from the file `record`. That is not to be done while programs stand still: one may
    /// serve the file.
    pub(crate) fn read(policy: &dyn Policy, record: Option<&Path>) -> Result<Known, String> {
        let Some(path) = record.filter(|_| policy.learns()) else { return Ok(Known::default()) };
        Ok(Known { record: RecordFile::read(path)?, path: Some(path.into()) })
    }

    /// Can it be written, too, where it is kept?
    pub(crate) fn check_kept(&self) -> Result<(), String> {
        self.path.as_ref().map_or(Ok(()), |path| self.record.write(path))
    }

    /// What is to be done after a suspend that no program was there for.
    #[cfg(test)]
    pub(crate) fn learnt_nothing(&self) -> After {
        let learnt = self.path.clone().map(|path| (RecordFile::default(), path));
        After { learnt, ..After::default() }
    }
}

/// What is to be done when programs run again.
#[derive(Default)]
pub(crate) struct After {
    fetch: Fetch,
    learnt: Option<(RecordFile, PathBuf)>,
}

impl After {
    /// Ask for what is fetched at once; the kernel reads while programs run.
    pub(crate) fn fetch(&self) {
        if let Some(why) = self.fetch.ask(|process, pages| process.advise(Advice::WillNeed, pages))
        {
            crate::warn(format!("what programs had worked with comes when they ask for it: {why}"));
        }
    }

    /// Keep what was learnt for the next suspend.
    pub(crate) fn keep(&self) {
        let Some((learnt, path)) = &self.learnt else { return };
        if let Err(why) = learnt.write(path) {
            crate::warn(format!("the next suspend does not know what was touched: {why}"));
        }
    }
}

/// Pages that are fetched after the resume.
#[derive(Default)]
struct Fetch(Vec<(Process, Vec<u64>)>);

impl Fetch {
    /// `ask` for the pages of each program; why the first of those that live cannot have them.
    fn ask(
        &self,
        mut ask: impl FnMut(&Process, &[(u64, u64)]) -> io::Result<()>,
    ) -> Option<String> {
        let mut first = None;
        for (process, pages) in &self.0 {
            match ask(process, &ranges(pages.iter().copied())) {
                // It ended since the resume, and the others wait.
                Err(why) if why.raw_os_error() == Some(libc::ESRCH) => {}
                Err(why) => first = first.or_else(|| Some(process.told(&why))),
                Ok(()) => {}
            }
        }
        first
    }
}

/// Watch the programs while they run, if the policy does that.
pub(crate) fn watch(policy: &dyn Policy) -> Result<(), String> {
    if let Some(time) = policy.watches() {
        age::begin()?;
        std::thread::sleep(time);
    }
    Ok(())
}

/// Let the pages leave that the policy chooses. All programs stand still.
pub(crate) fn swap_out(policy: &dyn Policy, known: &Known) -> Result<(Left, After), String> {
    let (mut left, mut fetch, mut learnt) = (Left::default(), Vec::new(), RecordFile::default());
    let mut reclaim: BTreeMap<PathBuf, u64> = BTreeMap::new();
    if policy.watches().is_some() {
        left.pages = age::evict()?;
    }
    for process in Process::all()? {
        let Some(group) = process.reclaim_file() else { continue };
        let Choice { hot, cold, touched, kept, in_swap } = choose(policy, &known.record, &process)?;
        // Copies in swap that nobody has: read ahead of an earlier demand.
        let spare = reclaim.entry(group).or_insert_with_key(|group| swap_cached(group));
        *spare = spare.saturating_sub(in_swap * PAGE_BYTES);
        // Those that come back together lie together.
        for pages in [&hot, &cold] {
            let told = process.advise(Advice::PageOut, &ranges(pages.iter().copied()));
            told.map_err(|why| process.told(&why))?;
        }
        left.kept += kept;
        left.pages += (hot.len() + cold.len()) as u64;
        *spare += (hot.len() + cold.len()) as u64 * PAGE_BYTES;
        learnt.add(&process, &touched, hot.iter().chain(&cold).copied());
        if policy.fetches() && !hot.is_empty() {
            fetch.push((process, hot));
        }
    }
    for (file, bytes) in reclaim.iter().filter(|(_, bytes)| **bytes > 0) {
        // The kernel says so when it found less; what counts is what the image has in the end.
        let _ = fs::write(file, bytes.to_string());
    }
    // It is in the image, and is written when programs run: the file may lie on a disk that the
    // image believes unchanged, and a program may serve it.
    let learnt = known.path.clone().map(|path| (learnt, path));
    Ok((left, After { fetch: Fetch(fetch), learnt }))
}

/// What would leave now, while programs run.
pub(crate) fn would_leave(policy: &dyn Policy, known: &Known) -> Result<Left, String> {
    let mut left = Left::default();
    for process in Process::all()?.iter().filter(|process| process.reclaim_file().is_some()) {
        // One that ends meanwhile has no pages.
        let choice = choose(policy, &known.record, process).unwrap_or_default();
        left.pages += (choice.hot.len() + choice.cold.len()) as u64;
        left.kept += choice.kept;
    }
    Ok(left)
}

/// Which pages of a program leave.
#[derive(Default)]
struct Choice {
    /// Those that were touched after an earlier resume, and the others.
    hot: Vec<u64>,
    cold: Vec<u64>,
    /// All that were touched.
    touched: Vec<u64>,
    /// How many stay.
    kept: u64,
    /// How many have a copy in swap already.
    in_swap: u64,
}

fn choose(policy: &dyn Policy, known: &RecordFile, process: &Process) -> Result<Choice, String> {
    let mut choice = Choice::default();
    for mapping in process.mappings()? {
        for (number, in_swap) in process.present(&mapping)? {
            choice.in_swap += u64::from(in_swap);
            let touched = known.was_touched(process, number);
            let Process { name: program, group, .. } = process;
            let page = Page { program, group, kind: mapping.kind, number, touched };
            if touched {
                choice.touched.push(number);
            }
            match policy.leaves(&page) {
                true if touched => choice.hot.push(number),
                true => choice.cold.push(number),
                false => choice.kept += 1,
            }
        }
    }
    Ok(choice)
}

/// Bytes of a control group that are in memory and in swap.
fn swap_cached(reclaim_file: &Path) -> u64 {
    let text = fs::read_to_string(reclaim_file.with_file_name("memory.stat")).unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("swapcached "));
    count.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Pages in rising order as ranges of addresses: first byte, and how many.
fn ranges(pages: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for page in pages {
        match ranges.last_mut() {
            Some((from, bytes)) if *from + *bytes == page * PAGE_BYTES => *bytes += PAGE_BYTES,
            _ => ranges.push((page * PAGE_BYTES, PAGE_BYTES)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaving(policy: &str) -> Vec<u64> {
        let policy = find(policy).unwrap();
        let page = |number: u64| Page {
            program: if number < 50 { "one" } else { "two" },
            group: ["a", "a/b", "ab", "c"][number as usize % 4],
            kind: if number.is_multiple_of(2) { Kind::Heap } else { Kind::File },
            number,
            touched: number < 10,
        };
        (0..100).filter(|number| policy.leaves(&page(*number))).collect()
    }

    #[test]
    fn each_policy_chooses_as_it_says() {
        assert_eq!(leaving("everything"), [0; 0]);
        assert_eq!(leaving("kernel:4096"), [0; 0]);
        assert_eq!(find("kernel:4096").unwrap().kernel_bytes(), Some(4096));
        assert_eq!(leaving("age"), [0; 0]);
        assert_eq!(find("age:3").unwrap().watches(), Some(Duration::from_secs(3)));
        assert_eq!(leaving("all-out").len(), 100);
        assert_eq!(leaving("program:two,three"), (50..100).collect::<Vec<u64>>());
        let below = |number: &u64| number % 4 < 2;
        assert_eq!(leaving("group:/a"), (0..100).filter(below).collect::<Vec<u64>>());
        assert_eq!(leaving("group:a/b,c").len(), 50);
        assert_eq!(leaving("kind:heap"), (0..100).step_by(2).collect::<Vec<u64>>());
        assert_eq!(leaving("record"), (10..100).collect::<Vec<u64>>());
        assert_eq!(leaving("prefetch").len(), 100);
        assert!(find("prefetch").unwrap().fetches());
        let some = leaving("random:0.75");
        assert!((60..90).contains(&some.len()), "{some:?}");
        assert_eq!(some, leaving("random:0.75"), "by lot, but the same");
    }

    #[test]
    fn what_is_no_policy_is_told() {
        for (text, why) in [
            ("lru", "expected one of\n  everything"),
            ("record:1", "expected nothing behind its name"),
            ("random:2", "expected a share from 0 to 1"),
            ("random", "expected a share from 0 to 1"),
            ("kernel:x", "expected a number of bytes"),
            ("age:0", "expected seconds from 1 to 3600"),
            ("kind:heaps", "expected heap, stack"),
            ("program:", "expected names of programs"),
            ("group:a,/", "expected control groups"),
        ] {
            let told = find(text).err().unwrap();
            assert!(told.starts_with(&format!("--policy {text}: ")), "{told}");
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn a_program_that_ended_keeps_no_other_waiting() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let process = |pid: u32| Process { pid, start: 9, name: "x".into(), group: String::new() };
        // It is gone, and the kernel says so.
        let why = process(child.id()).advise(Advice::WillNeed, &[(4096, 4096)]).unwrap_err();
        assert_eq!(why.raw_os_error(), Some(libc::ESRCH), "{why}");
        let fetch = Fetch([child.id(), 7, 8, 9].map(|pid| (process(pid), vec![1, 2])).into());
        let mut asked = Vec::new();
        let told = fetch.ask(|process, pages| {
            asked.push((process.pid, pages.to_vec()));
            match process.pid {
                7 | 9 => Err(io::Error::from_raw_os_error(libc::EPERM)),
                8 => Ok(()),
                _ => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            }
        });
        assert_eq!(asked, [child.id(), 7, 8, 9].map(|pid| (pid, vec![(4096, 8192)])));
        // The first that lives is told, once.
        assert!(told.unwrap().starts_with("program 7 (x): process_madvise: "));
        assert_eq!(Fetch::default().ask(|_, _| Ok(())), None);
    }

    #[test]
    fn pages_in_a_row_are_one_range() {
        let found = ranges([1, 2, 3, 7, 9, 10].into_iter());
        assert_eq!(found, [(4096, 12288), (28672, 4096), (36864, 8192)]);
    }
}
