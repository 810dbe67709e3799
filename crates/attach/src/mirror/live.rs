//! A mirror that is served, as it is now.

use mirror::core::State;
use mirror::policy::lag::LagRules;
use mirror::{DEVICES, FAST, LEGS, Mode, SLOW, Span, other};
use serde::{Deserialize, Serialize};
use sim::Nanos;

use super::NAMES;
use super::device::PAGE;
use super::engine::MirrorEngine;
use super::history::{Change, Freeze, Progress};
use super::troubles::Blocks;
use crate::clock::Wall;

/// So many ranges of lost blocks are named.
const LOST_SHOWN: usize = 16;

/// What a device of a mirror is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceState {
    /// There is none.
    Never,
    /// It holds everything.
    Member,
    /// It is being left out.
    Leaving,
    /// It was left out.
    Out,
    /// It is copied to.
    Filling,
    /// It holds everything, and that is being written down.
    Joining,
}

impl DeviceState {
    /// Every one.
    pub(super) const ALL: [DeviceState; 6] = [
        DeviceState::Never,
        DeviceState::Member,
        DeviceState::Leaving,
        DeviceState::Out,
        DeviceState::Filling,
        DeviceState::Joining,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            DeviceState::Never => "never",
            DeviceState::Member => "member",
            DeviceState::Leaving => "leaving",
            DeviceState::Out => "out",
            DeviceState::Filling => "filling",
            DeviceState::Joining => "joining",
        }
    }
}

impl From<State> for DeviceState {
    fn from(state: State) -> DeviceState {
        match state {
            State::Never => DeviceState::Never,
            State::Member => DeviceState::Member,
            State::Leaving => DeviceState::Leaving,
            State::Out => DeviceState::Out,
            State::Filling => DeviceState::Filling,
            State::Joining => DeviceState::Joining,
        }
    }
}

/// A mirror that is served.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Live {
    /// Its id.
    pub array: String,
    /// Bytes offered to the host.
    pub bytes: u64,
    /// `strict`, `log` or `relaxed`.
    pub mode: String,
    /// The mode it changes to.
    pub mode_wanted: Option<String>,
    /// Where each device is.
    pub paths: [Option<String>; DEVICES],
    /// What each device is now.
    pub states: [DeviceState; DEVICES],
    /// Bytes acknowledged that are in one failure domain only.
    pub bytes_at_risk: u64,
    /// Age of the oldest of them in milliseconds.
    pub age_at_risk_ms: Option<f64>,
    /// Bytes that each leg was not given yet or has not answered.
    pub lag_bytes: [u64; LEGS],
    /// Until then, at the pace of the last seconds; `None` when nothing moved.
    pub drain_eta_s: [Option<f64>; LEGS],
    /// Which legs count as frozen and owe an answer.
    pub frozen: [bool; LEGS],
    /// Bytes that each leg lacks, in whole regions.
    pub out_of_sync_bytes: [u64; LEGS],
    /// Until it lacks none, at the pace of the last seconds; `None` when nothing moved.
    pub resync_eta_s: [Option<f64>; LEGS],
    /// Why each device was left out.
    pub left_because: [Option<String>; DEVICES],
    /// Blocks that can be read from no leg.
    pub lost_blocks: u64,
    /// The first ranges of them.
    pub lost: Vec<Range>,
    /// When a leg is too late.
    pub lateness: Lateness,
    /// How long the server did not run although it wanted to: that is no leg's time.
    pub not_running_s: f64,
    /// Requests to a device that was left out which it has not answered.
    pub unanswered: [u32; DEVICES],
    /// Bytes of each log that are in use.
    pub log_used_bytes: [u64; DEVICES],
    /// Bytes of a log.
    pub log_bytes: u64,
    /// Scrubs.
    pub scrub: Scrub,
    /// Freezes that were seen since the start, of each leg.
    pub freezes: [u64; LEGS],
    /// How long they took together in milliseconds, those that are over.
    pub frozen_ms: [f64; LEGS],
    /// The last freezes, newest first.
    pub freeze_history: Vec<Freeze>,
    /// The last other events, newest first.
    pub changes: Vec<Change>,
    /// Writes acknowledged before the second copy was there.
    pub early_acks: u64,
    /// Flushes and FUA writes that were safe only because of a log record.
    pub logged_acks: u64,
    /// Log records written.
    pub log_records: u64,
    /// Times a device was left out.
    pub drops: u64,
    /// Times a leg became a full member again.
    pub joins: u64,
    /// Bytes copied to fill or repair a leg.
    pub copied_bytes: u64,
    /// Wrong copies found.
    pub mismatches: u64,
    /// Blocks whose copies differed with nothing to say which is right.
    pub undecided: u64,
}

/// Some blocks of 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Range {
    /// The first one.
    pub block: u64,
    /// How many.
    pub blocks: u32,
}

/// When a leg is left out for being late, in seconds; nothing where that is switched off.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Lateness {
    /// A flush or a write has waited so long for it alone.
    pub flush_deadline_s: Option<f64>,
    /// It is slow while a request is older than this.
    pub slow_over_s: Option<f64>,
    /// It was slow, and the other leg was not, for so much of the last `slow_window_s`.
    pub slow_share_percent: Option<u32>,
    /// See there.
    pub slow_window_s: Option<f64>,
}

impl Lateness {
    fn of(rules: &LagRules) -> Lateness {
        Lateness {
            flush_deadline_s: rules.flush_deadline.map(Nanos::as_secs_f64),
            slow_over_s: rules.slow.map(|slow| slow.over.as_secs_f64()),
            slow_share_percent: rules.slow.map(|slow| slow.share_percent),
            slow_window_s: rules.slow.map(|slow| slow.window.as_secs_f64()),
        }
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Blocks(Span::new(self.block, self.blocks)).fmt(f)
    }
}

/// Scrubs since the start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Scrub {
    /// Begun so far.
    pub begun: u64,
    /// Gone through to the end.
    pub completed: u64,
    /// The number of the last one that did: numbers count from 1; 0 is none.
    pub last_completed: u64,
    /// Bytes of the mirror compared by the one that runs.
    pub position_bytes: Option<u64>,
    /// Until it is through, at the pace of the last seconds; `None` when nothing moved.
    pub eta_s: Option<f64>,
    /// Wrong copies found while the last one ran.
    pub mismatches: u64,
    /// Blocks whose copies differ with nothing to say which is right, found while it ran.
    pub undecided: u64,
    /// Wrong copies not repaired yet.
    pub unrepaired: u64,
}

impl Live {
    pub(super) fn of(array: &MirrorEngine, now: Wall) -> Live {
        let core = &array.core;
        let (blocks, since) = core.exposed();
        let (stats, history) = (core.stats(), &array.history);
        let latest = array.ran(now);
        let owed = core.owed().map(|blocks| blocks * PAGE);
        let lacking = core.out_of_sync().map(|regions| regions * array.region_bytes());
        let leg = |of: &dyn Fn(usize) -> Option<f64>| [of(FAST), of(SLOW)];
        let copied = |progress: &Progress| progress.copied;
        Live {
            array: format!("{:032x}", array.id()),
            bytes: array.bytes(),
            mode: core.mode().to_string(),
            mode_wanted: core.mode_wanted().as_ref().map(Mode::to_string),
            paths: array
                .paths
                .each_ref()
                .map(|path| path.as_ref().map(|path| path.display().to_string())),
            states: core.states().map(DeviceState::from),
            bytes_at_risk: blocks * PAGE,
            age_at_risk_ms: since.map(|since| latest.since(since).0 as f64 / 1e6),
            lag_bytes: owed,
            drain_eta_s: leg(&|leg| {
                history.eta_s(latest, owed[leg], |progress| progress.written[leg])
            }),
            frozen: core.frozen(),
            out_of_sync_bytes: lacking,
            resync_eta_s: leg(&|leg| match core.states()[leg] {
                State::Out | State::Leaving if lacking[leg] > 0 => None,
                _ => history.eta_s(latest, lacking[leg], copied),
            }),
            left_because: history.left_because.clone(),
            lost_blocks: core.lost(),
            lost: { core.lost_ranges(LOST_SHOWN).into_iter() }
                .map(|span| Range { block: span.start, blocks: span.blocks })
                .collect(),
            lateness: Lateness::of(core.lag()),
            not_running_s: array.missed().as_secs_f64(),
            unanswered: std::array::from_fn(|slot| core.unanswered(slot)),
            log_used_bytes: core.log_pages_used().map(|pages| pages * PAGE),
            log_bytes: array.log_bytes(),
            scrub: Scrub::of(array, latest),
            freezes: history.frozen_count,
            frozen_ms: history.frozen.map(|time| time.0 as f64 / 1e6),
            freeze_history: history.freezes(latest),
            changes: history.changes(),
            early_acks: stats.early_acks,
            logged_acks: stats.logged_acks,
            log_records: stats.records,
            drops: stats.drops,
            joins: stats.joins,
            copied_bytes: stats.copied_blocks * PAGE,
            mismatches: stats.mismatches,
            undecided: history.undecided,
        }
    }

    /// The slot's state and what it waits for, for people.
    pub fn device(&self, slot: usize) -> String {
        let mut text = self.states[slot].name().to_string();
        if let Some(because) = &self.left_because[slot] {
            text += &format!(" ({because})");
        }
        if slot < LEGS && self.out_of_sync_bytes[slot] > 0 {
            text += &format!(", lacks {} bytes", self.out_of_sync_bytes[slot]);
            if self.states[slot] != DeviceState::Out
                && self.states[other(slot)] == DeviceState::Member
            {
                text += &eta(self.resync_eta_s[slot]);
            }
        }
        if slot < LEGS && self.lag_bytes[slot] > 0 {
            text += &format!(", owes {} bytes", self.lag_bytes[slot]);
            text += &eta(self.drain_eta_s[slot]);
        }
        if slot < LEGS && self.frozen[slot] {
            text += ", frozen";
        }
        if self.unanswered[slot] > 0 {
            text += &format!(", does not answer {} requests", self.unanswered[slot]);
        }
        text
    }

    /// The device's name and place, as people are told.
    pub fn name(&self, slot: usize) -> String {
        match &self.paths[slot] {
            Some(path) => format!("{:<8}{path}", NAMES[slot]),
            None => format!("{:<8}not there", NAMES[slot]),
        }
    }
}

impl Scrub {
    fn of(array: &MirrorEngine, now: sim::Nanos) -> Scrub {
        let (core, history) = (&array.core, &array.history);
        let position = core.scrub_position().map(|block| block * PAGE);
        let scrubs = history.scrubs;
        let left = position.map(|at| array.bytes().saturating_sub(at));
        Scrub {
            begun: scrubs.begun,
            completed: scrubs.completed,
            last_completed: scrubs.last_completed,
            position_bytes: position,
            eta_s: left.and_then(|left| history.eta_s(now, left, |progress| progress.compared)),
            mismatches: scrubs.mismatches(core.stats().mismatches),
            undecided: scrubs.undecided,
            unrepaired: core.wrong_blocks().iter().sum(),
        }
    }
}

/// `, 12 s left`, when that is known.
pub fn eta(seconds: Option<f64>) -> String {
    seconds.map_or_else(String::new, |seconds| format!(", {seconds:.0} s left"))
}
