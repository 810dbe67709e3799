//! What an operator may do to a mirror that is served.

use std::path::{Path, PathBuf};

use mirror::core::{self, Event, IoError, Notice, State, Why};
use mirror::format::Superblock;
use mirror::policy::slow::SlowRules;
use mirror::{LEGS, Mode, Slot, Span, WITNESS};
use study::Failure;

use super::device::{Access, Device, PAGE};
use super::engine::MirrorEngine;
use super::live::DeviceState;
use super::troubles::About;
use super::worker::Released;
use super::{Identified, NAMES, media};

impl MirrorEngine {
    /// Something happened that a person should know.
    pub(super) fn notice(&mut self, notice: Notice) {
        let name = |slot: Slot| NAMES[slot];
        let text = match notice {
            // Freezes come and go; `status` tells of them.
            Notice::Frozen(leg, frozen) => return self.history.froze(self.latest, leg, frozen),
            Notice::Mismatch(slot, block) => {
                return self.trouble(About::Wrong(slot), Span::new(block, 1));
            }
            Notice::Undecided(block) => {
                self.history.undecided += 1;
                self.history.scrubs.undecided += u64::from(self.history.scrubs.running);
                return self.trouble(About::Differ, Span::new(block, 1));
            }
            Notice::Lost(block) => return self.trouble(About::Lost, Span::new(block, 1)),
            Notice::Unreadable(block) => {
                return self.trouble(About::Unreadable, Span::new(block, 1));
            }
            Notice::Left(slot, why) => {
                let because = self.because(slot, why);
                let text = format!("{} is left out: {because}", name(slot));
                self.history.left_because[slot] = Some(because);
                text
            }
            Notice::Filling(slot) => format!("{} is being filled", name(slot)),
            Notice::Joined(slot) => {
                self.history.left_because[slot] = None;
                format!("{} is a full member again", name(slot))
            }
            Notice::Scrubbed => {
                self.history.scrubs.complete(self.core.stats().mismatches);
                "both legs have been compared".into()
            }
            Notice::Failed => {
                self.failed = true;
                "no leg is left: every request fails".into()
            }
        };
        self.history.changed(&text);
        self.notices.push(text);
    }

    /// Why a device is left out, and what brings it back.
    fn because(&self, slot: Slot, why: Why) -> String {
        let lag = self.core.lag();
        let text = match why {
            Why::Asked => return "as asked".into(),
            Why::Failed => "a write, a flush or a metadata write failed".to_string(),
            Why::Stuck => format!("it did not answer for {}", lag.stuck_after),
            Why::HeldBack => {
                let deadline = lag.flush_deadline.unwrap_or_default();
                format!("a flush or a write waited {deadline} for it alone")
            }
            Why::Slow => {
                let SlowRules { over, share_percent, window } = lag.slow.unwrap_or_default();
                format!(
                    "alone it took over {over} a request for {share_percent} % of the last {window}"
                )
            }
        };
        let resync = format!("blocklab mirror resync {}", NAMES[slot]);
        if self.core.returns(slot) {
            let within = lag.fail_after;
            format!("{text}; it comes back if it answers within {within}; later: {resync}")
        } else {
            format!("{text}; to take it back: {resync}")
        }
    }

    /// Keep count of what moves.
    pub(super) fn observe(&mut self) {
        for (leg, frozen) in self.core.frozen().into_iter().enumerate() {
            if !frozen {
                self.history.froze(self.latest, leg, false);
            }
        }
        let position = self.core.scrub_position();
        match position {
            Some(block) => {
                let before = (self.history.scrubs.begun - 1) * self.bytes();
                self.history.progress.compared = before + block * PAGE;
            }
            None => self.history.scrubs.end(self.core.stats().mismatches),
        }
        self.history.progress.copied = self.core.stats().copied_blocks * PAGE;
        self.history.pass(self.latest);
    }

    /// Not all that count have recorded yet that it left.
    pub(super) fn leaves(&self, slot: Slot) -> bool {
        self.state(slot) == State::Leaving
    }

    fn state(&self, slot: Slot) -> State {
        self.core.states()[slot]
    }

    /// Compare both legs; returns the number of the scrub.
    pub(super) fn scrub(&mut self) -> Result<u64, Failure> {
        if self.core.scrub_position().is_some() {
            return Ok(self.history.scrubs.begun);
        }
        if let Some(leg) = (0..LEGS).find(|&leg| self.state(leg) != State::Member) {
            let (name, state) = (NAMES[leg], DeviceState::from(self.state(leg)).name());
            return Err(Failure::input(format!(
                "there is nothing to compare with: {name} is {state}"
            ))
            .help(format!("when it is a member again: blocklab mirror resync {name}")));
        }
        self.history.scrubs.begin(self.core.stats().mismatches);
        self.tell(Event::Command(core::Command::Scrub));
        Ok(self.history.scrubs.begun)
    }

    /// Run in another mode from now on.
    pub(super) fn set_mode(&mut self, mode: Mode) -> Result<String, Failure> {
        if let Some(wanted) = self.core.mode_wanted() {
            return Err(Failure::input(format!("it is changing to {wanted} already"))
                .help("wait until `status` says that it has"));
        }
        if mode == self.core.mode() {
            return Ok(format!("it runs in mode {mode} already"));
        }
        self.tell(Event::Command(core::Command::SetMode(mode)));
        self.history.changed(&format!("mode {mode} is asked for"));
        Ok(format!("it changes to mode {mode}"))
    }

    /// Begin to take a device back that was left out: it is looked at beside the event loop.
    pub(super) fn may_resync(&mut self, slot: Slot) -> Result<Resync, Failure> {
        let name = NAMES[slot];
        match self.state(slot) {
            State::Never => return Err(no_witness()),
            State::Member => {
                return Ok(Resync::Needless(format!("{name} is a full member: it lacks nothing")));
            }
            State::Filling | State::Joining => {
                return Ok(Resync::Needless(format!("{name} is being filled")));
            }
            State::Leaving => {
                return Err(Failure::input(format!("{name} is being left out just now"))
                    .help("try again when `status` says that it is out"));
            }
            State::Out => {}
        }
        self.spared(slot)?;
        let Some(own) = self.core.superblock(slot).cloned() else {
            return Err(Failure::input(format!(
                "{name} was not there when this mirror was started"
            ))
            .expected("a device whose log and hot extents a start has read")
            .help(format!(
                "stop, and serve with it: what it lacks is copied. Or copy all of it: \
                     blocklab mirror replace {name} --with PATH --overwrite PATH"
            )));
        };
        self.answered_all(slot)?;
        // A failed sync is told once per open file: look at the device with new ones.
        let (released, _) = self.workers.release(slot);
        let path = self.paths[slot].clone().unwrap_or_default();
        let least = self.core.superblock_there(slot).min(own.update);
        let pages = self.layout(slot).pages;
        Ok(Resync::Look(Box::new(LeftOut { slot, path, released, own, least, pages })))
    }

    fn answered_all(&self, slot: Slot) -> Result<(), Failure> {
        let (name, unanswered) = (NAMES[slot], self.unanswered(slot));
        if unanswered == 0 {
            return Ok(());
        }
        Err(Failure::input(format!("{name} has not answered {unanswered} requests"))
            .expected("all of them answered: one could still overwrite what is copied")
            .help(format!(
                "ask again when it has answered, if it did not come back by itself; if it never \
                 does: blocklab mirror replace {name} --with PATH"
            )))
    }

    /// Take a device back that is as it was left; what it lacks is copied.
    pub(super) fn take_back(&mut self, slot: Slot, device: Device) -> Result<String, Failure> {
        let name = NAMES[slot];
        if self.state(slot) != State::Out || !self.workers.is_empty(slot) {
            return Err(Failure::input(format!(
                "another device took the place of {name} meanwhile"
            ))
            .help("see what `status` says"));
        }
        self.spared(slot)?;
        self.install(slot, device)?;
        self.tell(Event::Returned(slot));
        Ok(format!("{name} is taken back"))
    }

    /// In tests: all of that at once.
    #[cfg(test)]
    pub(super) fn resync(&mut self, slot: Slot) -> Result<String, Failure> {
        match self.may_resync(slot)? {
            Resync::Needless(text) => Ok(text),
            Resync::Look(left_out) => {
                let device = left_out.open()?;
                self.take_back(slot, device)
            }
        }
    }

    /// Requests that a device which is out may still do something for, whoever waits for them.
    pub(super) fn unanswered(&self, slot: Slot) -> u32 {
        self.core.unanswered(slot).max(self.workers.out(slot) as u32)
    }

    fn install(&mut self, slot: Slot, device: Device) -> Result<(), Failure> {
        let path = device.path().to_path_buf();
        self.workers
            .install(slot, device)
            .map_err(|why| Failure::machine(format!("cannot use {}: {why}", path.display())))?;
        self.warn_of_cache(slot);
        self.paths[slot] = Some(path);
        Ok(())
    }

    /// May this device be replaced by the one at `path`? The old one is let go if it has the same
    /// name and is out.
    pub(super) fn may_replace(&mut self, slot: Slot, path: &Path) -> Result<(), Failure> {
        if self.state(slot) == State::Never {
            return Err(no_witness());
        }
        self.spared(slot)?;
        for (other, known) in self.paths.iter().enumerate() {
            let same = |known: &PathBuf| Identified::of(known) == Identified::of(path);
            if !known.as_ref().is_some_and(same) {
                continue;
            }
            let (shown, name) = (path.display(), NAMES[other]);
            if other != slot || self.state(slot) != State::Out {
                return Err(Failure::input(format!("{shown} is the mirror's {name} already"))
                    .expected("another device"));
            }
            if self.unanswered(slot) == 0 {
                self.workers.retire(slot);
            }
        }
        Ok(())
    }

    /// Use `device`, which has been prepared, instead of the one in `slot`, and copy all to it.
    pub(super) fn replace(&mut self, slot: Slot, device: Device) -> Result<String, Failure> {
        self.spared(slot)?;
        let shown = device.path().display().to_string();
        self.tell(Event::Command(core::Command::Fail(slot)));
        // Nothing that the old one still does concerns the new one.
        for io in self.workers.retire(slot) {
            self.tell(Event::Done { io, result: Err(IoError) });
        }
        self.install(slot, device)?;
        self.tell(Event::Command(core::Command::Replace(slot)));
        self.history.changed(&format!("{} is now {shown}", NAMES[slot]));
        Ok(format!("{} is now {shown}, to which all is copied", NAMES[slot]))
    }

    /// The device can be done without.
    fn spared(&self, slot: Slot) -> Result<(), Failure> {
        if self.core.spares(slot) {
            return Ok(());
        }
        let other = (0..LEGS).find(|&leg| leg != slot && self.state(leg) != State::Member);
        let (name, other) = (NAMES[slot], NAMES[other.unwrap_or(WITNESS)]);
        Err(Failure::input(format!("{name} cannot be copied to: {other} is no full member"))
            .expected("a leg that has everything")
            .help(format!("first bring {other} back: blocklab mirror resync {other}")))
    }
}

/// What is to be done about a device that is to be taken back.
pub(super) enum Resync {
    /// Nothing.
    Needless(String),
    Look(Box<LeftOut>),
}

/// A device that was left out, to be looked at.
pub(super) struct LeftOut {
    slot: Slot,
    path: PathBuf,
    released: Released,
    /// What was written last to it as its superblock.
    own: Superblock,
    /// It has this one or a newer one.
    least: u64,
    /// What it needs.
    pages: u64,
}

impl LeftOut {
    /// Let go of it and open it anew, which takes as long as it takes.
    pub(super) fn open(self) -> Result<Device, Failure> {
        let LeftOut { slot, path, released, own, least, pages } = self;
        released.close();
        let device = Device::open(&path, Access::Own)?;
        is_the_same(slot, &device, &own, least)?;
        if device.pages() < pages {
            return Err(too_small(&device, pages));
        }
        Ok(device)
    }
}

/// Is this the medium that was left out, as it was left?
fn is_the_same(slot: Slot, device: &Device, own: &Superblock, least: u64) -> Result<(), Failure> {
    let (name, shown) = (NAMES[slot], device.path().display());
    let instead = format!("copy all to it: blocklab mirror replace {name} --with {shown}");
    let found = media::read_superblock(device, Some((slot, &own.geometry)));
    let found = found.map_err(|_| {
        Failure::input(format!("{shown} is no longer a device of a mirror")).help(&instead)
    })?;
    if (found.array, found.device, found.identity) != (own.array, own.device, own.identity) {
        return Err(Failure::input(format!("{shown} is not the device that was left out"))
            .expected(format!("the {name} leg with identity {:032x}", own.identity))
            .help(instead));
    }
    // What it did not say that it has may have failed with it; an older one is that of an old
    // copy, which lacks what was written in between.
    let (is, last) = (found.update, own.update);
    if !(least..=last).contains(&is) {
        return Err(Failure::input(format!("{shown} is not as it was left"))
            .expected(match least == last {
                true => format!("superblock {last}, not {is}"),
                false => format!("a superblock from {least} to {last}, not {is}"),
            })
            .help(instead));
    }
    Ok(())
}

pub(super) fn no_witness() -> Failure {
    Failure::input("the mirror was made without a witness")
        .help("a witness is named when a mirror is made: blocklab mirror create --witness PATH")
}

pub(super) fn too_small(device: &Device, pages: u64) -> Failure {
    let (shown, found) = (device.path().display(), device.pages() * PAGE);
    Failure::input(format!("{shown} has {found} bytes"))
        .expected(format!("at least {} bytes, what the mirror's device needs", pages * PAGE))
}
