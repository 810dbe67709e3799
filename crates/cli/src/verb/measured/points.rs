//! Points that were measured on a drive, and tables of them.

use std::collections::{BTreeMap, BTreeSet};

use sim::SECTOR_BYTES;

pub(crate) use super::tables::Wrong;
use super::tables::{Table, column, is_grouped, is_none, may_be_thousands};

/// What is compared: (name, the metric of a run behind `read_` or `write_`).
pub(crate) const METRICS: [(&str, &str); 4] = [
    ("IOPS", "iops"),
    ("mean us", "latency_us_mean"),
    ("p50 us", "latency_us_p50"),
    ("p99 us", "latency_us_p99"),
];
pub(super) const KINDS: [&str; 4] = ["read", "write", "randread", "randwrite"];
/// What others call them.
const SPELT: [(&str, &str); 2] = [("writerand", "randwrite"), ("readrand", "randread")];
/// What fio has, too, and what is not compared.
const MIXED: [&str; 6] = ["rw", "readwrite", "randrw", "trim", "randtrim", "append"];
/// The columns of a table, and the names that others give them.
const COLUMNS: [(&str, &[&str]); 13] = [
    ("rw", &["operation"]),
    ("bs", &["block_size", "blocksize"]),
    ("iodepth", &["qd", "depth", "queue_depth"]),
    ("numjobs", &["jobs", "num_jobs", "threads", "processes", "workers"]),
    ("iops", &[]),
    ("mean_us", &["lat_mean_us"]),
    ("p50_us", &["p50"]),
    ("p99_us", &["p99"]),
    ("offered_iops", &["rate_iops"]),
    ("rate_process", &[]),
    ("load", &[]),
    ("job", &[]),
    ("rate", &[]),
];
/// What fio throttles by, in bytes a second: such a row says what was asked for, not what a drive
/// does.
const RATE: usize = 12;
/// Columns that say of which drive, and measured how, a row is.
const OF_ONE: [&str; 8] =
    ["device", "drive", "drive_id", "model", "pattern", "engine", "ioengine", "scheduler"];
/// Other units of a column that ends in `_us`, and microseconds of each.
const UNITS: [(&str, f64); 3] = [("_ns", 1e-3), ("_ms", 1e3), ("_s", 1e6)];
/// IOPS and microseconds: a request in a quarter of an hour, and a nanosecond, at least.
pub(super) const POSSIBLE: std::ops::RangeInclusive<f64> = 1e-3..=1e9;
pub(super) const POSSIBLE_TOLD: &str = "0.001 to 1,000,000,000";
/// Without these there is no point.
const NEEDED: [&str; 4] = ["rw", "bs", "iodepth", "iops"];

/// Requests that come by themselves, not when others are done.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Offered {
    /// Of all jobs of the point, a second.
    pub(crate) iops: f64,
    /// At random, not evenly.
    pub(crate) poisson: bool,
}

/// Where several points are of one load: what runs beside each other.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Beside {
    pub(crate) load: String,
    /// A job that reads and writes is two points; their depth is that of both.
    pub(crate) job: String,
}

/// One load, or a job of it, and what the drive did under it.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Point {
    /// As fio calls it.
    pub(crate) rw: String,
    /// As fio writes it.
    pub(crate) bs: String,
    pub(crate) iodepth: u32,
    pub(crate) numjobs: u32,
    /// By [`METRICS`]; what was not measured is left out.
    pub(crate) measured: [Option<f64>; METRICS.len()],
    /// `None`: as many requests as are done.
    pub(crate) offered: Option<Offered>,
    /// `None`: it is a load by itself.
    pub(crate) beside: Option<Beside>,
}

impl Point {
    /// What was asked of the drive, without what it did.
    pub(crate) fn asked(&self) -> Point {
        Point { measured: Default::default(), ..self.clone() }
    }

    /// The half of a run's metrics that it is about.
    pub(crate) fn direction(&self) -> &'static str {
        if self.rw.ends_with("read") { "read" } else { "write" }
    }

    /// Requests in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        u64::from(self.iodepth) * u64::from(self.numjobs)
    }

    /// The size of a request; 0 if it is none.
    pub(crate) fn bytes(&self) -> u64 {
        let bs = self.bs.to_lowercase();
        let digits = bs.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let factor = match bs[digits.len()..].chars().next() {
            Some('k') => 1 << 10,
            Some('m') => 1 << 20,
            Some('g') => 1 << 30,
            None | Some('b') => 1,
            _ => 0,
        };
        digits.parse::<u64>().map_or(0, |number| number.saturating_mul(factor))
    }

    /// For people.
    pub(crate) fn label(&self) -> String {
        let jobs = if self.numjobs > 1 { format!("{} x ", self.numjobs) } else { String::new() };
        let mut label = format!("{} {} depth {jobs}{}", self.rw, self.bs, self.iodepth);
        if let Some(offered) = self.offered {
            label += &format!(", {:.0} a second", offered.iops);
        }
        if let Some(Beside { load, .. }) = &self.beside {
            label += &format!(", load {load}");
        }
        label
    }

    /// Why it cannot have been measured, if that is so: (what, what was expected).
    pub(super) fn wrong(&self) -> Option<(String, String)> {
        if !KINDS.contains(&self.rw.as_str()) {
            return Some((format!("rw is `{}`", self.rw), format!("one of {}", KINDS.join(", "))));
        }
        if self.bytes() == 0 || !self.bytes().is_multiple_of(SECTOR_BYTES) {
            let wanted = format!("a size such as 4k, a multiple of {SECTOR_BYTES} bytes");
            return Some((format!("bs is `{}`", self.bs), wanted));
        }
        for (name, value) in [("iodepth", self.iodepth), ("numjobs", self.numjobs)] {
            if !(1..=4096).contains(&value) {
                return Some((format!("{name} is {value}"), "1 to 4096".into()));
            }
        }
        let none = |(index, value): (usize, &Option<f64>)| {
            value.filter(|value| !POSSIBLE.contains(value)).map(|value| (METRICS[index].0, value))
        };
        if let Some((name, value)) = self.measured.iter().enumerate().find_map(none) {
            return Some((format!("{name} is {}", short(value)), POSSIBLE_TOLD.into()));
        }
        if let [_, _, Some(p50), Some(p99)] = self.measured
            && p50 > p99
        {
            let what = format!("p50 is {p50} us, and p99 is {p99} us");
            return Some((what, "percentiles in rising order".into()));
        }
        if let Some(offered) = self.offered.map(|offered| offered.iops)
            && !(1.0..=*POSSIBLE.end()).contains(&offered)
        {
            return Some((format!("offered_iops is {offered}"), "1 to 1,000,000,000".into()));
        }
        // What is offered is known: a job beside others may have nothing else.
        let unknown = self.measured[0].is_none() && self.offered.is_none();
        unknown.then(|| ("there are no IOPS".into(), "IOPS above 0".into()))
    }
}

/// A number that may be anything, in a few digits.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 | 1e-6..1e15 => value.to_string(),
        _ => format!("{value:e}"),
    }
}

/// The head of a table, for people.
pub(crate) fn shown(header: &csv::StringRecord) -> String {
    header.iter().collect::<Vec<_>>().join(",").chars().take(80).collect()
}

/// Where a column is, and what its numbers are multiplied by.
type Place = (usize, f64);

/// Where the columns are; others may stand between them.
fn columns(
    header: &csv::StringRecord,
    line: usize,
) -> Result<[Option<Place>; COLUMNS.len()], Wrong> {
    // A time in two units is there twice, too.
    let named = |column: &str, name: &str| {
        let (column, stem) = (column.trim().to_lowercase(), name.strip_suffix("_us"));
        let in_unit = |stem| UNITS.iter().any(|(unit, _)| column == format!("{stem}{unit}"));
        column == name || stem.is_some_and(in_unit)
    };
    let twice = COLUMNS.iter().find_map(|(name, _)| {
        let mut all = header.iter().filter(|column| named(column, name));
        Some([all.next()?.trim(), all.next()?.trim()])
    });
    if let Some([first, second]) = twice {
        let which = match first.eq_ignore_ascii_case(second) {
            true => format!("`{first}`"),
            false => format!("of the same times, `{first}` and `{second}`"),
        };
        return Err((format!("line {line} has two columns {which}"), "one".into()));
    }
    let found = COLUMNS.map(|(name, others)| {
        let names = || [name].into_iter().chain(others.iter().copied());
        // In another unit, too.
        let times = names().filter_map(|name| name.strip_suffix("_us")).flat_map(|stem| {
            let spelt = move |(unit, us)| (format!("{stem}{unit}"), us);
            UNITS.into_iter().map(spelt)
        });
        let mut places = names().map(|name| (name.to_string(), 1.0)).chain(times);
        places.find_map(|(name, factor)| Some((column(header, &name)?, factor)))
    });
    let missing = COLUMNS
        .iter()
        .zip(&found)
        .find(|((name, _), place)| place.is_none() && NEEDED.contains(name));
    let Some(((name, _), _)) = missing else { return Ok(found) };
    let shown = shown(header);
    let known: Vec<&str> = COLUMNS[..RATE].iter().map(|(name, _)| *name).collect();
    Err((
        format!("line {line} is `{shown}`, without a column `{name}`"),
        format!("fio's JSON, or a table with the columns {}", known.join(",")),
    ))
}

/// What is to be said of columns that nothing was read of: one of them may be what a load is known
/// by, under a name of its own.
fn unread(header: &csv::StringRecord, places: &[Option<Place>]) -> Option<String> {
    let known = |(index, name): (usize, &str)| {
        places.iter().flatten().any(|(place, _)| *place == index)
            || OF_ONE.iter().any(|known| name.trim().eq_ignore_ascii_case(known))
    };
    let names = header.iter().enumerate().filter(|column| !known(*column));
    let names: Vec<&str> = names.map(|(_, name)| name.trim()).collect();
    (!names.is_empty()).then(|| format!("columns that were not read: {}", names.join(", ")))
}

/// A size as fio writes it: `4k` of `4 KiB`.
pub(super) fn size(text: &str) -> String {
    let text: String = text.to_lowercase().split_whitespace().collect();
    let text = text.strip_suffix("bs").or(text.strip_suffix('b')).unwrap_or(&text);
    text.strip_suffix('i').unwrap_or(text).to_string()
}

pub(super) fn of_table(text: &str) -> Result<(Vec<Point>, Vec<String>), Wrong> {
    let table = Table::of(text)?;
    let places = columns(&table.header, table.line)?;
    let unread = unread(&table.header, &places);
    let (mut points, mut left_out) = (Vec::<Point>::new(), BTreeMap::<String, u64>::new());
    let (mut lines, mut drives) = (Vec::new(), Drives::of(&table.header));
    let mut rates = Vec::new();
    for row in table.rows() {
        let (line, row) = row?;
        let written = places.map(|place| {
            let (place, factor) = place.unwrap_or((usize::MAX, 1.0));
            (row.get(place).unwrap_or("").trim(), factor)
        });
        let cells = written.map(|(cell, by)| (if is_none(cell) { "" } else { cell }, by));
        let rw = cells[0].0.to_lowercase();
        if MIXED.contains(&rw.as_str()) {
            *left_out.entry(rw).or_default() += 1;
            continue;
        }
        if !matches!(cells[RATE].0, "" | "0") {
            *left_out.entry(format!("{rw} with a `rate`")).or_default() += 1;
            continue;
        }
        let lacks = match (cells[2].0, is_none(written[4].0)) {
            ("", _) => Some("an iodepth"),
            (_, true) => Some("IOPS"),
            _ => None,
        };
        if let Some(what) = lacks {
            *left_out.entry(format!("{rw} without {what}")).or_default() += 1;
            continue;
        }
        // Where two jobs share a machine, one of them may get nothing done.
        if cells[4].0.parse() == Ok(0.0) && cells[8].0.is_empty() {
            *left_out.entry(format!("{} without a request", cells[0].0)).or_default() += 1;
            continue;
        }
        let point =
            of_row(&cells).map_err(|(what, want)| (format!("line {line}: {what}"), want))?;
        let known = points.iter().zip(&lines).find_map(|(known, &at)| unlike(known, &point, at));
        if let Some((what, want)) = known {
            return Err((format!("line {line}: {what}"), want));
        }
        drives.see(&row);
        rates.push(cells[4].0.to_string());
        points.push(point);
        lines.push(line);
    }
    let left_out = left_out.iter().map(|(rw, lines)| format!("{lines} lines of rw={rw} left out"));
    let notes = left_out.chain(drives.notes()).chain(unread);
    let timed = points.iter().any(|point| point.measured[1..].iter().any(Option::is_some));
    let notes = notes.chain(may_be_thousands(&rates, timed)).collect();
    Ok((points, notes))
}

/// What the columns that say of which drive a row is have in the rows that count.
struct Drives(Vec<(&'static str, usize, BTreeSet<String>)>);

impl Drives {
    fn of(header: &csv::StringRecord) -> Drives {
        let place = |name| Some((name, column(header, name)?, BTreeSet::new()));
        Drives(OF_ONE.into_iter().filter_map(place).collect())
    }

    fn see(&mut self, row: &csv::StringRecord) {
        for (_, place, seen) in &mut self.0 {
            seen.insert(row.get(*place).unwrap_or_default().trim().to_string());
        }
    }

    fn notes(self) -> impl Iterator<Item = String> {
        let unlike = self.0.into_iter().filter(|(_, _, seen)| seen.len() > 1);
        unlike.map(|(name, _, seen)| {
            several("rows", name, &seen.iter().map(String::as_str).collect::<Vec<_>>())
        })
    }
}

/// What is to be said where `what`, rows or jobs, may be of more than one drive.
pub(super) fn several(what: &str, name: &str, seen: &[&str]) -> String {
    format!(
        "the {what} have {} values of `{name}` ({}): if these are not one drive in one state, \
         measured in one way, keep the {what} of one",
        seen.len(),
        some(seen)
    )
}

/// The first of some names.
fn some(names: &[&str]) -> String {
    let more = if names.len() > SHOWN { ", ..." } else { "" };
    format!("{}{more}", names[..names.len().min(SHOWN)].join(", "))
}

/// Values that are named.
const SHOWN: usize = 4;

/// Why a point, which has the load and the job of another one in this line, is not of that job: it
/// is run as one, with the keys of the first.
fn unlike(known: &Point, point: &Point, line: usize) -> Option<Wrong> {
    let named = point.beside.as_ref().is_some_and(|beside| !beside.job.is_empty());
    if !named || known.beside != point.beside {
        return None;
    }
    let is_mix = known.direction() != point.direction();
    let is_random = |point: &Point| point.rw.starts_with("rand");
    let process = |point: &Point| point.offered.map(|offered| offered.poisson);
    let same = [
        ("bs", known.bytes() == point.bytes()),
        ("iodepth", known.iodepth == point.iodepth),
        ("numjobs", known.numjobs == point.numjobs),
        ("rw, whether it is random,", is_random(known) == is_random(point)),
        ("rate_process", process(known).zip(process(point)).is_none_or(|(a, b)| a == b)),
        ("offered_iops", is_mix || known.offered == point.offered),
    ];
    if let Some((what, _)) = same.iter().find(|(_, same)| !same) {
        let what = format!("{what} is not that of line {line}, which has the same load and job");
        return Some((what, "the reads and the writes of one job, or two names in `job`".into()));
    }
    let is_free = known.offered.is_none() || point.offered.is_none();
    (is_mix && is_free).then(|| {
        let what = format!("the job of line {line} reads and writes, without a rate of each");
        (what, "offered_iops in both lines, or two names in `job`".into())
    })
}

fn of_row(cells: &[(&str, f64); COLUMNS.len()]) -> Result<Point, Wrong> {
    let whole = |index: usize| match cells[index].0 {
        "" if !NEEDED.contains(&COLUMNS[index].0) => Ok(1),
        text => text.parse::<u32>().map_err(|_| {
            (format!("{} is `{text}`", COLUMNS[index].0), "a whole number, 1 to 4096".to_string())
        }),
    };
    let number = |index: usize| match cells[index] {
        ("", _) => Ok(None),
        (text, factor) => text.parse::<f64>().map(|value| Some(value * factor)).map_err(|_| {
            // Spreadsheets of many countries write so, and nobody knows which is meant.
            let comma = if text.contains(',') { ", its decimals behind a point" } else { "" };
            let grouped = [',', '.'].into_iter().any(|by| is_grouped(text, by));
            let comma = if grouped { GROUPED } else { comma };
            (format!("{} is `{text}`", COLUMNS[index].0), format!("a number above 0{comma}"))
        }),
    };
    let poisson = of_process(cells[9].0)?;
    let [load, job] = [cells[10].0, cells[11].0].map(str::to_string);
    let rw = cells[0].0.to_lowercase();
    let point = Point {
        rw: SPELT.iter().find(|(own, _)| *own == rw).map_or(rw.as_str(), |own| own.1).into(),
        bs: size(cells[1].0),
        iodepth: whole(2)?,
        numjobs: whole(3)?,
        measured: unless_left_out([number(4)?, number(5)?, number(6)?, number(7)?]),
        offered: number(8)?.map(|iops| Offered { iops, poisson }),
        beside: (!load.is_empty()).then_some(Beside { load, job }),
    };
    point.wrong().map_or(Ok(point), Err)
}

/// What is expected of `16,583`.
const GROUPED: &str = ", without separators of thousands, its decimals behind a point";

/// Whether requests come at random; as in fio they do not if nothing is said.
pub(super) fn of_process(text: &str) -> Result<bool, Wrong> {
    match text {
        "" | "linear" => Ok(false),
        "poisson" => Ok(true),
        other => Err((format!("rate_process is `{other}`"), "linear or poisson".into())),
    }
}

/// Times of 0 are those that fio was told not to take (`gtod_reduce`, `disable_lat`).
pub(super) fn unless_left_out(
    measured: [Option<f64>; METRICS.len()],
) -> [Option<f64>; METRICS.len()] {
    let [iops, times @ ..] = measured;
    let [mean, p50, p99] = times.map(|time| time.filter(|time| *time != 0.0));
    [iops, mean, p50, p99]
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "rw,bs,iodepth,numjobs,iops,mean_us,p50_us,p99_us";

    #[test]
    fn a_table_has_a_point_a_line() {
        let text = format!("{HEADER}\nrandwrite,4k,128,4,150000,,3227,\n");
        let (points, _) = of_table(&text).unwrap();
        assert_eq!(points[0].measured, [Some(150_000.0), None, Some(3227.0), None]);
        assert_eq!(points[0].direction(), "write");
        // With other columns between, under other names, and without what is not needed.
        let text =
            "file,bs,rw,iodepth,iops,p99,dir\na,4kb,randread,8,9,7,read\nb,4k,trim,1,1,1,x\n";
        let (points, left_out) = of_table(text).unwrap();
        assert_eq!((points[0].bs.as_str(), points[0].numjobs, points.len()), ("4k", 1, 1));
        assert_eq!(points[0].measured, [Some(9.0), None, None, Some(7.0)]);
        assert_eq!(
            left_out,
            ["1 lines of rw=trim left out", "columns that were not read: file, dir"]
        );
        let text = format!("{HEADER}\nread,4k,1,1,0,,,\nread,4k,1,1,2,,,\n");
        let (points, left_out) = of_table(&text).unwrap();
        assert_eq!(
            (points.len(), &left_out[..]),
            (1, &["1 lines of rw=read without a request left out".into()][..])
        );
        let text = "operation,bs,iodepth,iops\nwriterand,4k,1,9\n";
        assert_eq!(of_table(text).unwrap().0[0].rw, "randwrite");
        // As other programs name and separate them, in other units.
        for text in [
            "Operation;QD;BS;IOPS;P99_ms;lat_mean_ns\nread;8;4 KiB;9;0.25;1500\n",
            "BS\tp99_s\trw\tdepth\tiops\tmean_ms\n4096bs\t0.00025\tread\t8\t9\t0.0015\n",
        ] {
            let (points, _) = of_table(text).unwrap();
            assert_eq!((points[0].iodepth, points[0].bytes()), (8, 4096), "{text}");
            assert_eq!(points[0].measured, [Some(9.0), Some(1.5), None, Some(250.0)], "{text}");
        }
    }

    #[test]
    fn processes_have_many_names_and_what_is_not_read_is_named() {
        for name in ["Threads", "num_jobs", "processes", "workers", "jobs"] {
            let (points, notes) =
                of_table(&format!("rw,bs,iodepth,{name},iops\nread,4k,1,8,9\n")).unwrap();
            assert_eq!((points[0].numjobs, notes.len()), (8, 0), "{name}");
        }
        let (points, notes) =
            of_table("rw,bs,iodepth,Clients,iops,drive\nread,4k,1,8,9,a\n").unwrap();
        assert_eq!(points[0].numjobs, 1);
        assert_eq!(notes, ["columns that were not read: Clients"]);
    }

    #[test]
    fn what_was_throttled_is_left_out_and_what_is_of_several_is_told() {
        let text = "device,engine,rw,bs,iodepth,iops,rate\na,x,read,4k,1,9,\na,y,read,4k,2,9,0\n\
                    a,y,read,4k,4,9,\nb,z,read,4k,4,9,100m\n";
        let (points, notes) = of_table(text).unwrap();
        assert_eq!((points.len(), notes.len()), (3, 2), "{notes:?}");
        assert_eq!(notes[0], "1 lines of rw=read with a `rate` left out");
        assert!(notes[1].starts_with("the rows have 2 values of `engine` (x, y): "), "{notes:?}");
    }

    #[test]
    fn times_that_were_not_taken_are_not_compared() {
        let (points, _) = of_table(&format!("{HEADER}\nread,4k,1,1,9,0,0.0,5\n")).unwrap();
        assert_eq!(points[0].measured, [Some(9.0), None, None, Some(5.0)]);
    }

    #[test]
    fn rows_of_a_load_say_what_is_offered_and_what_ran_beside_them() {
        let head = "load,rw,bs,iodepth,numjobs,offered_iops,rate_process,iops,p99_us";
        let text = format!(
            "{head}\n20k,randwrite,4k,64,6,15000,poisson,14900,\n20k,randread,4k,1,1,500,,,300\n\
             ,randread,4k,1,1,,,9,\n"
        );
        let (points, _) = of_table(&text).unwrap();
        assert_eq!(points[0].offered, Some(Offered { iops: 15_000.0, poisson: true }));
        assert_eq!(points[1].offered, Some(Offered { iops: 500.0, poisson: false }));
        assert_eq!(points[1].measured, [None, None, None, Some(300.0)]);
        let loads = points.iter().map(|point| point.beside.as_ref().map(|one| &*one.load));
        assert_eq!(loads.collect::<Vec<_>>(), [Some("20k"), Some("20k"), None]);
        assert_eq!(points[0].label(), "randwrite 4k depth 6 x 64, 15000 a second, load 20k");
        for (row, said) in [
            ("l,read,4k,1,1,0,,5,", "line 2: offered_iops is 0"),
            ("l,read,4k,1,1,fast,,5,", "line 2: offered_iops is `fast`"),
            ("l,read,4k,1,1,5,even,5,", "line 2: rate_process is `even`"),
            ("l,read,4k,1,1,,,,5", "line 2: there are no IOPS"),
        ] {
            let (what, _) = of_table(&format!("{head}\n{row}\n")).unwrap_err();
            assert!(what.starts_with(said), "{row}: {what}");
        }
    }

    #[test]
    fn rows_of_one_job_are_its_reads_and_its_writes() {
        let of = |second: &str| {
            let head = "load,job,rw,bs,iodepth,numjobs,offered_iops,rate_process,iops";
            of_table(&format!("{head}\nl,a,randread,4k,8,2,500,poisson,9\n{second}\n"))
        };
        for good in [
            "l,a,randwrite,4096,8,2,900,poisson,9",
            "l,a,randread,4k,8,2,500,poisson,8",
            "l,b,write,128k,1,1,,,9",
            "m,a,write,128k,1,1,,,9",
        ] {
            assert_eq!(of(good).map(|(points, _)| points.len()), Ok(2), "{good}");
        }
        for (row, what) in [
            ("l,a,randwrite,128k,8,2,900,poisson,9", "bs"),
            ("l,a,randwrite,4k,16,2,900,poisson,9", "iodepth"),
            ("l,a,randwrite,4k,8,1,900,poisson,9", "numjobs"),
            ("l,a,write,4k,8,2,900,poisson,9", "rw, whether it is random,"),
            ("l,a,randwrite,4k,8,2,900,,9", "rate_process"),
            ("l,a,randread,4k,8,2,900,poisson,9", "offered_iops"),
        ] {
            let said =
                format!("line 3: {what} is not that of line 2, which has the same load and job");
            assert_eq!(of(row).unwrap_err().0, said);
        }
        let (what, expected) = of("l,a,randwrite,4k,8,2,,,9").unwrap_err();
        assert_eq!(what, "line 3: the job of line 2 reads and writes, without a rate of each");
        assert_eq!(expected, "offered_iops in both lines, or two names in `job`");
        // Rows without a job are one each.
        let head = "load,rw,bs,iodepth,iops";
        let each = format!("{head}\nl,read,4k,1,9\nl,write,8k,2,9\n");
        assert_eq!(of_table(&each).unwrap().0.len(), 2);
    }

    #[test]
    fn what_cannot_be_is_named_with_its_place() {
        let rows = [
            ("erase,4k,1,1,1,,,", "line 2: rw is `erase`"),
            ("read,4k,1,1,x,,,", "line 2: iops is `x`"),
            ("read,fast,1,1,1,,,", "line 2: bs is `fast`"),
            ("read,4k,0,1,1,,,", "line 2: iodepth is 0"),
            ("read,4k,1.5,1,1,,,", "line 2: iodepth is `1.5`"),
            ("read,4k,1,1,-3,,,", "line 2: IOPS is -3"),
            ("read,4k,1,1,NaN,,,", "line 2: IOPS is NaN"),
            ("read,4k,1,1,1e-300,,,", "line 2: IOPS is 1e-300"),
            ("read,4k,1,1,1e300,,,", "line 2: IOPS is 1e300"),
            ("read,4k,1,1,1,1e-9,,", "line 2: mean us is 1e-9"),
            ("read,4k,1,1,1,1e10,,", "line 2: mean us is 1000"),
            ("read,4k,1,1,,,,", "line 2: there are no IOPS"),
            ("read,4k,1", "line 2 has 3 cells"),
        ];
        for (row, said) in rows {
            let (what, _) = of_table(&format!("{HEADER}\n{row}\n")).unwrap_err();
            assert!(what.starts_with(said), "{row}: {what}");
        }
        assert!(of_table("a,b\n").unwrap_err().0.starts_with("line 1 is `a,b`"));
        let (what, _) = of_table(&format!("{HEADER},p99_ms\n")).unwrap_err();
        assert_eq!(what, "line 1 has two columns of the same times, `p99_us` and `p99_ms`");
        let table = "rw;bs;iodepth;iops\nread;4k;1;12000,5\n";
        let decimals = "a number above 0, its decimals behind a point";
        assert_eq!(
            of_table(table).unwrap_err(),
            ("line 2: iops is `12000,5`".into(), decimals.into())
        );
    }
}
