//! Which task had which file read: the kernel's tracer says when a page of a file comes into
//! memory. The recorder has a buffer of the tracer for itself, and reads it when all is over.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::processes::quoted;
use crate::read_ahead::Inode;

/// The tracer is mounted here: the boot mounts its own where it likes.
const TRACER: &str = "/run/blocklab-tracing";
const BUFFER: &str = "instances/blocklab";
const EVENT: &str = "mm_filemap_add_to_page_cache";
/// For each processor; some 100,000 pages.
const BUFFER_KIB: &str = "8192";
const PAGE_BYTES: u64 = 4096;

/// A task, (major, minor) of a device, and an inode.
pub type Part = (u32, (u32, u32), u64);

/// Bytes that came into memory.
pub type Read = BTreeMap<Part, u64>;

/// The kernel writes down what comes into memory.
pub(super) struct Files {
    buffer: PathBuf,
}

impl Files {
    /// From now on.
    pub(super) fn begin() -> Result<Files, String> {
        let wrong = |why: std::io::Error| {
            format!("the kernel's tracer at {TRACER}: {why}; it needs CONFIG_TRACING, and root")
        };
        fs::create_dir_all(TRACER).map_err(wrong)?;
        mount("tracefs", TRACER, "tracefs", MountFlags::empty(), None)
            .map_err(|why| wrong(why.into()))?;
        let files = Files { buffer: Path::new(TRACER).join(BUFFER) };
        fs::create_dir_all(&files.buffer).map_err(wrong)?;
        fs::write(files.buffer.join("buffer_size_kb"), BUFFER_KIB).map_err(wrong)?;
        // Who, which the buffer of a queue that is recorded beside it has switched off for all.
        fs::write(files.buffer.join("options/context-info"), "1").map_err(wrong)?;
        files.switch("1").map_err(wrong)?;
        Ok(files)
    }

    fn switch(&self, value: &str) -> std::io::Result<()> {
        fs::write(self.buffer.join("events/filemap").join(EVENT).join("enable"), value)
    }

    /// What came until now; an error where some of it did not fit.
    pub(super) fn end(self) -> Result<Read, String> {
        let wrong = |why: std::io::Error| format!("the kernel's tracer: {why}");
        self.switch("0").map_err(wrong)?;
        let (mut all, mut lost) = (Read::new(), false);
        let text = BufReader::new(File::open(self.buffer.join("trace")).map_err(wrong)?);
        for line in text.split(b'\n') {
            let line = line.map_err(wrong)?;
            let line = String::from_utf8_lossy(&line);
            lost |= is_short(&line);
            if let Some((key, bytes)) = page(&line) {
                *all.entry(key).or_default() += bytes;
            } else if line.contains(EVENT) {
                return Err(format!("files by process: the kernel's tracer says `{line}`"));
            }
        }
        if lost {
            return Err("files by process: the kernel's buffer was too small".into());
        }
        Ok(all)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // What is left of it costs memory, and nothing else.
        let _ = fs::remove_dir(&self.buffer);
        let _ = unmount(TRACER, UnmountFlags::DETACH);
    }
}

/// The line of the tracer's head that says that the buffer has less than was written.
fn is_short(line: &str) -> bool {
    let counts = line.strip_prefix("# entries-in-buffer/entries-written: ");
    let counts = counts.and_then(|rest| rest.split_whitespace().next()?.split_once('/'));
    counts.is_some_and(|(held, written)| held != written)
}

/// A line of the tracer: `NAME-TASK [CPU] FLAGS TIME: EVENT: dev MAJOR:MINOR ino HEX ... order=N`.
pub fn page(line: &str) -> Option<(Part, u64)> {
    let (head, rest) = line.split_once(EVENT)?;
    // A name may have blanks, hyphens and brackets in it.
    let (task, _) = head.rsplit_once(" [")?;
    let task = task.trim_end().rsplit_once('-')?.1.parse().ok()?;
    let mut words = rest.strip_prefix(": dev ")?.split_whitespace();
    let (major, minor) = words.next()?.split_once(':')?;
    let device = (major.parse().ok()?, minor.parse().ok()?);
    let inode = words.nth(1).and_then(|word| u64::from_str_radix(word, 16).ok())?;
    // Before 6.2 it is not said; a page is one.
    let order = words.find_map(|word| word.strip_prefix("order="));
    let order: u32 = order.map_or(Some(0), |order| order.parse().ok())?;
    Some(((task, device, inode), PAGE_BYTES.checked_shl(order).filter(|_| order < 20)?))
}

/// Lines of the record: bytes by process and file, most first. What is no file of `names` is the
/// file system's own: folders, tables, its journal.
pub(super) fn lines(
    read: &Read,
    names: &BTreeMap<Inode, String>,
    process_of: impl Fn(u32) -> u32,
) -> String {
    let mut all = BTreeMap::<(u32, Option<&str>), u64>::new();
    for ((task, device, inode), bytes) in read {
        let name = names.get(&(*device, *inode)).map(String::as_str);
        *all.entry((process_of(*task), name)).or_default() += bytes;
    }
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_by_key(|&(key, bytes)| (Reverse(bytes), key));
    let line = |((process, name), bytes): ((u32, Option<&str>), u64)| {
        let name = name.map_or("null".into(), quoted);
        format!("{{\"read_by\":{process},\"bytes\":{bytes},\"of\":{name}}}\n")
    };
    all.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_known_by_its_task_device_and_inode() {
        let line = "  (sd) a-b [x]-61      [000] .....     0.071923: mm_filemap_add_to_page_cache: \
                    dev 98:0 ino 1a2b pfn=0x1f ofs=4096";
        let key = (61, (98, 0), 0x1a2b);
        assert_eq!(page(line), Some((key, 4096)));
        assert_eq!(page(&format!("{line} order=2")), Some((key, 16384)));
        for wrong in ["order=x", "order=64"] {
            assert_eq!(page(&format!("{line} {wrong}")), None, "{wrong}");
        }
        for cut in 0..line.len() - " pfn=0x1f ofs=4096".len() - 4 {
            assert_eq!(page(&line[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn bytes_are_summed_by_process_and_file() {
        let device = (98, 0);
        let read = Read::from([
            ((7, device, 5), 4096),
            ((8, device, 5), 8192),
            ((7, device, 6), 4096),
            ((9, (0, 3), 5), 4096),
        ]);
        let names = BTreeMap::from([((device, 5), "/a \"b\"".to_string())]);
        let told = lines(&read, &names, |task| if task == 8 { 7 } else { task });
        let expected = concat!(
            "{\"read_by\":7,\"bytes\":12288,\"of\":\"/a \\\"b\\\"\"}\n",
            "{\"read_by\":7,\"bytes\":4096,\"of\":null}\n",
            "{\"read_by\":9,\"bytes\":4096,\"of\":null}\n",
        );
        assert_eq!(told, expected);
    }

    #[test]
    fn a_buffer_that_was_too_small_is_seen() {
        assert!(is_short("# entries-in-buffer/entries-written: 140080/250280   #P:4"));
        assert!(!is_short("# entries-in-buffer/entries-written: 14/14   #P:1"));
        assert!(!is_short("# tracer: nop"));
    }
}
