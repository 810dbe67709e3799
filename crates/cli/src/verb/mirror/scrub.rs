//! `blocklab mirror scrub`.

use std::path::PathBuf;

use attach::mirror::{DeviceState, Request};
use study::Failure;

use super::wait::{WaitStatus, until};
use crate::say;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The socket of `mirror serve --control PATH`
    #[arg(long, value_name = "PATH")]
    control: PathBuf,
    /// Wait for the end, and tell what was found; exit code 1 when copies differ and nothing says
    /// which is right, or blocks are lost
    #[arg(long)]
    wait: bool,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<u8, Failure> {
        let (text, number) = super::tell(&self.control, &Request::Scrub {})?;
        if !self.wait {
            if self.json {
                say(serde_json::json!({ "scrub": number }))
            } else {
                say(text)
            }
            return Ok(0);
        }
        let live = until(&self.control, "compared", |live| {
            let scrub = &live.scrub;
            match scrub.position_bytes.filter(|_| scrub.begun == number) {
                Some(at) => WaitStatus::Goes(at, live.bytes, scrub.eta_s),
                None if live.states[..2].iter().any(|&state| state != DeviceState::Member) => {
                    WaitStatus::Failed(
                        "a leg was left out: there was nothing to compare with".into(),
                    )
                }
                // What was found wrong is being repaired.
                None if scrub.unrepaired > 0 => WaitStatus::Goes(live.bytes, live.bytes, None),
                None => WaitStatus::Done,
            }
        })?;
        let scrub = live.scrub;
        if self.json {
            say(serde_json::json!({
                "scrub": number,
                "bytes": live.bytes,
                "mismatches": scrub.mismatches,
                "undecided": scrub.undecided,
                "lost": live.lost_blocks,
            }))
        } else {
            let lost = match live.lost_blocks {
                0 => String::new(),
                count => format!("; {count} blocks are lost, see `mirror status`"),
            };
            say(format!(
                "{} bytes compared: {} wrong copies repaired, {} blocks differ and nothing \
                 says which copy is right{lost}",
                live.bytes, scrub.mismatches, scrub.undecided
            ));
        }
        Ok(u8::from(scrub.undecided > 0 || live.lost_blocks > 0))
    }
}
