//! What is fitted to, and what judges.

use super::super::measured::amplification::Amplified;
use super::super::measured::{Point, by_load, questions};

/// Points that are fitted to, and those that judge.
pub(super) struct Split {
    pub(super) fitted: Vec<Point>,
    pub(super) held: Vec<Point>,
}

impl Split {
    /// Each `nth` point judges, in order of load; the first and the last are the ends of what is
    /// known, and are fitted to.
    pub(super) fn new(mut points: Vec<Point>, nth: usize) -> Split {
        let offered = |point: &Point| point.offered.map_or(0, |offered| offered.iops as u64);
        points.sort_by_key(|point| {
            (point.rw.clone(), point.bytes(), point.in_flight(), offered(point))
        });
        // What ran beside each other judges together, and so do repeats of one load: beside its
        // twin that was fitted to, one would judge nothing.
        let loads = by_load(&points);
        let questions = questions(&points, &loads);
        let last = questions.iter().copied().max().unwrap_or_default();
        let (mut fitted, mut held) = (Vec::new(), Vec::new());
        for (load, question) in loads.into_iter().zip(questions) {
            let own = load.points.into_iter().map(|point| points[point].clone());
            if judges(question, last, nth) { held.extend(own) } else { fitted.extend(own) }
        }
        Split { fitted, held }
    }
}

/// Whether a point judges, of those up to `last` in their order.
fn judges(index: usize, last: usize, nth: usize) -> bool {
    nth > 0 && index % nth == nth / 2 && ![0, last].contains(&index)
}

/// Fills that differ by less than this, of what is sold, are one that was measured twice.
const ONE_FILL: f64 = 0.002;

/// Rows in order of what is used, and whether each judges: those of one fill do so together.
pub(super) fn fills(rows: Vec<Amplified>, capacity: f64, nth: usize) -> Vec<(Amplified, bool)> {
    let mut fill = (0, f64::NEG_INFINITY);
    let number = |row: Amplified| {
        let used = row.used.bytes(capacity);
        if used - fill.1 > ONE_FILL * capacity {
            fill = (fill.0 + 1, used);
        }
        (row, fill.0)
    };
    let rows: Vec<(Amplified, usize)> = rows.into_iter().map(number).collect();
    let last = rows.last().map_or(1, |(_, fill)| *fill);
    rows.into_iter().map(|(row, fill)| (row, judges(fill - 1, last - 1, nth))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::super::measured::{amplification, files};
    use super::*;

    fn split(rows: &str) -> [Vec<f64>; 2] {
        let text = format!("rw,bs,iodepth,iops\n{rows}");
        let Split { fitted, held } = Split::new(files::of_text(&text).unwrap().0, 3);
        [fitted, held].map(|points| points.iter().filter_map(|point| point.measured[0]).collect())
    }

    #[test]
    fn repeats_of_a_load_are_fitted_to_or_judge_together() {
        let once = "read,4k,1,10\nread,4k,2,20\nread,4k,4,40\n";
        assert_eq!(split(once), [vec![10.0, 40.0], vec![20.0]]);
        // The middle one of three was held back of each load.
        let thrice = "read,4k,1,10\nread,4k,1,11\nread,4KiB,1,12\nread,4k,2,20\nread,4k,2,21\n\
                      read,4k,2,22\nread,4k,4,40\nread,4k,4,41\nread,4k,4,42\n";
        let [fitted, held] = split(thrice);
        assert_eq!(held, [20.0, 21.0, 22.0]);
        assert_eq!(fitted, [10.0, 11.0, 12.0, 40.0, 41.0, 42.0]);
        let two = split("read,4k,1,10\nread,4k,1,11\nread,4k,1,12\nread,4k,2,20\n");
        assert!(two[1].is_empty());
    }

    #[test]
    fn fills_that_were_measured_twice_judge_together() {
        let judged = |text: &str| {
            let text = format!("used,waf\n{text}");
            let rows = amplification::of_text(&text);
            let rows = rows.unwrap().unwrap().uniform;
            let rows = fills(rows, 1e12, 3).into_iter().map(|(_, judges)| judges);
            rows.collect::<Vec<_>>()
        };
        assert_eq!(judged("372GiB,1.1\n500GiB,1.2\n596GiB,1.4\n"), [false, true, false]);
        assert_eq!(judged("372GiB,1.1\n372GiB,1.1\n596GiB,1.4\n"), [false; 3]);
        let twice = "372GiB,1.1\n500GiB,1.2\n501GiB,1.2\n596GiB,1.4\n";
        assert_eq!(judged(twice), [false, true, true, false]);
    }
}
