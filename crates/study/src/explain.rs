//! What there is, and what it says about itself. A model's `//!` comment is its only source.

use config::Failure;
use config::names::{nearest, related};
use config::parameters::Row;
use models::registry::{SLOTS, Slot};

use crate::{library, metrics};

/// A kind of thing and its entries: (name, one line).
pub type Kind = (&'static str, Vec<(String, String)>);

/// Everything that can be chosen, by kind: studies, parts, hosts, each slot of models, metrics.
pub fn kinds() -> Vec<Kind> {
    let mut kinds = vec![
        ("studies", studies()),
        ("parts", titled(library::parts(), "part")),
        ("hosts", titled(library::hosts(), "host")),
    ];
    for Slot { slot, entries, .. } in SLOTS {
        let entry = |(name, _): &(&str, &str)| {
            let text = documentation(slot, name).unwrap_or_default();
            ((*name).to_string(), text.lines().next().unwrap_or_default().to_string())
        };
        kinds.push((*slot, entries.iter().map(entry).collect()));
    }
    let metrics = metrics::definitions().into_iter();
    kinds.push(("metrics", metrics.map(|m| (m.name.clone(), m.line())).collect()));
    kinds
}

/// (path, text) of the one thing that `name` means: a path such as `gc.greedy`, or its last part.
///
/// # Errors
/// When nothing has that name, or several things have.
pub fn find(name: &str) -> Result<(String, String), Failure> {
    let all = all();
    let matches = |path: &str| path == name || last(path) == name;
    let mut found: Vec<&(String, String)> = all.iter().filter(|(path, _)| matches(path)).collect();
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only.clone()),
        (Some(also), false) => {
            found.push(also);
            let paths: Vec<&str> = found.iter().map(|(path, _)| path.as_str()).collect();
            Err(Failure::input(format!("`{name}` can mean several things"))
                .expected(format!("one of {}", paths.join(", "))))
        }
        (None, _) if metrics::check_name(name).is_ok() => {
            // Of a part of a device: what it is of the whole.
            find(&format!("metric.{}", metrics::of_device(name)))
        }
        (None, _) if let Some(kind) = kind(name) => {
            Err(Failure::input(format!("`{name}` is a kind of things, and none of them"))
                .expected("the name of one")
                .help(format!("blocklab list {kind}")))
        }
        (None, _) => {
            let paths = all.iter().map(|(path, _)| path.as_str());
            let names = paths.clone().chain(paths.map(last));
            let failure =
                Failure::input(format!("there is nothing named `{name}`")).help("blocklab list");
            // Of a path that is wrong, the last part may be right.
            let related = || {
                let metrics = all.iter().filter(|(path, _)| path.starts_with("metric."));
                related(last(name), metrics.map(|(path, text)| (last(path), text.as_str())))
            };
            let near = nearest(name, names.clone()).or_else(|| nearest(last(name), names));
            Err(match near.or_else(related) {
                Some(near) => failure.expected(format!("a name; did you mean `{near}`?")),
                None => failure,
            })
        }
    }
}

/// The kind that `name` is, as [`kinds`] has it: `parts` of `part`, too.
fn kind(name: &str) -> Option<&'static str> {
    let one = |kind: &str| match kind {
        "studies" => name == "study",
        kind => kind.strip_suffix('s') == Some(name),
    };
    kinds().into_iter().map(|(kind, _)| kind).find(|kind| *kind == name || one(kind))
}

/// (path, text) of everything that can be explained.
fn all() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for Slot { slot, entries, .. } in SLOTS {
        for (name, _) in *entries {
            let text = documentation(slot, name).unwrap_or_default();
            all.push((format!("{slot}.{name}"), with_parameters(&text, &parameters(slot, name))));
        }
    }
    let shipped =
        [("part", library::parts()), ("host", library::hosts()), ("study", library::studies())];
    for (kind, list) in shipped {
        all.extend(list.iter().map(|(name, text)| (format!("{kind}.{name}"), text.to_string())));
    }
    let metrics = metrics::definitions().into_iter();
    all.extend(
        metrics.map(|m| (format!("metric.{}", m.name), format!("{}: {}", m.name, m.line()))),
    );
    all
}

/// The parameters of a model.
pub fn parameters(slot: &str, name: &str) -> Vec<Row> {
    Slot::named(slot).map(|slot| slot.parameters(name)).unwrap_or_default()
}

/// A model's text with its parameters below their heading, as its page shows them.
fn with_parameters(text: &str, rows: &[Row]) -> String {
    let row = |row: &Row| {
        let Row { key, value, default, meaning } = row;
        let default = match default.as_str() {
            "" => String::new(),
            default => format!("; default {}", default.trim_matches('`')),
        };
        format!("  {key} = {}{default}\n      {meaning}\n", value.replace('`', ""))
    };
    let list: String = rows.iter().map(row).collect();
    let end = "# What it leaves out";
    match text.split_once(end) {
        Some((before, after)) if !list.is_empty() => format!("{before}{list}\n{end}{after}"),
        _ => text.to_string(),
    }
}

fn last(path: &str) -> &str {
    path.split_once('.').map_or(path, |(_, name)| name)
}

fn studies() -> Vec<(String, String)> {
    let title = |(name, text): &(&str, &str)| ((*name).to_string(), entry(text, "study", "title"));
    library::studies().iter().map(title).collect()
}

/// Shipped files with the title and the status that their table `about` says.
fn titled(list: &[(&str, &str)], about: &str) -> Vec<(String, String)> {
    let line = |(name, text): &(&str, &str)| {
        let (title, status) = (entry(text, about, "title"), entry(text, about, "status"));
        ((*name).to_string(), format!("{title} ({status})"))
    };
    list.iter().map(line).collect()
}

/// A string of a shipped file; nothing when it is not there.
fn entry(text: &str, table: &str, key: &str) -> String {
    let parsed = text.parse::<toml::Table>().unwrap_or_default();
    let value = parsed.get(table).and_then(|table| table.get(key)?.as_str());
    value.unwrap_or_default().to_string()
}

/// The `//!` comment of the model `name` in `slot`, as Markdown.
pub fn documentation(slot: &str, name: &str) -> Option<String> {
    let entries = SLOTS.iter().find(|known| known.slot == slot)?.entries;
    let (_, source) = entries.iter().find(|(known, _)| *known == name)?;
    Some(strip(source))
}

/// The paragraph below the heading `title` of a model's documentation, as one line.
pub(crate) fn stanza(slot: &str, name: &str, title: &str) -> Option<String> {
    let text = documentation(slot, name)?;
    let heading = format!("# {title}");
    let lines = text.lines().skip_while(|line| *line != heading).skip(1);
    let lines: Vec<&str> = lines.take_while(|line| !line.starts_with("# ")).collect();
    let joined = lines.join(" ");
    let words: Vec<&str> = joined.split_whitespace().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

fn strip(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let text: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    text.join("\n").trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_finds_one_thing_by_its_path_or_its_last_part() {
        let (path, text) = find("null").unwrap();
        assert_eq!((path.as_str(), find("device.null").unwrap().1), ("device.null", text));
        let unknown = find("nul").unwrap_err().to_string();
        assert!(unknown.contains("did you mean `null`?"), "{unknown}");
        assert_eq!(find("fast.waf").unwrap(), find("metric.waf").unwrap());
    }

    #[test]
    fn a_kind_is_listed() {
        for (name, list) in [("gc", "gc"), ("device", "device"), ("study", "studies")] {
            let error = find(name).unwrap_err();
            assert_eq!(error.help, Some(format!("blocklab list {list}")), "{error}");
        }
    }

    #[test]
    fn parameters_come_with_what_they_take() {
        let (_, text) = find("null").unwrap();
        let latency = "  latency = a duration with a unit, such as \"25us\"; default 10us\n";
        assert!(text.contains(latency), "{text}");
        let (_, text) = find("timestamps").unwrap();
        assert!(text.contains("  scale = a number, 0.0 to 1000.0; default 1.0\n"), "{text}");
    }

    #[test]
    fn every_model_says_what_it_leaves_out() {
        for slot in SLOTS {
            for (name, _) in slot.entries {
                assert!(
                    stanza(slot.slot, name, "What it leaves out").is_some(),
                    "{}.{name}",
                    slot.slot
                );
            }
        }
    }
}
