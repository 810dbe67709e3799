//! Quantities with units.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sim::{Bytes, Nanos};

/// A span of time in configuration: `"25us"`, `"1.5 ms"`. A bare number is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Duration(pub Nanos);

/// A size in configuration: `"4KiB"`, `"512 B"`, `"80GB"` (decimal). A bare number is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Size(pub Bytes);

/// Bytes per second in configuration: `"40MB/s"`, `"1GiB/s"`. A bare number is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Rate(pub u64);

const DURATION_UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Ten years.
const LONGEST: Nanos = Nanos::from_secs(10 * 365 * 86_400);

const SIZE_UNITS: [(&str, u64); 9] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

impl Duration {
    /// Parse `"25us"`.
    ///
    /// # Errors
    /// Says which units exist, or that nothing lasts for more than ten years: times are added to
    /// each other, and are to have room for the sum.
    pub fn parse(text: &str) -> Result<Duration, String> {
        let time = parse_quantity(text, &DURATION_UNITS, "a duration", "25us")?.map(Nanos);
        time.filter(|time| *time <= LONGEST).map(Duration).ok_or_else(|| {
            let most = Duration(LONGEST);
            format!("expected at most ten years ({most}), got \"{text}\"")
        })
    }
}

impl Size {
    /// Parse `"4KiB"`.
    ///
    /// # Errors
    /// Says which units exist.
    pub fn parse(text: &str) -> Result<Size, String> {
        let size = parse_quantity(text, &SIZE_UNITS, "a size", "4KiB")?;
        size.map(|n| Size(Bytes(n)))
            .ok_or_else(|| format!("expected a size below 16777216TiB, got \"{text}\""))
    }
}

impl Rate {
    /// Parse `"40MB/s"`.
    ///
    /// # Errors
    /// Says which units exist.
    pub fn parse(text: &str) -> Result<Rate, String> {
        let size = text.trim().strip_suffix("/s");
        let size =
            size.ok_or_else(|| format!("expected a rate such as \"40MB/s\", got \"{text}\""));
        let rate = parse_quantity(size?, &SIZE_UNITS, "a rate", "40MB/s")?;
        rate.map(Rate).ok_or_else(|| format!("expected a rate below 16777216TiB/s, got \"{text}\""))
    }
}

/// The number in the smallest unit; nothing where that is more than any number here.
fn parse_quantity(
    text: &str,
    units: &[(&str, u64)],
    what: &str,
    example: &str,
) -> Result<Option<u64>, String> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_');
    let (number, unit) = text.split_at(split.unwrap_or(text.len()));
    let unit = unit.trim();
    let names = || units.iter().map(|u| u.0).collect::<Vec<_>>().join(", ");
    let Some(&(_, factor)) = units.iter().find(|u| u.0 == unit) else {
        return Err(match unit {
            _ if text.starts_with('-') => format!("\"{text}\" is negative; expected {what}"),
            "" => format!("expected {what} with a unit, such as \"{example}\", got \"{text}\""),
            _ => format!("unknown unit \"{unit}\" in \"{text}\"; known: {}", names()),
        });
    };
    let digits = number.replace('_', "");
    let exact = match digits.split_once('.') {
        None => digits.parse::<u64>().ok().and_then(|n| n.checked_mul(factor)),
        Some(_) => digits
            .parse::<f64>()
            .ok()
            .map(|n| n * factor as f64)
            .filter(|&n| n == 0.0 || n.round() > 0.0)
            .and_then(|n| (n.is_finite() && n < u64::MAX as f64).then_some(n.round() as u64)),
    };
    let too_much =
        || digits.parse::<f64>().is_ok_and(|number| number * factor as f64 >= u64::MAX as f64);
    if exact.is_none() && !too_much() {
        return Err(format!("expected {what} such as \"{example}\", got \"{text}\""));
    }
    Ok(exact)
}

/// Write a value in the largest unit that divides it.
fn show(value: u64, units: &[(&str, u64)]) -> String {
    let fits = units.iter().filter(|&&(_, f)| value.is_multiple_of(f) && value > 0);
    let (unit, factor) = fits.max_by_key(|u| u.1).unwrap_or(&units[0]);
    format!("{}{unit}", value / factor)
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show(self.0.0, &DURATION_UNITS))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show(self.0.0, &SIZE_UNITS))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", show(self.0, &SIZE_UNITS))
    }
}

macro_rules! text_quantity {
    ($type:ident, $schema:literal, $pattern:literal) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                struct Visitor;
                impl de::Visitor<'_> for Visitor {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                        f.write_str($schema)
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$type, E> {
                        $type::parse(text).map_err(E::custom)
                    }
                }
                from.deserialize_any(Visitor)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "type": "string",
                    "description": $schema,
                    "pattern": $pattern,
                })
            }
        }
    };
}

text_quantity!(
    Duration,
    "a duration with a unit, such as \"25us\"",
    r"^\s*[0-9._]+\s*(ns|us|ms|s|min|h)\s*$"
);
text_quantity!(
    Size,
    "a size with a unit, such as \"4KiB\"",
    r"^\s*[0-9._]+\s*(B|[KMGT]iB|[kMGT]B)\s*$"
);
text_quantity!(
    Rate,
    "a rate with a unit, such as \"40MB/s\"",
    r"^\s*[0-9._]+\s*(B|[KMGT]iB|[kMGT]B)/s\s*$"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_and_print() {
        assert_eq!(Duration::parse("25us").unwrap().0, Nanos(25_000));
        assert_eq!(Duration::parse("1.5 ms").unwrap().0, Nanos(1_500_000));
        assert_eq!(Size::parse("4KiB").unwrap().0, Bytes(4096));
        assert_eq!(Rate::parse("40MB/s").unwrap().0, 40_000_000);
        assert_eq!(Duration(Nanos(1_500_000)).to_string(), "1500us");
        assert_eq!(Size(Bytes(0)).to_string(), "0B");
        assert_eq!(Rate(40_000_000).to_string(), "40MB/s");
    }

    #[test]
    fn a_bare_number_or_a_wrong_unit_is_explained() {
        assert!(Duration::parse("25").unwrap_err().contains("with a unit"));
        assert!(Size::parse("4kb").unwrap_err().contains("known: B, KiB"));
        assert!(Size::parse("99999999999TiB").unwrap_err().contains("expected a size"));
        assert!(Rate::parse("40MB").unwrap_err().contains("expected a rate"));
        // Less than the smallest unit is not nothing.
        assert!(Duration::parse("0.4ns").unwrap_err().contains("expected a duration"));
        assert_eq!(Duration::parse("0.0ns"), Ok(Duration(Nanos::ZERO)));
        let error = Duration::parse("1000000h").unwrap_err();
        assert_eq!(error, "expected at most ten years (87600h), got \"1000000h\"");
    }

    #[test]
    fn too_much_is_no_wrong_form() {
        for text in ["10000000000h", "99999999999999999999999s", "9999999999999.5h"] {
            let error = Duration::parse(text).unwrap_err();
            assert_eq!(error, format!("expected at most ten years (87600h), got \"{text}\""));
        }
        let error = Size::parse("16777216TiB").unwrap_err();
        assert_eq!(error, "expected a size below 16777216TiB, got \"16777216TiB\"");
        let error = Rate::parse("99999999999TiB/s").unwrap_err();
        assert!(error.starts_with("expected a rate below 16777216TiB/s, got"), "{error}");
        assert!(Duration::parse("..h").unwrap_err().contains("such as"));
    }
}
