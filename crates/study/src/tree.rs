//! A TOML document in which every key and value remembers where it was written.
//!
//! Parts, `--set` and sweeps merge tables, which loses the positions a TOML parser knows. So each
//! text is parsed into a tree that carries them, the trees are merged, and an error at any path
//! finds its way back to the text that caused it.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use models::registry::SLOTS;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use config::{Failure, FilePlace};

use crate::axis_value::AxisValue;

/// A text that configuration came from.
#[derive(Debug)]
pub(crate) struct Text {
    /// As the user named it.
    pub(crate) name: PathBuf,
    /// What it says.
    pub(crate) text: String,
}

impl Text {
    pub(crate) fn new(name: impl Into<PathBuf>, text: impl Into<String>) -> Arc<Text> {
        Arc::new(Text { name: name.into(), text: text.into() })
    }

    /// The place of a byte range of this text.
    pub(crate) fn place(&self, span: Range<usize>) -> FilePlace {
        let start = span.start.min(self.text.len());
        let line_start = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line = self.text[..start].matches('\n').count() + 1;
        let quote = self.text[line_start..].lines().next().unwrap_or_default();
        let column = self.text[line_start..start].chars().count() + 1;
        let end = span.end.clamp(start, line_start + quote.len().max(start - line_start));
        let length = self.text[start..end].chars().count();
        FilePlace {
            file: self.name.clone(),
            line_column: Some((line, column)),
            byte: None,
            quote: Some((quote.to_string(), length)),
        }
    }
}

/// Where a key or a value was written.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) text: Arc<Text>,
    pub(crate) span: Range<usize>,
}

impl Origin {
    pub(crate) fn place(&self) -> FilePlace {
        self.text.place(self.span.clone())
    }
}

/// What a node holds. Tables keep the order of the document.
#[derive(Clone, Debug)]
pub(crate) enum Data {
    Leaf(toml::Value),
    Array(Vec<Node>),
    Table(Vec<(String, Node)>),
}

/// A value, and where it and its key were written.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) key: Origin,
    pub(crate) value: Origin,
    pub(crate) data: Data,
}

/// The end of a walk along a path.
pub(crate) struct Reached<'a> {
    /// The deepest node on the path.
    pub(crate) node: &'a Node,
    /// How many segments of the path it matches.
    pub(crate) depth: usize,
}

impl Node {
    /// Parse a document.
    pub(crate) fn parse(text: &Arc<Text>) -> Result<Node, Failure> {
        let table = DeTable::parse(&text.text).map_err(|error| syntax_error(text, &error))?;
        let origin = Origin { text: text.clone(), span: 0..0 };
        let data = table_data(text, table.into_inner())?;
        Ok(Node { key: origin.clone(), value: origin, data })
    }

    /// Parse one value that stands at `span` of `text`.
    pub(crate) fn parse_value(text: &Arc<Text>, span: Range<usize>) -> Result<Node, Failure> {
        let slice = &text.text[span.clone()];
        let value = DeValue::parse(slice).map_err(|error| syntax_error(text, &error))?;
        let origin = Origin { text: text.clone(), span };
        let mut node = node(text, origin.clone(), value)?;
        node.relocate(&origin);
        Ok(node)
    }

    /// An empty table.
    pub(crate) fn table(origin: Origin) -> Node {
        Node { key: origin.clone(), value: origin, data: Data::Table(Vec::new()) }
    }

    /// A string.
    pub(crate) fn string(origin: Origin, value: &str) -> Node {
        let data = Data::Leaf(toml::Value::String(value.to_string()));
        Node { key: origin.clone(), value: origin, data }
    }

    /// Say that this node and all below it were written at `origin`.
    fn relocate(&mut self, origin: &Origin) {
        self.key = origin.clone();
        self.value = origin.clone();
        match &mut self.data {
            Data::Leaf(_) => {}
            Data::Array(list) => list.iter_mut().for_each(|n| n.relocate(origin)),
            Data::Table(table) => table.iter_mut().for_each(|(_, n)| n.relocate(origin)),
        }
    }

    /// The entries of a table; none when it is something else.
    pub(crate) fn entries(&self) -> &[(String, Node)] {
        match &self.data {
            Data::Table(table) => table,
            _ => &[],
        }
    }

    /// The items of an array; none when it is something else.
    pub(crate) fn items(&self) -> &[Node] {
        match &self.data {
            Data::Array(list) => list,
            _ => &[],
        }
    }

    /// The same, to change them.
    pub(crate) fn items_mut(&mut self) -> &mut [Node] {
        match &mut self.data {
            Data::Array(list) => list,
            _ => &mut [],
        }
    }

    /// Keep those items of an array that the flags say.
    pub(crate) fn retain(&mut self, kept: &[bool]) {
        let mut kept = kept.iter();
        if let Data::Array(list) = &mut self.data {
            list.retain(|_| kept.next().is_none_or(|kept| *kept));
        }
    }

    /// The entry `key` of a table.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|(k, _)| k == key).map(|(_, node)| node)
    }

    /// The same, to change it.
    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        let Data::Table(table) = &mut self.data else { return None };
        table.iter_mut().find(|(k, _)| k == key).map(|(_, node)| node)
    }

    /// Take the entry `key` out of a table.
    pub(crate) fn take(&mut self, key: &str) -> Option<Node> {
        let Data::Table(table) = &mut self.data else { return None };
        let index = table.iter().position(|(k, _)| k == key)?;
        Some(table.remove(index).1)
    }

    /// Put an entry into a table, in place of an older one of that name.
    pub(crate) fn put(&mut self, key: &str, node: Node) {
        if !matches!(self.data, Data::Table(_)) {
            self.data = Data::Table(Vec::new());
        }
        let Data::Table(table) = &mut self.data else { unreachable!("it was made a table above") };
        match table.iter_mut().find(|(k, _)| k == key) {
            Some((_, old)) => *old = node,
            None => table.push((key.to_string(), node)),
        }
    }

    /// Put a value at a path, replacing what is there; tables on the way are made, and another
    /// choice than that on the path goes.
    pub(crate) fn assign(&mut self, path: &[String], value: Node) {
        let [first, rest @ ..] = path else { return };
        let Some(next) = rest.first() else {
            self.put(first, value);
            return;
        };
        let stays = |node: &Node| match &node.data {
            Data::Table(_) => !is_choice(first) || node.get(next).is_some(),
            _ => false,
        };
        if !self.get(first).is_some_and(stays) {
            self.put(first, Node::table(value.key.clone()));
        }
        if let Data::Table(table) = &mut self.data
            && let Some((_, next)) = table.iter_mut().find(|(k, _)| k == first)
        {
            next.assign(rest, value);
        }
    }

    /// The same for a value of an axis: a name keeps what the document sets for that name.
    pub(crate) fn choose(&mut self, path: &[String], value: Node) {
        let found = self.find(path);
        let known = |name: &str| found.node.get(name).filter(|_| found.depth == path.len());
        let kept = match &value.data {
            Data::Leaf(leaf) => leaf.as_str().and_then(|name| Some((name, known(name)?.clone()))),
            _ => None,
        };
        let Some((name, kept)) = kept else { return self.assign(path, value) };
        let mut table = Node::table(value.value.clone());
        table.put(name, kept);
        self.assign(path, table);
    }

    /// Lay `over` over this node: tables merge key by key, anything else is replaced, as is
    /// one choice by another.
    pub(crate) fn overlay(&mut self, over: Node) {
        let Data::Table(entries) = over.data else {
            *self = over;
            return;
        };
        let Data::Table(table) = &mut self.data else {
            *self = Node { data: Data::Table(entries), ..over };
            return;
        };
        for (key, node) in entries {
            let chosen = |node: &Node| node.entries().first().map(|(name, _)| name.clone());
            match table.iter_mut().find(|(k, _)| *k == key) {
                Some((_, old)) if is_choice(&key) && chosen(old) != chosen(&node) => *old = node,
                Some((_, old)) => old.overlay(node),
                None => table.push((key, node)),
            }
        }
        self.key = over.key;
        self.value = over.value;
    }

    /// Put an entry into a table that has none of that name, before the first one that `is_later`.
    pub(crate) fn put_before(&mut self, is_later: impl Fn(&str) -> bool, key: &str, node: Node) {
        let Data::Table(table) = &mut self.data else { return self.put(key, node) };
        let at = table.iter().position(|(other, _)| is_later(other)).unwrap_or(table.len());
        table.insert(at, (key.to_string(), node));
    }

    /// Walk as far along a path as the tree goes.
    pub(crate) fn find(&self, path: &[String]) -> Reached<'_> {
        let mut found = Reached { node: self, depth: 0 };
        for segment in path {
            let next = match &found.node.data {
                Data::Leaf(_) => None,
                Data::Array(list) => segment.parse::<usize>().ok().and_then(|i| list.get(i)),
                Data::Table(_) => found.node.get(segment),
            };
            let Some(node) = next else { break };
            found = Reached { node, depth: found.depth + 1 };
        }
        found
    }

    /// The plain value.
    pub(crate) fn to_value(&self) -> toml::Value {
        match &self.data {
            Data::Leaf(value) => value.clone(),
            Data::Array(list) => list.iter().map(Node::to_value).collect::<Vec<_>>().into(),
            Data::Table(table) => {
                let entries = table.iter().map(|(key, node)| (key.clone(), node.to_value()));
                toml::Value::Table(entries.collect())
            }
        }
    }
}

/// True when the table below `key` has one entry, whose name is a choice: a policy, or a way to say
/// how much is spare. Which model a table is of is nothing that a setting changes by the way.
fn is_choice(key: &str) -> bool {
    let is_model = ["device", "workload", "trace"].contains(&key);
    let is_policy = || SLOTS.iter().any(|slot| slot.slot == key) && !is_model;
    key == "over_provisioning" || is_policy()
}

/// What `value`, which stands at the key `key`, chooses in place of a name along `below`: (that
/// name, the other one). `None` where `below` lies in what is chosen.
pub(crate) fn other_choice(key: &str, value: &Node, below: &[String]) -> Option<(String, String)> {
    let [name, rest @ ..] = below else { return None };
    let other = match (&value.data, value.get(name)) {
        (Data::Table(_), Some(inner)) => return other_choice(name, inner, rest),
        (Data::Table(table), None) => {
            // The other keys of a table of parameters are as the document has them.
            let chosen = SLOTS.iter().any(|slot| slot.slot == key) || is_choice(key);
            table.first().filter(|_| chosen)?.0.clone()
        }
        (Data::Leaf(leaf), _) if leaf.as_str() == Some(name) => return None,
        _ => AxisValue(value.to_value()).label(),
    };
    Some((name.clone(), other))
}

fn syntax_error(text: &Arc<Text>, error: &toml::de::Error) -> Failure {
    let failure = Failure::input(format!("this is not TOML: {}", error.message()));
    failure.at(text.place(error.span().unwrap_or(0..0)))
}

fn table_data(text: &Arc<Text>, table: DeTable<'_>) -> Result<Data, Failure> {
    let mut entries: Vec<_> = table.into_iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let entry = |(key, value): (Spanned<_>, Spanned<DeValue<'_>>)| {
        let origin = Origin { text: text.clone(), span: key.span() };
        let name: std::borrow::Cow<str> = key.into_inner();
        Ok((name.into_owned(), node(text, origin, value)?))
    };
    entries.into_iter().map(entry).collect::<Result<_, _>>().map(Data::Table)
}

fn node(text: &Arc<Text>, key: Origin, spanned: Spanned<DeValue<'_>>) -> Result<Node, Failure> {
    let value = Origin { text: text.clone(), span: spanned.span() };
    let out_of_range =
        |what: &str| Failure::input(format!("{what} is out of range")).at(value.place());
    let data = match spanned.into_inner() {
        DeValue::String(string) => Data::Leaf(string.into_owned().into()),
        DeValue::Integer(integer) => {
            let number = i64::from_str_radix(integer.as_str(), integer.radix());
            Data::Leaf(number.map_err(|_| out_of_range(integer.as_str()))?.into())
        }
        DeValue::Float(float) => {
            let number = float.as_str().parse::<f64>();
            Data::Leaf(number.map_err(|_| out_of_range(float.as_str()))?.into())
        }
        DeValue::Boolean(boolean) => Data::Leaf(boolean.into()),
        DeValue::Datetime(datetime) => Data::Leaf(datetime.into()),
        DeValue::Array(array) => {
            let item = |item: Spanned<DeValue<'_>>| {
                let origin = Origin { text: text.clone(), span: item.span() };
                node(text, origin, item)
            };
            Data::Array(array.into_iter().map(item).collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => table_data(text, table)?,
    };
    Ok(Node { key, value, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(dotted: &str) -> Vec<String> {
        dotted.split('.').map(String::from).collect()
    }

    #[test]
    fn merged_values_keep_their_places() {
        let base = Text::new("base.toml", "[a]\nx = 1\ny = [10, 20]\n");
        let over = Text::new("over.toml", "\n[a]\nx = 2\n");
        let mut tree = Node::parse(&base).unwrap();
        tree.overlay(Node::parse(&over).unwrap());
        let place = |dotted: &str| tree.find(&path(dotted)).node.value.place();
        assert_eq!(
            (place("a.x").file, place("a.x").line_column),
            ("over.toml".into(), Some((3, 5)))
        );
        assert_eq!(place("a.y.1").line_column, Some((3, 10)));
        assert_eq!(tree.to_value()["a"]["x"].as_integer(), Some(2));
    }

    #[test]
    fn a_policy_chosen_by_name_replaces_the_other() {
        let base = Text::new("base", "[gc.greedy]\n");
        let over = Text::new("over", "[gc.d-choices]\nd = 3\n");
        let mut tree = Node::parse(&base).unwrap();
        tree.overlay(Node::parse(&over).unwrap());
        assert_eq!(tree.get("gc").unwrap().entries().len(), 1);
        assert!(tree.get("gc").unwrap().get("d-choices").is_some());
        let five = Node::parse(&Text::new("five", "d = 5")).unwrap().take("d").unwrap();
        tree.assign(&path("gc.d-choices.d"), five.clone());
        assert_eq!(tree.to_value()["gc"]["d-choices"]["d"].as_integer(), Some(5));
        tree.assign(&path("gc.windowed.window"), five);
        assert_eq!(tree.get("gc").unwrap().entries().len(), 1);
    }

    #[test]
    fn a_place_counts_characters_and_stays_in_its_line() {
        let text = Text::new("t", "\"\u{e4}\" = \"\"\"a\nb\"\"\"\n");
        let tree = Node::parse(&text).unwrap();
        let place = tree.find(&path("\u{e4}")).node.value.place();
        assert_eq!(place.line_column, Some((1, 7)));
        assert_eq!(place.quote, Some(("\"\u{e4}\" = \"\"\"a".into(), 4)));
    }
}
