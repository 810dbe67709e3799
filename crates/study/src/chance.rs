//! How much of a difference may be chance: repeats of one point differ, too.

use crate::expect::{Runs, Selection};
use crate::spoken::number;

/// Two means of so many repeats each differ by more than this many standard errors in one case of
/// 20 (Student's t, from two repeats on; for more than these it is 2.00 to two digits, and 1.96 of
/// ever so many).
const STUDENT: [f64; 26] = [
    4.30, 2.78, 2.45, 2.31, 2.23, 2.18, 2.14, 2.12, 2.10, 2.09, 2.07, 2.06, 2.06, 2.05, 2.04, 2.04,
    2.03, 2.03, 2.02, 2.02, 2.02, 2.02, 2.01, 2.01, 2.01, 2.01,
];
/// What is less is not worth a sentence.
const LEAST: f64 = 0.01;

/// What of a metric's differences may be chance. `travels`: the runs are sessions of a guest, where
/// who comes first decides what comes after.
pub(crate) fn said(selection: &Selection, runs: &Runs, travels: bool) -> Option<String> {
    let defined = |(params, values): (_, Vec<Option<f64>>)| {
        let values: Vec<f64> = values.into_iter().flatten().collect();
        (!values.is_empty()).then_some((params, values))
    };
    let points: Vec<_> = selection.repeats(runs).into_iter().filter_map(defined).collect();
    if points.len() < 2 {
        return None;
    }
    if travels && points.iter().all(|(_, values)| values.len() == 1) {
        let how = "--set study.repeats=5 tells how much may be chance";
        return Some(format!(" Each point was run once: {how}."));
    }
    let told = points.iter().filter_map(|(params, values)| Some((params, chance(values)?)));
    let (params, chance) = told.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let place: Vec<String> = params.iter().map(|(_, value)| value.label()).collect();
    let (place, percent) = (place.join(" "), number(100.0 * chance, 2));
    let less = format!("less than {percent} % may be chance");
    let said = format!(" Repeats differ the most at {place}: there, {less}.");
    (chance >= LEAST).then_some(said)
}

/// By what share two means of such repeats may differ by chance.
fn chance(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let student = STUDENT.get(values.len().checked_sub(2)?).unwrap_or(&2.0);
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let chance = student * (2.0 * variance / count).sqrt() / mean.abs();
    chance.is_finite().then_some(chance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_repeats_leave_more_to_chance() {
        // Standard deviation 0.1 of 1: of two repeats 0.43, of eight 0.107.
        let two = chance(&[1.0 - 0.1 / 2f64.sqrt(), 1.0 + 0.1 / 2f64.sqrt()]).unwrap();
        assert!((two - 0.43).abs() < 1e-9, "{two}");
        let (down, up) = (1.0 - 0.0935414347, 1.0 + 0.0935414347);
        let eight = chance(&[down, up, down, up, down, up, down, up]).unwrap();
        assert!((eight - 0.107).abs() < 1e-6, "{eight}");
        assert!(STUDENT.is_sorted_by(|more, fewer| more >= fewer) && STUDENT[25] > 2.0);
        assert_eq!((chance(&[1.0]), chance(&[0.0, 0.0])), (None, None));
    }
}
