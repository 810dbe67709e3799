//! Waiting for something that takes a mirror long.

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use attach::mirror::{DeviceState, Live, eta, live};
use indicatif::{ProgressBar, ProgressStyle};
use study::Failure;

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Without a terminal there is one line per this long.
const LINE_EVERY: Duration = Duration::from_secs(15);

/// How far it is.
pub(super) enum WaitStatus {
    /// In bytes: done, of all; and what is left in seconds, if that is known.
    Goes(u64, u64, Option<f64>),
    /// It is done.
    Done,
    /// It will not be.
    Failed(String),
}

/// Ask the server at `control` until it is done, and tell how far it is.
pub(super) fn until(
    control: &Path,
    what: &str,
    step: impl Fn(&Live) -> WaitStatus,
) -> Result<Live, Failure> {
    let terminal = std::io::stderr().is_terminal();
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    let mut line = Instant::now();
    loop {
        let now = live(control)?;
        match step(&now) {
            WaitStatus::Done => {
                bar.finish_and_clear();
                return Ok(now);
            }
            WaitStatus::Failed(why) => {
                bar.finish_and_clear();
                return Err(Failure::machine(why)
                    .help(format!("blocklab mirror status --control {}", control.display())));
            }
            WaitStatus::Goes(done, all, left) => {
                let text = format!("{what}: {done} of {all} bytes{}", eta(left));
                if terminal {
                    bar.set_length(all);
                    bar.set_position(done);
                    bar.set_message(text);
                } else if line.elapsed() >= LINE_EVERY {
                    crate::warn(text);
                    line = Instant::now();
                }
            }
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Until the device in `slot` is a full member; `drops` is how often one had been left out before.
pub(super) fn until_member(control: &Path, slot: usize, drops: u64) -> Result<Live, Failure> {
    let name = attach::mirror::NAMES[slot];
    until(control, &format!("{name} is filled"), |live| match live.states[slot] {
        DeviceState::Member => WaitStatus::Done,
        DeviceState::Out | DeviceState::Leaving if live.drops > drops => {
            WaitStatus::Failed(format!("{name} was left out again"))
        }
        _ => {
            let left = live.out_of_sync_bytes.get(slot).copied().unwrap_or(0);
            let eta = live.resync_eta_s.get(slot).copied().flatten();
            WaitStatus::Goes(live.bytes.saturating_sub(left), live.bytes, eta)
        }
    })
}
