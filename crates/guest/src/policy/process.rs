//! Programs, where their memory is, and how the kernel is told what to do with it.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::PAGE_BYTES;

/// In `/proc/PID/pagemap`: the page is in memory.
const PRESENT: u64 = 1 << 63;
/// The number of its frame, which only root is told.
const FRAME: u64 = (1 << 55) - 1;
/// In `/proc/kpageflags`: backed by swap, and there.
const SWAP_CACHE: u64 = 1 << 13 | 1 << 14;
/// Ranges that one call takes.
const RANGES_MAX: usize = 1024;
/// Pages whose state is read at once.
const PAGES_AT_ONCE: u64 = 1 << 14;

/// What a page is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// What `brk` gives.
    Heap,
    /// The first thread's stack.
    Stack,
    /// Private memory without a file.
    Anonymous,
    /// A private mapping of a file: code, constants, and what was changed of them.
    File,
    /// Memory or a file that several programs may have.
    Shared,
}

/// A part of a program's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mapping {
    start: u64,
    end: u64,
    pub(super) kind: Kind,
}

/// What the kernel is told of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Advice {
    /// Write them out, and take them from the program.
    PageOut,
    /// Fetch them.
    WillNeed,
}

/// A program that runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// When it began, in ticks since the boot.
    pub(super) start: u64,
    pub(super) name: String,
    /// Its control group, below the root's; empty for that.
    pub(super) group: String,
}

impl Process {
    /// All programs but this one, and but threads of the kernel.
    pub(super) fn all() -> Result<Vec<Process>, String> {
        let folders = fs::read_dir("/proc").map_err(|why| format!("/proc: {why}"))?;
        let pids = folders.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut found: Vec<Process> =
            pids.filter(|pid| *pid != std::process::id()).filter_map(Process::open).collect();
        found.sort_unstable_by_key(|process| process.pid);
        Ok(found)
    }

    /// `None` for what ended, and what has no memory of its own.
    fn open(pid: u32) -> Option<Process> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may have blanks and brackets in it.
        let (head, rest) = stat.rsplit_once(") ")?;
        let name = head.split_once('(')?.1.to_string();
        let start = rest.split(' ').nth(19)?.parse().ok()?;
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        let group = groups.lines().find_map(|line| line.strip_prefix("0::/"));
        let group = group.unwrap_or_default().to_string();
        let has_memory = fs::read(format!("/proc/{pid}/maps")).ok()?;
        (!has_memory.is_empty()).then_some(Process { pid, start, name, group })
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new("/proc").join(self.pid.to_string()).join(name)
    }

    /// Where the kernel is asked to reclaim memory of its control group; none for the root's,
    /// whose memory is that of the whole machine.
    pub(super) fn reclaim_file(&self) -> Option<PathBuf> {
        self.reclaim_file_below(Path::new("/sys/fs/cgroup"))
    }

    fn reclaim_file_below(&self, groups: &Path) -> Option<PathBuf> {
        let file = groups.join(&self.group).join("memory.reclaim");
        // Since Linux 5.19 the root's has the file, too.
        (!self.group.is_empty() && file.exists()).then_some(file)
    }

    /// The parts of its memory that can leave.
    pub(super) fn mappings(&self) -> Result<Vec<Mapping>, String> {
        let path = self.path("maps");
        let text = fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        Ok(text.lines().filter_map(mapping).collect())
    }

    /// The numbers of its pages that are in memory, rising, and whether each has a copy in swap.
    pub(super) fn present(&self, mapping: &Mapping) -> Result<Vec<(u64, bool)>, String> {
        let path = self.path("pagemap");
        let wrong = |why: io::Error| format!("{}: {why}", path.display());
        let file = File::open(&path).map_err(wrong)?;
        let flags = File::open("/proc/kpageflags").ok();
        let in_swap = |state: u64| {
            let (mut word, flags) = ([0; 8], flags.as_ref()?);
            flags.read_exact_at(&mut word, (state & FRAME) * 8).ok()?;
            Some(u64::from_ne_bytes(word) & SWAP_CACHE == SWAP_CACHE)
        };
        let mut found = Vec::new();
        let (mut next, end) = (mapping.start / PAGE_BYTES, mapping.end / PAGE_BYTES);
        let mut states = vec![0; (end - next).min(PAGES_AT_ONCE) as usize * 8];
        while next < end {
            let count = (end - next).min(PAGES_AT_ONCE);
            let states = &mut states[..count as usize * 8];
            file.read_exact_at(states, next * 8).map_err(wrong)?;
            let (words, _) = states.as_chunks::<8>();
            let states = words.iter().map(|word| u64::from_ne_bytes(*word));
            let present = (next..).zip(states).filter(|(_, state)| state & PRESENT != 0);
            found.extend(present.map(|(page, state)| (page, in_swap(state).unwrap_or(false))));
            next += count;
        }
        Ok(found)
    }

    /// Tell the kernel of ranges of addresses.
    pub(super) fn advise(&self, advice: Advice, ranges: &[(u64, u64)]) -> io::Result<()> {
        if ranges.is_empty() {
            return Ok(());
        }
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        let handle = pidfd_open(pid, PidfdFlags::empty())?;
        ranges.chunks(RANGES_MAX).try_for_each(|part| advise(&handle, advice, part))
    }

    /// Why it cannot be advised, as people are told.
    pub(super) fn told(&self, why: &io::Error) -> String {
        format!("program {} ({}): process_madvise: {why}", self.pid, self.name)
    }
}

fn advise(handle: &OwnedFd, advice: Advice, ranges: &[(u64, u64)]) -> io::Result<()> {
    let advice = match advice {
        Advice::PageOut => libc::MADV_PAGEOUT,
        Advice::WillNeed => libc::MADV_WILLNEED,
    };
    let mut vector: Vec<libc::iovec> = ranges
        .iter()
        .map(|(from, bytes)| libc::iovec {
            iov_base: std::ptr::without_provenance_mut(*from as usize),
            iov_len: *bytes as usize,
        })
        .collect();
    let mut rest = vector.as_mut_slice();
    while !rest.is_empty() {
        // SAFETY: the ranges are of another program; nothing of this one's memory is touched.
        let done = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                handle.as_raw_fd(),
                rest.as_ptr(),
                rest.len(),
                advice,
                0,
            )
        };
        let Ok(mut done) = usize::try_from(done) else {
            let why = io::Error::last_os_error();
            // A mapping that cannot be advised: on behind it.
            match why.raw_os_error() {
                Some(libc::EINVAL | libc::ENOMEM) => rest = &mut rest[1..],
                _ => return Err(why),
            }
            continue;
        };
        while let Some(first) = rest.first() {
            if first.iov_len > done {
                break;
            }
            done -= first.iov_len;
            rest = &mut rest[1..];
        }
        if done == 0 && !rest.is_empty() {
            rest = &mut rest[1..];
        }
    }
    Ok(())
}

/// A line of `/proc/PID/maps`; `None` for what cannot leave.
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let (rights, inode, name) = (words.next()?, words.nth(2)?, words.next().unwrap_or_default());
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let kind = match name {
        "[heap]" => Kind::Heap,
        "[stack]" => Kind::Stack,
        "[vdso]" | "[vvar]" | "[vsyscall]" => return None,
        _ if rights.ends_with('s') => Kind::Shared,
        _ if inode == "0" => Kind::Anonymous,
        _ => Kind::File,
    };
    Some(Mapping { start: number(start)?, end: number(end)?, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_told_apart() {
        let kind = |line: &str| mapping(line).map(|mapping| mapping.kind);
        let parsed = mapping("7f00-7f01 r-xp 00000000 fe:01 99 /a name").unwrap();
        assert_eq!(parsed, Mapping { start: 0x7f00, end: 0x7f01, kind: Kind::File });
        assert_eq!(kind("1000-2000 rw-p 00000000 00:00 0  [heap]"), Some(Kind::Heap));
        assert_eq!(kind("1000-2000 rw-p 00000000 00:00 0  [stack]"), Some(Kind::Stack));
        assert_eq!(kind("1000-2000 rw-p 00000000 00:00 0"), Some(Kind::Anonymous));
        assert_eq!(kind("1000-2000 rw-s 00000000 00:01 7 /dev/zero"), Some(Kind::Shared));
        assert_eq!(kind("1000-2000 r-xp 00000000 00:00 0  [vdso]"), None);
        assert_eq!(kind("no line"), None);
    }

    #[test]
    fn the_roots_control_group_is_not_reclaimed() {
        let folder = std::env::temp_dir().join(format!("blocklab-groups-{}", std::process::id()));
        let below = folder.join("a.slice");
        fs::create_dir_all(&below).unwrap();
        for group in [&folder, &below] {
            fs::write(group.join("memory.reclaim"), "").unwrap();
        }
        let found = |group: &str| {
            let process = Process { pid: 1, start: 1, name: "a".into(), group: group.into() };
            process.reclaim_file_below(&folder)
        };
        assert_eq!((found(""), found("none")), (None, None));
        assert_eq!(found("a.slice"), Some(below.join("memory.reclaim")));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_program_and_its_pages_are_found() {
        use std::io::{Read, Write};
        use std::process::Stdio;
        let mut cat = std::process::Command::new("cat");
        let mut child = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // It runs once it has answered.
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let found = Process::open(child.id()).unwrap();
        assert!(found.start > 0);
        let pages: Result<Vec<_>, _> =
            found.mappings().unwrap().iter().map(|mapping| found.present(mapping)).collect();
        let pages = pages.unwrap().concat();
        assert!(pages.len() > 4, "{pages:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(Process::all().unwrap().iter().all(|process| process.pid != std::process::id()));
    }
}
