//! A boot recording: what a boot loader computed and read, as counts that hold on any machine.
//!
//! A text file. A first line names the format; then a line for each value of the header; then the
//! reads in order, a line each: the instructions between the answer to the read before and this
//! one, its sectors, where it does not follow the read before its first sector, and `beside` where
//! the loader does not wait for the read before, but for all before that.

use std::fmt;

/// The first line.
const MAGIC: &str = "blocklab boot recording 1";
/// Reads that a recording may have: a loader of 16 GiB by the sector has twice as many.
const READS_MAX: u64 = 1 << 24;
/// Longest gap or sum that a recording may state: hours of a processor of today.
const INSTRUCTIONS_MAX: u64 = 1 << 48;

/// One read of the loader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Read {
    /// Instructions between the answer to the read before (or the start) and this one; or, beside
    /// the read before, from when that was asked for and all before it was answered.
    pub instructions: u64,
    /// Where, in sectors of 512 bytes.
    pub sector: u64,
    /// How much.
    pub sectors: u32,
    /// May the read before be on its way still?
    pub beside: bool,
}

/// What was counted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recording {
    /// Which kernel.
    pub kernel: String,
    /// How it was stored: `shipped`, `plain`, `gzip`, ...
    pub variant: String,
    /// Size of its file.
    pub file_bytes: u64,
    /// The reads from the loader's begin on, in order.
    pub reads: Vec<Read>,
    /// Instructions from the answer to the last read until the loader was ready to go on.
    pub last_instructions: u64,
    /// Instructions from there to the first one of the kernel's init.
    pub start_instructions: u64,
}

/// What is wrong with a recording, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordingError {
    /// From 1.
    pub line: usize,
    /// What is wrong and what was expected.
    pub message: String,
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}: {}; record it anew: blocklab boot load --record",
            self.line, self.message
        )
    }
}

impl std::error::Error for RecordingError {}

impl Recording {
    /// Everything read.
    pub fn read_bytes(&self) -> u64 {
        self.reads.iter().map(|read| u64::from(read.sectors) * 512).sum()
    }

    /// Instructions of the loader.
    pub fn load_instructions(&self) -> u64 {
        self.reads.iter().map(|read| read.instructions).sum::<u64>() + self.last_instructions
    }

    /// The end of the farthest read, in sectors.
    pub fn span_sectors(&self) -> u64 {
        let end = |read: &Read| read.sector + u64::from(read.sectors);
        self.reads.iter().map(end).max().unwrap_or(0)
    }

    /// Read one.
    ///
    /// # Errors
    /// The first line that is not as it should be.
    pub fn parse(text: &str) -> Result<Recording, RecordingError> {
        let mut lines = Lines { lines: text.lines(), number: 0 };
        let magic = lines.next(MAGIC)?;
        if magic != MAGIC {
            return Err(lines.wrong(&format!("`{magic}`: expected `{MAGIC}`")));
        }
        let mut recording = Recording {
            kernel: lines.value("kernel")?.into(),
            variant: lines.value("variant")?.into(),
            file_bytes: lines.number("file_bytes", u64::MAX)?,
            last_instructions: lines.number("last_instructions", INSTRUCTIONS_MAX)?,
            start_instructions: lines.number("start_instructions", INSTRUCTIONS_MAX)?,
            reads: Vec::new(),
        };
        let reads = lines.number("reads", READS_MAX)?;
        let mut at = 0;
        for _ in 0..reads {
            let read = lines.read(at)?;
            at = read.sector + u64::from(read.sectors);
            recording.reads.push(read);
        }
        match lines.lines.next() {
            None => Ok(recording),
            Some(more) => {
                lines.number += 1;
                Err(lines.wrong(&format!("`{more}`: expected the end after {reads} reads")))
            }
        }
    }
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{MAGIC}\nkernel {}\nvariant {}", self.kernel, self.variant)?;
        writeln!(f, "file_bytes {}", self.file_bytes)?;
        writeln!(f, "last_instructions {}", self.last_instructions)?;
        writeln!(f, "start_instructions {}\nreads {}", self.start_instructions, self.reads.len())?;
        let mut at = 0;
        for read in &self.reads {
            write!(f, "{} {}", read.instructions, read.sectors)?;
            if read.sector != at {
                write!(f, " {}", read.sector)?;
            }
            writeln!(f, "{}", if read.beside { " beside" } else { "" })?;
            at = read.sector + u64::from(read.sectors);
        }
        Ok(())
    }
}

struct Lines<'a> {
    lines: std::str::Lines<'a>,
    number: usize,
}

impl<'a> Lines<'a> {
    fn wrong(&self, message: &str) -> RecordingError {
        RecordingError { line: self.number, message: message.into() }
    }

    fn next(&mut self, expected: &str) -> Result<&'a str, RecordingError> {
        self.number += 1;
        self.lines.next().ok_or_else(|| self.wrong(&format!("expected `{expected}`, got the end")))
    }

    fn value(&mut self, key: &str) -> Result<&'a str, RecordingError> {
        let line = self.next(key)?;
        let value = line.strip_prefix(key).and_then(|rest| rest.strip_prefix(' '));
        value.ok_or_else(|| self.wrong(&format!("`{line}`: expected `{key} VALUE`")))
    }

    fn number(&mut self, key: &str, max: u64) -> Result<u64, RecordingError> {
        let value = self.value(key)?;
        let number = value.parse().ok().filter(|number| *number <= max);
        number.ok_or_else(|| self.wrong(&format!("{key} `{value}`: expected 0 to {max}")))
    }

    fn read(&mut self, at: u64) -> Result<Read, RecordingError> {
        let expected = "INSTRUCTIONS SECTORS [FIRST_SECTOR] [beside]";
        let line = self.next(expected)?;
        let numbers = line.strip_suffix(" beside");
        let beside = numbers.is_some();
        let words: Result<Vec<u64>, _> =
            numbers.unwrap_or(line).split(' ').map(str::parse).collect();
        let read = match words.as_deref() {
            Ok([instructions, sectors]) => Some((*instructions, *sectors, at)),
            Ok([instructions, sectors, sector]) => Some((*instructions, *sectors, *sector)),
            _ => None,
        };
        let read = read.filter(|(instructions, sectors, sector)| {
            *instructions <= INSTRUCTIONS_MAX
                && (1..=1 << 16).contains(sectors)
                && *sector <= 1 << 48
        });
        let (instructions, sectors, sector) =
            read.ok_or_else(|| self.wrong(&format!("`{line}`: expected `{expected}`")))?;
        Ok(Read { instructions, sector, sectors: sectors as u32, beside })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn example() -> Recording {
        let read =
            |instructions, sector, sectors| Read { instructions, sector, sectors, beside: false };
        Recording {
            kernel: "vmlinuz 6.1".into(),
            variant: "plain".into(),
            file_bytes: 70_000,
            reads: vec![read(1000, 2048, 2), read(500, 2050, 62), read(0, 63, 1)],
            last_instructions: 250,
            start_instructions: 8_000,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let text = example().to_string();
        assert!(text.ends_with("reads 3\n1000 2 2048\n500 62\n0 1 63\n"), "{text}");
        assert_eq!(Recording::parse(&text), Ok(example()));
        let mut beside = example();
        (beside.reads[1].beside, beside.reads[2].beside) = (true, true);
        let text = beside.to_string();
        assert!(text.ends_with("1000 2 2048\n500 62 beside\n0 1 63 beside\n"), "{text}");
        assert_eq!(Recording::parse(&text), Ok(beside));
        assert_eq!(example().read_bytes(), 65 * 512);
        assert_eq!(example().load_instructions(), 1750);
        assert_eq!(example().span_sectors(), 2112);
    }

    #[test]
    fn every_cut_and_every_wrong_line_has_its_place() {
        let text = example().to_string();
        let lines: Vec<&str> = text.lines().collect();
        for cut in 0..lines.len() {
            let error = Recording::parse(&lines[..cut].join("\n")).unwrap_err();
            assert_eq!(error.line, cut + 1, "{error}");
            let mut wrong = lines.clone();
            wrong[cut] = "-1 x";
            assert_eq!(Recording::parse(&wrong.join("\n")).unwrap_err().line, cut + 1);
        }
        let more = Recording::parse(&format!("{text}1 1\n")).unwrap_err();
        assert_eq!(more.line, lines.len() + 1);
        let endless = text.replace("reads 3", "reads 99999999999");
        assert!(Recording::parse(&endless).unwrap_err().to_string().contains("99999999999"));
    }
}
