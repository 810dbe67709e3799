//! The protocol: events in, actions out. No clock, no thread, no file.
//!
//! [`Core::handle`] takes one [`Event`] with the time at which it happened and leaves the
//! [`Action`]s that follow in [`Core::actions`]. [`Core::next_timer`] says when it wants a
//! [`Event::Tick`] if nothing happens before. Which rule is where:
//!
//! | | |
//! |---|---|
//! | a write's way | `write.rs`, `writes.rs` |
//! | what each leg is given, and when its cache is flushed | `leg.rs` |
//! | flushes and the copies they wait for | `flush.rs`, [`crate::policy::ack`] |
//! | log records, retirement | `log.rs` |
//! | hot extents and checkpoints | `activity.rs` |
//! | who is a member | `member.rs`, `superblocks.rs` |
//! | reads | `read.rs` |
//! | filling and repairing a leg, scrubbing | `copy.rs`, `scrub.rs` |
//! | blocks that no leg can read | `lost.rs` |
//! | freezes and time | `watch.rs` |
//! | what people may see | `view.rs` |

mod activity;
mod copy;
pub mod event;
mod fail;
mod flush;
mod io;
mod leg;
mod log;
mod lost;
mod member;
mod read;
mod scrub;
mod superblocks;
pub mod table;
#[cfg(test)]
mod tests;
mod view;
mod watch;
mod write;
mod writes;

use std::collections::{BTreeMap, VecDeque};

use sim::Nanos;

use crate::format::superblock::{Generations, Membership};
use crate::format::{Geometry, Superblock};
use crate::mutant::planted;
use crate::policy::Rules;
use crate::policy::lag::LagRules;
use crate::types::{DEVICES, FAST, LEGS, Slot, WITNESS};
pub use event::{
    Action, Command, Content, Event, HostId, Io, IoError, Meta, Notice, Piece, Source, Why,
};
pub use member::State;
pub use table::{Regions, Table};
use writes::OnLeg;

/// Where the second copy of a flushed write goes when a home position is late.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// By estimated cost.
    #[default]
    Auto,
    /// Always to the witness, if there is one.
    Witness,
    /// Always to the late leg's own log.
    OwnLog,
    /// Never to a log.
    Home,
}

/// How the array is run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Mode.
    pub rules: Rules,
    /// Freeze detection.
    pub lag: LagRules,
    /// Blocks of payload held in memory before writes are kept waiting.
    pub ram_blocks_max: u64,
    /// Blocks that may be acknowledged while they are not in two domains.
    pub exposed_blocks_max: u64,
    /// In relaxed mode no further block is exposed while one has been for this long.
    pub exposed_age_max: Nanos,
    /// Extents that may be hot at once.
    pub hot_max: usize,
    /// Writes given to a leg at once.
    pub depth_max: u32,
    /// Writes given at once to a leg that was frozen.
    pub drain_depth: u32,
    /// Copies under way at once while a leg is filled.
    pub copies_max: usize,
    /// Second copies.
    pub placement: Placement,
    /// Completed writes stay in a leg's cache for at most this long.
    pub flush_after: Nanos,
    /// Extra reads for hedging, in percent of all.
    pub hedge_percent: u64,
}

impl Config {
    /// The defaults of `mode` for a real array.
    pub fn new(mode: crate::types::Mode) -> Config {
        Config {
            rules: Rules::new(mode),
            lag: LagRules::default(),
            ram_blocks_max: 16 << 10,
            exposed_blocks_max: 2 << 10,
            exposed_age_max: Nanos::from_millis(500),
            hot_max: crate::format::maps::HOT_MAX,
            depth_max: 32,
            drain_depth: 32,
            copies_max: 4,
            placement: Placement::Auto,
            flush_after: Nanos::from_secs(1),
            hedge_percent: 5,
        }
    }
}

/// What recovery hands to the core.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The common part of the superblocks as they are on media now.
    pub superblock: Superblock,
    /// The superblock of each device that is there, as it is on it now.
    pub own: [Option<Superblock>; DEVICES],
    /// What each device is.
    pub state: [State; DEVICES],
    /// The first record number of each log.
    pub log_first: [u64; DEVICES],
    /// What each leg lacks.
    pub out_of_sync: [Regions; LEGS],
    /// Recorded checksums.
    pub table: Table,
    /// The version of the activity log on each leg.
    pub activity: [u64; LEGS],
    /// Greater than every version of an activity, bitmap or table page on media.
    pub map_version: u64,
    /// The version of each bitmap (true) and table (false) page on media: the next one goes to
    /// the other slot.
    pub map_slots: BTreeMap<(bool, u64), u64>,
    /// Which extents were hot could not be read: every block was compared.
    pub compared_all: bool,
    /// Randomness for generation ids; never the same twice.
    pub entropy: u128,
}

impl Opened {
    /// An array that was just created and never written, at its first start.
    pub fn fresh(geometry: Geometry, mode: crate::types::Mode, witness: bool) -> Opened {
        let third = if witness { Membership::Member } else { Membership::Never };
        let superblock = Superblock {
            array: 1,
            geometry,
            update: 1,
            incarnation: 1,
            generations: Generations { current: 1, ..Generations::default() },
            members: [Membership::Member, Membership::Member, third],
            mode,
            armed_relaxed: mode == crate::types::Mode::Relaxed,
            armed_witness: witness,
            log_first: 1,
            ..Superblock::default()
        };
        let own = |slot: Slot| Superblock {
            device: slot as u8,
            identity: slot as u128 + 1,
            ..superblock.clone()
        };
        let there = |slot: Slot| slot < LEGS || witness;
        let regions = || Regions::new(geometry.blocks, geometry.region_blocks);
        Opened {
            own: std::array::from_fn(|slot| there(slot).then(|| own(slot))),
            state: std::array::from_fn(
                |slot| {
                    if there(slot) { State::Member } else { State::Never }
                },
            ),
            log_first: [1; DEVICES],
            out_of_sync: [regions(), regions()],
            table: Table::new(geometry.blocks),
            activity: [1; LEGS],
            map_version: 1,
            map_slots: BTreeMap::new(),
            compared_all: false,
            entropy: 1,
            superblock,
        }
    }
}

/// Counts for status and tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Writes acknowledged before the second copy was there.
    pub early_acks: u64,
    /// Flushes and FUA writes that were safe only because of a log record.
    pub logged_acks: u64,
    /// Log records written.
    pub records: u64,
    /// Reads asked of a second leg for being late.
    pub hedges: u64,
    /// Host reads asked of a leg.
    pub leg_reads: u64,
    /// Freezes seen.
    pub freezes: u64,
    /// Times a device was left out.
    pub drops: u64,
    /// Times a leg became a member again.
    pub joins: u64,
    /// Blocks copied to fill or repair a leg.
    pub copied_blocks: u64,
    /// Wrong copies found.
    pub mismatches: u64,
    /// Extents that went cold.
    pub checkpoints: u64,
    /// The most blocks that were exposed at once.
    pub exposed_max: u64,
    /// The most blocks held in memory at once.
    pub ram_max: u64,
}

sim::snapshot_fields!(Stats {
    early_acks,
    logged_acks,
    records,
    hedges,
    leg_reads,
    freezes,
    drops,
    joins,
    copied_blocks,
    mismatches,
    checkpoints,
    exposed_max,
    ram_max,
});

impl Stats {
    /// Add another start's counts; maxima are kept.
    pub fn add(&mut self, other: &Stats) {
        self.early_acks += other.early_acks;
        self.logged_acks += other.logged_acks;
        self.records += other.records;
        self.hedges += other.hedges;
        self.leg_reads += other.leg_reads;
        self.freezes += other.freezes;
        self.drops += other.drops;
        self.joins += other.joins;
        self.copied_blocks += other.copied_blocks;
        self.mismatches += other.mismatches;
        self.checkpoints += other.checkpoints;
        self.exposed_max = self.exposed_max.max(other.exposed_max);
        self.ram_max = self.ram_max.max(other.ram_max);
    }
}

/// The protocol's state.
#[derive(Clone, Debug)]
pub struct Core {
    config: Config,
    geometry: Geometry,
    now: Nanos,
    out: Vec<Action>,
    /// Something changed that may let something else go on.
    again: bool,
    failed: bool,
    stopping: bool,
    stopped: bool,
    stats: Stats,

    ios: io::Ios,
    members: [member::Member; DEVICES],
    writes: writes::Writes,
    waiting: VecDeque<writes::Waiting>,
    flushes: flush::Flushes,
    logs: [log::Log; DEVICES],
    activity: activity::ActivityLog,
    superblocks: superblocks::Superblocks,
    reads: read::Reads,
    copies: copy::Copies,
    scrub: scrub::Scrub,
    table: Table,
    marks: lost::Marks,
    /// Versions of bitmap and table pages; also makes generation ids differ.
    map_version: u64,
    map_slots: BTreeMap<(bool, u64), u64>,
}

// Between events, when its actions are taken and `out` is empty. It is restored into a core of the
// same configuration and the same mode.
sim::snapshot_fields!(Core {
    now,
    again,
    failed,
    stopping,
    stopped,
    stats,
    ios,
    members,
    writes,
    waiting,
    flushes,
    logs,
    activity,
    superblocks,
    reads,
    copies,
    scrub,
    table,
    marks,
    map_version,
    map_slots,
});

/// Settling takes a few rounds per request that is out.
const ROUNDS_MAX: u32 = 1 << 20;

impl Core {
    /// Go on from where recovery left off.
    pub fn new(config: Config, mut opened: Opened, now: Nanos) -> Core {
        let geometry = opened.superblock.geometry;
        let mut members: [member::Member; DEVICES] =
            std::array::from_fn(|slot| member::Member::new(opened.state[slot], &geometry));
        for (member, lacks) in members.iter_mut().zip(&mut opened.out_of_sync) {
            member.out_of_sync = std::mem::take(lacks);
        }
        let incarnation = opened.superblock.incarnation;
        let logs = std::array::from_fn(|slot| {
            log::Log::new(geometry.log_pages, opened.log_first[slot], incarnation)
        });
        let mut core = Core {
            geometry,
            now,
            out: Vec::new(),
            again: true,
            failed: false,
            stopping: false,
            stopped: false,
            stats: Stats::default(),
            ios: io::Ios::default(),
            members,
            writes: writes::Writes::new(incarnation),
            waiting: VecDeque::new(),
            flushes: flush::Flushes::default(),
            logs,
            activity: activity::ActivityLog::new(
                opened.map_version,
                opened.activity,
                &opened.state,
            ),
            map_version: opened.map_version,
            map_slots: std::mem::take(&mut opened.map_slots),
            table: std::mem::take(&mut opened.table),
            superblocks: superblocks::Superblocks::new(opened),
            reads: read::Reads::default(),
            copies: copy::Copies::default(),
            scrub: scrub::Scrub::default(),
            marks: lost::Marks::default(),
            config,
        };
        core.settle();
        core
    }

    /// Something happened at `now`, which never goes back.
    pub fn handle(&mut self, now: Nanos, event: Event<'_>) {
        debug_assert!(now >= self.now, "time goes back");
        self.account(now);
        self.now = now;
        match event {
            Event::Write { id, span, content, fua, sums } => {
                self.host_write(id, span, content, fua, Some(sums.into()));
            }
            Event::WritePart { id, span, fua } => {
                self.host_write(id, span, Content::Data, fua, None);
            }
            Event::Merged { id, sums } => self.merged(id, sums),
            Event::Read { id, span } => self.host_read(id, span),
            Event::Flush { id } => self.host_flush(id),
            Event::Done { io, result } => self.done(io, result),
            Event::Tick => {}
            Event::Returned(slot) => self.returned(slot),
            Event::Command(command) => self.command(command),
        }
        self.watch();
        self.settle();
    }

    /// What is to be done now; empties the list.
    pub fn actions(&mut self) -> std::vec::Drain<'_, Action> {
        self.out.drain(..)
    }

    /// What was counted.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Was the device there at the start, or has it been taken in since?
    pub fn knows(&self, slot: Slot) -> bool {
        self.superblocks.knows(slot)
    }

    /// What each device is.
    pub fn states(&self) -> [State; DEVICES] {
        std::array::from_fn(|slot| self.members[slot].state)
    }

    /// The mode it runs in.
    pub fn mode(&self) -> crate::types::Mode {
        self.config.rules.mode
    }

    /// Acknowledged blocks that are not in two domains, and since when the oldest has been.
    pub fn exposed(&self) -> (u64, Option<Nanos>) {
        (self.writes.exposed_blocks, self.writes.oldest_exposed())
    }

    /// Blocks that each leg was not given yet or has not answered.
    pub fn owed(&self) -> [u64; LEGS] {
        std::array::from_fn(|leg| self.members[leg].owed().1)
    }

    /// The host writes that a power cut now could take: acknowledged, promised by no flush, and
    /// not durable on the leg that recovery copies from where nothing else decides. `cache` says
    /// of a leg that what it completed may still be lost.
    pub fn losable(&self, cache: [bool; LEGS]) -> Vec<HostId> {
        let live = self.writes.indices().into_iter().map(|index| self.writes.get(index));
        let lost = live.filter(|write| {
            let kept = match write.legs[FAST] {
                OnLeg::Durable => true,
                OnLeg::Done => !cache[FAST],
                _ => false,
            };
            write.acked && !write.satisfied && write.copy.is_none() && !kept
        });
        lost.map(|write| write.id).collect()
    }

    /// Regions that each leg lacks.
    pub fn out_of_sync(&self) -> [u64; LEGS] {
        std::array::from_fn(|leg| self.members[leg].out_of_sync.len())
    }

    /// Is everything quiet: nothing waits, nothing is owed to any leg?
    pub fn quiet(&self) -> bool {
        self.writes.is_empty()
            && self.waiting.is_empty()
            && self.flushes.is_empty()
            && self.reads.is_empty()
            && self.copies.idle()
            && self.scrub.idle()
            && self.marks.is_empty()
            && self.members.iter().all(|member| member.doubts.is_empty())
            && !(0..DEVICES).any(|slot| {
                matches!(self.members[slot].state, State::Leaving | State::Filling | State::Joining)
            })
    }

    /// Do all that has become possible.
    fn settle(&mut self) {
        let mut rounds = 0;
        while std::mem::take(&mut self.again) {
            // There is nothing to go on with, and every request has its answer.
            if self.failed {
                return;
            }
            rounds += 1;
            // Steps that undo each other would go on for ever.
            assert!(rounds < ROUNDS_MAX, "the core does not settle");
            self.recheck();
            self.admit();
            self.pump_activity();
            for leg in 0..LEGS {
                self.pump_leg(leg);
                self.pump_flush(leg);
            }
            for slot in 0..DEVICES {
                self.pump_log(slot);
            }
            self.pump_superblocks();
            self.pump_members();
            self.pump_copies();
            self.pump_doubts();
            self.pump_scrub();
            self.pump_flushes();
            self.pump_stop();
        }
    }

    /// A device request ended.
    fn done(&mut self, io: Io, result: Result<&[u32], IoError>) {
        let Some(out) = self.ios.remove(io) else { return };
        self.again = true;
        if out.zombie || self.failed {
            let member = &mut self.members[out.slot];
            member.zombies -= u32::from(out.zombie);
            // A sector that a drive tries for longer than it may be silent: that is written over
            // when the leg is filled, or it would be left out for it again and again.
            if result.is_err() && out.purpose.reads() && member.state.lacks() {
                member.out_of_sync.insert(out.span);
            }
            // After so long it is no freeze: an operator should look at it.
            member.returns &= self.now.since(out.issued) < self.config.lag.fail_after;
            if out.purpose.reads() {
                self.out.push(Action::Drop { io });
            }
            return;
        }
        self.learn(&out);
        let ok = result.is_ok();
        self.members[out.slot].answered += u64::from(ok && out.purpose.reads());
        match out.purpose {
            io::Purpose::Home { write, again } => self.home_done(out.slot, write, again, ok),
            io::Purpose::Part { part } => self.part_done(io, part, out.slot, result),
            io::Purpose::CopyRead { copy } => self.copy_read(io, copy, result),
            io::Purpose::Scrub { turn } => self.scrub_read(io, out.slot, turn, result),
            io::Purpose::Look { block } => self.look_done(io, out.slot, block, ok),
            // A failed flush may have dropped what it should have written: a second one that
            // succeeds would lie. The same holds for metadata, which is not tried twice either.
            _ if !ok && !planted!(self.config.rules, RetryFlush) => {
                self.leave(out.slot, Why::Failed)
            }
            io::Purpose::Flush => self.flush_done(out.slot),
            io::Purpose::Record => self.record_done(out.slot),
            io::Purpose::Superblock { version } => self.superblock_done(out.slot, version),
            io::Purpose::Activity { version } => self.activity_done(out.slot, version),
            io::Purpose::Checkpoint { number } => self.checkpoint_done(out.slot, number),
            io::Purpose::JoinTable => self.join_table_done(out.slot),
        }
    }

    fn command(&mut self, command: Command) {
        self.again = true;
        match command {
            Command::Fail(slot) => self.leave(slot, Why::Asked),
            Command::Replace(slot) => self.replace(slot),
            Command::Scrub => self.scrub_start(),
            Command::SetMode(mode) => self.set_mode(mode),
            Command::Stop => self.stopping = true,
        }
    }

    /// The witness is a member and its log can be written.
    fn has_witness(&self) -> bool {
        self.members[WITNESS].state == State::Member
    }

    fn issue(
        &mut self,
        slot: Slot,
        purpose: io::Purpose,
        work: crate::policy::expect::Work,
        span: crate::types::Span,
    ) -> Io {
        let member = &mut self.members[slot];
        let class = crate::policy::expect::Class::new(work, span.blocks, member.outstanding);
        member.outstanding += 1;
        let issued = self.now;
        let io = self.ios.insert(io::Out { slot, purpose, class, span, issued, zombie: false });
        self.members[slot].waiting.push_back((io, issued, class));
        io
    }
}
