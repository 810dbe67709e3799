//! From an error at a path of the merged document to the text that caused it.

use config::{ConfigError, Failure, FilePlace, names};
use models::registry::DeviceModel;
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;

use crate::library;
use crate::tree::{Data, Node, Text};

/// Read `tree` as a `T`; an error names the place of the offending key or value.
pub(crate) fn read<T: DeserializeOwned>(tree: &Node) -> Result<T, Failure> {
    read_below(tree, &[])
}

/// As [`read`], of the value at `path`.
pub(crate) fn read_below<T: DeserializeOwned>(tree: &Node, path: &[String]) -> Result<T, Failure> {
    let value = tree.find(path).node.to_value();
    serde_path_to_error::deserialize(value).map_err(|error| {
        let mut full = path.to_vec();
        full.extend(error.path().iter().filter_map(|segment| match segment {
            Segment::Map { key } => Some(key.clone()),
            Segment::Seq { index } => Some(index.to_string()),
            Segment::Enum { variant } => Some(variant.clone()),
            Segment::Unknown => None,
        }));
        failure(tree, &full, error.inner().message())
    })
}

/// A model said no to the value at `path` and the key below it.
pub(crate) fn config_failure(tree: &Node, path: &[&str], error: &ConfigError) -> Failure {
    let mut full: Vec<String> = path.iter().map(|s| (*s).to_string()).collect();
    full.extend(error.key.split('.').filter(|s| !s.is_empty()).map(String::from));
    let named = format!("{}: {}", full.join("."), error.message);
    at(Failure::input(named), place_of(tree, &full))
}

/// The place of the value at `path`, or of the nearest table around it.
pub(crate) fn place_of(tree: &Node, path: &[String]) -> Option<FilePlace> {
    let found = tree.find(path);
    (found.depth > 0 || path.is_empty()).then(|| {
        // A table's own span may cover many lines; its key is what one looks for.
        let table = matches!(found.node.data, Data::Table(_));
        let origin = if table { &found.node.key } else { &found.node.value };
        origin.place()
    })
}

fn at(failure: Failure, place: Option<FilePlace>) -> Failure {
    match place {
        Some(place) => failure.at(place),
        None => failure,
    }
}

/// Turn serde's sentence into a failure at the key or value it talks about.
fn failure(tree: &Node, path: &[String], sentence: &str) -> Failure {
    let sentence = sentence.trim();
    for what in ["unknown field", "unknown variant"] {
        if let Some(rest) = sentence.strip_prefix(what) {
            let mut quoted = rest.split('`').skip(1).step_by(2);
            let name = quoted.next().unwrap_or_default();
            return unknown(tree, path, name, quoted.collect());
        }
    }
    if sentence.starts_with("wanted exactly 1 element") {
        return not_one(tree, path);
    }
    let (message, expected) = match sentence.split_once(", expected ") {
        // Serde's words for one of several names, where there is something else.
        Some(("invalid type: unit variant", _)) => ("this is no name", Some("a name, in quotes")),
        Some((message, expected)) => (message, Some(in_words(expected))),
        None => (sentence, None),
    };
    let dotted = path.join(".");
    if let (Some(number), Some(WHOLE | WHOLE_FROM_0)) = (only_digits(message), expected) {
        let large = Failure::input(format!("{dotted}: {number} is too large a number"));
        return at(large, place_of(tree, path)).expected(format!("at most {}", i64::MAX));
    }
    let message = if dotted.is_empty() { message.into() } else { format!("{dotted}: {message}") };
    let failure = at(Failure::input(message), place_of(tree, path));
    match expected {
        Some(expected) => failure.expected(expected),
        None => failure,
    }
}

/// A table that chooses by its one key has several, or none.
fn not_one(tree: &Node, path: &[String]) -> Failure {
    let names: Vec<&str> =
        tree.find(path).node.entries().iter().map(|(name, _)| name.as_str()).collect();
    let dotted = path.join(".");
    let message = match names[..] {
        [] => format!("{dotted} names nothing"),
        _ => format!("{dotted}: only one of {} fits here", names.join(", ")),
    };
    let failure = at(Failure::input(message), place_of(tree, path)).expected("exactly one name");
    match names[..] {
        [_, second, ..] if path[0] == "precondition" => failure
            .help(format!("one step a table: begin `{second}` with a [[precondition]] of its own")),
        _ => failure,
    }
}

/// A number that TOML cannot hold, which `--set` takes for text.
fn only_digits(message: &str) -> Option<&str> {
    let text = message.strip_prefix("invalid type: string \"")?.strip_suffix('"')?;
    let digits = text.trim_start_matches(['-', '+']);
    let all = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    (all && digits.parse::<i64>().is_err()).then_some(text)
}

const WHOLE: &str = "a whole number";
const WHOLE_FROM_0: &str = "a whole number, 0 or more";

/// Serde calls numbers and tables what Rust calls them.
fn in_words(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => WHOLE_FROM_0,
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => WHOLE,
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a map" => "a table",
        "a sequence" => "a list",
        other if other.starts_with("struct ") => "a table",
        other => other,
    }
}

fn unknown(tree: &Node, path: &[String], name: &str, candidates: Vec<&str>) -> Failure {
    let found = tree.find(path);
    let last = path.last().is_some_and(|last| last == name) && found.depth == path.len();
    let place = match found.node.get(name) {
        // The offending key stands in the table at the path, or at its end.
        Some(child) => Some(child.key.place()),
        None if last => Some(found.node.key.place()),
        None => place_of(tree, path),
    };
    let outer = if last { &path[..path.len() - 1] } else { path };
    let message = match outer.join(".").as_str() {
        "" => format!("unknown key `{name}`"),
        table => format!("unknown name `{name}` in `{table}`"),
    };
    let model = of_part(found.node, name, &candidates);
    let failure = at(Failure::input(message), place).expected(names::expected(name, candidates));
    match model {
        Some((model, part)) => failure.help(format!("{model}.part = \"{part}\"")),
        None => failure,
    }
}

/// The model of the device that the tables of a part describe.
pub(crate) fn model_in(part: &Node) -> Option<&str> {
    let known = |key: &&str| DeviceModel::NAMES.contains(key);
    part.entries().iter().map(|(key, _)| key.as_str()).find(known)
}

/// The model of a shipped part that stands in its place, and the part.
fn of_part(node: &Node, name: &str, candidates: &[&str]) -> Option<(String, String)> {
    if candidates != DeviceModel::NAMES {
        return None;
    }
    let part = match node.get(name).map(|value| &value.data) {
        Some(Data::Leaf(toml::Value::String(part))) if name == "part" => part,
        _ => name,
    };
    let text = Text::new(part, library::find(library::parts(), part)?);
    let keys = Node::parse(&text).ok()?;
    Some((model_in(&keys)?.to_string(), part.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Order {
        Random,
    }

    #[derive(serde::Deserialize)]
    struct Job {
        #[expect(dead_code, reason = "only read from text")]
        order: Order,
    }

    #[test]
    fn a_number_that_is_too_large_is_told_as_such() {
        #[derive(serde::Deserialize, Debug)]
        struct Sized {
            #[expect(dead_code, reason = "only read from text")]
            a: u64,
        }
        let told = |value: &str| {
            let (_, node) = crate::load::parse_set(&format!("a={value}")).unwrap();
            let mut tree = Node::parse(&Text::new("t", "")).unwrap();
            tree.put("a", node);
            read::<Sized>(&tree).unwrap_err().to_string()
        };
        let large = told("10000000000000000000");
        assert!(large.contains("a: 10000000000000000000 is too large a number"), "{large}");
        assert!(large.contains("at most 9223372036854775807"), "{large}");
        // Digits in quotes are text, and so may be those where text belongs.
        assert!(told("\"1\"").contains("invalid type: string \"1\""));
    }

    #[test]
    fn what_is_no_table_is_told_in_words() {
        #[derive(serde::Deserialize)]
        struct Outer {
            #[expect(dead_code, reason = "only read from text")]
            inner: Job,
        }
        let text = Text::new("a.toml", "inner = 3\n");
        let failure = read::<Outer>(&Node::parse(&text).unwrap()).map(drop).unwrap_err();
        assert_eq!(failure.message, "inner: invalid type: integer `3`");
        assert_eq!(failure.expected.as_deref(), Some("a table"));
    }

    #[test]
    fn what_is_no_name_is_told_in_words() {
        let order = |value: &str| {
            let text = Text::new("a.toml", format!("order = {value}\n"));
            read::<Job>(&Node::parse(&text).unwrap()).map(drop)
        };
        assert!(order("\"random\"").is_ok());
        for value in ["3", "[\"random\"]", "[[\"random\"]]"] {
            let failure = order(value).unwrap_err();
            assert_eq!(failure.message, "order: this is no name", "{value}");
            assert_eq!(failure.expected.as_deref(), Some("a name, in quotes"));
        }
    }
}
