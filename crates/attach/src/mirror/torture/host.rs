//! Somebody who uses a served mirror, and an operator.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mirror::core::State;
use mirror::{DEVICES, LEGS, Mode, Slot};

use super::history::{self, Acked, SECTOR};
use super::medium::Medium;
use super::world::World;
use crate::buffer_pool::BufferPool;
use crate::clock::Clock;
use crate::mirror::engine::MirrorEngine;
use crate::mirror::prepare::{self, Wanted};
use crate::order::{Command, Order, Refusal, Ticket};
use crate::poll::wait_readable;
use crate::target::Target;

/// Requests at once.
const DEPTH: usize = 8;
/// An answer takes no longer.
const PATIENCE: Duration = Duration::from_secs(30);

enum Asked {
    Write { range: Range<u64>, number: u64, durable: bool },
    Read { range: Range<u64>, unreadable: bool },
    Flush(Acked),
}

pub(super) struct Host<'w> {
    pub(super) world: &'w mut World,
    array: MirrorEngine,
    clock: Clock,
    out: BTreeMap<u64, Asked>,
    tag: u64,
    /// What thaws, and when.
    frozen: Option<(Arc<AtomicBool>, Instant)>,
    /// The operator did something after which a device may not be lost at once.
    touched: bool,
    /// Until the machine stopped a device could be lost with the power.
    well: bool,
    /// Turns in a row without an answer.
    idle: u32,
    /// What each device was when it was last looked at.
    states: [State; DEVICES],
}

impl<'w> Host<'w> {
    pub(super) fn new(world: &'w mut World, array: MirrorEngine, clock: Clock) -> Host<'w> {
        let touched = array.core.mode() == Mode::Relaxed;
        let (out, frozen, states) = (BTreeMap::new(), None, array.core.states());
        world.note(format!("{:?} mode, {states:?}", array.core.mode()));
        Host { world, array, clock, out, tag: 0, frozen, touched, well: false, idle: 0, states }
    }

    fn has_stopped(&self) -> bool {
        self.world.machine.has_stopped()
    }

    /// Could a device be lost with the power when it stopped? What the engine did since then does
    /// not count.
    pub(super) fn was_well(&self) -> bool {
        self.well
    }

    fn note_whether_well(&mut self) {
        let drops = self.array.core.stats().drops;
        let well = !self.touched && drops == 0 && self.world.has_all(&self.array);
        if !self.has_stopped() {
            self.well = well;
        }
    }

    /// From now on a device may not be lost with the power.
    fn touch(&mut self) {
        (self.touched, self.well) = (true, false);
    }

    /// Let go of what hangs, for it to end.
    pub(super) fn end(self) {
        self.world.machine.stop();
        if let Some((frozen, _)) = &self.frozen {
            frozen.store(false, Ordering::SeqCst);
        }
    }

    /// Until the machine stops, or there has been enough.
    pub(super) fn live(&mut self) -> Result<(), String> {
        if let Some(slot) = self.world.blank.take() {
            self.replace_slot(slot)?;
        }
        self.verify(true)?;
        let orders = 20 + self.world.rng.below(200);
        for _ in 0..orders {
            if self.has_stopped() {
                return Ok(());
            }
            self.world.tally.orders += 1;
            self.something()?;
        }
        self.quiesce()?;
        self.verify(false)?;
        if self.world.rng.below(2) == 0 { self.stop() } else { Ok(()) }
    }

    /// Stop in order; both legs must be the same then.
    fn stop(&mut self) -> Result<(), String> {
        // What is being filled is waited for; what is out stays out.
        self.until("nothing is being filled", |host| {
            let moves = [State::Leaving, State::Filling, State::Joining];
            !host.array.core.states().iter().any(|state| moves.contains(state))
        })?;
        let whole = self.world.has_all(&self.array) && self.array.core.out_of_sync() == [0; LEGS];
        self.array.stop();
        self.until("it has stopped", |host| host.array.over())?;
        if self.has_stopped() {
            return Ok(());
        }
        self.world.tally.stops += 1;
        let all = self.world.history.covered();
        self.world.history.flushed(&all);
        if whole { self.world.legs_are_alike() } else { Ok(()) }
    }

    fn something(&mut self) -> Result<(), String> {
        while self.out.len() >= DEPTH {
            self.turn()?;
        }
        match self.world.rng.below(1000) {
            0..450 => self.write(false)?,
            450..530 => self.write(true)?,
            530..650 => self.flush()?,
            650..750 => {
                let range = self.range(64)?;
                self.read(range, false)?;
            }
            750..830 => self.zero()?,
            830..900 => self.freeze(),
            900..920 => drop(self.array.scrub()),
            920..940 => self.set_mode(),
            940..955 => self.fail_and_take_back()?,
            955..975 => self.replace()?,
            975..990 => self.read_what_cannot_be_read()?,
            _ => self.nothing_is_kept()?,
        }
        self.turn()
    }

    /// Some sectors, where nothing else is under way.
    fn range(&mut self, most: u64) -> Result<Range<u64>, String> {
        let sectors = self.world.sectors().end;
        loop {
            let length = 1 + self.world.rng.below(most);
            // Half of them meet.
            let within = if self.world.rng.below(2) == 0 { 256 } else { sectors };
            let start = self.world.rng.below(within);
            let range = start..(start + length).min(sectors);
            let meets = |asked: &Asked| match asked {
                Asked::Write { range: other, .. } | Asked::Read { range: other, .. } => {
                    other.start < range.end && range.start < other.end
                }
                Asked::Flush(_) => false,
            };
            if !self.out.values().any(meets) {
                return Ok(range);
            }
            self.turn()?;
        }
    }

    fn submit(&mut self, command: Command, range: &Range<u64>, data: Option<&[u8]>, asked: Asked) {
        self.tag += 1;
        let ticket = Ticket { tag: self.tag, ..Ticket::default() };
        let (offset, bytes) = (range.start * 512, ((range.end - range.start) * 512) as u32);
        let order = Order::new(ticket, command, offset, bytes);
        let sink = data.map(|data| {
            let mut sink = self.array.begin_write(offset, bytes).expect("it is within the mirror");
            self.array.write(&mut sink, data, &mut BufferPool::default());
            sink
        });
        self.out.insert(self.tag, asked);
        self.array.submit(self.clock.now(), order, sink, &mut BufferPool::default());
    }

    fn write(&mut self, fua: bool) -> Result<(), String> {
        let most = if self.world.rng.below(12) == 0 { 3000 } else { 48 };
        let range = self.range(most)?;
        let number = self.world.history.begin(range.clone(), false);
        self.world.note(format!("{number} to {range:?}{}", if fua { ", FUA" } else { "" }));
        let mut data = vec![0; (range.end - range.start) as usize * SECTOR];
        data.chunks_mut(SECTOR).for_each(|sector| history::fill(sector, number));
        let asked = Asked::Write { range: range.clone(), number, durable: fua };
        self.submit(Command::Write { fua }, &range, Some(&data), asked);
        Ok(())
    }

    fn zero(&mut self) -> Result<(), String> {
        let mut range = self.range(128)?;
        let discard = self.world.rng.below(2) == 0;
        let fua = !discard && self.world.rng.below(2) == 0;
        let mut command = Command::WriteZeroes { fua, may_discard: true };
        if discard {
            // Of whole blocks only.
            range = range.start.next_multiple_of(8)..range.end / 8 * 8;
            command = Command::Discard;
        }
        if range.start < range.end {
            let number = self.world.history.begin(range.clone(), true);
            self.world.note(format!("{number}, zeros, to {range:?}"));
            let asked = Asked::Write { range: range.clone(), number, durable: fua };
            self.submit(command, &range, None, asked);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        let covered = self.world.history.covered();
        self.submit(Command::Flush, &(0..0), None, Asked::Flush(covered));
        Ok(())
    }

    fn read(&mut self, range: Range<u64>, unreadable: bool) -> Result<(), String> {
        self.submit(Command::Read, &range, None, Asked::Read { range: range.clone(), unreadable });
        Ok(())
    }

    /// Read all of it, while nothing else is under way.
    fn verify(&mut self, after_start: bool) -> Result<(), String> {
        let sectors = self.world.sectors();
        for start in sectors.clone().step_by(512) {
            self.verify_range(start..(start + 512).min(sectors.end), after_start)?;
            if self.has_stopped() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn verify_range(&mut self, range: Range<u64>, after_start: bool) -> Result<(), String> {
        let (offset, bytes) = (range.start * 512, ((range.end - range.start) * 512) as u32);
        self.tag += 1;
        let ticket = Ticket { tag: self.tag, ..Ticket::default() };
        let order = Order::new(ticket, Command::Read, offset, bytes);
        self.array.submit(self.clock.now(), order, None, &mut BufferPool::default());
        let (began, mut replies) = (Instant::now(), Vec::new());
        while replies.is_empty() {
            self.step(began, &mut replies, "a read of it all")?;
        }
        if self.has_stopped() {
            return Ok(());
        }
        match replies.remove(0).result {
            Ok(data) => {
                let read = self.world.history.read(range.start, &data, after_start);
                read.map_err(|wrong| self.wrong(wrong, after_start))
            }
            Err(_) if self.world.history.is_perhaps_lost(range.clone()) => {
                match range.end - range.start {
                    // A block by itself.
                    ..=8 => Ok(()),
                    _ => range
                        .step_by(8)
                        .try_for_each(|block| self.verify_range(block..block + 8, after_start)),
                }
            }
            Err(why) => Err(format!("read: {why:?}")),
        }
    }

    fn wrong(&self, wrong: history::Wrong, after_start: bool) -> String {
        let about = self.world.about(wrong.sector);
        let moment = if after_start { "after a start" } else { "later" };
        wrong.say(&format!("read {moment}, states {:?}; {about}", self.array.core.states()))
    }

    fn step(
        &mut self,
        began: Instant,
        replies: &mut Vec<crate::order::Reply>,
        what: &str,
    ) -> Result<(), String> {
        if let Some((frozen, until)) = &self.frozen
            && Instant::now() >= *until
        {
            frozen.store(false, Ordering::SeqCst);
            self.frozen = None;
        }
        self.array.advance(self.clock.now(), replies);
        for notice in self.array.notices() {
            self.world.note(notice);
        }
        let states = self.array.core.states();
        if states != std::mem::replace(&mut self.states, states) {
            self.world.note(format!("{states:?}"));
        }
        if began.elapsed() > PATIENCE {
            return Err(format!("{what}: no answer in {PATIENCE:?}"));
        }
        // On a busy machine whoever sleeps wakes late.
        self.idle = if replies.is_empty() { self.idle + 1 } else { 0 };
        if self.idle > 20 {
            self.idle = 0;
            wait_readable(self.array.wakeup(), Duration::from_micros(100));
        }
        Ok(())
    }

    /// Let it work for a moment, and take its answers.
    fn turn(&mut self) -> Result<(), String> {
        self.note_whether_well();
        let mut replies = Vec::new();
        self.step(Instant::now(), &mut replies, "")?;
        for reply in replies {
            let Some(asked) = self.out.remove(&reply.order.ticket.tag) else {
                return Err(format!("{:?} is answered twice", reply.order));
            };
            if !self.has_stopped() {
                self.answered(asked, reply.result)?;
            }
        }
        Ok(())
    }

    fn answered(&mut self, asked: Asked, result: Result<Vec<u8>, Refusal>) -> Result<(), String> {
        let history = &mut self.world.history;
        match (asked, result) {
            (Asked::Write { range, number, durable }, Ok(_)) => {
                history.acked(range, number, durable);
                self.world.note(format!("{number} is done"));
            }
            (Asked::Flush(covered), Ok(_)) => history.flushed(&covered),
            (Asked::Read { range, .. }, Ok(data)) => {
                let read = history.read(range.start, &data, false);
                read.map_err(|wrong| self.wrong(wrong, false))?;
            }
            (Asked::Read { unreadable: true, .. }, Err(_)) => {}
            (Asked::Read { range, .. }, Err(_)) if history.is_perhaps_lost(range.clone()) => {}
            (_, Err(why)) => return Err(format!("an error: {why:?}")),
        }
        Ok(())
    }

    fn until(&mut self, what: &str, so: impl Fn(&Host) -> bool) -> Result<(), String> {
        let began = Instant::now();
        while !so(self) && !self.has_stopped() {
            if began.elapsed() > PATIENCE {
                let (core, kept) = (&self.array.core, self.array.kept());
                return Err(format!(
                    "waited in vain until {what}: {:?}, {kept:?} kept, quiet {}, out of sync {:?}",
                    core.states(),
                    core.quiet(),
                    core.out_of_sync()
                ));
            }
            self.turn()?;
        }
        Ok(())
    }

    fn quiesce(&mut self) -> Result<(), String> {
        self.until("all is answered", |host| host.out.is_empty())
    }

    /// Nothing is under way: no buffer may be kept for it.
    fn nothing_is_kept(&mut self) -> Result<(), String> {
        self.flush()?;
        let rests = |host: &Host| host.out.is_empty() && host.array.kept() == [0; 3];
        self.until("nothing is kept for requests that are over", rests)
    }

    fn freeze(&mut self) {
        if self.frozen.is_some() {
            return;
        }
        let slots = if self.world.plan.witness { DEVICES } else { LEGS };
        let slot = self.world.rng.below(slots as u64) as Slot;
        let switch = self.world.machine.switches(self.world.slots[slot].0).frozen;
        switch.store(true, Ordering::SeqCst);
        let length = Duration::from_millis(1 + self.world.rng.below(40));
        self.world.note(format!("device {slot} freezes"));
        self.frozen = Some((switch, Instant::now() + length));
    }

    fn set_mode(&mut self) {
        // From one leg a start in relaxed mode has to be asked for.
        if !self.world.has_all(&self.array) {
            return;
        }
        let mode = [Mode::Strict, Mode::Log, Mode::Relaxed][self.world.rng.below(3) as usize];
        self.touch();
        self.world.note(format!("the mode becomes {mode:?}"));
        let _ = self.array.set_mode(mode);
    }

    /// A leg errs, is left out, and is taken back by the operator.
    fn fail_and_take_back(&mut self) -> Result<(), String> {
        if !self.world.has_all(&self.array) || self.frozen.is_some() {
            return Ok(());
        }
        self.touch();
        let leg = self.world.rng.below(LEGS as u64) as Slot;
        self.world.note(format!("leg {leg} fails and is taken back"));
        let broken = self.world.machine.switches(self.world.slots[leg].0).broken;
        broken.store(true, Ordering::SeqCst);
        self.write(true)?;
        self.flush()?;
        self.until("it is out", |host| host.array.core.states()[leg] == State::Out)?;
        broken.store(false, Ordering::SeqCst);
        self.until("it has answered", |host| host.array.unanswered(leg) == 0)?;
        if !self.has_stopped() && self.array.resync(leg).is_ok() {
            self.world.tally.resynced += 1;
        }
        Ok(())
    }

    /// A leg, which may hang, is replaced by a new medium.
    fn replace(&mut self) -> Result<(), String> {
        // In relaxed mode a flush may rely on what is replaced.
        let core = &self.array.core;
        let relaxed = core.mode() == Mode::Relaxed || core.mode_wanted().is_some();
        if relaxed || !self.world.has_all(&self.array) || self.frozen.is_some() {
            return Ok(());
        }
        let leg = self.world.rng.below(LEGS as u64) as Slot;
        self.world.note(format!("leg {leg} is replaced"));
        let frozen = self.world.machine.switches(self.world.slots[leg].0).frozen;
        if self.world.rng.below(2) == 0 {
            frozen.store(true, Ordering::SeqCst);
            for _ in 0..4 {
                let range = self.range(64)?;
                self.read(range, false)?;
                self.write(false)?;
            }
            (0..4).try_for_each(|_| self.turn())?;
        }
        let replaced = self.replace_slot(leg);
        frozen.store(false, Ordering::SeqCst);
        replaced
    }

    fn replace_slot(&mut self, leg: Slot) -> Result<(), String> {
        self.touch();
        let pages = self.world.machine.medium(self.world.slots[leg].0).pages();
        let new = self.world.add(Medium::new(pages));
        let (array, geometry) = (self.array.id(), self.array.geometry());
        let wanted = Wanted { array, slot: leg, geometry, old: None };
        let device = prepare::prepare(&new.1, &wanted, false).map_err(|why| why.to_string())?;
        if self.array.replace(leg, device).is_ok() && !self.has_stopped() {
            let (_, old) = std::mem::replace(&mut self.world.slots[leg], new);
            let _ = std::fs::remove_file(old);
            self.world.tally.replaced += 1;
            // The new one is there, whatever became of the old one.
            self.world.absent = self.world.absent.filter(|&slot| slot != leg);
        }
        Ok(())
    }

    /// A stretch that no leg can read: an error or the right data, never anything else.
    fn read_what_cannot_be_read(&mut self) -> Result<(), String> {
        self.nothing_is_kept()?;
        if !self.array.core.quiet() || self.has_stopped() {
            return Ok(());
        }
        let geometry = self.array.geometry();
        let data = crate::mirror::media::layout_of(0, &geometry).data;
        let first = self.world.rng.below(geometry.blocks);
        let bad = data + first..data + (first + 8).min(geometry.blocks);
        let media = [0, 1].map(|leg: usize| self.world.slots[leg].0);
        media.iter().for_each(|&medium| self.world.machine.unreadable(medium, bad.clone()));
        let start = first.saturating_sub(self.world.rng.below(300)) * 8;
        let end = (start + 8 * (first.saturating_sub(start / 8) + 1 + self.world.rng.below(200)))
            .min(self.world.sectors().end);
        self.world.note(format!("blocks {bad:?} of the media are unreadable for a while"));
        self.world.history.may_be_lost(first * 8..(first + 8).min(geometry.blocks) * 8);
        self.read(start..end, true)?;
        let answered = self.quiesce();
        media.iter().for_each(|&medium| self.world.machine.unreadable(medium, 0..0));
        answered?;
        // What it looks at once more must not mix with what the host reads.
        self.until("it has looked again", |host| host.array.core.quiet())
    }
}
