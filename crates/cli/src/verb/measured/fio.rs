//! Points of fio's JSON output.

use serde_json::{Map, Value};
use workload::fio;

use super::grouped;
use super::jobs::{Job, at_once, by_job, note_of, note_of_drives, of_several_drives};
use super::outputs::{Entry, entries, option, runs};
use super::points::{Beside, KINDS, Offered, Point, Wrong, of_process, unless_left_out};
use workload::fio::{SYNCHRONOUS, USUAL};

/// The option of a job that asks for requests of several sizes.
fn of_several_sizes(global: &Map<String, Value>, job: &Value) -> Option<String> {
    // Shares go before any other size, a range before those of all.
    let own = job.get("job options").and_then(Value::as_object);
    let has = |table: &Map<String, Value>, names: &[&str]| {
        let found = names.iter().find_map(|name| Some((name.to_string(), table.get(*name)?)));
        found.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()))
    };
    let tables: Vec<&Map<String, Value>> = own.into_iter().chain([global]).collect();
    let shares = tables.iter().find_map(|table| has(table, &["bssplit"]));
    let ranges = || {
        let sized = tables.iter().find(|table| has(table, &SIZES).is_some())?;
        has(sized, &SIZES[..2])
    };
    // Of reads and of writes; alike, they are one.
    let halves = || {
        let bs = option(global, job, &SIZES[2..])?;
        let mut all = bs.split(',').map(bytes);
        let first = all.next();
        all.any(|size| Some(size) != first).then(|| format!("bs={bs}"))
    };
    shares.or_else(ranges).or_else(halves)
}

/// Bytes of a size as fio writes it.
fn bytes(bs: &str) -> u64 {
    Point { bs: bs.trim().to_string(), ..Point::default() }.bytes()
}

/// Options for the size of requests; the first two are ranges.
const SIZES: [&str; 4] = ["bsrange", "blocksize_range", "bs", "blocksize"];

/// Whether what was measured may be the memory of the host.
fn may_be_cached(global: &Map<String, Value>, job: &Value) -> bool {
    let is = |name: &str, value: &str| option(global, job, &[name]).map(str::trim) == Some(value);
    !is("direct", "1") && !is("buffered", "0")
}

/// The option of a job that makes other requests than its point says, or at other times.
fn reshaped(global: &Map<String, Value>, job: &Value, rw: &str) -> Option<String> {
    let own = job.get("job options").and_then(Value::as_object);
    let inherited = global.iter().filter(|(key, _)| own.is_none_or(|own| !own.contains_key(*key)));
    let mut all = own.into_iter().flatten().chain(inherited);
    all.find_map(|(key, value)| {
        let value = value.as_str().filter(|value| fio::reshapes(rw, key, value))?;
        Some(format!("{key}={value}"))
    })
}

/// Whether a job was kept within a part of the drive.
fn is_within(global: &Map<String, Value>, job: &Value) -> bool {
    option(global, job, &["size"]).is_some_and(|size| size.trim() != "100%")
}

/// The points that a job is, by their `rw`, or why it is left out.
fn patterns(jobs: &[Job], job: &Job) -> Result<Vec<String>, String> {
    let Entry { global, job: first, .. } = job.clones[0];
    let own = kinds(global, first)?;
    let failed = job.clones.iter().filter_map(|clone| clone.number("error")).find(|it| *it != 0);
    if let Some(number) = failed {
        return Err(format!("it ended with error {number}, and"));
    }
    let bs = size(&job.clones[0]);
    let why = grouped::others(job, &own, (bs, bytes(bs)));
    match why.or_else(|| of_several_drives(jobs, job)).or_else(|| without_a_request(job, &own)) {
        Some(why) => Err(why),
        None => Ok(own),
    }
}

/// The size of its requests, of which there is one.
fn size<'a>(entry: &'a Entry) -> &'a str {
    let bs = entry.option(&SIZES[2..]).unwrap_or("4k");
    bs.split_once(',').map_or(bs, |(first, _)| first.trim())
}

/// What a job asked for and did not get.
fn without_a_request(job: &Job, own: &[String]) -> Option<String> {
    let does_nothing = |rw: &&String| {
        let rate = |clone: &Entry| grouped::number(clone, direction(rw), "iops");
        job.clones.iter().all(|clone| rate(clone) == Some(0.0))
    };
    let rw = own.iter().find(does_nothing)?;
    Some(format!("it did no {}, and", direction(rw)))
}

/// The half of fio's numbers that `rw` is about.
fn direction(rw: &str) -> &'static str {
    if rw.ends_with("read") { "read" } else { "write" }
}

/// The same, by its options.
fn kinds(global: &Map<String, Value>, job: &Value) -> Result<Vec<String>, String> {
    let rw = option(global, job, &["rw", "readwrite"]).unwrap_or("read");
    let paced = option(global, job, &["rate_iops"]).is_some();
    let own = match rw {
        rw if KINDS.contains(&rw) => vec![rw],
        // What is in a mix is said by the rates; without them it is not run.
        "randrw" if paced => vec!["randread", "randwrite"],
        "rw" | "readwrite" if paced => vec!["read", "write"],
        _ => return Err(format!("rw={rw}")),
    };
    match of_several_sizes(global, job).or_else(|| reshaped(global, job, rw)) {
        Some(option) => Err(option),
        None => Ok(own.into_iter().map(String::from).collect()),
    }
}

/// Whether times were taken, but not all that are compared.
fn lacks_percentiles(point: &Point) -> bool {
    let [_, mean, p50, p99] = point.measured;
    mean.is_some() && (p50.is_none() || p99.is_none())
}

pub(super) fn of_fio(text: &str) -> Result<(Vec<Point>, Vec<String>), Wrong> {
    let (runs, none) = (runs(text)?, Map::new());
    let entries = entries(&runs, &none)?;
    if let Some(silent) = entries.iter().find(|entry| !entry.says_what_was_asked()) {
        let name = silent.job.get("jobname").and_then(Value::as_str).unwrap_or_default();
        let what = format!("job `{name}`: this fio does not say what it asked for");
        let expected = "the JSON of fio 2.2.11 or newer, which has `job options`";
        return Err((
            what,
            format!("{expected}; or write a table with rw,bs,iodepth,numjobs,iops"),
        ));
    }
    let jobs = by_job(&entries);
    let (mut points, mut notes, mut of_job) = (Vec::new(), Vec::new(), Vec::new());
    let (mut cached, mut within): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut unnamed: Vec<&str> = Vec::new();
    for (number, job) in jobs.iter().enumerate() {
        let name = &job.name;
        let own = match patterns(&jobs, job) {
            Ok(own) => own,
            Err(option) => {
                notes.push(format!("job `{name}`: {option} is left out"));
                continue;
            }
        };
        let Entry { global, job: first, .. } = job.clones[0];
        cached.extend(may_be_cached(global, first).then_some(&**name));
        within.extend(is_within(global, first).then_some(&**name));
        let of_name = |(what, expected): Wrong| (format!("job `{name}`: {what}"), expected);
        for rw in &own {
            let mut point = of_jobs(rw, &job.clones).map_err(of_name)?;
            let has_engine = option(global, first, &["ioengine"]).is_some();
            if point.iodepth > 1 && !has_engine && unnamed.last() != Some(&&**name) {
                unnamed.push(name);
            }
            if let Some(wrong) = point.wrong() {
                return Err(of_name(wrong));
            }
            if own.len() > 1 {
                point.beside = Some(Beside { load: name.clone(), job: name.clone() });
            }
            points.push(point);
            of_job.push(number);
        }
    }
    notes.extend(at_once(&mut points, &jobs, &of_job));
    notes.extend(note_of_drives(of_job.iter().map(|&number| &jobs[number])));
    let without = points.iter().zip(&of_job).filter(|(point, _)| lacks_percentiles(point));
    let mut without: Vec<&str> = without.map(|(_, &number)| &*jobs[number].name).collect();
    without.dedup();
    let listed =
        "no 50th or no 99th percentile was listed (percentile_list): what is there is compared";
    notes.extend(note_of(&without, listed));
    notes.extend(note_of(&cached, "without direct=1, the host's page cache may have answered"));
    let all_over = "size kept it within a part of the drive, and parts are asked all over";
    notes.extend(note_of(&within, all_over));
    let one = format!(
        "no ioengine is named; if fio took its usual one on Linux, {USUAL}, one request was in \
         flight per job whatever iodepth says"
    );
    notes.extend(note_of(&unnamed, &one));
    Ok((points, notes))
}

/// Requests a second as fio has them: `8k` are 8,192, if `kb_base` says nothing else.
fn rate(global: &Map<String, Value>, job: &Value, text: &str) -> Option<f64> {
    let base = option(global, job, &["kb_base"]).map(str::trim);
    let rate = fio::number(text, if base == Some("1000") { 1000 } else { 1024 });
    rate.ok().map(|rate| rate as f64)
}

/// A depth that an engine takes no notice of is not what the drive was measured at.
fn one_at_a_time(engine: Option<&str>, iodepth: u32) -> Result<(), Wrong> {
    let Some(engine) = engine.filter(|engine| iodepth > 1 && SYNCHRONOUS.contains(engine)) else {
        return Ok(());
    };
    let what = format!(
        "iodepth is {iodepth}, but ioengine={engine} takes no notice of it: one request was in \
         flight per job"
    );
    let expected = "a run with --ioengine=io_uring or libaio, which have as many as iodepth says";
    Err((what, format!("{expected}, or iodepth=1")))
}

/// The point of a job and its clones: rates add up, the mean is that of all, a percentile that of
/// the clone in which it was largest.
fn of_jobs(rw: &str, clones: &[Entry]) -> Result<Point, Wrong> {
    let Entry { global, job: first, .. } = clones[0];
    let number = |names: &[&str]| match option(global, first, names) {
        None => Ok(1),
        Some(text) => text
            .trim()
            .parse::<u32>()
            .map_err(|_| (format!("{} is `{text}`", names[0]), "a whole number".to_string())),
    };
    let bs = size(&clones[0]).to_string();
    let (iodepth, numjobs) = (number(&["iodepth"])?, number(&["numjobs"])?);
    one_at_a_time(option(global, first, &["ioengine"]), iodepth)?;
    let direction = direction(rw);
    let of = |clone: &Entry, pointer: &str| {
        clone.job.pointer(&format!("/{direction}/{pointer}")).and_then(Value::as_f64)
    };
    let iops: Option<Vec<f64>> = clones.iter().map(|clone| of(clone, "iops")).collect();
    let iops = iops.ok_or_else(|| {
        (format!("no {direction}.iops"), "the output of fio --output-format=json".into())
    })?;
    let total: f64 = iops.iter().sum();
    // fio 2 wrote microseconds.
    let time = |clone: &Entry, kind: &str, pointer: &str| {
        let ns = of(clone, &format!("{kind}_ns/{pointer}")).map(|ns| ns / 1e3);
        ns.or_else(|| of(clone, &format!("{kind}/{pointer}")))
    };
    let means: Option<Vec<f64>> = clones.iter().map(|clone| time(clone, "lat", "mean")).collect();
    let mean = means
        .map(|means| means.iter().zip(&iops).map(|(mean, rate)| mean * rate).sum::<f64>() / total);
    let largest = |key: &str| {
        let pointer = format!("percentile/{key}");
        // Those of the whole time, as the mean is, or of what follows the submission, and that.
        let whole = |clone: &Entry| {
            time(clone, "lat", &pointer).or_else(|| {
                let submitted = time(clone, "slat", "mean").unwrap_or_default();
                time(clone, "clat", &pointer).map(|since| since + submitted)
            })
        };
        clones.iter().filter_map(whole).reduce(f64::max)
    };
    let measured = [Some(total), mean, largest("50.000000"), largest("99.000000")];
    let measured = unless_left_out(measured);
    let numjobs = numjobs.max(clones.len() as u32);
    let offered = match option(global, first, &["rate_iops"]) {
        None => None,
        Some(rates) => {
            // One for both, or those of reads and of writes.
            let (read, write) = rates.split_once(',').unwrap_or((rates, rates));
            let own = if direction == "read" { read } else { write };
            let iops = rate(global, first, own).ok_or_else(|| {
                (format!("rate_iops is `{rates}`"), "requests a second, as 5000 or 8k".to_string())
            })?;
            let poisson = of_process(option(global, first, &["rate_process"]).unwrap_or_default())?;
            Some(Offered { iops: iops * f64::from(numjobs), poisson })
        }
    };
    Ok(Point { rw: rw.into(), bs, iodepth, numjobs, measured, offered, beside: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = r#"{"jobname":"a",
        "job options":{"iodepth":"8","ioengine":"libaio","direct":"1"},
        "read":{"iops":100.5,"lat_ns":{"mean":2000},
        "clat_ns":{"percentile":{"50.000000":1500,"99.000000":9000}}}}"#;

    fn fio(jobs: &str) -> String {
        format!(r#"{{"global options":{{"rw":"randread","bs":"4k"}},"jobs":[{jobs}]}}"#)
    }

    #[test]
    fn a_job_is_a_point_and_its_clones_are_one() {
        let (points, _) = of_fio(&fio(JOB)).unwrap();
        let measured = [Some(100.5), Some(2.0), Some(1.5), Some(9.0)];
        let one = Point {
            rw: "randread".into(),
            bs: "4k".into(),
            iodepth: 8,
            numjobs: 1,
            measured,
            ..Point::default()
        };
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
    }

    #[test]
    fn mixed_jobs_are_left_out_with_a_word() {
        let mixed = JOB.replace(r#""iodepth":"8""#, r#""rw":"randrw""#).replace("\"a\"", "\"m\"");
        let (points, left_out) = of_fio(&fio(&[JOB, &mixed].join(","))).unwrap();
        assert_eq!((points.len(), left_out), (1, vec!["job `m`: rw=randrw is left out".into()]));
    }

    #[test]
    fn what_cannot_be_is_named_with_its_job() {
        for (text, said) in [
            ("{", "line 1: "),
            ("{\"jobs\":3}", "there is no list `jobs`"),
            (&*fio(&JOB.replace("\"8\"", "\"many\"")), "job `a`: iodepth is `many`"),
            (&*fio(&JOB.replace("100.5", "\"x\"")), "job `a`: no read.iops"),
            (&*fio(&JOB.replace("100.5", "1e-9")), "job `a`: IOPS is 1e-9"),
            (&*fio(&paced("many")), "job `a`: rate_iops is `many`"),
            (&*fio(&paced("0")), "job `a`: offered_iops is 0"),
        ] {
            let (what, _) = of_fio(text).unwrap_err();
            assert!(what.starts_with(said), "{text}: {what}");
        }
    }

    #[test]
    fn jobs_of_several_sizes_are_left_out_with_a_word() {
        let of = |own: &str, all: &str| {
            let job = JOB.replace(r#""iodepth":"8""#, &format!(r#""iodepth":"8"{own}"#));
            let text = fio(&job).replace(r#","bs":"4k""#, all);
            of_fio(&text).map(|(points, notes)| (points.first().map(|it| it.bs.clone()), notes))
        };
        let left_out = |what: &str| Ok((None, vec![format!("job `a`: {what} is left out")]));
        let sized = |bs: &str| Ok((Some(bs.to_string()), Vec::new()));
        for (own, all, is) in [
            (r#","bsrange":"4k-64k""#, "", left_out("bsrange=4k-64k")),
            (r#","blocksize_range":"4k-8k""#, "", left_out("blocksize_range=4k-8k")),
            (r#","bssplit":"4k/60:8k/40""#, "", left_out("bssplit=4k/60:8k/40")),
            (r#","bs":"4k""#, r#","bssplit":"4k/60:8k/40""#, left_out("bssplit=4k/60:8k/40")),
            (r#","bsrange":"4k-8k""#, r#","bs":"4k""#, left_out("bsrange=4k-8k")),
            ("", r#","bsrange":"4k-8k""#, left_out("bsrange=4k-8k")),
            (r#","bs":"16k""#, r#","bsrange":"4k-8k""#, sized("16k")),
            (r#","blocksize":"16k""#, r#","bs":"4k""#, sized("16k")),
            ("", r#","blocksize":"16k""#, sized("16k")),
            (r#","bs":"4k,64k""#, "", left_out("bs=4k,64k")),
            ("", r#","bs":"4k,64k,4k""#, left_out("bs=4k,64k,4k")),
            (r#","bs":"8k,8192""#, "", sized("8k")),
            ("", "", sized("4k")),
        ] {
            assert_eq!(of(own, all), is, "{own} {all}");
        }
    }

    #[test]
    fn jobs_of_one_name_that_are_no_clones_are_points_of_their_own() {
        let of = |jobs: &[&str]| {
            let (points, _) = of_fio(&fio(&jobs.join(","))).unwrap();
            let point = |it: &Point| (it.rw.clone(), it.bs.clone(), it.numjobs, it.measured[0]);
            points.iter().map(point).collect::<Vec<_>>()
        };
        let one = |rw: &str, bs: &str| (rw.to_string(), bs.to_string(), 1, Some(100.5));
        let larger = JOB.replace("\"iodepth\"", r#""bs":"128k","iodepth""#);
        let sizes = [one("randread", "4k"), one("randread", "128k")];
        assert_eq!(of(&[JOB, &larger]), sizes);
        let write = JOB.replace("\"iodepth\"", r#""rw":"randwrite","iodepth""#);
        let write = write.replace("\"read\":", "\"write\":");
        assert_eq!(of(&[JOB, &write]), [one("randread", "4k"), one("randwrite", "4k")]);
        // Runs of one job, put into one file.
        let at = |own: &str| JOB.replace(r#""jobname":"a""#, &format!(r#""jobname":"a",{own}"#));
        let twice = [one("randread", "4k"), one("randread", "4k")];
        let [first, clone, later] =
            [5_000, 5_003, 90_000].map(|start| at(&format!(r#""job_start":{start}"#)));
        assert_eq!(of(&[&first, &later]), twice);
        assert_eq!(of(&[&at(r#""groupid":0"#), &at(r#""groupid":1"#)]), twice);
        let cloned = vec![("randread".to_string(), "4k".to_string(), 2, Some(201.0))];
        assert_eq!(of(&[&first, &clone]), cloned);
        // Each is named, and mixes of two are two loads.
        let wrong = fio(&[JOB, &larger.replace("100.5", "-1")].join(","));
        assert_eq!(of_fio(&wrong).unwrap_err().0, "job `a #2`: IOPS is -1");
        let idle = fio(&[JOB, &larger.replace("100.5", "0")].join(","));
        let (points, notes) = of_fio(&idle).unwrap();
        let said = "job `a #2`: it did no read, and is left out";
        assert_eq!((points.len(), &notes[..]), (1, &[said.to_string()][..]));
        let mix = |rates: &str| {
            let mix = paced(rates).replace("\"iodepth\"", r#""rw":"randrw","iodepth""#);
            mix.replace("\"read\":", r#""write":{"iops":9},"read":"#)
        };
        let (points, _) = of_fio(&fio(&[mix("100"), mix("200")].join(","))).unwrap();
        let loads: Vec<&str> =
            points.iter().filter_map(|it| Some(&*it.beside.as_ref()?.load)).collect();
        assert_eq!(loads, ["a", "a", "a #2", "a #2"]);
    }

    #[test]
    fn jobs_that_were_throttled_or_shaped_are_left_out_with_a_word() {
        let of = |own: &str, all: &str| {
            let job = JOB.replace(r#""iodepth":"8""#, &format!(r#""iodepth":"8"{own}"#));
            let (points, notes) = of_fio(&fio(&job).replace(r#","bs":"4k""#, all)).unwrap();
            (points.len(), notes)
        };
        let left_out = |what: &str| (0, vec![format!("job `a`: {what} is left out")]);
        for (own, all, is) in [
            (r#","rate":"100m""#, "", left_out("rate=100m")),
            (r#","thinktime":"50us""#, "", left_out("thinktime=50us")),
            ("", r#","thinktime":"50us""#, left_out("thinktime=50us")),
            (r#","thinktime":"0""#, r#","thinktime":"50us""#, (1, Vec::new())),
            (r#","random_distribution":"zipf:1.1""#, "", left_out("random_distribution=zipf:1.1")),
            (r#","iodepth_batch":"8""#, "", left_out("iodepth_batch=8")),
            // Reads are not followed by a flush, and sequential ones are not drawn.
            (r#","fsync":"1""#, "", (1, Vec::new())),
            (r#","rw":"read","random_distribution":"zipf:1.1""#, "", (1, Vec::new())),
        ] {
            assert_eq!(of(own, all), is, "{own} {all}");
        }
        let written = JOB.replace("\"read\":", "\"write\":");
        for option in [r#""fsync":"1""#, r#""fdatasync":"8""#, r#""sync":"1""#] {
            let own = format!(r#""rw":"randwrite",{option},"iodepth""#);
            let (points, notes) = of_fio(&fio(&written.replace("\"iodepth\"", &own))).unwrap();
            let said = option.replace('"', "").replace(':', "=");
            let left_out = [format!("job `a`: {said} is left out")];
            assert_eq!((points.len(), &notes[..]), (0, &left_out[..]));
        }
        let said = "job `a`: size kept it within a part of the drive, and parts are asked all over";
        assert_eq!(of(r#","size":"1g""#, ""), (1, vec![said.to_string()]));
        assert_eq!(of(r#","size":"100%""#, ""), (1, Vec::new()));
    }

    #[test]
    fn what_the_page_cache_may_have_answered_is_told() {
        let noted = |jobs: &str| of_fio(&fio(jobs)).unwrap().1;
        let told = |which| {
            vec![format!("{which}: without direct=1, the host's page cache may have answered")]
        };
        let none = JOB.replace(r#","direct":"1""#, "");
        assert_eq!(noted(JOB), Vec::<String>::new());
        assert_eq!(noted(&none), told("job `a`"));
        assert_eq!(noted(&JOB.replace(r#""direct":"1""#, r#""direct":"0""#)), told("job `a`"));
        let not_buffered = JOB.replace(r#""direct":"1""#, r#""buffered":"0""#);
        assert_eq!(noted(&not_buffered), Vec::<String>::new());
        let other = none.replace("\"a\"", "\"b\"");
        assert_eq!(noted(&[&*none, &other].join(",")), told("job `a` and 1 more"));
        // Of all jobs.
        let all = fio(&none).replace(r#""rw":"#, r#""direct":"1","rw":"#);
        assert_eq!(of_fio(&all).unwrap().1, Vec::<String>::new());
    }

    #[test]
    fn a_depth_that_the_engine_does_not_have_is_refused() {
        let none = JOB.replace(r#","ioengine":"libaio""#, "");
        for (job, told) in [
            (JOB.replace("libaio", "psync"), "ioengine=psync takes no"),
            (JOB.replace("libaio", "mmap"), "ioengine=mmap takes no"),
        ] {
            let (what, expected) = of_fio(&fio(&job)).unwrap_err();
            let told = format!(
                "job `a`: iodepth is 8, but {told} notice of it: one request was in flight per job"
            );
            assert_eq!(what, told);
            assert!(expected.contains("--ioengine=io_uring or libaio"), "{expected}");
            assert!(of_fio(&fio(&job.replace("\"8\"", "\"1\""))).is_ok(), "{job}");
        }
        // Elsewhere than on Linux the usual one is another.
        let notes = |job: &str| of_fio(&fio(job)).unwrap().1;
        let told = notes(&none);
        assert!(told.len() == 1 && told[0].starts_with("job `a`: no ioengine"), "{told:?}");
        assert_eq!(notes(&none.replace("\"8\"", "\"1\"")), Vec::<String>::new());
        // One for all jobs; a job's own goes before it.
        let all = |job: &str, engine: &str| {
            of_fio(&fio(job).replace(r#""rw":"#, &format!(r#""ioengine":"{engine}","rw":"#)))
        };
        assert!(all(&none, "io_uring").is_ok() && all(&none, "sync").is_err());
        assert!(all(JOB, "sync").is_ok());
    }

    /// The job with a rate.
    fn paced(rate: &str) -> String {
        JOB.replace(r#""iodepth":"8""#, &format!(r#""iodepth":"8","rate_iops":"{rate}""#))
    }

    #[test]
    fn a_rate_is_offered_by_all_clones_and_reads_stand_beside_writes() {
        let (points, _) = of_fio(&fio(&[&*paced("2k"), &*paced("2k")].join(","))).unwrap();
        assert_eq!(points[0].offered, Some(Offered { iops: 4_096.0, poisson: false }));
        assert_eq!((points.len(), &points[0].beside), (1, &None));
        let decimal = paced("2k").replace("\"iodepth\"", r#""kb_base":"1000","iodepth""#);
        let (points, _) = of_fio(&fio(&decimal)).unwrap();
        assert_eq!(points[0].offered, Some(Offered { iops: 2_000.0, poisson: false }));
        // A mix that is offered is two points of one job.
        let both = paced("100,2k")
            .replace("\"iodepth\"", r#""rw":"randrw","rate_process":"poisson","iodepth""#)
            .replace("\"read\":", r#""write":{"iops":1999},"read":"#);
        let (points, left_out) = of_fio(&fio(&both)).unwrap();
        let rates: Vec<_> = points.iter().map(|point| point.offered.unwrap().iops).collect();
        assert_eq!((rates, left_out.len()), (vec![100.0, 2_048.0], 0));
        let beside = Some(Beside { load: "a".into(), job: "a".into() });
        assert!(
            points.iter().all(|point| point.beside == beside && point.offered.unwrap().poisson)
        );
        assert_eq!([&*points[0].rw, &*points[1].rw], ["randread", "randwrite"]);
        // Jobs that ran at once are one load; those that came later are not.
        let at = |name: &str, start: u64| {
            let own = format!(r#""jobname":"{name}","groupid":0,"job_start":{start}"#);
            paced("2k").replace(r#""jobname":"a""#, &own)
        };
        let jobs = [at("a", 5_000), at("b", 5_010), at("c", 9_000)].join(",");
        let (points, _) = of_fio(&fio(&jobs)).unwrap();
        let loads: Vec<_> = points
            .iter()
            .map(|point| point.beside.as_ref().map_or("", |beside| beside.load.as_str()))
            .collect();
        assert_eq!(loads, ["a", "a", ""]);
    }

    /// fio runs the sections of a group at once, each with a part of the drive.
    #[test]
    fn sections_that_ran_at_once_are_one_load_with_and_without_rates() {
        let of = |[a, b]: [&str; 2], own: &str| {
            let one = |name: &str, add: &str| {
                let keys = format!(r#""jobname":"{name}",{add}"#);
                let job = JOB.replace(r#""jobname":"a","#, &keys);
                job.replace(r#""iodepth":"8""#, &format!(r#""iodepth":"8"{own}"#))
            };
            let (points, _) = of_fio(&fio(&[one("a", a), one("b", b)].join(","))).unwrap();
            let load = |point: &Point| point.beside.as_ref().map(|beside| beside.load.clone());
            points.iter().map(load).collect::<Vec<_>>()
        };
        let (one, apart) = (vec![Some("a".to_string()); 2], vec![None; 2]);
        let at = |start: u64| format!(r#""groupid":0,"job_start":{start},"#);
        assert_eq!(of([&at(5_000), &at(5_010)], ""), one);
        assert_eq!(of([&at(5_000), &at(9_000)], ""), apart);
        // What does not say when it began is of its group, or of none.
        let group = |number: u64| format!(r#""groupid":{number},"#);
        assert_eq!(of([&group(0), &group(0)], ""), one);
        assert_eq!(of([&group(0), &group(1)], ""), apart);
        assert_eq!(of([&group(0), &group(0)], r#","startdelay":"60""#), apart);
        assert_eq!(of(["", ""], ""), apart);
    }

    #[test]
    fn what_group_reporting_adds_up_is_left_out_with_a_word() {
        let job = JOB.replace("\"read\":", r#""write":{"iops":9},"read":"#);
        let (points, notes) = of_fio(&fio(&job)).unwrap();
        let said = "job `a`: rw=randread, to which group_reporting added writes of another, is \
                    left out";
        assert_eq!((points.len(), &*notes), (0, &[said.to_string()][..]));
        let none = job.replace(r#"{"iops":9}"#, r#"{"iops":0}"#);
        assert_eq!(of_fio(&fio(&none)).unwrap().0.len(), 1);
    }

    #[test]
    fn what_an_old_fio_does_not_say_is_no_usual_value() {
        // fio 2.1 to 2.2.10: neither of the tables.
        let old = r#"{"fio version":"fio-2.2.9","jobs":[{"jobname":"a","groupid":0,"error":0,
            "read":{"io_bytes":4096,"bw":400,"iops":100,"lat":{"mean":9}}}]}"#;
        let (what, expected) = of_fio(old).unwrap_err();
        assert_eq!(what, "job `a`: this fio does not say what it asked for");
        assert!(expected.ends_with("or write a table with rw,bs,iodepth,numjobs,iops"));
    }

    #[test]
    fn a_job_that_failed_is_left_out_and_missing_percentiles_are_told() {
        let of =
            |job: &str| of_fio(&fio(job)).map(|(points, notes)| (points.len(), notes)).unwrap();
        let failed = JOB.replace(r#""jobname":"a""#, r#""jobname":"a","error":5"#);
        let said = "job `a`: it ended with error 5, and is left out";
        assert_eq!(of(&failed), (0, vec![said.to_string()]));
        assert_eq!(of(&failed.replace(":5", ":0")), (1, Vec::new()));
        for key in ["50.000000", "99.000000"] {
            let (points, notes) = of(&JOB.replace(key, "95.000000"));
            let said = "job `a`: no 50th or no 99th percentile was listed";
            assert!(points == 1 && notes[0].starts_with(said), "{notes:?}");
        }
    }

    #[test]
    fn percentiles_are_of_the_whole_time() {
        let of = |job: &str| of_fio(&fio(job)).unwrap().0[0].measured;
        let submitted = JOB.replace(r#""clat_ns""#, r#""slat_ns":{"mean":250},"clat_ns""#);
        assert_eq!(of(&submitted), [Some(100.5), Some(2.0), Some(1.75), Some(9.25)]);
        let whole = r#""lat_ns":{"mean":2000,"percentile":{"50.000000":1600,"99.000000":9100}}"#;
        let own = submitted.replace(r#""lat_ns":{"mean":2000}"#, whole);
        assert_eq!(of(&own), [Some(100.5), Some(2.0), Some(1.6), Some(9.1)]);
    }
}
