//! The six sustained rates of Linux's `io.cost.model`, of one drive.

use super::median;
use super::tables::{Table, Wrong, column};

/// As the kernel names them: bytes a second, and requests of 4 KiB in sequence and at random.
pub(crate) const RATES: [&str; 6] =
    ["rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"];
/// What may say how much the drive sells, in bytes.
const CAPACITY: &str = "size_bytes";
/// What may say of which drive a line is: there is one.
const MODEL: &str = "model";
/// No drive does more, nor less.
const POSSIBLE: std::ops::RangeInclusive<f64> = 1.0..=1e12;

/// What a file says of a drive.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Rates {
    /// By [`RATES`]: the medians of all runs.
    pub(crate) rates: [f64; RATES.len()],
    pub(crate) runs: usize,
    /// How far a run is from the median at most, as a share of it, and in which rate.
    pub(crate) apart: (f64, &'static str),
    /// The least, in bytes, where it is said.
    pub(crate) capacity: Option<f64>,
}

/// The rates of a table with a column for each, or of lines of `io.cost.model`; `None` when the
/// text is something else.
///
/// # Errors
/// The line, what is wrong and what was expected.
pub(crate) fn of_text(text: &str) -> Result<Option<Rates>, Wrong> {
    let (mut rows, mut models) = (Vec::new(), Vec::<String>::new());
    let mut capacity: Option<f64> = None;
    let is_line = |line: &str| RATES.iter().all(|name| line.contains(&format!("{name}=")));
    if !text.trim_start().starts_with('{') && text.lines().any(is_line) {
        for (index, line) in text.lines().enumerate().filter(|(_, line)| is_line(line)) {
            let of = |name: &str| {
                let mut words = line.split_whitespace();
                words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).unwrap_or("")
            };
            rows.push(rates_of(index + 1, of)?);
        }
    } else {
        let Ok(table) = Table::of(text) else { return Ok(None) };
        let header = table.header.clone();
        if RATES.iter().any(|name| column(&header, name).is_none()) {
            return Ok(None);
        }
        for row in table.rows() {
            let (line, row) = row?;
            let of = |name: &str| {
                column(&header, name).and_then(|place| row.get(place)).unwrap_or_default().trim()
            };
            rows.push(rates_of(line, of)?);
            if !models.iter().any(|known| known == of(MODEL)) {
                models.push(of(MODEL).to_string());
            }
            if !of(CAPACITY).is_empty() {
                let own = number(line, CAPACITY, of(CAPACITY), 1e18)?;
                capacity = Some(capacity.map_or(own, |known| known.min(own)));
            }
        }
    }
    if models.len() > 1 {
        let some = &models[..models.len().min(4)];
        let what = format!("lines of {} models: {}", models.len(), some.join(", "));
        return Err((what, "those of one, below the first line, in a file of their own".into()));
    }
    if rows.is_empty() {
        return Err(("no line has the six rates".into(), "a run of a drive, or several".into()));
    }
    let mut apart = (0.0, RATES[0]);
    let rates = std::array::from_fn(|rate| {
        let mut all: Vec<f64> = rows.iter().map(|row| row[rate]).collect();
        all.sort_by(f64::total_cmp);
        let middle = median(&all).unwrap_or_default();
        let most = all.iter().map(|own| (own / middle - 1.0).abs()).fold(0.0, f64::max);
        if most > apart.0 {
            apart = (most, RATES[rate]);
        }
        middle
    });
    Ok(Some(Rates { rates, runs: rows.len(), apart, capacity }))
}

fn rates_of<'a>(line: usize, of: impl Fn(&str) -> &'a str) -> Result<[f64; RATES.len()], Wrong> {
    let mut found = [0.0; RATES.len()];
    for (rate, name) in found.iter_mut().zip(RATES) {
        *rate = number(line, name, of(name), *POSSIBLE.end())?;
    }
    Ok(found)
}

fn number(line: usize, name: &str, text: &str, most: f64) -> Result<f64, Wrong> {
    let number =
        text.parse::<f64>().ok().filter(|number| (*POSSIBLE.start()..=most).contains(number));
    number.ok_or_else(|| {
        let what = format!("line {line}: {name} is `{text}`");
        (what, format!("a number from {} to {most:e}", POSSIBLE.start()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "model,size_bytes,rbps,rseqiops,rrandiops,wbps,wseqiops,wrandiops";

    #[test]
    fn runs_of_a_model_are_its_medians_and_lines_of_the_kernel_are_runs() {
        let text = format!("{HEAD}\na,900,100,10,9,50,5,4\na,800,120,10,9,50,5,4\n");
        let found = of_text(&text).unwrap().unwrap();
        assert_eq!(found.rates, [110.0, 10.0, 9.0, 50.0, 5.0, 4.0]);
        assert_eq!((found.runs, found.apart.1, found.capacity), (2, "rbps", Some(800.0)));
        assert!((found.apart.0 - 1.0 / 11.0).abs() < 1e-12, "{found:?}");
        let text = "259:0 ctrl=user model=linear rbps=100 rseqiops=10 rrandiops=9 wbps=50 \
                    wseqiops=5 wrandiops=4\n";
        let found = of_text(text).unwrap().unwrap();
        assert_eq!(found.rates, [100.0, 10.0, 9.0, 50.0, 5.0, 4.0]);
        assert_eq!((found.runs, found.capacity), (1, None));
    }

    #[test]
    fn anything_else_is_none_or_named_with_its_line() {
        for text in ["", "{\"a\":\"rbps=1\"}", "rw,bs,iodepth,iops\n", "model,rbps\na,1\n"] {
            assert_eq!(of_text(text), Ok(None), "{text}");
        }
        let of = |rows: &str| of_text(&format!("{HEAD}\n{rows}")).unwrap_err().0;
        assert_eq!(of("a,9,1,1,1,1,1,1\nb,9,1,1,1,1,1,1\n"), "lines of 2 models: a, b");
        assert_eq!(of("a,9,1,0,1,1,1,1\n"), "line 2: rseqiops is `0`");
        assert_eq!(of("a,x,1,1,1,1,1,1\n"), "line 2: size_bytes is `x`");
        assert_eq!(of(""), "no line has the six rates");
    }
}
