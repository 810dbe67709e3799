//! One load that was measured more than once.

use super::points::Point;

/// Rates of one load that are further apart than this are not those of one drive in one state.
const APART: f64 = 1.25;

/// Rates this far apart are of several drives or states: a part of their middle is of none.
const CONTRADICT: f64 = 2.0;

/// What is to be said of loads whose measurements contradict each other.
pub(super) fn note(points: &[Point]) -> Option<String> {
    let far = apart(points, APART);
    let others = match far.len().checked_sub(1)? {
        0 => String::new(),
        1 => ", and another load as unlike".into(),
        others => format!(", and {others} other loads as unlike"),
    };
    Some(format!(
        "{}{others}: if these are not one drive in one state, measured in one way, keep the rows \
         of one",
        told(&far[0])
    ))
}

/// The load whose measurements are furthest apart, where no drive in one state has them all.
pub(in crate::verb) fn contradiction(points: &[Point]) -> Option<String> {
    apart(points, CONTRADICT).first().map(told)
}

/// A load that was measured several times, and the rates of it in order.
type Repeated = (Point, Vec<f64>);

fn told((load, rates): &Repeated) -> String {
    let (least, most) = (rates[0], rates[rates.len() - 1]);
    format!("{} is there {} times, with {least:.0} to {most:.0} IOPS", load.label(), rates.len())
}

/// Loads whose rates are further apart than by `factor`, those of the furthest first.
fn apart(points: &[Point], factor: f64) -> Vec<Repeated> {
    let mut loads: Vec<Repeated> = Vec::new();
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
    loads.retain(|(_, rates)| apart(rates) > factor);
    loads.sort_by(|(_, a), (_, b)| apart(b).total_cmp(&apart(a)));
    loads
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

    #[test]
    fn rates_that_no_drive_has_all_contradict_each_other() {
        let said = |iops: [u32; 2]| {
            let row = |iops: u32| format!("read,4k,1,1,{iops}\n");
            let text = format!("rw,bs,iodepth,numjobs,iops\n{}", iops.map(row).concat());
            contradiction(&of_table(&text).unwrap().0)
        };
        assert_eq!(said([100, 190]), None);
        let wrong = "read 4k depth 1 is there 2 times, with 100 to 500 IOPS";
        assert_eq!(said([500, 100]).as_deref(), Some(wrong));
    }
}
