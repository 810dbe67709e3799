//! One load that was measured more than once.

use super::points::Point;

/// Rates of one load that are further apart than this are not those of one drive in one state.
const APART: f64 = 1.25;

/// What is to be said of loads whose measurements contradict each other.
pub(super) fn note(points: &[Point]) -> Option<String> {
    let mut loads: Vec<(Point, Vec<f64>)> = Vec::new();
    for point in points.iter().filter(|point| point.beside.is_none()) {
        let (own, Some(iops)) = (point.asked(), point.measured[0]) else { continue };
        match loads.iter_mut().find(|(load, _)| *load == own) {
            Some((_, rates)) => rates.push(iops),
            None => loads.push((own, vec![iops])),
        }
    }
    for (_, rates) in &mut loads {
        rates.sort_by(f64::total_cmp);
    }
    let apart = |rates: &[f64]| rates[rates.len() - 1] / rates[0];
    let mut far: Vec<_> = loads.iter().filter(|(_, rates)| apart(rates) > APART).collect();
    far.sort_by(|(_, a), (_, b)| apart(b).total_cmp(&apart(a)));
    let (load, rates) = far.first()?;
    let others = match far.len() - 1 {
        0 => String::new(),
        1 => ", and another load as unlike".into(),
        others => format!(", and {others} other loads as unlike"),
    };
    Some(format!(
        "{} is there {} times, with {:.0} to {:.0} IOPS{others}: if these are not one drive in one \
         state, measured in one way, keep the rows of one",
        load.label(),
        rates.len(),
        rates[0],
        rates[rates.len() - 1]
    ))
}

#[cfg(test)]
mod tests {
    use super::super::points::of_table;
    use super::*;

    #[test]
    fn rows_of_one_load_that_contradict_each_other_are_told() {
        let told = |rows: &str| {
            let text = format!("scheduler,rw,bs,iodepth,numjobs,iops\n{rows}");
            note(&of_table(&text).unwrap().0)
        };
        // Repeats of one, and loads that differ.
        assert_eq!(told("a,read,4k,1,1,100\na,read,4k,1,1,110\na,read,4k,2,1,300\n"), None);
        let rows = "a,read,4k,1,1,100\na,read,4k,2,1,90\nb,read,4k,1,1,120\nc,read,4k,1,1,300\n";
        let said = told(rows).unwrap();
        assert!(said.starts_with("read 4k depth 1 is there 3 times, with 100 to 300 IOPS: "));
        let said = told(&format!("{rows}b,read,4k,2,1,180\n")).unwrap();
        assert!(said.contains("300 IOPS, and another load as unlike: "), "{said}");
    }
}
