//! An amount of data: a size, or a share of another one.

use std::fmt;

use config::Size;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sim::Bytes;

/// `"80%"` of something, or `"4GiB"`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Amount {
    /// A share in percent; may exceed 100 where that makes sense.
    Percent(f64),
    /// A size.
    Size(Size),
}

/// What can be written.
const EITHER: &str = "a share such as \"80%\" or a size such as \"4GiB\"";

impl Amount {
    /// The amount, where `whole` is 100 %.
    pub fn of(self, whole: Bytes) -> Bytes {
        match self {
            Amount::Percent(percent) => Bytes((whole.0 as f64 * (percent / 100.0)).round() as u64),
            Amount::Size(size) => size.0,
        }
    }

    fn parse(text: &str) -> Result<Amount, String> {
        let Some(number) = text.trim().strip_suffix('%') else {
            // What is wrong with a unit is told with all that are known.
            return Size::parse(text).map(Amount::Size).map_err(|why| match why {
                why if why.starts_with("unknown unit") => format!("{why}, %"),
                _ => format!("expected {EITHER}, got \"{text}\""),
            });
        };
        match number.trim().parse::<f64>() {
            Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(Amount::Percent(percent)),
            _ => Err(format!("expected a share such as \"80%\", got \"{text}\"")),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Percent(percent) => write!(f, "{percent}%"),
            Amount::Size(size) => size.fmt(f),
        }
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Amount, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Amount;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(EITHER)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
                Amount::parse(text).map_err(E::custom)
            }
        }
        from.deserialize_any(Visitor)
    }
}

impl schemars::JsonSchema for Amount {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Amount".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": EITHER,
            "pattern": r"^\s*[0-9._]+\s*(%|B|[KMGT]iB|[kMGT]B)\s*$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_sizes() {
        assert_eq!(Amount::parse("80%").unwrap().of(Bytes(1000)), Bytes(800));
        assert_eq!(Amount::parse("200 %").unwrap().of(Bytes(1000)), Bytes(2000));
        assert_eq!(Amount::parse("4KiB").unwrap().of(Bytes(1)), Bytes(4096));
        assert!(Amount::parse("-5%").unwrap_err().contains("a share such as"));
        let said = |text: &str| Amount::parse(text).unwrap_err();
        assert_eq!(said("80"), format!("expected {EITHER}, got \"80\""));
        assert_eq!(said("-4KiB"), format!("expected {EITHER}, got \"-4KiB\""));
        assert!(said("4 KB").ends_with("TB, %"), "{}", said("4 KB"));
    }
}
