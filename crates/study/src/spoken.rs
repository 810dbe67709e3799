//! Numbers as people read them: three digits, and the unit that keeps them short.

use crate::metrics;

/// The value of a metric with its unit: `9.28 s`, `5,740/s`.
pub fn of(metric: &str, value: f64) -> String {
    match metrics::unit(metric) {
        "us" => micros(value),
        "ms" => micros(1e3 * value),
        "s" => micros(1e6 * value),
        "share" => format!("{} %", number(100.0 * value, 3)),
        "1/s" => format!("{}/s", number(value, 3)),
        unit @ ("MB/s" | "MiB/s" | "MB" | "MiB" | "KiB") => format!("{} {unit}", number(value, 3)),
        "1" => number(value, 3),
        _ if value.fract() == 0.0 => number(value, 15),
        _ => number(value, 3),
    }
}

fn micros(us: f64) -> String {
    let (scale, unit) = match us.abs() {
        below if below < 0.9995 && below > 0.0 => (1e3, "ns"),
        below if below < 999.5 => (1.0, "us"),
        below if below < 999.5e3 => (1e-3, "ms"),
        below if below < 180e6 => (1e-6, "s"),
        below if below < 7200e6 => (1e-6 / 60.0, "min"),
        _ => (1e-6 / 3600.0, "h"),
    };
    format!("{} {unit}", number(us * scale, 3))
}

/// `digits` significant digits, thousands apart, no exponent; nothing behind the point is cut that
/// stands before it.
pub fn number(value: f64, digits: i32) -> String {
    if !value.is_finite() || value == 0.0 {
        return if value == 0.0 { "0".into() } else { value.to_string() };
    }
    let places = (digits - 1 - value.abs().log10().floor() as i32).max(0) as usize;
    let text = format!("{value:.places$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |rest| ("-", rest));
    let groups: Vec<&str> = whole
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}", groups.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_whole() {
        assert_eq!(number(5739.2, 3), "5,739");
        assert_eq!(number(1_234_567.0, 3), "1,234,567");
        assert_eq!(number(0.012_345, 3), "0.0123");
        assert_eq!(number(-12.0, 3), "-12");
        assert_eq!(number(0.0, 3), "0");
        assert_eq!(of("latency_us_p99", 9_280_000.0), "9.28 s");
        assert_eq!(of("latency_us_p99", 0.5), "500 ns");
        assert_eq!(of("latency_us_p99", 999.6), "1 ms");
        assert_eq!(of("iops", 873.9), "874/s");
        assert_eq!(of("utilisation_mean", 0.25), "25 %");
        assert_eq!(of("host_requests", 12043.0), "12,043");
        assert_eq!(of("waf", 2.5649), "2.56");
    }
}
