//! Units of SNIA's tables: behind the name of a test or of a column, or in a line of their own.

use super::tables::Wrong;

/// What a table's numbers are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Test {
    /// Random requests a second.
    Iops,
    /// Sequential, in MB/s if nothing else is said.
    Throughput,
    /// Random, one at a time: the mean, in ms if nothing else is said.
    Latency,
}

impl Test {
    /// As a line names it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Test::Iops => "IOPS",
            Test::Throughput => "Throughput",
            Test::Latency => "Latency",
        }
    }
}

/// Factors to what a test is in if nothing is said: 1/s, MB/s, and ms.
const OF_TIME: [(&[&str], f64); 4] = [
    (&["s", "sec", "seconds"], 1e3),
    (&["ms", "msec", "milliseconds"], 1.0),
    (&["us", "usec", "microseconds"], 1e-3),
    (&["ns", "nsec", "nanoseconds"], 1e-6),
];
/// In capitals or without any: `Mb` are bits.
const OF_BYTES: [(&[&str], f64); 6] = [
    (&["KB", "kB", "kb"], 1e-3),
    (&["KiB", "kib"], 1.024e-3),
    (&["MB", "mb"], 1.0),
    (&["MiB", "mib"], 1.048_576),
    (&["GB", "gb"], 1e3),
    (&["GiB", "gib"], 1_073.741_824),
];
const OF_RATE: [(&[&str], f64); 2] = [(&["iops", "1/s"], 1.0), (&["kiops"], 1e3)];

/// What a number of a test in this unit is multiplied by.
fn factor(test: Test, unit: &str) -> Option<f64> {
    // The sign of a micro is two letters of Unicode.
    let unit = unit.trim().replace(['\u{b5}', '\u{3bc}'], "u");
    let find = |known: &[(&[&str], f64)], unit: &str| {
        known.iter().find_map(|(names, factor)| names.contains(&unit).then_some(*factor))
    };
    match test {
        Test::Iops => find(&OF_RATE, &unit.to_lowercase()),
        Test::Latency => find(&OF_TIME, &unit.to_lowercase()),
        Test::Throughput => {
            let per_second = ["/s", "/sec", "ps", "PS"];
            find(&OF_BYTES, per_second.into_iter().find_map(|end| unit.strip_suffix(end))?)
        }
    }
}

fn expected(test: Test) -> &'static str {
    match test {
        Test::Iops => "IOPS or KIOPS, or no unit",
        Test::Throughput => "KB/s, MB/s, GB/s, KiB/s, MiB/s or GiB/s, or no unit: MB/s",
        Test::Latency => "s, ms, us or ns, or no unit: ms",
    }
}

/// The unit that stands behind a name: in brackets, or as its last word if it is one.
pub(super) fn behind(name: &str) -> Option<&str> {
    if let Some((_, unit)) = name.split_once(['(', '[']) {
        return Some(unit.trim().trim_end_matches([')', ']']).trim());
    }
    let (_, last) = name.trim().rsplit_once([' ', ',', '_'])?;
    [Test::Throughput, Test::Latency]
        .into_iter()
        .any(|it| factor(it, last).is_some())
        .then_some(last)
}

/// The test whose values a column of this name has, and their unit.
pub(super) fn of_column(name: &str) -> Option<(Test, &str)> {
    let unit = behind(name).unwrap_or(name.trim());
    let is = |test| factor(test, unit).is_some();
    let named = |what| name.trim().to_lowercase().starts_with(what);
    let test = match () {
        () if is(Test::Iops) => Test::Iops,
        () if is(Test::Throughput) => Test::Throughput,
        () if named("average latency") || named("averagelatency") => Test::Latency,
        () => return None,
    };
    Some((test, unit))
}

/// What all numbers of a table are multiplied by, of which lines say these units.
pub(super) fn of_all(test: Test, units: &[(u64, String)]) -> Result<f64, Wrong> {
    let mut known = None;
    for (line, unit) in units {
        let wrong =
            |expected: &str| (format!("line {line}: the unit is `{unit}`"), expected.into());
        let own = factor(test, unit).ok_or_else(|| wrong(expected(test)))?;
        if known.is_some_and(|known| known != own) {
            return Err(wrong("that of the line before which says one"));
        }
        known = Some(own);
    }
    Ok(known.unwrap_or(1.0))
}

#[cfg(test)]
mod tests {
    use super::super::pts::read;

    /// IOPS and mean of the only point.
    fn one(text: &str) -> (f64, Option<f64>) {
        let measured = read(text).unwrap().0[0].measured;
        (measured[0].unwrap().round(), measured[1])
    }

    #[test]
    fn numbers_are_in_the_unit_that_is_said() {
        let latency = |test: &str, units: &str, number: &str| {
            one(&format!("Test,{test}\n{units}Block Size (KiB),100/0\n4,{number}\n"))
        };
        for (test, units, number) in [
            ("Average Latency", "", "0.125"),
            ("Average Latency (ms)", "", "0.125"),
            ("Average Latency (us)", "", "125"),
            ("Average Latency [\u{b5}s]", "", "125"),
            ("Average Latency (\u{3bc}s)", "", "125"),
            ("Latency us", "", "125"),
            ("Latency", "Units,us\n", "125"),
            ("Latency (ns)", "Unit,ns\n", "125000"),
        ] {
            assert_eq!(latency(test, units, number), (8000.0, Some(125.0)), "{test} {units}");
        }
        let throughput =
            |test: &str| one(&format!("Test,{test}\nOIO,1\nBlock Size (KiB),100/0\n1024,1000\n")).0;
        assert_eq!(throughput("Throughput"), 954.0);
        assert_eq!(throughput("Throughput (MB/s)"), 954.0);
        assert_eq!(throughput("Throughput (MiB/s)"), 1000.0);
        assert_eq!(throughput("Throughput, GBps"), 954.0, "of a cell of its own nothing is read");
        assert_eq!(throughput("\"Throughput, GBps\""), 953_674.0);
    }

    #[test]
    fn rounds_have_the_unit_of_their_column() {
        let of = |test: &str, column: &str, number: &str| {
            let head = format!("{test}Round,R/W Mix,Block Size (KiB),{column}\n");
            let row = |round| format!("{round},100/0,4,{number}\n");
            head + &(1..=5).map(row).collect::<String>()
        };
        for (column, number) in [("Average Latency (ms)", "0.125"), ("Average Latency (us)", "125")]
        {
            let text = of("Test,Latency\n", column, number);
            assert_eq!(one(&text), (8000.0, Some(125.0)), "{column}");
            let (what, _) = read(&of("QD,1\n", column, number)).unwrap_err();
            assert_eq!(what, format!("line 2: the column `{column}` is none of IOPS"));
        }
        assert_eq!(one(&of("Test,Throughput\nQD,1\n", "MiB/s", "1000")).0, 256_000.0);
        assert_eq!(one(&of("QD,1\n", "KIOPS", "50")).0, 50_000.0);
    }

    #[test]
    fn what_is_no_unit_of_the_test_is_named() {
        for (test, units, said) in [
            ("Latency (fortnights)", "", "line 1: the unit is `fortnights`"),
            ("Latency (MB/s)", "", "line 1: the unit is `MB/s`"),
            ("Throughput (Mb/s)", "QD,1\n", "line 1: the unit is `Mb/s`"),
            ("IOPS (x 1000)", "QD,1\n", "line 1: the unit is `x 1000`"),
            ("Latency (us)", "Units,ms\n", "line 2: the unit is `ms`"),
        ] {
            let text = format!("Test,{test}\n{units}Block Size (KiB),100/0\n4,5\n");
            assert_eq!(read(&text).unwrap_err().0, said);
        }
    }
}
