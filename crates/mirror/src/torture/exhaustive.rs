//! Every power cut of every short workload: each event of the run is a crash point, and at each
//! one every combination of what may have reached the media is tried, with every device lost in
//! turn.

use sim::{Nanos, mix64};

use super::disk::{Disk, Effect};
use super::history::Violation;
use super::media::Devices;
use super::plan::Rates;
use super::world::World;
use super::{TorturePlan, restart};
use crate::core::{Content, State};
use crate::format::Geometry;
use crate::policy::assemble::Accept;
use crate::recovery::recover;
use crate::types::{DEVICES, LEGS, Mode, Slot, Span, WITNESS};

/// One step of a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Write block 0; the second time it is an overwrite.
    Write,
    /// Write blocks 0 and 1.
    WriteTwo,
    /// Write half of block 0.
    Part,
    /// Write block 0 with FUA.
    Fua,
    /// Flush.
    Flush,
    /// Zero block 1, as a discard does.
    Zeros,
    /// The fast leg freezes.
    FreezeFast,
    /// The slow leg freezes.
    FreezeSlow,
    /// Both go on.
    Thaw,
}

impl Step {
    /// The alphabet.
    pub const ALL: [Step; 9] = [
        Step::Write,
        Step::WriteTwo,
        Step::Part,
        Step::Fua,
        Step::Flush,
        Step::Zeros,
        Step::FreezeFast,
        Step::FreezeSlow,
        Step::Thaw,
    ];
}

/// What was explored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Explored {
    /// Workloads.
    pub workloads: u64,
    /// Moments at which the power was cut.
    pub crash_points: u64,
    /// Contents of the media after a cut, times devices lost: each was recovered and checked.
    pub crash_states: u64,
    /// Crash points with more combinations than [`STATES_MAX`], of which that many were tried.
    pub sampled: u64,
}

/// Combinations tried per crash point and loss.
pub const STATES_MAX: u64 = 1 << 12;
/// Events after the last step.
const TAIL_EVENTS: u32 = 12;
/// Events that a step may take.
const STEP_EVENTS: u32 = 24;

/// Explore every workload of `length` steps in `mode`.
///
/// # Errors
/// The first invariant that does not hold, with its workload.
pub fn explore(mode: Mode, witness: bool, length: u32) -> Result<Explored, Violation> {
    let mut explored = Explored::default();
    let letters = Step::ALL.len();
    for number in 0..letters.pow(length) {
        let letter = |nth: u32| Step::ALL[number / letters.pow(nth) % letters];
        let workload: Vec<Step> = (0..length).map(letter).collect();
        explored.workloads += 1;
        one(mode, witness, &workload, &mut explored)
            .map_err(|wrong| Violation(format!("{mode} {witness} {workload:?}: {}", wrong.0)))?;
    }
    Ok(explored)
}

fn plan(mode: Mode, witness: bool) -> TorturePlan {
    let mut plan = TorturePlan::new(7, 0);
    plan.config = crate::core::Config::new(mode);
    plan.config.exposed_blocks_max = 8;
    plan.config.flush_after = Nanos::from_millis(100);
    plan.witness = witness;
    plan.rates = Rates::default();
    plan.geometry = Geometry { blocks: 4, extent_blocks: 2, region_blocks: 2, log_pages: 12 };
    plan
}

fn one(mode: Mode, witness: bool, steps: &[Step], all: &mut Explored) -> Result<(), Violation> {
    let plan = plan(mode, witness);
    let mut world = World::new(&plan, None)?;
    for &step in steps {
        world.take(step);
        for _ in 0..STEP_EVENTS {
            world.cut_here(all)?;
            if world.outstanding == 0 || !world.step() {
                break;
            }
        }
    }
    for _ in 0..TAIL_EVENTS {
        if !world.step() {
            break;
        }
        world.cut_here(all)?;
    }
    match world.trouble.take() {
        Some(violation) => Err(violation),
        None => world.history.check(),
    }
}

/// Something that was not on media yet, and the ways in which a cut may leave it.
enum Loose {
    Block { slot: Slot, block: u64, versions: Vec<u64> },
    Page { slot: Slot, effect: Effect },
}

impl Loose {
    fn ways(&self) -> u64 {
        match self {
            Loose::Block { versions, .. } => 1 + versions.len() as u64,
            Loose::Page { .. } => 3,
        }
    }

    fn leave(&self, disks: &mut [Disk; DEVICES], way: u64) {
        match self {
            Loose::Block { .. } if way == 0 => {}
            Loose::Block { slot, block, versions } => {
                disks[*slot].keep(*block, versions[way as usize - 1]);
            }
            Loose::Page { slot, effect } => disks[*slot].leave(effect, way),
        }
    }
}

impl World<'_> {
    fn take(&mut self, step: Step) {
        const LONG: u64 = 50_000_000;
        match step {
            Step::Write => self.issue_write(Span::new(0, 1), Content::Data, false),
            Step::WriteTwo => self.issue_write(Span::new(0, 2), Content::Data, false),
            Step::Part => self.issue_part(Span::new(0, 1), 1),
            Step::Fua => self.issue_write(Span::new(0, 1), Content::Data, true),
            Step::Flush => self.issue_flush(),
            Step::Zeros => self.issue_write(Span::new(1, 1), Content::Zeros, false),
            Step::FreezeFast => self.devices[0].stalled_until = self.now + LONG,
            Step::FreezeSlow => self.devices[1].stalled_until = self.now + LONG,
            Step::Thaw => (0..LEGS).for_each(|leg| self.devices[leg].stalled_until = self.now),
        }
    }

    /// Cut the power here in every way.
    fn cut_here(&self, all: &mut Explored) -> Result<(), Violation> {
        let mut loose = Vec::new();
        for slot in 0..DEVICES {
            let flying = self.flying_on(slot);
            let out: Vec<&Effect> = flying.iter().collect();
            let blocks = self.disks[slot].versions(&out).into_iter();
            loose.extend(blocks.map(|(block, versions)| Loose::Block { slot, block, versions }));
            let pages = flying.into_iter().filter(|e| !matches!(e, Effect::Data { .. }));
            loose.extend(pages.map(|effect| Loose::Page { slot, effect }));
        }
        let ways: u64 = loose.iter().map(Loose::ways).product();
        all.crash_points += 1;
        all.sampled += u64::from(ways > STATES_MAX);
        for n in 0..ways.min(STATES_MAX) {
            let mut rest = if ways > STATES_MAX { mix64(n) % ways } else { n };
            let mut disks = self.disks.clone();
            for thing in &loose {
                thing.leave(&mut disks, rest % thing.ways());
                rest /= thing.ways();
            }
            disks.iter_mut().for_each(Disk::settle);
            let devices = if self.plan.witness { DEVICES } else { LEGS };
            for lost in [None].into_iter().chain((0..devices).map(Some)) {
                all.crash_states += 1;
                self.recover_and_check(&disks, lost)?;
            }
        }
        Ok(())
    }

    fn recover_and_check(
        &self,
        disks: &[Disk; DEVICES],
        lost: Option<Slot>,
    ) -> Result<(), Violation> {
        let mut disks = disks.clone();
        let there = |slot| Some(slot) != lost && (slot != WITNESS || self.plan.witness);
        let offers = restart::offers(&disks, there);
        let accept = Accept { missing_leg: true, exposure: true };
        let mut media =
            Devices { disks: &mut disks, zeros: &self.zeros, steps: u64::MAX, flying: None };
        let rules = &self.plan.config.rules;
        let opened = recover(rules, &mut media, &offers, accept, 9)
            .map_err(|failed| Violation(format!("lost {lost:?}: no start: {failed:?}")))?;
        let legs: Vec<Slot> = (0..LEGS).filter(|&leg| opened.state[leg] == State::Member).collect();
        if let [a, b] = legs[..]
            && disks[a].data != disks[b].data
        {
            return Err(Violation(format!("lost {lost:?}: the legs differ (I4)")));
        }
        let survivors = &disks[legs[0]].data;
        let checked = match rules.mode == Mode::Relaxed && lost.is_some_and(|slot| slot < LEGS) {
            true => self.history.check_prefix(survivors, self.plan.config.exposed_blocks_max, true),
            false => self.history.check_survivors(survivors),
        };
        checked.map_err(|wrong| Violation(format!("lost {lost:?}: {}", wrong.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_mode(lengths: std::ops::RangeInclusive<u32>) {
        println!("| mode | witness | length | workloads | crash points | states | sampled |");
        println!("|---|---|---|---|---|---|---|");
        for length in lengths {
            for mode in [Mode::Strict, Mode::Log, Mode::Relaxed] {
                for witness in [false, true] {
                    let e = explore(mode, witness, length)
                        .unwrap_or_else(|wrong| panic!("{}", wrong.0));
                    let Explored { workloads, crash_points, crash_states, sampled } = e;
                    assert!(crash_states > crash_points);
                    println!(
                        "| {mode} | {witness} | {length} | {workloads} | {crash_points} | \
                         {crash_states} | {sampled} |"
                    );
                }
            }
        }
    }

    #[test]
    fn one_step_survives_every_cut() {
        every_mode(1..=1);
    }

    #[test]
    #[ignore = "minutes: part of make test-long"]
    fn two_and_three_steps_survive_every_cut() {
        every_mode(2..=3);
    }
}
