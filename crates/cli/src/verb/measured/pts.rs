//! Tables of SNIA's Solid State Storage Performance Test Specification (PTS 2.0.2): IOPS,
//! throughput and latency.
//!
//! The report's table has a row for each block size and a column for each mix of reads and writes;
//! the rounds behind it are rows of round, mix, block size and value. Before either stand lines of
//! a key and a value, of which three count: the test, its threads, and what each keeps outstanding.

use std::collections::BTreeMap;

use csv::StringRecord;

use super::OVERWRITTEN;
use super::points::{METRICS, Point, Wrong, shown};
use super::steady::{ROUNDS, is_steady};
use super::units::{self, Test};

/// What the lines before the table say.
#[derive(Default)]
struct Preamble {
    test: Option<Test>,
    threads: Option<u32>,
    outstanding: Option<u32>,
    /// By line: the unit that it says.
    units: Vec<(u64, String)>,
}

/// Letters and digits only: `OIO/Thread` is `oiothread`.
fn plain(cell: &str) -> String {
    let kept = cell.chars().filter(char::is_ascii_alphanumeric);
    kept.map(|c| c.to_ascii_lowercase()).collect()
}

fn is_size_column(cell: &str) -> bool {
    let cell = plain(cell);
    cell.starts_with("blocksize") || cell == "bs"
}

/// Whether some line begins like a table of the specification.
pub(super) fn is_table(text: &str) -> bool {
    text.lines().take(100).any(|line| {
        let mut cells = line.split(',');
        let first = cells.next().unwrap_or_default().trim_matches(['"', ' ', '\u{feff}']);
        plain(first) == "round" || is_size_column(first) && cells.any(|c| mix_of(c).is_some())
    })
}

/// Percent of the drive that the specification has overwritten at random before, if it is such a
/// table: throughput is measured of a drive that is written in sequence.
pub(super) fn behind(text: &str) -> Option<u32> {
    let says_throughput = |line: &str| {
        let (key, value) = line.split_once(',').unwrap_or_default();
        ["test", "testname"].contains(&plain(key).as_str())
            && plain(value).contains("throughput")
            && !plain(value).contains("iops")
    };
    let in_sequence = text.lines().take(100).any(says_throughput);
    is_table(text).then_some(if in_sequence { 0 } else { OVERWRITTEN })
}

/// Percent of reads: of `65/35`, or of `65` and `65%`.
fn mix_of(cell: &str) -> Option<u32> {
    let cell = cell.trim().trim_matches('"').trim_end_matches('%');
    let (reads, writes) = match cell.split_once('/') {
        Some((reads, writes)) => (reads.trim().parse().ok()?, writes.trim().parse().ok()?),
        None => (cell.parse::<u32>().ok()?, 100u32.checked_sub(cell.parse().ok()?)?),
    };
    (u32::checked_add(reads, writes)? == 100).then_some(reads)
}

/// Bytes of a block size; a number alone is in KiB, or in bytes where its column says so.
fn bytes_of(cell: &str, in_bytes: bool) -> Option<u64> {
    let cell = cell.trim();
    let digits = cell.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = match plain(&cell[digits.len()..]).as_str() {
        "" if in_bytes => 1.0,
        "b" | "bytes" => 1.0,
        "" | "k" | "kb" | "kib" => 1024.0,
        "m" | "mb" | "mib" => 1024.0 * 1024.0,
        _ => return None,
    };
    let bytes = digits.parse::<f64>().ok()? * unit;
    (bytes.fract() == 0.0 && (512.0..=1e9).contains(&bytes)).then_some(bytes as u64)
}

impl Preamble {
    fn read(&mut self, row: &StringRecord, line: u64) -> Result<(), Wrong> {
        let value = row.get(1).unwrap_or_default().trim();
        let number = |what: &str| {
            value.parse::<u32>().map(Some).map_err(|_| {
                (format!("line {line}: {what} is `{value}`"), "a whole number, 1 to 4096".into())
            })
        };
        match plain(row.get(0).unwrap_or_default()).as_str() {
            "threads" | "threadcount" | "tc" | "numberofthreads" => {
                self.threads = number("the number of threads")?;
            }
            "outstandingio"
            | "outstandingioperthread"
            | "outstandingiothread"
            | "oio"
            | "oioperthread"
            | "oiothread"
            | "queuedepth"
            | "queuedepthperthread"
            | "qd" => {
                self.outstanding = number("what a thread keeps outstanding")?;
            }
            "test" | "testname" => {
                let named = |part| plain(value).contains(part);
                self.test = Some(match value {
                    _ if named("iops") => Test::Iops,
                    _ if named("throughput") => Test::Throughput,
                    _ if named("latency") => Test::Latency,
                    _ => {
                        let expected = "IOPS, Throughput or Latency".into();
                        return Err((format!("line {line}: the test is `{value}`"), expected));
                    }
                });
                self.units.extend(units::behind(value).map(|unit| (line, unit.to_string())));
            }
            "unit" | "units" => self.units.push((line, value.to_string())),
            _ => {}
        }
        Ok(())
    }

    /// What the name of the column of values says.
    fn read_column(&mut self, name: &str, line: u64) -> Result<(), Wrong> {
        let Some((test, unit)) = units::of_column(name) else { return Ok(()) };
        let own = self.test.unwrap_or(Test::Iops);
        if test != own {
            let what = format!("line {line}: the column `{name}` is none of {}", own.name());
            return Err((what, format!("a line `Test,{}` before the table", test.name())));
        }
        self.units.push((line, unit.to_string()));
        Ok(())
    }

    /// The point of a number, or `None` where reads and writes are mixed.
    fn point(&self, bytes: u64, reads: u32, value: f64) -> Result<Option<Point>, Wrong> {
        let test = self.test.unwrap_or(Test::Iops);
        let rw = match (test, reads) {
            (Test::Throughput, 100) => "read",
            (Test::Throughput, 0) => "write",
            (_, 100) => "randread",
            (_, 0) => "randwrite",
            _ => return Ok(None),
        };
        let (iodepth, numjobs) = match (self.outstanding, self.threads) {
            (None, _) if test != Test::Latency => {
                let what = "no line says what was outstanding".to_string();
                let lines = "lines such as `Outstanding I/O per thread,16` and `Threads,2` before";
                return Err((what, format!("{lines} the table")));
            }
            (outstanding, threads) => (outstanding.unwrap_or(1), threads.unwrap_or(1)),
        };
        let mut measured = [None; METRICS.len()];
        let value = value * units::of_all(test, &self.units)?;
        match test {
            Test::Iops => measured[0] = Some(value),
            Test::Throughput => measured[0] = Some(value * 1e6 / bytes as f64),
            Test::Latency => {
                measured[0] = Some(f64::from(iodepth) * f64::from(numjobs) * 1e3 / value);
                measured[1] = Some(value * 1e3);
            }
        }
        let bs = if bytes.is_multiple_of(1024) {
            format!("{}k", bytes / 1024)
        } else {
            bytes.to_string()
        };
        Ok(Some(Point { rw: rw.into(), bs, iodepth, numjobs, measured, ..Point::default() }))
    }
}

/// A number of the table, where it stands.
struct Entry {
    line: u64,
    round: u32,
    bytes: u64,
    reads: u32,
    value: f64,
}

/// What the columns of the table are.
enum Columns {
    /// Of mixes, in percent of reads, behind that of block sizes.
    Mixes { in_bytes: bool, reads: Vec<Option<u32>> },
    /// Round, mix, block size, value.
    Rounds { in_bytes: bool, places: [usize; 4] },
}

impl Columns {
    /// Of a line, if it is the head of a table.
    fn of(row: &StringRecord, line: u64) -> Result<Option<Columns>, Wrong> {
        let first = row.get(0).unwrap_or_default();
        let in_bytes = row.iter().any(|c| is_size_column(c) && plain(c).ends_with("bytes"));
        if is_size_column(first) && row.iter().skip(1).any(|cell| mix_of(cell).is_some()) {
            let reads = row.iter().skip(1).map(mix_of).collect();
            return Ok(Some(Columns::Mixes { in_bytes, reads }));
        }
        if plain(first) != "round" {
            return Ok(None);
        }
        let place = |what: &str, is: &dyn Fn(&str) -> bool| {
            row.iter().position(is).ok_or_else(|| {
                let shown = shown(row);
                let expected = "columns Round, R/W Mix, Block Size (KiB) and IOPS".to_string();
                (format!("line {line} is `{shown}`, without a column for {what}"), expected)
            })
        };
        let places = [
            0,
            place("the mix", &|c| {
                ["rwmix", "readwritemix"].iter().any(|mix| plain(c).starts_with(mix))
            })?,
            place("the block size", &is_size_column)?,
            place("the value", &|c| units::of_column(c).is_some())?,
        ];
        Ok(Some(Columns::Rounds { in_bytes, places }))
    }

    /// The numbers of a line.
    fn entries(&self, row: &StringRecord, line: u64) -> Result<Vec<Entry>, Wrong> {
        let cell = |place: usize| row.get(place).unwrap_or_default().trim();
        let wrong = |what: &str, place: usize, expected: &str| {
            (format!("line {line}: {what} is `{}`", cell(place)), expected.to_string())
        };
        let number = |place: usize| match cell(place).parse::<f64>() {
            Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
            _ => Err(wrong("the value", place, "a number above 0")),
        };
        let size = |place: usize, in_bytes: bool| {
            bytes_of(cell(place), in_bytes)
                .ok_or_else(|| wrong("the block size", place, "KiB such as 0.5, 4 or 1024"))
        };
        match self {
            Columns::Mixes { in_bytes, reads } => {
                let bytes = size(0, *in_bytes)?;
                let given =
                    reads.iter().enumerate().filter_map(|(at, reads)| Some((at, (*reads)?)));
                let filled = given.filter(|(at, _)| !cell(at + 1).is_empty());
                filled
                    .map(|(at, reads)| {
                        Ok(Entry { line, round: 0, bytes, reads, value: number(at + 1)? })
                    })
                    .collect()
            }
            Columns::Rounds { in_bytes, places: [round, mix, bytes, value] } => {
                let entry = Entry {
                    line,
                    round: cell(*round)
                        .parse()
                        .map_err(|_| wrong("the round", *round, "a whole number, from 1 on"))?,
                    reads: mix_of(cell(*mix))
                        .ok_or_else(|| wrong("the mix", *mix, "reads to writes, such as 65/35"))?,
                    bytes: size(*bytes, *in_bytes)?,
                    value: number(*value)?,
                };
                Ok(vec![entry])
            }
        }
    }
}

/// The rounds in which the drive was steady: by its writes of 4 KiB, or by what there is.
fn steady_rounds(entries: &[Entry]) -> Result<std::ops::RangeInclusive<u32>, Wrong> {
    let written = |entry: &&Entry| entry.reads == 0 && entry.bytes == 4096;
    let tracked = entries.iter().find(written).or(entries.first());
    let Some(&Entry { bytes, reads, .. }) = tracked else { return Ok(0..=0) };
    let mut by_round = BTreeMap::new();
    for entry in entries.iter().filter(|entry| (entry.bytes, entry.reads) == (bytes, reads)) {
        if by_round.insert(entry.round, entry.value).is_some() {
            let what = format!("line {}: round {} comes again", entry.line, entry.round);
            return Err((what, "a line for each round, mix and block size".into()));
        }
    }
    let (rounds, values): (Vec<u32>, Vec<f64>) = by_round.into_iter().unzip();
    if rounds == [0] {
        return Ok(0..=0);
    }
    let last = (ROUNDS..=rounds.len()).find(|&end| is_steady(&values[..end])).ok_or_else(|| {
        let what = format!("{} rounds, of which no {ROUNDS} in sequence are steady", rounds.len());
        (what, "none further than a tenth from their mean, and no trend beyond that".to_string())
    })?;
    Ok(rounds[last - ROUNDS]..=rounds[last - 1])
}

/// The points of a file, and what of it is left out.
pub(super) fn read(text: &str) -> Result<(Vec<Point>, Vec<String>), Wrong> {
    let text = text.trim_start_matches('\u{feff}');
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let (mut preamble, mut columns, mut entries) = (Preamble::default(), None, Vec::new());
    for row in reader.records() {
        let row = row.map_err(|why| (why.to_string(), "comma-separated values".to_string()))?;
        let line = row.position().map_or(0, csv::Position::line);
        match &columns {
            None => {
                columns = Columns::of(&row, line)?;
                match &columns {
                    None => preamble.read(&row, line)?,
                    Some(Columns::Rounds { places: [.., value], .. }) => {
                        preamble.read_column(row.get(*value).unwrap_or_default(), line)?;
                    }
                    Some(Columns::Mixes { .. }) => {}
                }
            }
            Some(_) if row.iter().all(|cell| cell.trim().is_empty()) => {}
            Some(columns) => entries.extend(columns.entries(&row, line)?),
        }
    }
    let steady = steady_rounds(&entries)?;
    let mut sums: BTreeMap<(u64, u32), (f64, u32, u64)> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| steady.contains(&entry.round)) {
        let (sum, count, line) = sums.entry((entry.bytes, entry.reads)).or_default();
        (*sum, *count, *line) = (*sum + entry.value, *count + 1, entry.line);
    }
    let (mut points, mut mixed) = (Vec::new(), 0);
    for ((bytes, reads), (sum, count, line)) in sums {
        match preamble.point(bytes, reads, sum / f64::from(count))? {
            Some(point) => match point.wrong() {
                Some((what, expected)) => return Err((format!("line {line}: {what}"), expected)),
                None => points.push(point),
            },
            None => mixed += 1,
        }
    }
    let left_out = (mixed > 0).then(|| format!("{mixed} mixes of reads and writes left out"));
    Ok((points, left_out.into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "Test,IOPS\nThreads,2\nOIO/Thread,16\n\n\
        Block Size (KiB),0/100,65/35,100/0\n0.5,9000,,70000\n4,90000,200000,700000\n1024,,,3000\n";

    /// Rounds that fall, and then are the same.
    fn rounds() -> String {
        let mut text = "Outstanding I/O,8\nRound,R/W Mix,Block Size (KiB),IOPS\n".to_string();
        for (round, iops) in [500, 300, 210, 200, 200, 198, 202, 200].iter().enumerate() {
            for (mix, factor) in [("0/100", 1), ("50/50", 3), ("100/0", 10)] {
                text += &format!("{},{mix},4,{}\n", round + 1, factor * iops);
            }
        }
        text
    }

    #[test]
    fn the_table_of_a_report_has_a_point_for_each_pure_load() {
        assert!(is_table(REPORT));
        let (points, left_out) = read(REPORT).unwrap();
        let labels: Vec<String> = points.iter().map(Point::label).collect();
        let expected = [
            "randwrite 512 depth 2 x 16",
            "randread 512 depth 2 x 16",
            "randwrite 4k depth 2 x 16",
            "randread 4k depth 2 x 16",
            "randread 1024k depth 2 x 16",
        ];
        assert_eq!(labels, expected);
        assert_eq!(points[3].measured, [Some(700_000.0), None, None, None]);
        assert_eq!(left_out, ["1 mixes of reads and writes left out"]);
    }

    #[test]
    fn rounds_count_from_steady_state_on() {
        assert!(is_table(&rounds()));
        let (points, _) = read(&rounds()).unwrap();
        // Rounds 3 to 7: the first five that are steady.
        let measured: Vec<_> = points.iter().map(|point| point.measured[0].unwrap()).collect();
        assert_eq!(measured, [202.0, 2020.0]);
        assert_eq!((points[0].iodepth, points[0].numjobs), (8, 1));
    }

    #[test]
    fn throughput_is_sequential_and_latency_is_of_one_at_a_time() {
        let text =
            "Test,Throughput Test\nThreads,1\nQD,32\nBlock Size (KiB),0/100,100/0\n128,2000,6000\n";
        let (points, _) = read(text).unwrap();
        assert_eq!(points[1].label(), "read 128k depth 32");
        assert_eq!(points[1].measured[0], Some(6e9 / 131_072.0));
        let text = "Test,Latency\nBlock Size (bytes),100/0\n4096,0.08\n";
        let (points, _) = read(text).unwrap();
        assert_eq!(points[0].label(), "randread 4k depth 1");
        assert_eq!(points[0].measured, [Some(12_500.0), Some(80.0), None, None]);
    }

    #[test]
    fn what_cannot_be_is_named_with_its_place() {
        let report = |from: &str, to: &str| REPORT.replacen(from, to, 1);
        for (text, said) in [
            (report("OIO/Thread,16", "DUT,mine"), "no line says what was outstanding"),
            (report("OIO/Thread,16", "OIO/Thread,many"), "line 3: what a thread keeps"),
            (report("Test,IOPS", "Test,Endurance"), "line 1: the test is `Endurance`"),
            (report("700000", "fast"), "line 7: the value is `fast`"),
            (report("700000", "-7"), "line 7: the value is `-7`"),
            (report("1024,", "0.3,"), "line 8: the block size is `0.3`"),
            (report("Threads,2", "Threads,9999"), "line 6: numjobs is 9999"),
            (rounds().replace("IOPS", "Speed"), "line 2 is `Round,R/W Mix,"),
            (rounds().replace("100/0", "60/60"), "line 5: the mix is `60/60`"),
            (rounds().replace("4,198", "4,400"), "8 rounds, of which no 5"),
            (rounds().replace("\n2,", "\n1,"), "line 6: round 1 comes again"),
            (rounds().replace("\n2,", "\nx,"), "line 6: the round is `x`"),
        ] {
            let (what, _) = read(&text).unwrap_err();
            assert!(what.starts_with(said), "{said}: {what}");
        }
    }
}
