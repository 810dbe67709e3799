//! Every reachable state of a small array: two legs, perhaps a witness, two blocks, a few writes
//! and flushes. When to acknowledge, satisfy, retire and forget, and what recovery does, are the
//! production functions of [`crate::policy`]; only the devices are this file's.
//!
//! A power cut, with or without the loss of one device, is checked in every state rather than
//! being a step: blocks do not depend on each other then, so all its outcomes are few.

use stateright::{Checker, Model, Property};

use crate::Mutant;
use crate::format::record::EntryKind;
use crate::policy::Rules;
use crate::policy::ack::{self, Copies};
use crate::policy::merge::{self, Claim, Remedy};
use crate::types::{DEVICES, LEGS, Mode, Slot, WITNESS, other};

const BLOCKS: usize = 2;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Home {
    Owed,
    Done,
    Durable,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Write {
    block: usize,
    epoch: u8,
    home: [Home; LEGS],
    acked: bool,
    covered: bool,
    satisfied: bool,
    forgotten: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct State {
    writes: Vec<Write>,
    flushes: u8,
    /// Per device: (write, with its payload), oldest first.
    logs: [Vec<(u8, bool)>; DEVICES],
    /// A device that died, and whether the others have recorded it.
    dead: Option<(Slot, bool)>,
}

#[derive(Clone, PartialEq, Debug)]
enum Transition {
    Write(usize),
    Flush,
    Complete(Slot, usize),
    FlushLeg(Slot),
    Log(Slot, usize, bool),
    Retire(Slot),
    Die(Slot),
    Record,
}

#[derive(Clone)]
struct Array {
    rules: Rules,
    witness: bool,
    writes: usize,
    flushes: u8,
    /// A device may die at any time, rather than with a power cut only.
    deaths: bool,
}

impl Array {
    fn has(&self, slot: Slot) -> bool {
        slot < LEGS || self.witness
    }

    fn alive(&self, state: &State, slot: Slot) -> bool {
        self.has(slot) && state.dead.is_none_or(|(dead, _)| dead != slot)
    }

    fn planted(&self, mutant: Mutant) -> bool {
        self.rules.mutant == Some(mutant)
    }

    fn copies(&self, state: &State, write: usize) -> Copies {
        let own = &state.writes[write];
        let logged = |slot: Slot, payload: bool| {
            self.alive(state, slot) && state.logs[slot].contains(&(write as u8, payload))
        };
        let home = |least: Home| {
            std::array::from_fn(|leg| self.alive(state, leg) && own.home[leg] >= least)
        };
        Copies {
            member: std::array::from_fn(|slot| self.has(slot) && state.dead != Some((slot, true))),
            done: home(Home::Done),
            home: home(Home::Durable),
            payload: std::array::from_fn(|slot| logged(slot, true)),
            reference: std::array::from_fn(|leg| logged(leg, false)),
            marked: false,
            stale: std::array::from_fn(|slot| {
                let of_block = |n: u8| state.writes[usize::from(n)].block == own.block;
                let log = &state.logs[slot];
                log.iter().any(|&(n, payload)| payload && usize::from(n) < write && of_block(n))
                    && !log.iter().any(|&(n, _)| usize::from(n) >= write && of_block(n))
            }),
        }
    }

    /// What the core does at once.
    fn settle(&self, state: &mut State) {
        for n in 0..state.writes.len() {
            let copies = self.copies(state, n);
            let write = &mut state.writes[n];
            write.acked |= ack::write(&self.rules, &copies, true);
            write.satisfied |= write.covered && ack::flush(&self.rules, &copies);
            let safe = !write.covered || write.satisfied;
            write.forgotten |= write.acked && safe && ack::forget(&self.rules, &copies);
        }
    }

    /// The core's rules for what may be logged.
    fn may_log(&self, state: &State, slot: Slot, n: usize, payload: bool) -> bool {
        let write = &state.writes[n];
        let entry = (n as u8, payload);
        if write.forgotten || write.satisfied || !write.covered || state.logs[slot].contains(&entry)
        {
            return false;
        }
        let stale = self.copies(state, n).stale[slot];
        let late = |leg: Slot| write.home[other(leg)] != Home::Durable;
        if !payload {
            return slot < LEGS && write.home[slot] == Home::Durable && (late(slot) || stale);
        }
        // One second copy is enough, and it goes where it makes two domains.
        let once = state.logs.iter().any(|log| log.contains(&entry));
        let useful = match slot {
            WITNESS => {
                write.home.contains(&Home::Durable)
                    && write.home.iter().any(|&home| home != Home::Durable)
            }
            leg => write.home[other(leg)] == Home::Durable && write.home[leg] != Home::Durable,
        };
        let own_domain = self.planted(Mutant::OneDomain) && slot < LEGS;
        if !stale && (once || !(useful || own_domain)) {
            return false;
        }
        let newer = |m: usize| m > n && state.writes[m].block == write.block;
        let promised = (0..state.writes.len()).any(|m| newer(m) && state.writes[m].satisfied);
        let behind = state.logs[slot].iter().any(|&(m, _)| newer(usize::from(m)));
        let wanted = self.rules.mode == Mode::Log || stale;
        wanted
            && (!promised || self.planted(Mutant::LogLate))
            && (!behind || self.planted(Mutant::LogOutOfOrder))
    }

    /// Every content that a power cut may leave of a block at home: a write, or 0 for none.
    fn outcomes(&self, state: &State, leg: Slot, block: usize) -> Vec<usize> {
        let of_block = |n: &usize| state.writes[*n].block == block;
        let numbers = || (0..state.writes.len()).filter(of_block);
        let durable = numbers().filter(|&n| state.writes[n].home[leg] == Home::Durable).max();
        let mut all = vec![durable.map_or(0, |n| n + 1)];
        all.extend(numbers().filter(|&n| state.writes[n].home[leg] == Home::Done).map(|n| n + 1));
        // The oldest one owed may be out.
        let out = numbers().find(|&n| state.writes[n].home[leg] == Home::Owed);
        all.extend(out.filter(|&n| self.may_issue(state, leg, n)).map(|n| n + 1));
        all
    }

    /// I5: an epoch starts on a leg when the one before it is durable there.
    fn may_issue(&self, state: &State, leg: Slot, n: usize) -> bool {
        let epoch = state.writes[n].epoch;
        let before = state.writes.iter().filter(|write| write.epoch < epoch);
        self.rules.mode != Mode::Relaxed || self.planted(Mutant::NoEpochs) || { before }
            .all(|write| write.home[leg] == Home::Durable)
    }

    /// What recovery may make of a block, with these devices there and these homes.
    fn recovered(
        &self,
        state: &State,
        there: [bool; DEVICES],
        block: usize,
        homes: [usize; LEGS],
    ) -> Vec<usize> {
        let claims = (0..DEVICES).filter(|&slot| there[slot]).flat_map(|slot| {
            let log = state.logs[slot].iter();
            log.filter(move |(n, _)| state.writes[usize::from(*n)].block == block).map(
                move |&(n, payload)| Claim {
                    sequence: u64::from(n),
                    kind: if payload { EntryKind::Payload } else { EntryKind::Reference },
                    device: slot,
                },
            )
        });
        match merge::remedy(&self.rules, claims) {
            Remedy::Replay(claim) => vec![claim.sequence as usize + 1],
            Remedy::Copy(claim) if there[claim.device] => vec![homes[claim.device]],
            Remedy::Copy(_) | Remedy::Compare => {
                (0..LEGS).filter(|&leg| there[leg]).map(|leg| homes[leg]).collect()
            }
        }
    }

    /// I1: nothing flushed is lost by a power cut, with or without the loss of one device.
    fn durable(&self, state: &State) -> bool {
        let losses = [None, Some(0), Some(1), Some(2)];
        losses.into_iter().filter(|lost| lost.is_none_or(|slot| self.has(slot))).all(|lost| {
            // One device at a time; and a relaxed array says that it may lose something.
            let second = state.dead.is_some_and(|(dead, _)| lost.is_some_and(|slot| slot != dead));
            let stale = state.dead.is_some_and(|(dead, recorded)| recorded && lost != Some(dead));
            let declared = self.rules.mode == Mode::Relaxed
                && (lost.is_some_and(|slot| slot < LEGS) || state.dead.is_some());
            if second || stale || declared {
                return true;
            }
            let there = std::array::from_fn(|slot| self.has(slot) && lost != Some(slot));
            (0..BLOCKS).all(|block| self.block_survives(state, there, block))
        })
    }

    fn block_survives(&self, state: &State, there: [bool; DEVICES], block: usize) -> bool {
        let flushed = |(n, write): (usize, &Write)| {
            (write.block == block && write.satisfied).then_some(n + 1)
        };
        let promised = state.writes.iter().enumerate().filter_map(flushed).max().unwrap_or(0);
        self.outcomes(state, 0, block).into_iter().all(|a| {
            self.outcomes(state, 1, block).into_iter().all(|b| {
                let after = self.recovered(state, there, block, [a, b]);
                after.into_iter().all(|content| content >= promised)
            })
        })
    }

    /// I2: with the host alive, one leg's loss takes no acknowledged write: it is in memory, or on
    /// the other leg.
    fn alive_keeps(&self, state: &State) -> bool {
        (0..LEGS).filter(|&leg| self.alive(state, leg)).all(|leg| {
            // A leg that died while the other is gone is a second fault.
            state.dead.is_some_and(|(dead, _)| dead < LEGS)
                || state.writes.iter().all(|write| {
                    !write.acked || !write.forgotten || write.home[other(leg)] == Home::Durable
                })
        })
    }

    /// I5: what one leg has after a power cut is the state at a flush, and some of what came after.
    fn prefix(&self, state: &State) -> bool {
        if self.rules.mode != Mode::Relaxed {
            return true;
        }
        (0..LEGS).all(|leg| {
            self.outcomes(state, leg, 0).into_iter().all(|a| {
                self.outcomes(state, leg, 1).into_iter().all(|b| {
                    let found = [a, b];
                    let epochs =
                        found.iter().filter(|&&n| n > 0).map(|n| state.writes[n - 1].epoch);
                    let newest = epochs.max().unwrap_or(0);
                    state.writes.iter().enumerate().all(|(n, write)| {
                        !write.covered || write.epoch >= newest || found[write.block] > n
                    })
                })
            })
        })
    }
}

impl Model for Array {
    type State = State;
    type Action = Transition;

    fn init_states(&self) -> Vec<State> {
        let logs = Default::default();
        vec![State { writes: Vec::new(), flushes: 0, logs, dead: None }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Transition>) {
        if state.writes.len() < self.writes {
            // Which block the first write takes makes no difference.
            let blocks = if state.writes.is_empty() { 1 } else { BLOCKS };
            steps.extend((0..blocks).map(Transition::Write));
        }
        if state.flushes < self.flushes && !state.writes.is_empty() {
            steps.push(Transition::Flush);
        }
        for leg in (0..LEGS).filter(|&leg| self.alive(state, leg)) {
            for (n, write) in state.writes.iter().enumerate() {
                let older = state.writes[..n].iter().filter(|older| older.block == write.block);
                let first = { older }.all(|older| older.home[leg] != Home::Owed);
                if write.home[leg] == Home::Owed && first && self.may_issue(state, leg, n) {
                    steps.push(Transition::Complete(leg, n));
                }
            }
            if state.writes.iter().any(|write| write.home[leg] == Home::Done) {
                steps.push(Transition::FlushLeg(leg));
            }
        }
        for slot in (0..DEVICES).filter(|&slot| self.alive(state, slot)) {
            for n in 0..state.writes.len() {
                for payload in [false, true] {
                    if self.may_log(state, slot, n, payload) {
                        steps.push(Transition::Log(slot, n, payload));
                    }
                }
            }
            if let Some(&(n, _)) = state.logs[slot].first()
                && ack::retire(&self.rules, &self.copies(state, usize::from(n)))
            {
                steps.push(Transition::Retire(slot));
            }
        }
        match state.dead {
            None if !self.deaths => {}
            None => steps.extend((0..DEVICES).filter(|&slot| self.has(slot)).map(Transition::Die)),
            Some((_, false)) => steps.push(Transition::Record),
            Some((_, true)) => {}
        }
    }

    fn next_state(&self, state: &State, step: Transition) -> Option<State> {
        let mut state = state.clone();
        match step {
            Transition::Write(block) => state.writes.push(Write {
                block,
                epoch: state.flushes,
                home: [Home::Owed; LEGS],
                acked: false,
                covered: false,
                satisfied: false,
                forgotten: false,
            }),
            Transition::Flush => {
                state.flushes += 1;
                state.writes.iter_mut().for_each(|write| write.covered |= write.acked);
            }
            Transition::Complete(leg, n) => state.writes[n].home[leg] = Home::Done,
            Transition::FlushLeg(leg) => {
                let done = state.writes.iter_mut().filter(|write| write.home[leg] == Home::Done);
                done.for_each(|write| write.home[leg] = Home::Durable);
            }
            Transition::Log(slot, n, payload) => state.logs[slot].push((n as u8, payload)),
            Transition::Retire(slot) => drop(state.logs[slot].remove(0)),
            Transition::Die(slot) => state.dead = Some((slot, false)),
            Transition::Record => state.dead = state.dead.map(|(slot, _)| (slot, true)),
        }
        self.settle(&mut state);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("I1 durable", |array: &Array, state: &State| array.durable(state)),
            Property::always("I2 live loss", |array: &Array, state: &State| {
                array.alive_keeps(state)
            }),
            Property::always("I5 prefix", |array: &Array, state: &State| array.prefix(state)),
        ]
    }
}

/// Explore all of it. The states, and the properties that do not hold.
fn explore(array: Array) -> (usize, Vec<&'static str>) {
    let checker = array.checker().spawn_bfs().join();
    let mut broken: Vec<_> = checker.discoveries().into_keys().collect();
    broken.sort_unstable();
    (checker.unique_state_count(), broken)
}

fn array(mode: Mode, witness: bool, writes: usize, flushes: u8) -> Array {
    Array { rules: Rules::new(mode), witness, writes, flushes, deaths: false }
}

fn holds(writes: usize, flushes: u8, deaths: bool) {
    println!("| mode | witness | states |\n|---|---|---|");
    for mode in [Mode::Strict, Mode::Log, Mode::Relaxed] {
        for witness in [false, true] {
            let (states, broken) =
                explore(Array { deaths, ..array(mode, witness, writes, flushes) });
            println!("| {mode} | {witness} | {states} |");
            assert!(broken.is_empty(), "{mode}, witness {witness}: {broken:?}");
        }
    }
}

#[test]
fn two_writes_and_two_flushes_hold() {
    holds(2, 2, false);
    holds(2, 1, true);
}

#[test]
#[ignore = "minutes: part of make test-long"]
fn three_writes_and_two_flushes_hold() {
    holds(3, 2, false);
    holds(2, 2, true);
}

#[test]
fn broken_rules_are_found() {
    let cases = [
        (Mutant::MdFlush, Mode::Log, "I1 durable"),
        (Mutant::FlushOnDone, Mode::Log, "I1 durable"),
        (Mutant::SkipReference, Mode::Log, "I1 durable"),
        (Mutant::SkipSupersede, Mode::Log, "I1 durable"),
        (Mutant::OneDomain, Mode::Log, "I1 durable"),
        (Mutant::RetireOnDone, Mode::Log, "I1 durable"),
        (Mutant::RetireOnFirst, Mode::Log, "I1 durable"),
        (Mutant::MergeOldest, Mode::Log, "I1 durable"),
        (Mutant::LogLate, Mode::Log, "I1 durable"),
        (Mutant::NoEpochs, Mode::Relaxed, "I5 prefix"),
    ];
    for (mutant, mode, property) in cases {
        let mut array = array(mode, true, 2, 2);
        array.rules.mutant = Some(mutant);
        let (_, broken) = explore(array);
        println!("{mutant:?}: {broken:?}");
        assert!(broken.contains(&property), "{mutant:?}: {broken:?}");
    }
}
