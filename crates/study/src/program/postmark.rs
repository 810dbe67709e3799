//! PostMark 1.5: mail servers' small files. Its own clock counts whole seconds, so for a short run
//! the time that was measured outside says more than its rates.

use super::scan::before;
use super::{Numbers, Parser};

pub(super) const PROGRAM: Parser = Parser {
    name: "postmark",
    executable: Some("postmark"),
    metrics: &[
        ("postmark_s", "s", "whole seconds that postmark counted"),
        (
            "postmark_transactions_per_s",
            "1/s",
            "transactions per second, as postmark counts seconds",
        ),
        ("postmark_created", "files", "files that postmark created"),
        ("postmark_read", "files", "files that postmark read"),
        ("postmark_appended", "files", "files that postmark appended to"),
        ("postmark_deleted", "files", "files that postmark deleted"),
        ("postmark_read_mib", "MiB", "MiB that postmark read"),
        ("postmark_written_mib", "MiB", "MiB that postmark wrote"),
    ],
    read,
};

fn read(text: &str) -> Result<Numbers, String> {
    let mut numbers = Numbers::new();
    for (metric, words) in [
        ("postmark_s", " seconds total"),
        ("postmark_created", " created ("),
        ("postmark_read", " read ("),
        ("postmark_appended", " appended ("),
        ("postmark_deleted", " deleted ("),
    ] {
        let value = before(text, words);
        numbers.insert(metric, value.ok_or_else(|| format!("there is no `N{words}`"))?);
    }
    let rate = text.split_once(" seconds of transactions (");
    let rate = rate.and_then(|(_, rest)| before(rest, " per second)"));
    numbers.extend(rate.map(|rate| ("postmark_transactions_per_s", rate)));
    for (metric, what) in [("postmark_read_mib", "read"), ("postmark_written_mib", "written")] {
        let value = mib(text, what).ok_or_else(|| format!("there is no `N megabytes {what}`"))?;
        numbers.insert(metric, value);
    }
    Ok(numbers)
}

/// It counts in the unit that leaves a number before the point.
fn mib(text: &str, what: &str) -> Option<f64> {
    let units = [("bytes", 20), ("kilobytes", 10), ("megabytes", 0), ("gigabytes", -10)];
    let of = |(unit, shift): (&str, i32)| {
        let value = before(text, &format!(" {unit} {what} ("))?;
        Some(value * 2f64.powi(-shift))
    };
    units.into_iter().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
PostMark v1.51 : 8/14/01
Creating files...Done
Time:
\t12 seconds total
\t8 seconds of transactions (25 per second)

Files:
\t149 created (12 per second)
\t\tCreation alone: 50 files (50 per second)
\t\tMixed with transactions: 99 files (12 per second)
\t106 read (13 per second)
\t94 appended (11 per second)
\t149 deleted (12 per second)

Data:
\t512.00 kilobytes read (42.67 kilobytes per second)
\t1.25 megabytes written (106.67 kilobytes per second)
";

    #[test]
    fn the_counters_and_both_totals_are_read() {
        let numbers = read(OUTPUT).unwrap();
        assert_eq!(numbers["postmark_s"], 12.0);
        assert_eq!(numbers["postmark_transactions_per_s"], 25.0);
        assert_eq!((numbers["postmark_created"], numbers["postmark_deleted"]), (149.0, 149.0));
        assert_eq!((numbers["postmark_read"], numbers["postmark_appended"]), (106.0, 94.0));
        assert_eq!((numbers["postmark_read_mib"], numbers["postmark_written_mib"]), (0.5, 1.25));
        let cut = OUTPUT.split("Data:").next().unwrap();
        assert!(read(cut).unwrap_err().contains("megabytes read"));
    }
}
