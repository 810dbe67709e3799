//! `blocklab mirror scrub`.

use std::path::PathBuf;

use attach::mirror::{Request, Scrub};
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
        let live = until(&self.control, "compared", |live| step(&live.scrub, live.bytes, number))?;
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

/// How far scrub `number` of so many bytes is. Between two looks a leg may have left and come back.
fn step(scrub: &Scrub, bytes: u64, number: u64) -> WaitStatus {
    if scrub.begun != number {
        return WaitStatus::Failed(format!(
            "scrub {} has begun since scrub {number} ended: what {number} found is not known any \
             more",
            scrub.begun
        ));
    }
    match scrub.position_bytes {
        Some(at) => WaitStatus::Goes(at, bytes, scrub.eta_s),
        None if scrub.last_completed != number => {
            WaitStatus::Failed("a leg was left out: there was nothing to compare with".into())
        }
        // What was found wrong is being repaired.
        None if scrub.unrepaired > 0 => WaitStatus::Goes(bytes, bytes, None),
        None => WaitStatus::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrub_that_was_broken_off_is_not_done() {
        let scrub = |begun, last_completed, position_bytes| Scrub {
            begun,
            completed: last_completed,
            last_completed,
            position_bytes,
            eta_s: None,
            mismatches: 0,
            undecided: 0,
            unrepaired: 0,
        };
        let failed = |scrub| match step(&scrub, 9, 2) {
            WaitStatus::Failed(why) => why,
            _ => panic!("it counts as done, or goes on"),
        };
        // The leg is a member again, but the scrub did not go through.
        assert!(failed(scrub(2, 1, None)).contains("a leg was left out"));
        // Neither does the next one tell of it.
        for (last_completed, position) in [(1, Some(3)), (3, None)] {
            let why = failed(scrub(3, last_completed, position));
            assert!(why.contains("scrub 3 has begun since"), "{why}");
        }
        assert!(matches!(step(&scrub(2, 1, Some(3)), 9, 2), WaitStatus::Goes(3, 9, None)));
        assert!(matches!(step(&scrub(2, 2, None), 9, 2), WaitStatus::Done));
        let unrepaired = Scrub { unrepaired: 1, ..scrub(2, 2, None) };
        assert!(matches!(step(&unrepaired, 9, 2), WaitStatus::Goes(9, 9, None)));
    }
}
