//! `blocklab explain`: what a model, a part or a metric is, from its own documentation.

use serde_json::json;
use study::{Failure, explain};

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
        let (path, text) = explain::find(&self.name)?;
        if self.json {
            let (slot, name) = path.split_once('.').unwrap_or_default();
            let parameters = explain::parameters(slot, name).into_iter().map(|row| {
                let plain = |text: String| text.replace('`', "");
                let (value, default) = (plain(row.value), plain(row.default));
                json!({ "key": row.key, "value": value, "default": default,
                        "meaning": row.meaning })
            });
            let parameters: Vec<_> = parameters.collect();
            say(json!({ "name": path, "text": text, "parameters": parameters }));
        } else {
            say(text.trim_end());
        }
        Ok(0)
    }
}
