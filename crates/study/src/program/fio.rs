//! fio, by its JSON. Rates are sums over its jobs, means are over all of their requests, and a
//! percentile is that of the job in which it was largest.

use serde_json::Value;

use super::{Numbers, Parser};

pub(super) const PROGRAM: Parser = Parser {
    name: "fio",
    executable: Some("fio"),
    metrics: &[
        ("fio_read_requests", "requests", "reads in all, as fio counts"),
        ("fio_read_iops", "1/s", "reads per second, as fio counts"),
        ("fio_read_mb_s", "MB/s", "MB (10^6 bytes) read per second, as fio counts"),
        ("fio_read_latency_us_mean", "us", "mean time of a read in fio in microseconds"),
        ("fio_read_latency_us_p50", "us", "median time of a read in fio in microseconds"),
        (
            "fio_read_latency_us_p99",
            "us",
            "99th percentile of a read's time in fio in microseconds",
        ),
        (
            "fio_read_latency_us_p99_9",
            "us",
            "99.9th percentile of a read's time in fio in microseconds",
        ),
        ("fio_read_latency_us_max", "us", "longest read in fio in microseconds"),
        ("fio_write_requests", "requests", "writes in all, as fio counts"),
        ("fio_write_iops", "1/s", "writes per second, as fio counts"),
        ("fio_write_mb_s", "MB/s", "MB (10^6 bytes) written per second, as fio counts"),
        ("fio_write_latency_us_mean", "us", "mean time of a write in fio in microseconds"),
        ("fio_write_latency_us_p50", "us", "median time of a write in fio in microseconds"),
        (
            "fio_write_latency_us_p99",
            "us",
            "99th percentile of a write's time in fio in microseconds",
        ),
        (
            "fio_write_latency_us_p99_9",
            "us",
            "99.9th percentile of a write's time in fio in microseconds",
        ),
        ("fio_write_latency_us_max", "us", "longest write in fio in microseconds"),
        ("fio_sync_requests", "requests", "fsyncs in all, as fio counts"),
        ("fio_sync_latency_us_mean", "us", "mean time of an fsync in fio in microseconds"),
        ("fio_sync_latency_us_p50", "us", "median time of an fsync in fio in microseconds"),
        (
            "fio_sync_latency_us_p99",
            "us",
            "99th percentile of an fsync's time in fio in microseconds",
        ),
        (
            "fio_sync_latency_us_p99_9",
            "us",
            "99.9th percentile of an fsync's time in fio in microseconds",
        ),
        ("fio_sync_latency_us_max", "us", "longest fsync in fio in microseconds"),
    ],
    read,
};

fn read(text: &str) -> Result<Numbers, String> {
    // Warnings may stand before it.
    let begin = text.find("{\n").ok_or("there is no JSON; fio --output-format=json")?;
    let end = text.rfind('}').filter(|&end| end > begin).ok_or("its JSON has no end")?;
    let json: Value =
        serde_json::from_str(&text[begin..=end]).map_err(|why| format!("not fio's JSON: {why}"))?;
    let jobs = json["jobs"].as_array().filter(|jobs| !jobs.is_empty());
    let jobs = jobs.ok_or("fio's JSON has no jobs")?;
    if let Some(error) = jobs.iter().find_map(|job| job["error"].as_i64().filter(|&e| e != 0)) {
        return Err(format!("a job of fio ended with error {error}"));
    }
    let mut numbers = Numbers::new();
    for kind in ["read", "write", "sync"] {
        let of_kind: Vec<&Value> =
            jobs.iter().map(|job| &job[kind]).filter(|k| count(k) > 0.0).collect();
        if !of_kind.is_empty() {
            numbers.extend(about(kind, &of_kind));
        }
    }
    Ok(numbers)
}

/// Requests of a kind in a job.
fn count(of_kind: &Value) -> f64 {
    of_kind["total_ios"].as_f64().unwrap_or(0.0)
}

/// The metrics of a kind of request, of the jobs that made some.
fn about(kind: &str, jobs: &[&Value]) -> Numbers {
    let sum = |key: &str| jobs.iter().map(|job| job[key].as_f64().unwrap_or(0.0)).sum::<f64>();
    let largest = |of: &dyn Fn(&Value) -> Option<f64>| {
        jobs.iter().filter_map(|job| of(job)).reduce(f64::max).map(|ns| ns / 1e3)
    };
    // Reads and writes have both, the whole time and that of completion; an fsync has the whole.
    let percentile = |key: &str| {
        largest(&|job| {
            let percentiles = ["clat_ns", "lat_ns"].map(|times| &job[times]["percentile"][key]);
            percentiles.into_iter().find_map(Value::as_f64)
        })
    };
    let whole_us = |job: &&Value| job["lat_ns"]["mean"].as_f64().unwrap_or(0.0) * count(job) / 1e3;
    let requests = jobs.iter().map(|job| count(job)).sum::<f64>();
    let mean = jobs.iter().map(whole_us).sum::<f64>() / requests;
    let rates = kind != "sync";
    let values = [
        ("requests", Some(requests)),
        ("iops", rates.then(|| sum("iops"))),
        ("mb_s", rates.then(|| sum("bw_bytes") / 1e6)),
        ("latency_us_mean", Some(mean)),
        ("latency_us_p50", percentile("50.000000")),
        ("latency_us_p99", percentile("99.000000")),
        ("latency_us_p99_9", percentile("99.900000")),
        ("latency_us_max", largest(&|job| job["lat_ns"]["max"].as_f64())),
    ];
    let named = |(end, value): (&str, Option<f64>)| {
        let name = format!("fio_{kind}_{end}");
        let (metric, ..) = PROGRAM.metrics.iter().find(|(metric, ..)| *metric == name)?;
        Some((*metric, value.filter(|value| value.is_finite())?))
    };
    values.into_iter().filter_map(named).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn output(jobs: Value) -> String {
        let json = serde_json::to_string_pretty(&json!({ "jobs": jobs })).unwrap();
        format!("fio: a warning {{ in braces\n{json}\nbye\n")
    }

    #[test]
    fn a_reader_beside_writers_is_read() {
        let writer = |iops: f64, p99: u64, max: u64, ios: u64, mean: f64| {
            json!({ "error": 0, "read": { "total_ios": 0 }, "write": {
                "total_ios": ios, "iops": iops, "bw_bytes": 3_000_000,
                "lat_ns": { "mean": mean, "max": max },
                "clat_ns": { "percentile": { "50.000000": 500, "99.000000": p99 } },
            } })
        };
        let reader = json!({ "error": 0, "write": { "total_ios": 0 },
            "read": { "total_ios": 9, "iops": 30.5, "bw_bytes": 500_000,
                "lat_ns": { "mean": 2000.0, "max": 9000 },
                "clat_ns": { "percentile": { "50.000000": 1500, "99.900000": 8000 } } },
            "sync": { "total_ios": 4, "lat_ns": { "mean": 70_000.0, "max": 90_000,
                "percentile": { "99.000000": 88_000 } } } });
        let writers = [writer(10.0, 7000, 9000, 1, 1000.0), writer(20.0, 6000, 9500, 3, 5000.0)];
        let [one, other] = writers;
        let numbers = read(&output(json!([reader, one, other]))).unwrap();
        assert_eq!((numbers["fio_read_iops"], numbers["fio_read_mb_s"]), (30.5, 0.5));
        let requests =
            ["read", "write", "sync"].map(|kind| numbers[&*format!("fio_{kind}_requests")]);
        assert_eq!(requests, [9.0, 4.0, 4.0]);
        assert_eq!(
            (numbers["fio_read_latency_us_p50"], numbers["fio_read_latency_us_p99_9"]),
            (1.5, 8.0)
        );
        assert_eq!((numbers["fio_write_iops"], numbers["fio_write_mb_s"]), (30.0, 6.0));
        assert_eq!(
            (numbers["fio_write_latency_us_p99"], numbers["fio_write_latency_us_max"]),
            (7.0, 9.5)
        );
        assert_eq!(numbers["fio_write_latency_us_mean"], 4.0);
        assert_eq!(
            (numbers["fio_sync_latency_us_p99"], numbers["fio_sync_latency_us_mean"]),
            (88.0, 70.0)
        );
        assert!(!numbers.contains_key("fio_read_latency_us_p99"));
    }

    #[test]
    fn what_went_wrong_in_fio_is_told() {
        assert!(read("{\n").unwrap_err().contains("no end"));
        assert!(read("plain words").unwrap_err().contains("--output-format=json"));
        assert!(read(&output(json!([]))).unwrap_err().contains("no jobs"));
        assert!(read(&output(json!([{ "error": 28 }]))).unwrap_err().contains("error 28"));
    }
}
