//! `blocklab explain`: what a model, a part or a metric is, from its own documentation.

use models::registry::{SLOTS, Slot};
use serde_json::json;
use study::{Failure, explain, library, metrics, nearest};

use crate::say;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A model (`ssd`, `gc.greedy`, `trace.blkparse`), a part, a study or a metric
    name: String,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        let found: Vec<(String, String)> =
            all().into_iter().filter(|(path, _)| matches(path, &self.name)).collect();
        match found.as_slice() {
            [] => Err(self.unknown()),
            [(path, text)] if self.json => {
                say(json!({ "name": path, "text": text }));
                Ok(0)
            }
            [(_, text)] => {
                say(text.trim_end());
                Ok(0)
            }
            several => {
                let paths: Vec<&str> = several.iter().map(|(path, _)| path.as_str()).collect();
                Err(Failure::input(format!("`{}` can mean several things", self.name))
                    .expected(format!("one of {}", paths.join(", "))))
            }
        }
    }

    fn unknown(&self) -> Failure {
        let all = all();
        let paths = all.iter().map(|(path, _)| path.as_str());
        let names = paths.clone().chain(paths.map(last));
        let failure = Failure::input(format!("there is nothing named `{}`", self.name))
            .help("blocklab list");
        match nearest(&self.name, names) {
            Some(near) => failure.expected(format!("a name; did you mean `{near}`?")),
            None => failure,
        }
    }
}

/// (path, text) of everything that can be explained.
fn all() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for Slot { slot, entries, .. } in SLOTS {
        for (name, _) in *entries {
            let text = explain::documentation(slot, name).unwrap_or_default();
            all.push((format!("{slot}.{name}"), text));
        }
    }
    for (kind, list) in [("part", library::parts()), ("study", library::studies())] {
        all.extend(list.iter().map(|(name, text)| (format!("{kind}.{name}"), text.to_string())));
    }
    let metric = |(name, meaning): (String, String)| {
        (format!("metric.{name}"), format!("{name}: {meaning}"))
    };
    all.extend(metrics::definitions().into_iter().map(metric));
    all
}

fn matches(path: &str, name: &str) -> bool {
    path == name || last(path) == name
}

fn last(path: &str) -> &str {
    path.split_once('.').map_or(path, |(_, name)| name)
}
