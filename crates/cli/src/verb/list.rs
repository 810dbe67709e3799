//! `blocklab list`: what there is to choose from.

use models::registry::{SLOTS, Slot};
use serde_json::{Map, Value, json};
use study::{Failure, library, metrics, nearest};

use crate::say;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this kind: studies, parts, metrics, or a slot of models such as gc
    kind: Option<String>,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

/// A kind of thing and its entries: (name, one line).
type Kind = (&'static str, Vec<(String, String)>);

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        let mut kinds = kinds();
        if let Some(wanted) = &self.kind {
            let names: Vec<&str> = kinds.iter().map(|(name, _)| *name).collect();
            if !names.contains(&wanted.as_str()) {
                let near = nearest(wanted, names.iter().copied());
                let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                return Err(Failure::input(format!("there is no kind `{wanted}`"))
                    .expected(format!("one of {}{near}", names.join(", "))));
            }
            kinds.retain(|(name, _)| name == wanted);
        }
        if self.json {
            let names = |entries: Vec<(String, String)>| {
                entries.into_iter().map(|(name, _)| Value::from(name)).collect::<Value>()
            };
            let object: Map<String, Value> =
                kinds.into_iter().map(|(kind, list)| (kind.to_string(), names(list))).collect();
            say(json!(object));
            return Ok(0);
        }
        for (kind, entries) in kinds {
            say(kind);
            let width = entries.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
            entries.iter().for_each(|(name, line)| say(format_args!("  {name:width$}  {line}")));
        }
        Ok(0)
    }
}

fn kinds() -> Vec<Kind> {
    let mut kinds = vec![("studies", studies()), ("parts", parts())];
    for Slot { slot, entries, .. } in SLOTS {
        let entry = |(name, _): &(&str, &str)| {
            let text = study::explain::documentation(slot, name).unwrap_or_default();
            ((*name).to_string(), text.lines().next().unwrap_or_default().to_string())
        };
        kinds.push((*slot, entries.iter().map(entry).collect()));
    }
    kinds.push(("metrics", metrics::definitions()));
    kinds
}

fn studies() -> Vec<(String, String)> {
    let title = |(name, text): &(&str, &str)| ((*name).to_string(), entry(text, "study", "title"));
    library::studies().iter().map(title).collect()
}

fn parts() -> Vec<(String, String)> {
    let line = |(name, text): &(&str, &str)| {
        let (title, status) = (entry(text, "part", "title"), entry(text, "part", "status"));
        ((*name).to_string(), format!("{title} ({status})"))
    };
    library::parts().iter().map(line).collect()
}

/// A string of a shipped file; nothing when it is not there.
fn entry(text: &str, table: &str, key: &str) -> String {
    let parsed = text.parse::<toml::Table>().unwrap_or_default();
    let value = parsed.get(table).and_then(|table| table.get(key)?.as_str());
    value.unwrap_or_default().to_string()
}
