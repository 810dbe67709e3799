//! Points that were measured on a drive: fio's JSON output, or a table.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// What is compared: (name, the metric of a run behind `read_` or `write_`).
pub(crate) const METRICS: [(&str, &str); 4] = [
    ("IOPS", "iops"),
    ("mean us", "latency_us_mean"),
    ("p50 us", "latency_us_p50"),
    ("p99 us", "latency_us_p99"),
];
pub(super) const KINDS: [&str; 4] = ["read", "write", "randread", "randwrite"];
/// What fio has, too, and what is not compared.
const MIXED: [&str; 6] = ["rw", "readwrite", "randrw", "trim", "randtrim", "append"];
/// The columns of a table, and the names that others give them.
const COLUMNS: [(&str, &[&str]); 8] = [
    ("rw", &["operation"]),
    ("bs", &["block_size", "blocksize"]),
    ("iodepth", &["qd", "depth", "queue_depth"]),
    ("numjobs", &["jobs"]),
    ("iops", &[]),
    ("mean_us", &["lat_mean_us"]),
    ("p50_us", &["p50"]),
    ("p99_us", &["p99"]),
];
/// Other units of a column that ends in `_us`, and microseconds of each.
const UNITS: [(&str, f64); 3] = [("_ns", 1e-3), ("_ms", 1e3), ("_s", 1e6)];
/// Without these there is no point.
const NEEDED: [&str; 4] = ["rw", "bs", "iodepth", "iops"];

/// One load, and what the drive did under it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Point {
    /// As fio calls it.
    pub(crate) rw: String,
    /// As fio writes it.
    pub(crate) bs: String,
    pub(crate) iodepth: u32,
    pub(crate) numjobs: u32,
    /// By [`METRICS`]; what was not measured is left out.
    pub(crate) measured: [Option<f64>; METRICS.len()],
}

impl Point {
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
            _ => 1,
        };
        digits.parse::<u64>().map_or(0, |number| number.saturating_mul(factor))
    }

    /// For people.
    pub(crate) fn label(&self) -> String {
        let jobs = if self.numjobs > 1 { format!("{} x ", self.numjobs) } else { String::new() };
        format!("{} {} depth {jobs}{}", self.rw, self.bs, self.iodepth)
    }

    /// Why it cannot have been measured, if that is so: (what, what was expected).
    pub(super) fn wrong(&self) -> Option<(String, String)> {
        let digits = self.bs.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        if !KINDS.contains(&self.rw.as_str()) {
            return Some((format!("rw is `{}`", self.rw), format!("one of {}", KINDS.join(", "))));
        }
        if digits.parse::<u64>().map_or(true, |number| number == 0) {
            return Some((format!("bs is `{}`", self.bs), "a size such as 4k".into()));
        }
        for (name, value) in [("iodepth", self.iodepth), ("numjobs", self.numjobs)] {
            if !(1..=4096).contains(&value) {
                return Some((format!("{name} is {value}"), "1 to 4096".into()));
            }
        }
        let possible = |value: f64| value.is_finite() && value > 0.0;
        let none = |(index, value): (usize, &Option<f64>)| {
            value.filter(|&value| !possible(value)).map(|value| (METRICS[index].0, value))
        };
        if let Some((name, value)) = self.measured.iter().enumerate().find_map(none) {
            return Some((format!("{name} is {value}"), "a number above 0".into()));
        }
        self.measured[0].is_none().then(|| ("there are no IOPS".into(), "IOPS above 0".into()))
    }
}

/// What is wrong, and what was expected.
pub(crate) type Wrong = (String, String);

/// The head of a table, for people.
pub(crate) fn shown(header: &csv::StringRecord) -> String {
    header.iter().collect::<Vec<_>>().join(",").chars().take(80).collect()
}

/// Where a column is, and what its numbers are multiplied by.
type Place = (usize, f64);

/// Where the columns are; others may stand between them.
fn columns(header: &csv::StringRecord) -> Result<[Option<Place>; COLUMNS.len()], Wrong> {
    let place = |wanted: &str| column(header, wanted);
    let in_unit = |name: &str| {
        let stem = name.strip_suffix("_us")?;
        UNITS.iter().find_map(|(unit, us)| Some((place(&format!("{stem}{unit}"))?, *us)))
    };
    let found = COLUMNS.map(|(name, others)| {
        let mut names = [name].into_iter().chain(others.iter().copied());
        let plain = names.clone().find_map(place).map(|place| (place, 1.0));
        plain.or_else(|| names.find_map(in_unit))
    });
    let missing = COLUMNS
        .iter()
        .zip(&found)
        .find(|((name, _), place)| place.is_none() && NEEDED.contains(name));
    let Some(((name, _), _)) = missing else { return Ok(found) };
    let shown = shown(header);
    let known = COLUMNS.map(|(name, _)| name).join(",");
    Err((
        format!("line 1 is `{shown}`, without a column `{name}`"),
        format!("fio's JSON, or a table with the columns {known}"),
    ))
}

/// The rows of a table. Spreadsheets of many countries, and `cut`, separate columns by something
/// else than commas.
pub(super) fn table(text: &str) -> csv::Reader<&[u8]> {
    let text = text.trim_start_matches('\u{feff}');
    let header = text.lines().next().unwrap_or_default().as_bytes();
    let separator = [b',', b';', b'\t'].into_iter().find(|byte| header.contains(byte));
    csv::ReaderBuilder::new().delimiter(separator.unwrap_or(b',')).from_reader(text.as_bytes())
}

/// Where the column of that name is.
pub(super) fn column(header: &csv::StringRecord, wanted: &str) -> Option<usize> {
    header.iter().position(|name| name.trim().eq_ignore_ascii_case(wanted))
}

/// A size as fio writes it: `4k` of `4 KiB`.
fn size(text: &str) -> String {
    let text: String = text.to_lowercase().split_whitespace().collect();
    let text = text.strip_suffix("bs").or(text.strip_suffix('b')).unwrap_or(&text);
    text.strip_suffix('i').unwrap_or(text).to_string()
}

pub(super) fn of_table(text: &str) -> Result<(Vec<Point>, Vec<String>), Wrong> {
    let mut reader = table(text);
    let unreadable = |why: csv::Error| (why.to_string(), "a table of comma-separated values");
    let header = reader.headers().map_err(unreadable).map_err(|(a, b)| (a, b.to_string()))?;
    let places = columns(header)?;
    let (mut points, mut left_out) = (Vec::new(), BTreeMap::<String, u64>::new());
    for (index, row) in reader.records().enumerate() {
        let line = index + 2;
        let row = row.map_err(|why| (format!("line {line}: {why}"), "as many as line 1".into()))?;
        let cells = places.map(|place| {
            let (place, factor) = place.unwrap_or((usize::MAX, 1.0));
            (row.get(place).unwrap_or("").trim(), factor)
        });
        if MIXED.contains(&cells[0].0) {
            *left_out.entry(cells[0].0.to_string()).or_default() += 1;
            continue;
        }
        let point =
            of_row(&cells).map_err(|(what, want)| (format!("line {line}: {what}"), want))?;
        points.push(point);
    }
    let left_out = left_out.iter().map(|(rw, lines)| format!("{lines} lines of rw={rw} left out"));
    Ok((points, left_out.collect()))
}

fn of_row(cells: &[(&str, f64); COLUMNS.len()]) -> Result<Point, Wrong> {
    let whole = |index: usize| match cells[index].0 {
        "" => Ok(1),
        text => text.parse::<u32>().map_err(|_| {
            (format!("{} is `{text}`", COLUMNS[index].0), "a whole number, 1 to 4096".to_string())
        }),
    };
    let number = |index: usize| match cells[index] {
        ("", _) => Ok(None),
        (text, factor) => text.parse::<f64>().map(|value| Some(value * factor)).map_err(|_| {
            (format!("{} is `{text}`", COLUMNS[index].0), "a number above 0".to_string())
        }),
    };
    let point = Point {
        rw: cells[0].0.to_string(),
        bs: size(cells[1].0),
        iodepth: whole(2)?,
        numjobs: whole(3)?,
        measured: unless_left_out([number(4)?, number(5)?, number(6)?, number(7)?]),
    };
    point.wrong().map_or(Ok(point), Err)
}

/// Times of 0 are those that fio was told not to take (`gtod_reduce`, `disable_lat`).
fn unless_left_out(measured: [Option<f64>; METRICS.len()]) -> [Option<f64>; METRICS.len()] {
    let [iops, times @ ..] = measured;
    let [mean, p50, p99] = times.map(|time| time.filter(|time| *time != 0.0));
    [iops, mean, p50, p99]
}

/// A job's option: its own, or that of all.
fn option<'a>(global: &'a Map<String, Value>, job: &'a Value, names: &[&str]) -> Option<&'a str> {
    let own = job.get("job options").and_then(Value::as_object);
    let tables = own.into_iter().chain([global]);
    tables.flat_map(|table| names.iter().filter_map(|name| table.get(*name)?.as_str())).next()
}

pub(super) fn of_fio(text: &str) -> Result<(Vec<Point>, Vec<String>), Wrong> {
    let whole: Value = serde_json::from_str(text)
        .map_err(|why| (format!("line {}: {why}", why.line()), "fio's JSON output".into()))?;
    let jobs = whole.get("jobs").and_then(Value::as_array).ok_or_else(|| {
        ("there is no list `jobs`".to_string(), "the output of fio --output-format=json".into())
    })?;
    let none = Map::new();
    let global = whole.get("global options").and_then(Value::as_object).unwrap_or(&none);
    // Without group_reporting each clone of a job has an entry, all under one name.
    let mut by_name: BTreeMap<(usize, &str), Vec<&Value>> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for job in jobs {
        let name = job.get("jobname").and_then(Value::as_str).unwrap_or_default();
        let place = order.iter().position(|known| *known == name).unwrap_or_else(|| {
            order.push(name);
            order.len() - 1
        });
        by_name.entry((place, name)).or_default().push(job);
    }
    let (mut points, mut left_out) = (Vec::new(), Vec::new());
    for ((_, name), clones) in by_name {
        let rw = option(global, clones[0], &["rw", "readwrite"]).unwrap_or("read");
        if !KINDS.contains(&rw) {
            left_out.push(format!("job `{name}`: rw={rw} is left out"));
            continue;
        }
        let point = of_jobs(global, rw, &clones);
        let point =
            point.map_err(|(what, expected)| (format!("job `{name}`: {what}"), expected))?;
        if let Some((what, expected)) = point.wrong() {
            return Err((format!("job `{name}`: {what}"), expected));
        }
        points.push(point);
    }
    Ok((points, left_out))
}

/// The point of a job and its clones: rates add up, the mean is that of all, a percentile that of
/// the clone in which it was largest.
fn of_jobs(global: &Map<String, Value>, rw: &str, clones: &[&Value]) -> Result<Point, Wrong> {
    let number = |names: &[&str]| match option(global, clones[0], names) {
        None => Ok(1),
        Some(text) => text
            .trim()
            .parse::<u32>()
            .map_err(|_| (format!("{} is `{text}`", names[0]), "a whole number".to_string())),
    };
    let bs = option(global, clones[0], &["bs", "blocksize"]).unwrap_or("4k").to_string();
    let (iodepth, numjobs) = (number(&["iodepth"])?, number(&["numjobs"])?);
    let direction = if rw.ends_with("read") { "read" } else { "write" };
    let of = |clone: &Value, pointer: &str| {
        clone.pointer(&format!("/{direction}/{pointer}")).and_then(Value::as_f64)
    };
    let iops: Option<Vec<f64>> = clones.iter().map(|clone| of(clone, "iops")).collect();
    let iops = iops.ok_or_else(|| {
        (format!("no {direction}.iops"), "the output of fio --output-format=json".into())
    })?;
    let total: f64 = iops.iter().sum();
    // fio 2 wrote microseconds.
    let time = |clone: &Value, kind: &str, pointer: &str| {
        let ns = of(clone, &format!("{kind}_ns/{pointer}")).map(|ns| ns / 1e3);
        ns.or_else(|| of(clone, &format!("{kind}/{pointer}")))
    };
    let means: Option<Vec<f64>> = clones.iter().map(|clone| time(clone, "lat", "mean")).collect();
    let mean = means
        .map(|means| means.iter().zip(&iops).map(|(mean, rate)| mean * rate).sum::<f64>() / total);
    let largest = |key: &str| {
        let pointer = format!("percentile/{key}");
        clones.iter().filter_map(|clone| time(clone, "clat", &pointer)).reduce(f64::max)
    };
    let measured = [Some(total), mean, largest("50.000000"), largest("99.000000")];
    let measured = unless_left_out(measured);
    let numjobs = numjobs.max(clones.len() as u32);
    Ok(Point { rw: rw.into(), bs, iodepth, numjobs, measured })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "rw,bs,iodepth,numjobs,iops,mean_us,p50_us,p99_us";
    const JOB: &str = r#"{"jobname":"a","job options":{"iodepth":"8"},"read":{"iops":100.5,
        "lat_ns":{"mean":2000},"clat_ns":{"percentile":{"50.000000":1500,"99.000000":9000}}}}"#;

    fn fio(jobs: &str) -> String {
        format!(r#"{{"global options":{{"rw":"randread","bs":"4k"}},"jobs":[{jobs}]}}"#)
    }

    #[test]
    fn a_job_is_a_point_and_its_clones_are_one() {
        let (points, _) = of_fio(&fio(JOB)).unwrap();
        let measured = [Some(100.5), Some(2.0), Some(1.5), Some(9.0)];
        let one =
            Point { rw: "randread".into(), bs: "4k".into(), iodepth: 8, numjobs: 1, measured };
        assert_eq!(points, std::slice::from_ref(&one));
        let (points, _) = of_fio(&fio(&[JOB, JOB].join(","))).unwrap();
        let measured = [Some(201.0), Some(2.0), Some(1.5), Some(9.0)];
        assert_eq!(points, [Point { numjobs: 2, measured, ..one.clone() }]);
        assert_eq!(points[0].label(), "randread 4k depth 2 x 8");
        // fio 2 has microseconds.
        let old = JOB.replace("_ns", "").replace("2000", "2").replace("1500", "1.5");
        let (points, _) = of_fio(&fio(&old.replace("9000", "9"))).unwrap();
        assert_eq!(points, [one]);
    }

    #[test]
    fn times_that_were_not_taken_are_not_compared() {
        let untimed = JOB.replace("2000", "0").replace("1500", "0").replace("9000", "0");
        let (points, _) = of_fio(&fio(&untimed)).unwrap();
        assert_eq!(points[0].measured, [Some(100.5), None, None, None]);
        let (points, _) = of_table(&format!("{HEADER}\nread,4k,1,1,9,0,0.0,5\n")).unwrap();
        assert_eq!(points[0].measured, [Some(9.0), None, None, Some(5.0)]);
    }

    #[test]
    fn mixed_jobs_are_left_out_with_a_word() {
        let mixed = JOB.replace(r#""iodepth":"8""#, r#""rw":"randrw""#).replace("\"a\"", "\"m\"");
        let (points, left_out) = of_fio(&fio(&[JOB, &mixed].join(","))).unwrap();
        assert_eq!((points.len(), left_out), (1, vec!["job `m`: rw=randrw is left out".into()]));
    }

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
        assert_eq!(left_out, ["1 lines of rw=trim left out"]);
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
    fn what_cannot_be_is_named_with_its_place() {
        let rows = [
            ("erase,4k,1,1,1,,,", "line 2: rw is `erase`"),
            ("read,4k,1,1,x,,,", "line 2: iops is `x`"),
            ("read,fast,1,1,1,,,", "line 2: bs is `fast`"),
            ("read,4k,0,1,1,,,", "line 2: iodepth is 0"),
            ("read,4k,1,1,-3,,,", "line 2: IOPS is -3"),
            ("read,4k,1,1,NaN,,,", "line 2: IOPS is NaN"),
            ("read,4k,1,1,,,,", "line 2: there are no IOPS"),
            ("read,4k,1", "line 2: "),
        ];
        for (row, said) in rows {
            let (what, _) = of_table(&format!("{HEADER}\n{row}\n")).unwrap_err();
            assert!(what.starts_with(said), "{row}: {what}");
        }
        for (text, said) in [
            ("{", "line 1: "),
            ("{\"jobs\":3}", "there is no list `jobs`"),
            (&*fio(&JOB.replace("\"8\"", "\"many\"")), "job `a`: iodepth is `many`"),
            (&*fio(&JOB.replace("100.5", "\"x\"")), "job `a`: no read.iops"),
            (&*fio(&JOB.replace("100.5", "0")), "job `a`: IOPS is 0"),
        ] {
            let (what, _) = of_fio(text).unwrap_err();
            assert!(what.starts_with(said), "{text}: {what}");
        }
        assert!(of_table("a,b\n").unwrap_err().0.starts_with("line 1 is `a,b`"));
    }
}
