//! Bonnie++, by its line of comma-separated values: 1.03's, and that of 1.97 and 1.98, which 2.00
//! writes. What was too quick to be measured stands there as plus signs, and is left out.

use super::scan::number;
use super::{Numbers, Parser};

pub(super) const PROGRAM: Parser = Parser {
    name: "bonnie++",
    executable: Some("bonnie++"),
    metrics: &[
        ("bonnie_write_char_mib_s", "MiB/s", "MiB per second that bonnie++ wrote byte by byte"),
        ("bonnie_write_mib_s", "MiB/s", "MiB per second that bonnie++ wrote in blocks"),
        ("bonnie_rewrite_mib_s", "MiB/s", "MiB per second that bonnie++ read and wrote again"),
        ("bonnie_read_char_mib_s", "MiB/s", "MiB per second that bonnie++ read byte by byte"),
        ("bonnie_read_mib_s", "MiB/s", "MiB per second that bonnie++ read in blocks"),
        ("bonnie_seeks_per_s", "1/s", "random seeks per second of bonnie++"),
        ("bonnie_create_per_s", "1/s", "files per second that bonnie++ created in order"),
        ("bonnie_stat_per_s", "1/s", "files per second that bonnie++ looked at in order"),
        ("bonnie_delete_per_s", "1/s", "files per second that bonnie++ deleted in order"),
    ],
    read,
};

/// In the order of the first six metrics: rates in KiB/s, then seeks, each before its CPU share.
const RATES: usize = 6;

/// Where the rates and the rates of files begin, by the first value of the line; 1.03 begins with
/// the machine's name.
fn columns(first: &str) -> (usize, usize) {
    match first {
        "1.98" | "2.00" => (9, 26),
        "1.96" | "1.97" => (7, 24),
        _ => (2, 15),
    }
}

fn read(text: &str) -> Result<Numbers, String> {
    let line = text.lines().rev().find(|line| line.matches(',').count() > 20);
    let line = line.ok_or("there is no line of comma-separated values")?;
    let values: Vec<&str> = line.trim().split(',').collect();
    let (rates, files) = columns(values[0]);
    let at = |index: usize| values.get(index).and_then(|word| number(word));
    let mut numbers = Numbers::new();
    for (index, (metric, ..)) in PROGRAM.metrics.iter().enumerate() {
        let value = match index {
            0..5 => at(rates + 2 * index).map(|kib_s| kib_s / 1024.0),
            5..RATES => at(rates + 2 * index),
            _ => at(files + 2 * (index - RATES)),
        };
        numbers.extend(value.map(|value| (*metric, value)));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_2_00_is_read() {
        let line = "1.98,2.00a,vm,1,1795369023,16M,,8192,5,565,42,20480,7,10240,9,970,42,40960,5,\
                    812.5,1,1,,,,,700,80,+++++,+++,600,1,+++++,+++,+++++,+++,+++++,+++,29546us,\
                    8053us,7148us,19612us,7us,15624us,8095us,4046us,,8092us,20498us,12099us\n";
        let numbers = read(line).unwrap();
        assert_eq!(numbers["bonnie_write_char_mib_s"], 565.0 / 1024.0);
        assert_eq!((numbers["bonnie_write_mib_s"], numbers["bonnie_rewrite_mib_s"]), (20.0, 10.0));
        assert_eq!((numbers["bonnie_read_mib_s"], numbers["bonnie_seeks_per_s"]), (40.0, 812.5));
        assert_eq!(
            (numbers["bonnie_create_per_s"], numbers["bonnie_delete_per_s"]),
            (700.0, 600.0)
        );
        assert!(!numbers.contains_key("bonnie_stat_per_s"), "too quick to be measured");
    }

    #[test]
    fn the_line_of_1_03_is_read() {
        let line = "vm,512M,2048,97,20480,7,10240,9,3072,96,40960,5,812.5,1,16,700,80,+++++,+++,\
                    600,1,650,80,+++++,+++,500,2\n";
        let numbers = read(line).unwrap();
        assert_eq!(
            (numbers["bonnie_write_char_mib_s"], numbers["bonnie_read_char_mib_s"]),
            (2.0, 3.0)
        );
        assert_eq!((numbers["bonnie_read_mib_s"], numbers["bonnie_seeks_per_s"]), (40.0, 812.5));
        assert_eq!(
            (numbers["bonnie_create_per_s"], numbers["bonnie_delete_per_s"]),
            (700.0, 600.0)
        );
    }
}
