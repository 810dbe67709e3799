//! `blocklab mirror set-mode`.

use attach::mirror::{Request, mode, set_mode};
use mirror::Mode;
use serde_json::json;
use study::Failure;

use super::wait::{WaitStatus, until};
use super::{Found, Mirror, Told};

/// What relaxed mode may lose: the bounds are those of the protocol's core.
fn warning() -> String {
    let bounds = mirror::core::Config::new(Mode::Relaxed);
    format!(
        "relaxed: after a power cut that takes one device along, up to {} bytes that were flushed \
         may be gone: all that the other leg had not yet got. While the oldest of it is over {} ms \
         old, nothing is added; what is left is the state at a flush",
        bounds.exposed_blocks_max * 4096,
        bounds.exposed_age_max.0 / 1_000_000
    )
}

#[derive(clap::Args)]
pub(super) struct Args {
    /// The mode: docs/mirror.md says what each loses
    #[arg(value_name = "MODE", value_parser = ["strict", "log", "relaxed"])]
    mode: String,
    #[command(flatten)]
    mirror: Mirror,
    /// With --control: wait until it runs in that mode
    #[arg(long)]
    wait: bool,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<u8, Failure> {
        let wanted = mode(&self.mode)?;
        let about = json!({ "mode": self.mode, "waited": self.wait });
        let mut told = Told::new(self.json);
        match self.mirror.found(self.wait.then_some("--wait"))? {
            Found::Served(control) => {
                let mode = self.mode;
                let (text, _) = super::tell(&control, &Request::SetMode { mode })?;
                told.step(text);
                if self.wait {
                    until(&control, "changed", |live| match &live.mode_wanted {
                        Some(_) => WaitStatus::Goes(0, 1, None),
                        None if live.mode == wanted.to_string() => WaitStatus::Done,
                        None => WaitStatus::Failed(format!("it runs in mode {}", live.mode)),
                    })?;
                    told.step(format!("it runs in mode {wanted}"));
                }
            }
            Found::AtRest(paths, without) => {
                let before = set_mode(&super::start(paths, without, false), wanted)?;
                told.step(format!("mode {wanted} from the next start on; it was {before}"));
            }
        }
        if wanted == Mode::Relaxed {
            crate::warn(warning());
        }
        told.end(about);
        Ok(0)
    }
}
