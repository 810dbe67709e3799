//! A model's parameters as rows of a table, read from its JSON Schema.

use serde_json::Value;

/// One parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Dotted below the model's table.
    pub key: String,
    /// What kind of value it takes.
    pub value: String,
    /// As TOML writes it, in backquotes; empty when the key must be given.
    pub default: String,
    /// What it is.
    pub meaning: String,
}

/// The parameters of the model called `name`, out of the schema of its slot.
pub fn rows(schema: &Value, name: &str) -> Vec<Row> {
    let choices = schema["oneOf"].as_array().map(Vec::as_slice).unwrap_or_default();
    let table = choices.iter().find_map(|choice| choice["properties"].get(name));
    let mut rows = Vec::new();
    if let Some(table) = table {
        collect(schema, table, None, "", &mut rows);
    }
    rows
}

fn collect(root: &Value, table: &Value, defaults: Option<&Value>, above: &str, out: &mut Vec<Row>) {
    let Some(properties) = resolve(root, table)["properties"].as_object() else { return };
    for (key, property) in properties {
        let key = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        let short = key.rsplit('.').next().unwrap_or(&key);
        let default = defaults.and_then(|table| table.get(short)).or(property.get("default"));
        if resolve(root, property)["properties"].is_object() {
            collect(root, property, default, &key, out);
            continue;
        }
        out.push(Row {
            value: kind(root, property),
            default: default.map_or(String::new(), |default| format!("`{}`", show(default))),
            meaning: cell(property["description"].as_str().unwrap_or_default()),
            key,
        });
    }
}

/// Follow references; a reference may stand alone or inside `allOf`.
fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let reference = schema["$ref"].as_str().or(schema["allOf"][0]["$ref"].as_str());
    match reference.and_then(|path| root.pointer(path.trim_start_matches('#'))) {
        Some(target) => resolve(root, target),
        None => schema,
    }
}

/// What a value looks like, in words.
fn kind(root: &Value, schema: &Value) -> String {
    let target = resolve(root, schema);
    let options = target["oneOf"].as_array().or(target["anyOf"].as_array());
    if let Some(options) = options {
        // A choice from the registry: the names, and a table for each.
        if let Some(names) = options[0]["enum"].as_array()
            && names.len() + 1 == options.len()
        {
            return kind(root, &options[0]);
        }
        let mut words: Vec<String> = options.iter().map(|option| kind(root, option)).collect();
        words.retain(|word| word != "null");
        words.dedup();
        return words.join(" or ");
    }
    if let Some(names) = target["enum"].as_array() {
        let names: Vec<String> = names.iter().map(|name| format!("`{}`", show(name))).collect();
        return names.join(", ");
    }
    if target["const"].is_string() {
        return format!("`{}`", show(&target["const"]));
    }
    if let Some(properties) = target["properties"].as_object() {
        let names: Vec<String> = properties.keys().map(|name| format!("`{name}`")).collect();
        return format!("a table of {}", names.join(", "));
    }
    if target["pattern"].is_string()
        && let Some(text) = target["description"].as_str()
    {
        return cell(text);
    }
    match &target["type"] {
        Value::String(name) => word(root, target, name),
        Value::Array(names) => {
            let names = names.iter().filter_map(Value::as_str).filter(|name| *name != "null");
            names.map(|name| word(root, target, name)).collect::<Vec<_>>().join(" or ")
        }
        _ => "a value".into(),
    }
}

fn word(root: &Value, schema: &Value, name: &str) -> String {
    match name {
        "integer" => format!("an integer{}", range(schema)),
        "number" => format!("a number{}", range(schema)),
        "string" => "a text".into(),
        "boolean" => "`true` or `false`".into(),
        "array" if schema["items"].is_object() => {
            format!("a list of: {}", kind(root, &schema["items"]))
        }
        "array" => "a list".into(),
        "object" => "a table".into(),
        other => other.into(),
    }
}

/// The bounds that a schema states; that of an unsigned number at 0 goes without saying.
fn range(schema: &Value) -> String {
    let unsigned = schema["format"].as_str().is_some_and(|format| format.starts_with("uint"));
    match (&schema["minimum"], &schema["maximum"]) {
        (least, Value::Null) if least.is_null() || unsigned && least == 0 => String::new(),
        (least, Value::Null) => format!(", {} or more", show(least)),
        (Value::Null, most) => format!(", at most {}", show(most)),
        (least, most) => format!(", {} to {}", show(least), show(most)),
    }
}

/// A value in few words: a text without quotes, a table of one empty table by its name.
fn show(value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::String(text) => text.clone(),
        Value::Object(table) if table.len() == 1 && table.values().all(is_empty) => {
            table.keys().cloned().collect()
        }
        Value::Object(table) => {
            let pairs = table.iter().map(|(key, value)| format!("{key} = {}", show(value)));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(|table| table.is_empty())
}

/// One cell of a Markdown table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_within_tables_get_dotted_keys() {
        let schema = serde_json::json!({
            "oneOf": [{ "properties": { "ssd": { "$ref": "#/$defs/Ssd" } } }],
            "$defs": {
                "Ssd": { "properties": {
                    "nand": { "$ref": "#/$defs/Nand", "default": { "planes": 2 } },
                    "gc": {
                        "oneOf": [{ "enum": ["greedy"] }, { "type": "object" }],
                        "default": { "greedy": {} },
                    },
                }},
                "Nand": { "properties": { "planes": { "type": "integer", "default": 1 } } },
            }
        });
        let rows = rows(&schema, "ssd");
        let short: Vec<_> = rows.iter().map(|r| (&*r.key, &*r.value, &*r.default)).collect();
        let gc = ("gc", "`greedy`", "`greedy`");
        assert_eq!(short, [gc, ("nand.planes", "an integer", "`2`")]);
    }
}
