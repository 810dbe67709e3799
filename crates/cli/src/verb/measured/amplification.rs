//! Write amplification that a drive counted, by how much of it was used.

use std::collections::BTreeSet;

use config::Size;

use super::points::{Point, Wrong, several, shown, size};
use super::tables::{Table, column};

/// What holds the part of the drive that was used: the name, and bytes of a number without a unit.
const USED: [(&str, f64); 3] = [("used", 0.0), ("used_gib", GIB), ("capacity_GiB_used", GIB)];
/// What holds the write amplification.
const WAF: [&str; 2] = ["waf", "waf_last_quarter"];
/// What may say how it was written: uniformly at random, or in sequence; the rest is left out.
const PATTERN: &str = "pattern";
/// What may say of which drive, and in which requests, a line of uniform writes is: of each there
/// is one.
const OF_ONE: [(&str, &str); 8] = [
    ("drive_id", "drives"),
    ("drive", "drives"),
    ("device", "drives"),
    ("model", "drives"),
    ("block_bytes", SIZES),
    ("block_size", SIZES),
    ("blocksize", SIZES),
    ("bs", SIZES),
];
const SIZES: &str = "sizes of requests";
/// Bytes of the writes that parts are run with: larger ones leave collection less to do.
const WRITTEN: u64 = 4096;
/// What may differ in one drive's lines, and is told.
const TOLD: &str = "experiment";
pub(crate) const GIB: f64 = (1u64 << 30) as f64;
/// More was never measured, nor less where nothing is compressed; a unit was mistaken.
const POSSIBLE: std::ops::RangeInclusive<f64> = 0.5..=100.0;

/// How much of the drive was used.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Used {
    /// Bytes.
    Bytes(f64),
    /// A share of its capacity.
    Share(f64),
}

impl Used {
    /// Of a drive of this capacity.
    pub(crate) fn bytes(self, capacity: f64) -> f64 {
        match self {
            Used::Bytes(bytes) => bytes,
            Used::Share(share) => share * capacity,
        }
    }
}

/// Bytes of flash for a byte of the host, in a steady state of uniformly random writes of 4 KiB.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Amplified {
    /// As the table writes it.
    pub(crate) label: String,
    pub(crate) used: Used,
    pub(crate) waf: f64,
}

/// The rows of a table.
#[derive(PartialEq, Debug, Default)]
pub(crate) struct Rows {
    pub(crate) uniform: Vec<Amplified>,
    /// Bytes of flash for a byte of the host, written in sequence to a drive that is empty.
    pub(crate) sequential: Vec<f64>,
    /// What was left out.
    pub(crate) notes: Vec<String>,
}

/// The rows of a table of write amplification; `None` when the text is something else.
///
/// # Errors
/// The line, what is wrong and what was expected.
pub(crate) fn of_text(text: &str) -> Result<Option<Rows>, Wrong> {
    let Ok(table) = Table::of(text) else { return Ok(None) };
    let header = table.header.clone();
    let place = |wanted: &str| column(&header, wanted);
    let Some(waf) = WAF.iter().find_map(|name| place(name)) else { return Ok(None) };
    // Loads with their IOPS may have a column more.
    if place("rw").is_some() {
        return Ok(None);
    }
    if place("t_s").is_some() {
        let what = "the lines follow each other in time (column `t_s`)".to_string();
        return Err((what, "a line a fill, of when nothing changes any more".into()));
    }
    let used = USED.iter().find_map(|&(name, unit)| Some((place(name)?, name, unit)));
    let (used, used_name, unit) = used.ok_or_else(|| {
        let what = format!("line {} is `{}`, without a column `used`", table.line, shown(&header));
        (what, "a table with the columns used,waf".to_string())
    })?;
    let pattern = place(PATTERN);
    let (mut rows, mut others) = (Rows::default(), 0);
    let mut seen = Seen::of(&header);
    for row in table.rows() {
        let (line, row) = row?;
        let at = |what: String| format!("line {line}: {what}");
        let cell = |place: usize| row.get(place).unwrap_or_default().trim();
        let amplified = || {
            of_waf(cell(waf)).ok_or_else(|| {
                let what = at(format!("{} is `{}`", &header[waf], cell(waf)));
                (what, format!("bytes of flash a byte, {} to {}", POSSIBLE.start(), POSSIBLE.end()))
            })
        };
        match pattern.map(cell) {
            Some(how) if how.starts_with("sequential") => {
                rows.sequential.push(amplified()?);
                continue;
            }
            Some(how) if !how.starts_with("uniform") => {
                others += 1;
                continue;
            }
            _ => {}
        }
        seen.see(&row);
        rows.uniform.push(Amplified {
            label: cell(used).to_string(),
            used: of_used(cell(used), unit).ok_or_else(|| {
                let what = at(format!("{used_name} is `{}`", cell(used)));
                (what, "a size such as 372GiB, or a share such as 50%".to_string())
            })?,
            waf: amplified()?,
        });
    }
    rows.notes.extend(seen.note()?);
    rows.notes.extend((others > 0).then(|| format!("{others} lines of other patterns left out")));
    Ok(Some(rows))
}

/// What the lines that are fitted to have in columns that say whose they are.
struct Seen(Vec<(&'static str, &'static str, usize, BTreeSet<String>)>);

impl Seen {
    fn of(header: &csv::StringRecord) -> Seen {
        let columns = OF_ONE.into_iter().chain([(TOLD, "")]);
        let place = |(name, what)| Some((name, what, column(header, name)?, BTreeSet::new()));
        Seen(columns.filter_map(place).collect())
    }

    fn see(&mut self, row: &csv::StringRecord) {
        for (.., place, seen) in &mut self.0 {
            seen.insert(row.get(*place).unwrap_or_default().trim().to_string());
        }
    }

    /// What is to be said of them.
    fn note(self) -> Result<Option<String>, Wrong> {
        for (name, what, _, seen) in self.0 {
            let names: Vec<&str> = seen.iter().map(String::as_str).collect();
            if names.len() > 1 && name == TOLD {
                return Ok(Some(several("rows", name, &names)));
            }
            if names.len() > 1 {
                let what = format!("lines of {} {what}: {}", names.len(), names.join(", "));
                let expected = "those of one, below the first line, in a file of their own";
                return Err((what, expected.into()));
            }
            let bytes = |bs: &&str| Point { bs: size(bs), ..Point::default() }.bytes();
            let others = |bs: &&str| ![0, WRITTEN].contains(&bytes(bs));
            if let Some(bs) = names.into_iter().find(others).filter(|_| what == SIZES) {
                let what = format!("the uniform writes are of {bs} (column `{name}`)");
                let expected = "those of 4 KiB (4096, or 4k): parts are fitted to such, and larger \
                                ones leave a drive less to collect";
                return Err((what, expected.into()));
            }
        }
        Ok(None)
    }
}

/// `unit`: bytes of a number without one; 0 where there must be one.
fn of_used(text: &str, unit: f64) -> Option<Used> {
    let above_0 = |value: f64| Some(value).filter(|value| value.is_finite() && *value > 0.0);
    if let Some(percent) = text.strip_suffix('%') {
        let share = percent.trim().parse::<f64>().ok()? / 100.0;
        return above_0(share).filter(|share| *share <= 1.0).map(Used::Share);
    }
    match text.parse::<f64>() {
        Ok(number) => above_0(number * unit).map(Used::Bytes),
        Err(_) => above_0(Size::parse(text).ok()?.0.0 as f64).map(Used::Bytes),
    }
}

fn of_waf(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|waf| POSSIBLE.contains(waf))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_row_for_each_fill() {
        let found = of_text("Used; WAF\n372GiB;1.1\n50%;1.4\n").unwrap().unwrap();
        let rows = found.uniform;
        assert_eq!((rows.len(), found.notes.len()), (2, 0));
        assert_eq!(rows[0].used.bytes(1e12), 372.0 * GIB);
        assert_eq!((rows[1].used.bytes(1e12), rows[1].waf), (5e11, 1.4));
    }

    #[test]
    fn a_table_of_ssd_iq_is_read_as_it_is() {
        let text = "experiment,capacity_GiB_used,pattern,details,waf_whole_run,waf_last_quarter\n\
                    a,372,sequential,,1.04,1.03\nb,596,uniform,,1.3,1.408\n\
                    a,372,zns,,1.1,1.2\n";
        let Rows { uniform, sequential, notes } = of_text(text).unwrap().unwrap();
        assert_eq!((uniform.len(), uniform[0].waf), (1, 1.408));
        assert_eq!(uniform[0].used, Used::Bytes(596.0 * GIB));
        assert_eq!(sequential, [1.03]);
        assert_eq!(notes, ["1 lines of other patterns left out"]);
    }

    #[test]
    fn a_table_is_of_one_drive_and_one_size_of_request() {
        let of = |column: &str, [first, second]: [&str; 2]| {
            let text = format!(
                "{column},used,pattern,waf\n{first},372GiB,uniform,1.1\n\
                 {second},596GiB,uniform,1.4\nz,596GiB,sequential,1.03\n"
            );
            of_text(&text).map(|rows| rows.unwrap().notes)
        };
        for (column, said) in [
            ("drive", "lines of 2 drives: a, b"),
            ("drive_id", "lines of 2 drives: a, b"),
            ("Model", "lines of 2 drives: a, b"),
            ("block_bytes", "lines of 2 sizes of requests: a, b"),
            ("bs", "lines of 2 sizes of requests: a, b"),
        ] {
            assert_eq!(of(column, ["a", "b"]).unwrap_err().0, said, "{column}");
            // Whatever sequential fills were written in.
            assert_eq!(of(column, ["a", "a"]), Ok(Vec::new()), "{column}");
        }
        for (column, bs) in [("block_bytes", "524288"), ("bs", "512k"), ("block_size", "8 KiB")] {
            let said = format!("the uniform writes are of {bs} (column `{column}`)");
            assert_eq!(of(column, [bs, bs]).unwrap_err().0, said);
        }
        for (column, bs) in [("block_bytes", "4096"), ("bs", "4k"), ("Block_Size", "4 KiB")] {
            assert_eq!(of(column, [bs, bs]), Ok(Vec::new()), "{column}");
        }
        let told = of("experiment", ["a", "b"]).unwrap();
        assert!(told[0].starts_with("the rows have 2 values of `experiment` (a, b)"), "{told:?}");
    }

    #[test]
    fn anything_else_is_none_of_these_tables() {
        for text in ["", "{\"jobs\":[]}", "rw,bs,iodepth,iops,waf\nread,4k,1,2,1\n", "a,b\n1,2\n"] {
            assert_eq!(of_text(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_is_named_with_its_place() {
        for (text, said) in [
            ("full,waf\n1,2\n", "line 1 is `full,waf`, without a column `used`"),
            ("used,t_s,waf\n50%,10,1.1\n", "the lines follow each other in time"),
            ("used,waf\n372,1.1\n", "line 2: used is `372`"),
            ("used,waf\n0%,1.1\n", "line 2: used is `0%`"),
            ("used,waf\n101%,1.1\n", "line 2: used is `101%`"),
            ("used,waf\n50%,1.1\n50%,110%\n", "line 3: waf is `110%`"),
            ("used,waf\n50%,0\n", "line 2: waf is `0`"),
            ("used,waf\n50%,NaN\n", "line 2: waf is `NaN`"),
            ("used,waf\n50%\n", "line 2 has 1 cells"),
        ] {
            let (what, _) = of_text(text).unwrap_err();
            assert!(what.starts_with(said), "{text}: {what}");
        }
    }
}
