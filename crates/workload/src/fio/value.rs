//! fio's notation for numbers, sizes, times and lists.

use sim::{Bytes, Nanos};

use config::{Duration, Rate, Size};

/// Whose notation a value is written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dialect {
    /// A fio job file: `4k` is 4096 bytes and `4kib` 4000 when `kb_base` is 1024 (the default),
    /// the other way round when it is 1000; a bare time is in the key's own unit.
    Job {
        /// 1024 or 1000.
        kb_base: u64,
    },
    /// A study: quantities carry the units of every other table (`4KiB`, `10s`, `40MB/s`), and
    /// fio's one-letter `4k` (4096 bytes) is understood too.
    Study,
}

/// The right-hand side of one assignment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value<'a> {
    /// `None` for a bare key.
    pub(super) text: Option<&'a str>,
    pub(super) dialect: Dialect,
}

/// A size that may be a share of something else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// So many bytes.
    Bytes(u64),
    /// So many percent.
    Percent(u64),
}

impl Extent {
    /// The size in bytes when `whole` is 100 %.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Extent::Bytes(bytes) => bytes,
            Extent::Percent(percent) => {
                (u128::from(whole) * u128::from(percent) / 100).min(u128::from(u64::MAX)) as u64
            }
        }
    }
}

impl<'a> Value<'a> {
    pub(super) fn str(self) -> Result<&'a str, String> {
        match self.text.map(str::trim) {
            Some("") | None => Err("expected a value after `=`".into()),
            Some(text) => Ok(text),
        }
    }

    /// The same dialect for a part of the value.
    pub(super) fn part(self, text: &'a str) -> Value<'a> {
        Value { text: Some(text), ..self }
    }

    /// fio's boolean: a bare key or 1 is true, 0 is false.
    pub(super) fn boolean(self) -> Result<bool, String> {
        match self.text.map(str::trim) {
            None | Some("1" | "true") => Ok(true),
            Some("0" | "false") => Ok(false),
            Some(other) => Err(format!("expected 0 or 1, got \"{other}\"")),
        }
    }

    /// One of the words that mean no, or one of those that mean yes.
    pub(super) fn choice(self, no: &[&str], yes: &[&str]) -> Result<bool, String> {
        let text = self.str()?;
        if yes.contains(&text) || no.contains(&text) {
            return Ok(yes.contains(&text));
        }
        let names = [no, yes].concat().join(", ");
        Err(format!("expected one of {names}, got \"{text}\""))
    }

    /// A whole number; fio's size suffixes multiply it.
    pub(super) fn int(self, low: u64, high: u64) -> Result<u64, String> {
        let text = self.str()?;
        let value = self.scaled(text, "a whole number")?;
        if (low..=high).contains(&value) {
            return Ok(value);
        }
        Err(match high {
            u64::MAX => format!("expected at least {low}, got \"{text}\""),
            _ => format!("expected a whole number from {low} to {high}, got \"{text}\""),
        })
    }

    /// A number of bytes.
    pub(super) fn bytes(self) -> Result<u64, String> {
        let text = self.str()?;
        match (self.dialect, Size::parse(text)) {
            (Dialect::Study, Ok(Size(Bytes(bytes)))) => Ok(bytes),
            _ => self.scaled(text, "a size such as 4k or 1g"),
        }
    }

    /// A number of bytes, or percent.
    pub(super) fn extent(self) -> Result<Extent, String> {
        let text = self.str()?;
        match text.strip_suffix('%') {
            Some(percent) => self.part(percent).int(0, 100).map(Extent::Percent),
            None => self.bytes().map(Extent::Bytes),
        }
    }

    /// Bytes per second.
    pub(super) fn rate(self) -> Result<u64, String> {
        match (self.dialect, Rate::parse(self.str()?)) {
            (Dialect::Study, Ok(Rate(rate))) => Ok(rate),
            _ => self.bytes(),
        }
    }

    /// A span of time; in a job file a bare number counts `bare` nanoseconds each.
    pub(super) fn time(self, bare: u64) -> Result<Nanos, String> {
        let text = self.str()?;
        if self.dialect == Dialect::Study {
            return Duration::parse(text).map(|d| d.0);
        }
        let (digits, unit) = split_number(text);
        let scale = match unit.to_ascii_lowercase().as_str() {
            "" => bare,
            "us" | "usec" => 1_000,
            "ms" | "msec" => 1_000_000,
            "s" | "sec" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            _ => {
                return Err(format!(
                    "expected a whole time with one of us, ms, s, m, h, d, got \"{text}\""
                ));
            }
        };
        let value: Option<u64> = digits.parse().ok();
        value
            .and_then(|n| n.checked_mul(scale))
            .map(Nanos)
            .ok_or_else(|| format!("expected a time such as 10s or 500us, got \"{text}\""))
    }

    /// A finite decimal number.
    pub(super) fn float(self) -> Result<f64, String> {
        let text = self.str()?;
        let value = text.parse().ok().filter(|n: &f64| n.is_finite());
        value.ok_or_else(|| format!("expected a number, got \"{text}\""))
    }

    /// `read[,write][,trim]`: what is not given keeps `default` when it is empty, and repeats the
    /// value before it when the list simply ends.
    pub(super) fn triple<T: Clone>(
        self,
        default: &[T; 3],
        parse: impl Fn(Value<'a>) -> Result<T, String>,
    ) -> Result<[T; 3], String> {
        let mut values = default.clone();
        let parts: Vec<&str> = self.str()?.split(',').collect();
        if parts.len() > 3 {
            return Err(format!(
                "expected at most three values (reads, writes, trims), got {}",
                parts.len()
            ));
        }
        for (direction, slot) in values.iter_mut().enumerate() {
            match parts.get(direction) {
                Some(part) if part.trim().is_empty() => {}
                Some(part) => *slot = parse(self.part(part))?,
                None => {
                    if let Some(last) = parts.last().filter(|part| !part.trim().is_empty()) {
                        *slot = parse(self.part(last))?;
                    }
                }
            }
        }
        Ok(values)
    }

    fn scaled(self, text: &str, what: &str) -> Result<u64, String> {
        let wrong = || format!("expected {what}, got \"{text}\"");
        let (base, unit) = match self.dialect {
            Dialect::Job { kb_base } => (kb_base, "B, k, m, g, t, p"),
            Dialect::Study => (1024, "B, KiB, MiB, GiB, kB, MB, GB, k, m, g, t"),
        };
        let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let (number, suffix) = match hex {
            Some(hex) => {
                let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
                (u64::from_str_radix(&hex[..end], 16).ok(), &hex[end..])
            }
            None => {
                let (digits, suffix) = split_number(text);
                (digits.parse().ok(), suffix)
            }
        };
        let number = number.ok_or_else(wrong)?;
        // In a study "4kB" was tried as the house's 4000 bytes before; "4kb" would be ambiguous.
        let known = self.dialect != Dialect::Study || suffix.len() <= 1;
        let scale = multiplier(suffix, base).filter(|_| known).ok_or_else(|| {
            format!("expected {what} with one of the units {unit}, got \"{text}\"")
        })?;
        number.checked_mul(scale).ok_or_else(wrong)
    }
}

/// Leading digits, and the rest.
fn split_number(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// fio's unit prefixes: with `kb_base` 1024 `kib` and its like are decimal and all others binary,
/// with 1000 they mean what the standards say. fio looks at the first letter of the others: `ki` is
/// `k`.
fn multiplier(suffix: &str, kb_base: u64) -> Option<u64> {
    let lower = suffix.to_ascii_lowercase();
    let swapped = lower.ends_with("ib");
    let prefix = lower.strip_suffix('b').unwrap_or(&lower);
    let letter = prefix.strip_suffix('i').unwrap_or(prefix);
    let power = match letter {
        "" if prefix.is_empty() => return Some(1),
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    let base: u64 = match (kb_base, swapped) {
        (1000, false) | (1024, true) => 1000,
        _ => 1024,
    };
    Some(base.pow(power))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(text: &str) -> Value<'_> {
        Value { text: Some(text), dialect: Dialect::Job { kb_base: 1024 } }
    }

    fn study(text: &str) -> Value<'_> {
        Value { text: Some(text), dialect: Dialect::Study }
    }

    #[test]
    fn sizes_follow_fio_in_job_files_and_the_house_in_studies() {
        for (text, bytes) in [("4k", 4096), ("4KB", 4096), ("4KiB", 4000), ("0x10k", 16384)] {
            assert_eq!(job(text).bytes(), Ok(bytes), "{text}");
        }
        let si = |text| Value { dialect: Dialect::Job { kb_base: 1000 }, ..job(text) }.bytes();
        assert_eq!(si("4KiB"), Ok(4096));
        // Only where the `b` stands, too, are the two swapped.
        assert_eq!((job("4ki").bytes(), job("1mi").bytes()), (Ok(4096), Ok(1 << 20)));
        assert_eq!((si("4ki"), si("1Gi")), (Ok(4000), Ok(1_000_000_000)));
        assert!(job("4i").bytes().is_err() && job("4ib").bytes().is_err());
        for (text, bytes) in [("4KiB", 4096), ("4kB", 4000), ("4k", 4096), ("512", 512)] {
            assert_eq!(study(text).bytes(), Ok(bytes), "{text}");
        }
        assert!(job("1.5g").bytes().unwrap_err().contains("got \"1.5g\""));
        assert!(job("4x").bytes().unwrap_err().contains("units B, k"));
        assert!(job("99999999999p").bytes().is_err());
    }

    #[test]
    fn times_take_the_keys_own_unit_only_in_job_files() {
        assert_eq!(job("3").time(1_000), Ok(Nanos(3_000)));
        assert_eq!(job("2m").time(1), Ok(Nanos::from_secs(120)));
        assert_eq!(job("1500msec").time(1), Ok(Nanos::from_millis(1500)));
        assert_eq!(study("2min").time(1), Ok(Nanos::from_secs(120)));
        assert!(study("3").time(1_000).is_err());
        assert!(job("1.5s").time(1).is_err());
    }

    #[test]
    fn triples_fill_as_fio_does() {
        let parse = |text: &'static str| job(text).triple(&[1, 1, 1], Value::bytes);
        assert_eq!(parse("256k"), Ok([262_144; 3]));
        assert_eq!(parse("8k,32k"), Ok([8192, 32768, 32768]));
        assert_eq!(parse("8k,32k,"), Ok([8192, 32768, 1]));
        assert_eq!(parse(",8k"), Ok([1, 8192, 8192]));
        assert!(parse("1,2,3,4").is_err());
    }
}
