//! `blocklab list`: what there is to choose from.

use serde_json::{Map, Value, json};
use study::{Failure, explain, nearest};

use crate::say;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this kind: studies, parts, hosts, metrics, or a slot of models such as gc
    kind: Option<String>,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        let mut kinds = explain::kinds();
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
