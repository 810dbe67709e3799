//! SSD-iq's table of latency over offered load, as it is published.
//!
//! Six threads write 4 KiB at random by Poisson arrivals, one request in a hundred is a read, at
//! most 64 are in flight each; a quiet seventh sends 5,000 reads and 5,000 writes a second, and
//! the latencies are its own. The rate offered is that of all but the quiet reads.

use std::collections::BTreeMap;

use super::points::{Beside, METRICS, Offered, POSSIBLE, POSSIBLE_TOLD, Point, Wrong};
use super::tables::{Table, column};

/// What the table is known by.
const RATE: &str = "target_rate_per_s";
const WRITTEN: &str = "achieved_write_iops";
/// What may say whose lines these are, and of which experiment: of each there is one.
const OF_ONE: [(&str, &str); 4] = [
    ("drive_id", "drives"),
    ("drive", "drives"),
    ("pattern", PATTERNS),
    ("capacity_GiB", "fills, in GiB"),
];
const PATTERNS: &str = "patterns of writes";
/// How the pattern begins that a part is run with.
const UNIFORM: &str = "uniform";
/// Its tables of IOPS by fill: the name of what they have, and the column.
const BY_FILL: [(&str, &str); 2] =
    [("steady IOPS", "iops_steady_last_quarter"), ("IOPS over time", "write_iops")];
const FILL: &str = "capacity_GiB_used";
const QUIET: f64 = 5_000.0;
const READS: f64 = 0.01;
const THREADS: u32 = 6;
const DEPTH: u32 = 64;
/// A rate that ends in 1 or 2 is a repeat of the one that ends in 0.
const REPEATS: f64 = 10.0;

/// Whether it is such a table.
pub(super) fn is_table(text: &str) -> bool {
    Table::of(text)
        .is_ok_and(|it| [RATE, WRITTEN].iter().all(|name| column(&it.header, name).is_some()))
}

/// Why another of its tables cannot be read, if it is one.
pub(super) fn refused(text: &str) -> Option<Wrong> {
    let header = Table::of(text).ok()?.header;
    column(&header, FILL)?;
    let (what, name) = BY_FILL.into_iter().find(|(_, name)| column(&header, name).is_some())?;
    let expected = format!(
        "its table of latency over load ({RATE}, {WRITTEN}) or of write amplification ({FILL}, \
         waf_last_quarter); or the steady uniform writes of a full drive as rows of your own: \
         rw,bs,iodepth,numjobs,iops and randwrite,4k,128,4,..."
    );
    Some((format!("SSD-iq's {what} by fill (column `{name}`) are not read"), expected))
}

/// By rate: what was written, and the quiet thread's means and percentiles of each repeat.
type Repeats = BTreeMap<u64, Vec<[Option<f64>; 7]>>;

/// Its points: of each rate those of the load, and of the quiet thread's reads and writes.
pub(super) fn read(text: &str) -> Result<(Vec<Point>, Vec<String>), Wrong> {
    let table = Table::of(text)?;
    let header = table.header.clone();
    let place = |name: &str| column(&header, name);
    let wanted = [
        WRITTEN,
        "probe_read_us_avg",
        "probe_read_us_50p",
        "probe_read_us_99p",
        "probe_write_us_avg",
        "probe_write_us_50p",
        "probe_write_us_99p",
    ];
    let of_one = OF_ONE.iter().filter_map(|(name, what)| Some((*what, place(name)?)));
    let mut of_one: Vec<(&str, usize, Vec<String>)> =
        of_one.map(|(what, place)| (what, place, Vec::new())).collect();
    let mut rates = Repeats::default();
    for row in table.rows() {
        let (line, row) = row?;
        let number = |name: &str| {
            let text = place(name).and_then(|place| row.get(place)).unwrap_or_default().trim();
            match text.parse::<f64>() {
                _ if text.is_empty() => Ok(None),
                Ok(number) if POSSIBLE.contains(&number) => Ok(Some(number)),
                _ => Err((format!("line {line}: {name} is `{text}`"), POSSIBLE_TOLD.into())),
            }
        };
        for (_, place, seen) in &mut of_one {
            let own = row.get(*place).unwrap_or_default();
            if !seen.iter().any(|known| known == own) {
                seen.push(own.to_string());
            }
        }
        let rate = number(RATE)?.filter(|rate| *rate > QUIET).ok_or_else(|| {
            (format!("line {line}: {RATE} is none"), format!("more than the quiet {QUIET}"))
        })?;
        let mut found = [None; 7];
        for (cell, name) in found.iter_mut().zip(wanted) {
            *cell = number(name)?;
        }
        rates.entry((rate / REPEATS) as u64).or_default().push(found);
    }
    if let Some((what, _, seen)) = of_one.iter().find(|(_, _, seen)| seen.len() > 1) {
        let what = format!("lines of {} {what}: {}", seen.len(), seen.join(", "));
        return Err((what, "those of one, below the first line, in a file of their own".into()));
    }
    let patterns = of_one.iter().filter(|(what, ..)| *what == PATTERNS);
    let is_other = |seen: &&String| !seen.is_empty() && !seen.starts_with(UNIFORM);
    if let Some(pattern) = patterns.flat_map(|(.., seen)| seen).find(is_other) {
        let expected = "uniform ones: a part is asked all over alike";
        return Err((format!("the pattern of writes is `{pattern}`"), expected.into()));
    }
    let points = rates.iter().flat_map(|(rate, repeats)| {
        let middle = |index: usize| {
            let mut known: Vec<f64> = repeats.iter().filter_map(|one| one[index]).collect();
            known.sort_by(f64::total_cmp);
            known.get(known.len() / 2).copied()
        };
        of_rate(*rate as f64 * REPEATS, std::array::from_fn(middle))
    });
    let points: Vec<Point> = points.collect();
    let notes = vec![format!(
        "SSD-iq's {} rates: taken for {THREADS} threads that write, each at most {DEPTH} at once, \
         and the latencies for those of a quiet one beside",
        rates.len()
    )];
    Ok((points, notes))
}

/// The points of a rate, of which [`read`] knows this much.
fn of_rate(rate: f64, [written, own @ ..]: [Option<f64>; 7]) -> [Point; 4] {
    let load = rate - QUIET;
    let of = |job: &str, rw: &str, offered: f64, measured| {
        let quiet = job == "quiet";
        Point {
            rw: rw.into(),
            bs: "4k".into(),
            iodepth: DEPTH,
            numjobs: if quiet { 1 } else { THREADS },
            measured,
            offered: Some(Offered { iops: offered, poisson: !quiet }),
            beside: Some(Beside { load: format!("{rate:.0}"), job: job.into() }),
        }
    };
    let [read_mean, read_p50, read_p99, mean, p50, p99] = own;
    // The quiet writes are done at any load, and counted with the others.
    let others = written.map(|all| all - QUIET).filter(|others| *others > 0.0);
    [
        of("load", "randwrite", (load * (1.0 - READS)).max(1.0), [others, None, None, None]),
        of("load", "randread", (load * READS).max(1.0), [None; METRICS.len()]),
        of("quiet", "randread", QUIET, [None, read_mean, read_p50, read_p99]),
        of("quiet", "randwrite", QUIET, [None, mean, p50, p99]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "drive_id,target_rate_per_s,achieved_write_iops,probe_read_us_50p,\
                        probe_read_us_99p,probe_write_us_50p,probe_write_us_99p,probe_write_us_avg";

    #[test]
    fn a_rate_is_a_load_and_its_repeats_are_one() {
        let rows = "a,20000,19847,71,276,11,14,11.5\na,20001,19850,73,280,12,14,11.6\n\
                    a,20002,19840,72,279,11,14,11.4\na,500000,76545,911,2215,3387,4049,3369\n";
        let text = format!("{HEAD}\n{rows}");
        assert!(is_table(&text) && !is_table("rw,bs,iodepth,iops\n"));
        let (points, _) = read(&text).unwrap();
        assert_eq!(points.len(), 8);
        assert_eq!(points[0].offered, Some(Offered { iops: 14_850.0, poisson: true }));
        assert_eq!(points[0].measured, [Some(14_847.0), None, None, None]);
        assert_eq!(points[2].measured, [None, None, Some(72.0), Some(279.0)]);
        assert_eq!(points[3].measured, [None, Some(11.5), Some(11.0), Some(14.0)]);
        assert_eq!(points[4].beside.as_ref().map(|one| &*one.load), Some("500000"));
    }

    #[test]
    fn what_cannot_be_is_named_with_its_line() {
        for (row, said) in [
            ("a,20000,fast,1,1,1,1,1", "line 2: achieved_write_iops is `fast`"),
            ("a,4000,1,1,1,1,1,1", "line 2: target_rate_per_s is none"),
            ("a,20000,1,1,1,1,1,1\nb,20000,1,1,1,1,1,1", "lines of 2 drives: a, b"),
        ] {
            let (what, _) = read(&format!("{HEAD}\n{row}\n")).unwrap_err();
            assert!(what.starts_with(said), "{what}");
        }
        let of = |pattern: &str| {
            let text = format!("{HEAD},pattern\na,20000,1,1,1,1,1,1,{pattern}\n");
            read(&text).map(|(points, _)| points.len())
        };
        for pattern in ["zipf", "zones-shuffle"] {
            let said = format!("the pattern of writes is `{pattern}`");
            assert_eq!(of(pattern).unwrap_err().0, said);
        }
        for pattern in ["", "uniform", "uniform-shuffle"] {
            assert_eq!(of(pattern), Ok(4), "{pattern}");
        }
        // Medians over two experiments would be of none.
        for (column, said) in [
            ("pattern", "lines of 2 patterns of writes: uniform, zipf"),
            ("capacity_GiB", "lines of 2 fills, in GiB: uniform, zipf"),
        ] {
            let text =
                format!("{HEAD},{column}\na,20000,1,1,1,1,1,1,uniform\na,30000,1,1,1,1,1,1,zipf\n");
            assert_eq!(read(&text).unwrap_err().0, said);
        }
    }
    #[test]
    fn its_other_tables_are_refused_by_name() {
        for (head, said) in [
            ("iops_steady_last_quarter", "SSD-iq's steady IOPS by fill"),
            ("t_s,write_iops", "SSD-iq's IOPS over time by fill"),
        ] {
            let text = format!("drive_id,capacity_GiB_used,pattern,{head}\n");
            let (what, expected) = super::super::files::of_text(&text).unwrap_err();
            assert!(what.starts_with(said), "{what}");
            assert!(expected.contains("waf_last_quarter"), "{expected}");
        }
        assert_eq!(refused("rw,bs,iodepth,write_iops\n"), None);
    }
}
