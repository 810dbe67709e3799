//! dbench 4: a file server's clients.

use super::scan::{before, number};
use super::{Numbers, Parser};

pub(super) const PROGRAM: Parser = Parser {
    name: "dbench",
    executable: Some("dbench"),
    metrics: &[
        ("dbench_mb_s", "MB/s", "MB read and written per second, as dbench counts"),
        ("dbench_clients", "clients", "dbench's clients"),
        ("dbench_operations", "operations", "operations that dbench counted"),
        ("dbench_latency_ms_max", "ms", "longest operation of dbench in milliseconds"),
        ("dbench_flushes", "flushes", "dbench's flushes: one fsync each"),
        ("dbench_flush_ms_mean", "ms", "mean time of dbench's flushes in milliseconds"),
        ("dbench_flush_ms_max", "ms", "longest of dbench's flushes in milliseconds"),
    ],
    read,
};

fn read(text: &str) -> Result<Numbers, String> {
    let last = text.lines().rev().find(|line| line.starts_with("Throughput "));
    let last = last.ok_or("there is no line `Throughput N MB/sec`")?;
    let mut numbers = Numbers::new();
    let rate = before(last, " MB/sec").ok_or("there is no number before `MB/sec`")?;
    numbers.insert("dbench_mb_s", rate);
    numbers.extend(before(last, " clients").map(|clients| ("dbench_clients", clients)));
    let latency = last.split_once("max_latency=").map(|(_, rest)| rest);
    let latency = latency.and_then(|rest| number(rest.split_whitespace().next()?));
    numbers.extend(latency.map(|ms| ("dbench_latency_ms_max", ms)));
    let mut operations = None;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, count, mean, max] = words[..] else { continue };
        let (Some(count), Some(mean), Some(max)) = (number(count), number(mean), number(max))
        else {
            continue;
        };
        *operations.get_or_insert(0.0) += count;
        if name == "Flush" {
            numbers.insert("dbench_flushes", count);
            numbers.insert("dbench_flush_ms_mean", mean);
            numbers.insert("dbench_flush_ms_max", max);
        }
    }
    numbers.extend(operations.map(|count| ("dbench_operations", count)));
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
dbench version 4.00 - Copyright Andrew Tridgell 1999-2004
   2      8494   124.31 MB/sec  execute   1 sec  latency 27.418 ms

 Operation      Count    AvgLat    MaxLat
 ----------------------------------------
 NTCreateX       5720     0.014     8.173
 Flush            418     6.966    27.403

Throughput 124.306 MB/sec  2 clients  2 procs  max_latency=27.418 ms
";

    #[test]
    fn the_last_line_and_the_flushes_are_read() {
        let numbers = read(OUTPUT).unwrap();
        assert_eq!((numbers["dbench_mb_s"], numbers["dbench_clients"]), (124.306, 2.0));
        assert_eq!(numbers["dbench_latency_ms_max"], 27.418);
        assert_eq!(numbers["dbench_operations"], 6138.0);
        assert_eq!(numbers["dbench_flushes"], 418.0);
        assert_eq!(
            (numbers["dbench_flush_ms_mean"], numbers["dbench_flush_ms_max"]),
            (6.966, 27.403)
        );
        assert!(read("dbench version 4.00").unwrap_err().contains("Throughput"));
    }
}
