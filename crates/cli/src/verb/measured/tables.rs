//! Tables of comma-separated values, as people, programs and spreadsheets write them.

use csv::StringRecord;

/// What is wrong, and what was expected.
pub(crate) type Wrong = (String, String);

/// A table: its head, and where that stands.
pub(super) struct Table<'a> {
    pub(super) header: StringRecord,
    /// Its line.
    pub(super) line: usize,
    text: &'a str,
    reader: csv::Reader<&'a [u8]>,
}

/// Lines at the begin of a text that are of no row: empty ones and comments.
fn skipped(text: &str) -> usize {
    text.lines().take_while(|line| line.is_empty() || line.starts_with('#')).count()
}

impl<'a> Table<'a> {
    /// Spreadsheets of many countries, and `cut`, separate columns by something else than commas.
    pub(super) fn of(text: &'a str) -> Result<Table<'a>, Wrong> {
        let text = text.trim_start_matches('\u{feff}');
        let before = skipped(text);
        let head = text.lines().nth(before).unwrap_or_default().as_bytes();
        let separator = [b',', b';', b'\t'].into_iter().find(|byte| head.contains(byte));
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(separator.unwrap_or(b','))
            .comment(Some(b'#'))
            // What has no cells at all has not as many as the head.
            .flexible(true)
            .from_reader(text.as_bytes());
        let unreadable = |why: csv::Error| (why.to_string(), "a table of comma-separated values");
        let header = reader.headers().map_err(unreadable).map_err(|(a, b)| (a, b.to_string()))?;
        Ok(Table { header: header.clone(), line: before + 1, text, reader })
    }

    /// Its rows, each with its line; those without a word in any cell are none.
    pub(super) fn rows(self) -> impl Iterator<Item = Result<(usize, StringRecord), Wrong>> {
        let Table { header, line: head, text, reader } = self;
        reader.into_records().filter_map(move |row| {
            let row = match row {
                Ok(row) => row,
                Err(why) => return Some(Err((why.to_string(), "text".into()))),
            };
            if row.iter().all(|cell| cell.trim().is_empty()) {
                return None;
            }
            // Of what was read on from, not of what is no row.
            let from = row.position().map_or((1, 0), |it| (it.line() as usize, it.byte() as usize));
            let line = from.0 + skipped(text.get(from.1..).unwrap_or_default());
            if row.iter().any(|cell| cell.contains('\n')) {
                let what = format!(
                    "line {line}: a quotation mark opens a cell that the line does not end"
                );
                return Some(Err((what, "a second quotation mark, or none".into())));
            }
            if row.len() != header.len() {
                let what = format!("line {line} has {} cells", row.len());
                return Some(Err((what, format!("{}, as line {head}", header.len()))));
            }
            Some(Ok((line, row)))
        })
    }
}

/// Where the column of that name is.
pub(super) fn column(header: &StringRecord, wanted: &str) -> Option<usize> {
    header.iter().position(|name| name.trim().eq_ignore_ascii_case(wanted))
}

/// Whether a cell says that there is no number.
pub(super) fn is_none(cell: &str) -> bool {
    ["-", "--", "na", "n/a"].iter().any(|none| cell.eq_ignore_ascii_case(none))
}

/// Whether a number has its digits by threes, as `16,583` and `1.234.567`: where `by` occurs once,
/// it may stand before decimals.
pub(super) fn is_grouped(number: &str, by: char) -> bool {
    let mut groups = number.split(by);
    let is_digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let first = groups.next().is_some_and(|it| (1..=3).contains(&it.len()) && is_digits(it));
    let rest: Vec<&str> = groups.collect();
    first && !rest.is_empty() && rest.iter().all(|it| it.len() == 3 && is_digits(it))
}

/// What is to be said where all rates are like `16.583`, and no time shows what that means.
pub(super) fn may_be_thousands(rates: &[String], timed: bool) -> Option<String> {
    let all = rates.iter().all(|rate| is_grouped(rate, '.'));
    rates.first().filter(|_| all && !timed).map(|first| {
        format!(
            "each number of `iops` has three decimals (`{first}`), and was read so: if its point \
             separates thousands, or it is of thousands, write {}",
            first.replace('.', "").trim_start_matches('0')
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::points::of_table;

    const HEADER: &str = "rw,bs,iodepth,numjobs,iops,mean_us,p50_us,p99_us";

    #[test]
    fn comments_and_empty_rows_are_none_and_what_was_not_measured_may_be_named() {
        let text = format!(
            "# a drive, and when\n\n{HEADER}\n# reads\nread,4k,1,1,16583,60,-,N/A\n,,,,,,,\n,\n\
             \nread,4k,2,na,33000,60,56,--\n"
        );
        for text in [text.clone(), text.replace('\n', "\r\n")] {
            let (points, notes) = of_table(&text).unwrap();
            assert_eq!((points.len(), notes), (2, Vec::new()));
            assert_eq!(points[0].measured, [Some(16_583.0), Some(60.0), None, None]);
            assert_eq!(points[1].measured, [Some(33_000.0), Some(60.0), Some(56.0), None]);
            assert_eq!(points[1].numjobs, 1);
            // Lines are those of the file.
            let (what, _) = of_table(&format!("{text}#\nread,4k,x,1,1,,,\n")).unwrap_err();
            assert_eq!(what, "line 11: iodepth is `x`");
            let (what, expected) = of_table(&format!("{text}read,4k\n")).unwrap_err();
            assert_eq!((&*what, &*expected), ("line 10 has 2 cells", "8, as line 3"));
        }
    }

    #[test]
    fn a_row_without_a_depth_or_a_rate_hides_no_other() {
        let text = format!(
            "{HEADER}\nread,4k,,1,9,,,\nread,4k,1,1,N/A,,,\nread,4k,N/A,1,9,,,\nread,4k,1,1,9,,,\n"
        );
        let (points, notes) = of_table(&text).unwrap();
        let said = [
            "1 lines of rw=read without IOPS left out",
            "2 lines of rw=read without an iodepth left out",
        ];
        assert_eq!((points.len(), &notes[..]), (1, &said.map(String::from)[..]));
    }

    #[test]
    fn numbers_with_separators_of_thousands_are_told() {
        let of = |iops: [&str; 2], mean: &str| {
            let [a, b] = iops;
            of_table(
                &format!("{HEADER}\nread;4k;1;1;{a};{mean};;\nread;4k;2;1;{b};;;\n")
                    .replace(',', ";"),
            )
        };
        let notes = |iops, mean| of(iops, mean).unwrap().1;
        let said = notes(["16.583", "33.000"], "");
        assert!(
            said.len() == 1 && said[0].ends_with("or it is of thousands, write 16583"),
            "{said:?}"
        );
        // Decimals of other lengths, and what a time tells.
        assert_eq!(notes(["16.583", "33.0"], ""), Vec::<String>::new());
        assert_eq!(notes(["16583.123", "33.000"], ""), Vec::<String>::new());
        assert_eq!(notes(["75.123", "80.123"], "13300"), Vec::<String>::new());
        let row = |iops: &str| of_table(&format!("{HEADER}\nread,4k,1,1,\"{iops}\",,,\n"));
        let without =
            "a number above 0, without separators of thousands, its decimals behind a point";
        for iops in ["16,583", "1,016,583", "1.016.583"] {
            let wrong = (format!("line 2: iops is `{iops}`"), without.to_string());
            assert_eq!(row(iops), Err(wrong));
        }
        assert_eq!(row("16,58").unwrap_err().1, "a number above 0, its decimals behind a point");
    }
}
