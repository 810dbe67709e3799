//! What is known from one suspend to the next: which pages left, and which were touched.
//!
//! A line for each program: `PID START left|touched PAGE+COUNT ...`, in hexadecimal pages. START
//! tells a process from another one with its number.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::process::Process;
use super::ranges;
use crate::PAGE_BYTES;

const MAGIC: &str = "blocklab pages 1";
/// Longest file: a program of 64 GiB with every other page.
const BYTES_MAX: u64 = 256 << 20;

type Pages = BTreeMap<(u32, u64), BTreeSet<u64>>;

/// What is known of each program.
#[derive(Default, PartialEq, Debug)]
pub(super) struct RecordFile {
    left: Pages,
    touched: Pages,
}

impl RecordFile {
    /// Read it; nothing is known when it is not there.
    pub(super) fn read(path: &Path) -> Result<RecordFile, String> {
        let wrong = |why: String| format!("{}: {why}", path.display());
        match fs::metadata(path) {
            Ok(found) if found.len() > BYTES_MAX => {
                return Err(wrong(format!("{} bytes: expected a record of pages", found.len())));
            }
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => {
                return Ok(RecordFile::default());
            }
            _ => {}
        }
        let text = fs::read_to_string(path).map_err(|why| wrong(why.to_string()))?;
        RecordFile::parse(&text).map_err(wrong)
    }

    fn parse(text: &str) -> Result<RecordFile, String> {
        let mut lines = text.lines().enumerate();
        if lines.next().map(|(_, line)| line) != Some(MAGIC) {
            return Err(format!("line 1: expected `{MAGIC}`; remove it to begin anew"));
        }
        let mut file = RecordFile::default();
        for (index, line) in lines {
            file.line(line).ok_or_else(|| {
                let shown: String = line.chars().take(40).collect();
                format!("line {}: `{shown}`: expected PID START left|touched PAGE+COUNT", index + 1)
            })?;
        }
        Ok(file)
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        let key = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let of = match words.next()? {
            "left" => &mut self.left,
            "touched" => &mut self.touched,
            _ => return None,
        };
        let pages = of.entry(key).or_default();
        for word in words {
            let (from, count) = word.split_once('+')?;
            let from = u64::from_str_radix(from, 16).ok()?;
            let count = u64::from_str_radix(count, 16).ok()?;
            // More pages than a program can have are a damaged file, not a long loop.
            if count > 1 << 24 || pages.len() as u64 + count > 1 << 26 {
                return None;
            }
            pages.extend(from..from.checked_add(count)?);
        }
        Some(())
    }

    /// Was a page that is in memory now touched since a resume? One that had left, and is back.
    pub(super) fn was_touched(&self, process: &Process, number: u64) -> bool {
        let in_pages = |pages: &Pages| {
            pages.get(&(process.pid, process.start)).is_some_and(|pages| pages.contains(&number))
        };
        in_pages(&self.left) || in_pages(&self.touched)
    }

    /// Remember what leaves, and of what is touched the rest.
    pub(super) fn add(
        &mut self,
        process: &Process,
        touched: &[u64],
        leave: impl Iterator<Item = u64>,
    ) {
        let key = (process.pid, process.start);
        let left: BTreeSet<u64> = leave.collect();
        let stay = touched.iter().copied().filter(|page| !left.contains(page)).collect();
        self.touched.insert(key, stay);
        self.left.insert(key, left);
    }

    /// Write it.
    pub(super) fn write(&self, path: &Path) -> Result<(), String> {
        // A file that is replaced is there as a whole, or not at all.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let partial = path.with_file_name(format!(".{name}.{}.unfinished", std::process::id()));
        fs::write(&partial, self.to_text()).and_then(|()| fs::rename(&partial, path)).map_err(
            |why| {
                // There may be none.
                let _ = fs::remove_file(&partial);
                format!("{}: {why}", path.display())
            },
        )
    }

    fn to_text(&self) -> String {
        let mut text = format!("{MAGIC}\n");
        for (what, of) in [("left", &self.left), ("touched", &self.touched)] {
            for ((pid, start), pages) in of {
                let _ = write!(text, "{pid} {start} {what}");
                for (from, bytes) in ranges(pages.iter().copied()) {
                    let _ = write!(text, " {:x}+{:x}", from / PAGE_BYTES, bytes / PAGE_BYTES);
                }
                text.push('\n');
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let process = |pid: u32| Process { pid, start: 9, name: "x".into(), group: String::new() };
        let mut file = RecordFile::default();
        file.add(&process(7), &[1, 2, 3, 8], [3, 4, 5, 1 << 40].into_iter());
        let text = file.to_text();
        assert_eq!(text, format!("{MAGIC}\n7 9 left 3+3 10000000000+1\n7 9 touched 1+2 8+1\n"));
        let read = RecordFile::parse(&text).unwrap();
        assert_eq!(read, file);
        // In memory and of the same program: had left, or was kept as touched before.
        assert!(read.was_touched(&process(7), 4) && read.was_touched(&process(7), 8));
        assert!(!read.was_touched(&process(7), 9) && !read.was_touched(&process(8), 4));
    }

    #[test]
    fn what_is_beside_a_record_stays() {
        let folder = std::env::temp_dir().join(format!("blocklab-record-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("my.partial"), "dear").unwrap();
        RecordFile::default().write(&folder.join("my.record")).unwrap();
        let kept = fs::read_to_string(folder.join("my.partial"));
        let names = fs::read_dir(&folder).unwrap().count();
        // A record of somebody else is none.
        fs::write(folder.join("my.record"), "dear").unwrap();
        let read = RecordFile::read(&folder.join("my.record"));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((kept.unwrap().as_str(), names), ("dear", 2));
        assert!(read.unwrap_err().contains("line 1"));
    }

    #[test]
    fn a_damaged_file_is_told() {
        for (text, why) in [
            ("", "line 1"),
            ("blocklab pages 1\n7 9 gone 1+1", "line 2"),
            ("blocklab pages 1\n7 9 left 1+ffffffffff", "line 2"),
            ("blocklab pages 1\n7 9 left ffffffffffffffff+1", "line 2"),
            ("blocklab pages 1\n7 9 left 1", "line 2"),
        ] {
            assert!(RecordFile::parse(text).unwrap_err().contains(why), "{text}");
        }
    }
}
