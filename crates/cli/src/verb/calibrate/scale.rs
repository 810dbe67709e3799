//! Quantities of a part that are scaled.

use toml::{Table, Value};

/// A number and its unit.
pub(super) fn quantity(text: &str) -> Option<(f64, &str)> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = text[..split].parse::<f64>().ok()?;
    Some((number, &text[split..]))
}

/// How much of `unit` a nanosecond is, if it is a unit of time: a shorter time cannot be stated.
pub(super) fn nanosecond(unit: &str) -> Option<f64> {
    let known = [("ns", 1.0), ("us", 1e-3), ("ms", 1e-6), ("s", 1e-9)];
    known.iter().find(|(name, _)| *name == unit.trim()).map(|(_, least)| *least)
}

/// Whether `value` is a quantity above 0, or a list of quantities of which one is.
pub(super) fn is_scalable(value: &Value) -> bool {
    match value {
        Value::Integer(number) => *number > 0,
        Value::Float(number) => *number > 0.0,
        Value::String(text) => quantity(text).is_some_and(|(number, _)| number > 0.0),
        Value::Array(all) => {
            let known = |value: &Value| match value {
                Value::String(text) => quantity(text).is_some(),
                _ => false,
            };
            all.iter().all(known) && all.iter().any(is_scalable)
        }
        Value::Table(all) => is_seek(all) || is_zones(all),
        _ => false,
    }
}

/// A disk's formula of how long the arm moves: all of it is times, but for the distance at which
/// two pieces meet.
pub(super) fn is_seek(table: &Table) -> bool {
    table.contains_key(KNEE) && table.values().all(|value| !value.is_table())
}

const KNEE: &str = "knee";

/// A disk's zones: the more sectors a track has, the fewer cylinders hold as many.
fn is_zones(table: &Table) -> bool {
    ["cylinders", "outer", "inner"].iter().all(|key| table.contains_key(*key))
}

/// The zones of a disk whose tracks have `factor` times the sectors: room for as many at least.
fn denser(zones: &Table, factor: f64) -> Table {
    let scaled = |(key, value): (&String, &Value)| {
        let times = match key.as_str() {
            "outer" | "inner" => factor,
            "cylinders" => 1.0 / factor,
            _ => 1.0,
        };
        let number = value.as_integer().map(|number| (number as f64 * times).ceil() as i64);
        (key.clone(), number.map_or(value.clone(), Value::Integer))
    };
    zones.iter().map(scaled).collect()
}

/// A quantity, each of a list, the times of a formula, or the sectors of a track, times `factor`.
pub(super) fn scale(value: &Value, factor: f64) -> Value {
    match value {
        Value::Integer(number) => Value::Integer((*number as f64 * factor).round().max(1.0) as i64),
        Value::Float(number) => Value::Float(number * factor),
        Value::String(text) => quantity(text).map_or(value.clone(), |(number, unit)| {
            // Four digits: no measurement knows more.
            let least = nanosecond(unit).filter(|_| number > 0.0).unwrap_or(0.0);
            let number = (number * factor).max(least);
            let digits = (3.0 - number.max(1e-9).log10().floor()).max(0.0) as usize;
            let shown = format!("{number:.digits$}");
            let shown = if shown.contains('.') {
                shown.trim_end_matches('0').trim_end_matches('.')
            } else {
                &shown
            };
            Value::String(format!("{shown}{unit}"))
        }),
        Value::Array(all) => Value::Array(all.iter().map(|value| scale(value, factor)).collect()),
        Value::Table(zones) if is_zones(zones) => Value::Table(denser(zones, factor)),
        Value::Table(formula) if is_seek(formula) => {
            let scaled = |(key, value): (&String, &Value)| {
                let factor = if key == KNEE { 1.0 } else { factor };
                (key.clone(), scale(value, factor))
            };
            Value::Table(formula.iter().map(scaled).collect())
        }
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_scaled_with_their_units() {
        let table: Table =
            "a='85us'\nb=['0us','42.5us']\nc=7\nd='3240MB/s'\ne='no'".parse().unwrap();
        let scaled = |key: &str, factor| scale(&table[key], factor).to_string();
        assert_eq!(scaled("a", 1.1), "\"93.5us\"");
        assert_eq!(scaled("b", 2.0), "[\"0us\", \"85us\"]");
        assert_eq!((scaled("c", 2.0), scaled("d", 1.5)), ("14".into(), "\"4860MB/s\"".into()));
        // What is next to nothing can be read again.
        assert_eq!(scaled("a", 1e-6), "\"0.001us\"");
        assert_eq!(scaled("a", 1e-3), "\"0.085us\"");
        assert_eq!(scaled("b", 1e-9), "[\"0us\", \"0.001us\"]");
        assert!(!is_scalable(&table["e"]));
        let seek: Table = "f={a=1.5,b=0.5,knee=7,c=2.0,e=0.25}\nhost={a=1.5}".parse().unwrap();
        assert!(is_scalable(&seek["f"]) && !is_scalable(&seek["host"]));
        let Value::Table(twice) = scale(&seek["f"], 2.0) else { panic!("no table") };
        let wanted: Table = "a=3.0\nb=1.0\nknee=7\nc=4.0\ne=0.5".parse().unwrap();
        assert_eq!(twice, wanted);
        let zones: Table = "z={count=4,cylinders=300,outer=100,inner=51}".parse().unwrap();
        assert!(is_scalable(&zones["z"]));
        let Value::Table(denser) = scale(&zones["z"], 1.5) else { panic!("no table") };
        let wanted: Table = "count=4\ncylinders=200\nouter=150\ninner=77".parse().unwrap();
        assert_eq!(denser, wanted);
    }
}
