//! A value on an axis of the grid.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A value on an axis of the grid, as TOML.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AxisValue(pub toml::Value);

impl AxisValue {
    /// As JSON: numbers and strings as they are, anything else as its label.
    pub fn json(&self) -> serde_json::Value {
        match &self.0 {
            toml::Value::Integer(n) => (*n).into(),
            toml::Value::Float(n) => (*n).into(),
            toml::Value::Boolean(b) => (*b).into(),
            _ => self.label().into(),
        }
    }

    /// A number, a text or a truth value, and not several.
    pub fn is_single(&self) -> bool {
        !matches!(self.0, toml::Value::Array(_) | toml::Value::Table(_))
    }

    /// The same value, as TOML or as its label.
    pub(crate) fn same(&self, wanted: &AxisValue) -> bool {
        self == wanted || self.label() == wanted.label()
    }

    /// The wanted value, or one of a list of them.
    pub(crate) fn among(&self, wanted: &AxisValue) -> bool {
        let mut list = wanted.0.as_array().into_iter().flatten();
        self.same(wanted) || list.any(|one| self.same(&AxisValue(one.clone())))
    }

    /// Short text: `d-choices(d=10)`.
    pub fn label(&self) -> String {
        short(&self.0)
    }
}

fn short(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Table(table) => {
            let entry = |(key, value): (&String, &toml::Value)| match value {
                toml::Value::Table(inner) if inner.is_empty() => key.clone(),
                toml::Value::Table(_) => format!("{key}({})", short(value)),
                _ => format!("{key}={}", short(value)),
            };
            table.iter().map(entry).collect::<Vec<_>>().join(",")
        }
        toml::Value::Array(list) => list.iter().map(short).collect::<Vec<_>>().join("/"),
        other => other.to_string(),
    }
}

impl JsonSchema for AxisValue {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AxisValue".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["string", "number", "boolean", "object", "array"] })
    }
}
