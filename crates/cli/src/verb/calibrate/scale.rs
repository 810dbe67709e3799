//! Quantities of a part that are scaled.

use toml::Value;

/// A number and its unit.
pub(super) fn quantity(text: &str) -> Option<(f64, &str)> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = text[..split].parse::<f64>().ok()?;
    Some((number, &text[split..]))
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
        _ => false,
    }
}

/// A quantity, or each of a list, times `factor`.
pub(super) fn scale(value: &Value, factor: f64) -> Value {
    match value {
        Value::Integer(number) => Value::Integer((*number as f64 * factor).round().max(1.0) as i64),
        Value::Float(number) => Value::Float(number * factor),
        Value::String(text) => quantity(text).map_or(value.clone(), |(number, unit)| {
            // Four digits: no measurement knows more.
            let number = number * factor;
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
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use toml::Table;

    use super::*;

    #[test]
    fn quantities_are_scaled_with_their_units() {
        let table: Table =
            "a='85us'\nb=['0us','42.5us']\nc=7\nd='3240MB/s'\ne='no'".parse().unwrap();
        let scaled = |key: &str, factor| scale(&table[key], factor).to_string();
        assert_eq!(scaled("a", 1.1), "\"93.5us\"");
        assert_eq!(scaled("b", 2.0), "[\"0us\", \"85us\"]");
        assert_eq!((scaled("c", 2.0), scaled("d", 1.5)), ("14".into(), "\"4860MB/s\"".into()));
        assert!(!is_scalable(&table["e"]));
    }
}
