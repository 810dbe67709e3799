//! `blocklab cache`: the preconditioned drives that studies keep for next time.

use std::path::Path;

use serde_json::json;
use sim::Bytes;
use study::{Cache, Failure, Image};

use crate::say;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: CacheVerb,
}

#[derive(clap::Subcommand)]
enum CacheVerb {
    /// Say where it is, what it holds, and how much it may hold
    Status(Form),
    /// Remove every drive; studies make those they need anew
    Empty(Form),
}

#[derive(clap::Args)]
struct Form {
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        let cache = Cache::of_user()?.ok_or_else(|| {
            Failure::machine("there is no place for a cache: this user has no home")
                .help("export XDG_CACHE_HOME=FOLDER")
        })?;
        let impossible = |why: std::io::Error| {
            Failure::machine(format!("cannot use {}: {why}", cache.directory.display()))
        };
        let (verb, images, form) = match self.verb {
            CacheVerb::Status(form) => ("holds", cache.images().map_err(impossible)?, form),
            CacheVerb::Empty(form) => ("held", cache.empty().map_err(impossible)?, form),
        };
        if form.json {
            say(as_json(&cache, &images))
        } else {
            say(line(&cache.directory, verb, &images, cache.bytes_max))
        }
        Ok(0)
    }
}

fn bytes(images: &[Image]) -> u64 {
    images.iter().map(|image| image.bytes).sum()
}

fn line(directory: &Path, verb: &str, images: &[Image], bytes_max: u64) -> String {
    let drives = if images.len() == 1 { "drive" } else { "drives" };
    format!(
        "{} {verb} {} {drives}, {} of at most {} (BLOCKLAB_CACHE_MAX)",
        directory.display(),
        images.len(),
        Bytes(bytes(images)),
        Bytes(bytes_max)
    )
}

fn as_json(cache: &Cache, images: &[Image]) -> serde_json::Value {
    let image = |image: &Image| {
        let unused = image.used.elapsed().unwrap_or_default();
        json!({ "file": image.path, "bytes": image.bytes, "unused_s": unused.as_secs() })
    };
    json!({
        "directory": cache.directory,
        "bytes_max": cache.bytes_max,
        "bytes": bytes(images),
        "drives": images.iter().map(image).collect::<Vec<_>>(),
    })
}
