//! `blocklab mirror status`.

use attach::mirror::{DeviceState, Lateness, Live, NAMES, Offline, eta, live, prometheus, status};
use study::Failure;

use super::{Found, Mirror, json};
use crate::say;

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    mirror: Mirror,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
    /// With --control: metrics in the text format of Prometheus
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<u8, Failure> {
        match self.mirror.found(self.prometheus.then_some("--prometheus"))? {
            Found::Served(control) => {
                let live = live(&control)?;
                match (self.json, self.prometheus) {
                    (true, _) => say(json(&live)?),
                    // It ends with a line break of its own.
                    (_, true) => say(prometheus(&live).trim_end()),
                    _ => lines(&live).iter().for_each(say),
                }
            }
            Found::AtRest(paths, without) => {
                let offline = status(&paths, without)?;
                if self.json { say(json(&offline)?) } else { shown(&offline).iter().for_each(say) }
            }
        }
        Ok(0)
    }
}

/// Freezes and changes shown; `--json` has more of them.
const SHOWN: usize = 5;

/// A running mirror.
fn lines(live: &Live) -> Vec<String> {
    let mode = match &live.mode_wanted {
        Some(wanted) => format!("mode {}, changing to {wanted}", live.mode),
        None => format!("mode {}", live.mode),
    };
    let mut lines = vec![format!("mirror {}: {} bytes, {mode}", live.array, live.bytes)];
    for slot in (0..NAMES.len()).filter(|&slot| live.states[slot] != DeviceState::Never) {
        lines.push(format!("{}: {}", live.name(slot), live.device(slot)));
    }
    lines.extend(lost(live));
    let age = live.age_at_risk_ms.map_or_else(String::new, |ms| format!(", oldest {ms:.0} ms"));
    lines.push(format!("at risk {} bytes{age}", live.bytes_at_risk));
    lines.push(lateness(&live.lateness, live.not_running_s));
    let used = live.log_used_bytes.map(|bytes| bytes.to_string()).join(", ");
    lines.push(format!("logs    {used} of {} bytes in use", live.log_bytes));
    let scrub = &live.scrub;
    lines.push(match scrub.position_bytes {
        Some(at) => format!("scrub   {at} of {} bytes compared{}", live.bytes, eta(scrub.eta_s)),
        None if scrub.begun == 0 => "scrub   none since the start".into(),
        None => format!(
            "scrub   {} of {} went through; the last found {} wrong copies, {} undecided",
            scrub.completed, scrub.begun, scrub.mismatches, scrub.undecided
        ),
    });
    lines.push(format!(
        "since the start: {} early acks, {} flushes by log, {} log records, {} drops, {} joins, \
         {} bytes copied, {} wrong copies, {} undecided",
        live.early_acks,
        live.logged_acks,
        live.log_records,
        live.drops,
        live.joins,
        live.copied_bytes,
        live.mismatches,
        live.undecided
    ));
    let (freezes, ms) = (live.freezes, live.frozen_ms);
    lines.push(format!(
        "freezes fast {} ({:.0} ms), slow {} ({:.0} ms)",
        freezes[0], ms[0], freezes[1], ms[1]
    ));
    for freeze in live.freeze_history.iter().take(SHOWN) {
        let so_far = if freeze.over { "" } else { " so far" };
        let (leg, ms, at) = (&freeze.leg, freeze.ms, ago(freeze.began_unix_s));
        lines.push(format!("  {at}  {leg} for {ms:.0} ms{so_far}"));
    }
    for change in live.changes.iter().take(SHOWN) {
        lines.push(format!("  {}  {}", ago(change.unix_s), change.text));
    }
    lines
}

/// Which blocks can be read from no leg.
fn lost(live: &Live) -> Option<String> {
    let mut ranges: Vec<String> = live.lost.iter().map(ToString::to_string).collect();
    let named: u64 = live.lost.iter().map(|range| u64::from(range.blocks)).sum();
    let rest = live.lost_blocks.saturating_sub(named);
    if rest > 0 {
        ranges.push(format!("and {rest} more"));
    }
    (named > 0).then(|| format!("lost    {}", ranges.join(", ")))
}

/// When a leg is left out for being late.
fn lateness(late: &Lateness, not_running_s: f64) -> String {
    let flush = match late.flush_deadline_s {
        Some(s) => format!("a flush waits {s} s for one leg"),
        None => "a flush waits for both legs".into(),
    };
    let slow = match (late.slow_share_percent, late.slow_over_s, late.slow_window_s) {
        (Some(share), Some(over), Some(window)) => {
            format!("a leg may take over {over} s for {share} % of {window} s")
        }
        _ => "slow legs are kept".into(),
    };
    let stood = if not_running_s > 0.0 {
        format!("; the server did not run for {not_running_s:.1} s")
    } else {
        String::new()
    };
    format!("late    {flush}; {slow}{stood}")
}

/// How long ago a moment is, for people.
fn ago(unix_s: f64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(unix_s, |since| since.as_secs_f64());
    format!("{:.0} s ago", (now - unix_s).max(0.0))
}

fn shown(offline: &Offline) -> Vec<String> {
    let stop = if offline.clean { "stopped in order" } else { "in use, or not stopped in order" };
    let mut lines = vec![format!(
        "mirror {}: {} bytes, mode {}, started {} times, {stop}",
        offline.array, offline.bytes, offline.mode, offline.starts
    )];
    for device in &offline.devices {
        let own = match &device.trouble {
            Some(trouble) => trouble.clone(),
            None => format!("{}, has seen start {}", device.membership, device.starts),
        };
        lines.push(format!("{:<8}{}: {own}", device.name, device.path));
    }
    lines.extend(offline.trouble.iter().map(|why| format!("it does not start: {why}")));
    lines
}
