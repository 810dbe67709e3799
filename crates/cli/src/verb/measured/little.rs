//! Little's law: what is done in a second, times how long it takes, is what is in flight. So rates,
//! times and depths that do not belong together are found.

use super::points::{Point, Wrong};

/// More in flight than the depth allows, or much less, is neither measured nor a drive's.
const IN_FLIGHT: std::ops::RangeInclusive<f64> = 0.2..=1.5;
/// What tells milliseconds or nanoseconds from microseconds.
const UNITS_APART: [f64; 2] = [1e-3, 1e3];

/// Fewer than the depth, or more, and it was another depth: a synchronous engine, the page cache,
/// a `numjobs` that is not told. Measured drives have 0.8 to 1.
const OF_DEPTH: std::ops::RangeInclusive<f64> = 0.6..=1.5;
/// Where nothing else is known, a 99th percentile has this share of the depth in flight at least.
const P99_MIN: f64 = 0.05;
/// Percentiles beside the mean, where all are in one unit. The median of a drive that buffers most
/// writes is a hundredth of the mean and less, so a range alone says nothing.
const OF_MEAN: [(usize, &str, std::ops::RangeInclusive<f64>); 2] =
    [(2, "p50", 0.02..=20.0), (3, "p99", 0.05..=500.0)];

/// How much of its depth a load that is not offered had in flight, by one of its times.
fn share(point: &Point, metric: usize) -> Option<f64> {
    let is_closed = point.offered.is_none() && point.beside.is_none();
    let [iops, latency] = [point.measured[0].filter(|_| is_closed)?, point.measured[metric]?];
    Some(iops * latency / 1e6 / point.in_flight() as f64)
}

fn sorted(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

/// Whether rates and times are in the units that they are taken for.
pub(super) fn in_units(points: &[Point]) -> Result<(), Wrong> {
    in_units_by_depth(points)?;
    let ratios = OF_MEAN.map(|(metric, ..)| {
        let ratio = |point: &Point| Some(point.measured[metric]? / point.measured[1]?);
        sorted(points.iter().filter_map(ratio))
    });
    // Another unit is that of both percentiles, in each row.
    let is_in = |unit: f64| {
        let each = OF_MEAN.iter().zip(&ratios);
        each.flat_map(|((.., range), own)| own.iter().map(move |own| (range, own / unit)))
            .all(|(range, own)| range.contains(&own))
    };
    if !UNITS_APART.into_iter().any(is_in) {
        return Ok(());
    }
    for ((_, name, range), ratios) in OF_MEAN.iter().zip(&ratios) {
        let Some(&middle) = ratios.get(ratios.len() / 2) else { continue };
        if !range.contains(&middle) {
            let what = format!(
                "{name} latency is {} times the mean, in the middle of {} points",
                times(middle),
                ratios.len()
            );
            let expected = format!(
                "microseconds in `{name}_us` (a column `{name}_ms` holds milliseconds, `{name}_ns` \
                 nanoseconds)"
            );
            return Err((what, expected));
        }
    }
    Ok(())
}

/// A factor, for people.
fn times(factor: f64) -> String {
    if factor < 0.1 { format!("{factor:.0e}") } else { format!("{factor:.1}") }
}

fn in_units_by_depth(points: &[Point]) -> Result<(), Wrong> {
    for (metric, name) in [(1, "mean"), (2, "p50"), (3, "p99")] {
        let shares = sorted(points.iter().filter_map(|point| share(point, metric)));
        let Some(&middle) = shares.get(shares.len() / 2) else { continue };
        // A median may be anywhere below the mean, but not in all points by a unit.
        let apart = |unit: f64| shares.iter().all(|share| IN_FLIGHT.contains(&(share / unit)));
        let right = match name {
            "mean" => IN_FLIGHT.contains(&middle),
            "p50" => !UNITS_APART.into_iter().any(apart),
            // The mean is hardly above it, and any factor below.
            _ => shares.iter().any(|share| *share >= P99_MIN),
        };
        if right {
            return Ok(());
        }
        let what = format!(
            "IOPS times {name} latency is {} times the requests in flight, in the middle of {} \
             points",
            times(middle),
            shares.len()
        );
        let expected = format!(
            "once, by Little's law: requests a second in `iops` (not KB/s), microseconds in \
             `{name}_us` (a column `{name}_ms` holds milliseconds), and iodepth of each job"
        );
        return Err((what, expected));
    }
    Ok(())
}

/// What is to be said of loads that have no mean, and whose median says that more was in flight
/// than they are told to have: half may take longer than the mean, but not by much.
pub(super) fn by_median(points: &[Point]) -> Option<String> {
    let known = points.iter().filter(|point| point.measured[1].is_none());
    let shares = || known.clone().filter_map(|point| Some((point, share(point, 2)?)));
    let more = || shares().filter(|(_, share)| share > OF_DEPTH.end());
    let (first, share) = more().next()?;
    Some(format!(
        "{} of {} loads had, by IOPS and median latency, more in flight than their depth (`{}`: \
         {share:.1} times): is `numjobs` told?",
        more().count(),
        shares().count(),
        first.label()
    ))
}

/// Leave out loads that had not their depth in flight, and say so.
pub(super) fn leave_out(points: &mut Vec<Point>) -> Option<String> {
    let is_wrong = |point: &Point| share(point, 1).is_some_and(|it| !OF_DEPTH.contains(&it));
    let all = points.len();
    let first = points.iter().find(|point| is_wrong(point)).cloned()?;
    points.retain(|point| !is_wrong(point));
    Some(format!(
        "{} of {all} loads left out, as by IOPS and mean latency other than their depths were in \
         flight (`{}`: {:.2} times): a depth counts with an asynchronous engine and direct=1 only, \
         and numjobs is told",
        all - points.len(),
        first.label(),
        share(&first, 1).unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use super::super::points::of_table;
    use super::*;

    const HEADER: &str = "rw,bs,iodepth,numjobs,iops,mean_us,p50_us,p99_us";

    #[test]
    fn units_that_make_no_sense_are_told_by_what_is_in_flight() {
        let of = |rows: &str| in_units(&of_table(&format!("{HEADER}\n{rows}")).unwrap().0);
        assert_eq!(of("read,4k,1,1,16583,60,,\nread,4k,32,1,400000,80,,\n"), Ok(()));
        // KB/s, milliseconds; and what has no mean says nothing.
        for (row, times) in [("66332,60,,", "4.0"), ("16583,0.06,,", "1e-3")] {
            let (what, _) = of(&format!("read,4k,1,1,{row}\n")).unwrap_err();
            assert!(what.contains(&format!("is {times} times")), "{what}");
        }
        // A median says less, but that all are milliseconds.
        assert_eq!(of("read,4k,1,1,16583,,0.06,\nread,4k,2,1,9000,,50,\n"), Ok(()));
        assert_eq!(of("read,4k,1,1,66332,,50,\n"), Ok(()));
        let (what, expected) = of("read,4k,1,1,16583,,0.06,\n").unwrap_err();
        assert!(what.contains("times p50 latency is 1e-3"), "{what}");
        assert!(expected.contains("a column `p50_ms`"), "{expected}");
        // A 99th percentile alone is no mean, but is not far below it in all points.
        assert_eq!(of("read,4k,1,1,16583,,,70\nread,4k,32,1,9,,,70\n"), Ok(()));
        let (what, expected) =
            of("read,4k,1,1,16583,,,0.07\nread,4k,32,1,400000,,,0.26\n").unwrap_err();
        assert!(what.contains("times p99 latency is 3e-3 times"), "{what}");
        assert!(expected.contains("a column `p99_ms`"), "{expected}");
    }

    #[test]
    fn percentiles_in_another_unit_than_the_mean_are_told() {
        let of = |rows: &str| in_units(&of_table(&format!("{HEADER}\n{rows}")).unwrap().0);
        assert_eq!(of("read,4k,1,1,16583,60,50,900\n"), Ok(()));
        for (row, said) in [
            ("60,,0.9", "p99 latency is 2e-2 times the mean"),
            ("60,50000,90000", "p50 latency is 833.3 times the mean"),
        ] {
            let (what, _) = of(&format!("read,4k,1,1,16583,{row}\n")).unwrap_err();
            assert!(what.starts_with(said), "{what}");
        }
    }

    /// Of a Micron 7450 at 40,000 to 80,000 writes a second, as numbers of a closed load.
    #[test]
    fn a_buffer_that_answers_most_writes_is_no_other_unit() {
        let row = |mean: f64| {
            let iops = 1e6 / mean;
            format!("randwrite,4k,1,1,{iops},{mean},{},{}\n", 0.006 * mean, 12.0 * mean)
        };
        let text = format!("{HEADER}\n{}{}", row(1500.0), row(1700.0));
        assert_eq!(in_units(&of_table(&text).unwrap().0), Ok(()));
    }

    /// `numjobs` in a column of another name, and no mean.
    #[test]
    fn more_in_flight_than_the_depth_by_the_median_is_told() {
        let of = |rows: &str| by_median(&of_table(&format!("{HEADER}\n{rows}")).unwrap().0);
        assert_eq!(of("read,4k,4,1,40000,,100,\nread,4k,4,1,16000,60,400,\n"), None);
        let said = of("read,4k,4,1,40000,,100,\nread,4k,4,1,320000,,100,\n").unwrap();
        let told = "1 of 2 loads had, by IOPS and median latency, more in flight than their depth \
                    (`read 4k depth 4`: 8.0 times): ";
        assert!(said.starts_with(told), "{said}");
    }

    #[test]
    fn a_load_that_had_not_its_depth_in_flight_is_left_out_with_a_word() {
        let of = |rows: &str| {
            let mut points = of_table(&format!("{HEADER}\n{rows}")).unwrap().0;
            let said = leave_out(&mut points);
            (points.len(), said)
        };
        let right = "read,4k,1,1,16583,60,,\nread,4k,32,1,400000,80,,\n";
        assert_eq!(of(right), (2, None));
        // One at a time, whatever the depth; and two jobs that are told as one.
        let (left, said) = of(&format!("{right}read,4k,2,1,16583,60,,\nread,4k,1,1,33000,60,,\n"));
        let said = said.unwrap();
        assert!(left == 2 && said.starts_with("2 of 4 loads left out"), "{said}");
        assert!(said.contains("(`read 4k depth 2`: 0.50 times)"), "{said}");
        // Of what is offered, and where no mean is known, nothing is known.
        assert_eq!(of("read,4k,8,1,16583,,60,\n"), (1, None));
    }
}
