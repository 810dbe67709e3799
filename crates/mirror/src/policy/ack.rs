//! When a write and a flush may be acknowledged, and when a write may be forgotten.

use super::Rules;
use crate::mutant::planted;
use crate::types::{DEVICES, LEGS, Mode};

/// Where the copies of one write are. *Durable* means: survives a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Copies {
    /// Full members. A device that is being left out still counts as one until the others have
    /// recorded that on media: until then a restart would trust it.
    pub member: [bool; DEVICES],
    /// The home position has completed.
    pub done: [bool; LEGS],
    /// The home position is durable.
    pub home: [bool; LEGS],
    /// A log record with the payload is durable on the device.
    pub payload: [bool; DEVICES],
    /// A reference record in the leg's own log is durable: "the newest content is at home here".
    pub reference: [bool; LEGS],
    /// The device's log holds an unretired record with an older payload of one of the blocks, and
    /// no record at least as new as this write.
    pub stale: [bool; DEVICES],
    /// On media, a block of it is still marked as lost.
    pub marked: bool,
}

impl Copies {
    fn homes(&self, at: [bool; LEGS]) -> bool {
        (0..LEGS).all(|leg| at[leg] || !self.member[leg]) && (0..LEGS).any(|leg| self.member[leg])
    }

    /// Durable at home on every member leg.
    pub fn homes_durable(&self) -> bool {
        self.homes(self.home)
    }

    /// Completed at home on every member leg.
    pub fn homes_done(&self) -> bool {
        self.homes(self.done)
    }
}

/// May a plain write be acknowledged? `room` says whether one more exposed write stays within the
/// caps.
pub fn write(rules: &Rules, copies: &Copies, room: bool) -> bool {
    let room = room || !exposed(rules, copies) || planted!(rules, IgnoreCap);
    let first = (0..LEGS).any(|leg| copies.member[leg] && copies.done[leg]);
    match rules.mode {
        Mode::Strict => copies.homes_done() || (planted!(rules, StrictAckFirst) && first),
        Mode::Log | Mode::Relaxed => first && room,
    }
}

/// Is a write that a flush covers, or that is FUA, safe enough to say so?
pub fn flush(rules: &Rules, copies: &Copies) -> bool {
    // R2: recovery would replay an older record over it.
    let stale = (0..DEVICES).any(|device| copies.member[device] && copies.stale[device]);
    if stale && !planted!(rules, SkipSupersede) {
        return false;
    }
    // R4: a start would call it lost.
    if copies.marked {
        return false;
    }
    if copies.homes_durable() {
        return true;
    }
    if planted!(rules, FlushOnDone) && copies.homes_done() {
        return true;
    }
    if planted!(rules, MdFlush) && (0..LEGS).any(|leg| copies.home[leg]) {
        return true;
    }
    (0..LEGS).any(|leg| lone_home(rules, copies, leg))
}

/// Is the home copy on `leg` enough with what the logs hold?
fn lone_home(rules: &Rules, copies: &Copies, leg: usize) -> bool {
    // R1: a home position carries no sequence number, so a reference must say that it is newest.
    let referred = copies.reference[leg] || planted!(rules, SkipReference);
    if !copies.member[leg] || !copies.home[leg] || !referred {
        return false;
    }
    let logged = |device: usize| copies.member[device] && copies.payload[device];
    match rules.mode {
        Mode::Strict => false,
        Mode::Log => {
            let same = planted!(rules, OneDomain) && logged(leg);
            same || (0..DEVICES).any(|device| device != leg && logged(device))
        }
        Mode::Relaxed => true,
    }
}

/// Does the write count against the caps: acknowledged, but not on two domains?
pub fn exposed(rules: &Rules, copies: &Copies) -> bool {
    match rules.mode {
        // A lone flushed copy may be relied on, so completion is not enough.
        Mode::Relaxed => !copies.homes_durable(),
        Mode::Log | Mode::Strict => !copies.homes_done(),
    }
}

/// R3: may the records of a write be retired? Only when every home is durable.
pub fn retire(rules: &Rules, copies: &Copies) -> bool {
    let early = planted!(rules, RetireOnDone) && copies.homes_done();
    let earlier = planted!(rules, RetireOnFirst) && copies.home.contains(&true);
    copies.homes_durable() || early || earlier
}

/// May the write be forgotten: nothing in any log contradicts its homes?
pub fn forget(rules: &Rules, copies: &Copies) -> bool {
    let stale = (0..DEVICES).any(|device| copies.member[device] && copies.stale[device]);
    copies.homes_durable() && (!stale || planted!(rules, ForgetStale)) && !copies.marked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(home: [bool; 2]) -> Copies {
        Copies { member: [true; 3], done: home, home, ..Copies::default() }
    }

    #[test]
    fn two_homes_are_enough_in_every_mode_and_one_in_none_without_a_record() {
        for mode in [Mode::Strict, Mode::Log, Mode::Relaxed] {
            assert!(flush(&Rules::new(mode), &copies([true; 2])), "{mode}");
            assert!(!flush(&Rules::new(mode), &copies([true, false])), "{mode}");
        }
    }

    #[test]
    fn a_lone_home_needs_a_payload_elsewhere_and_a_reference() {
        let rules = Rules::new(Mode::Log);
        let mut facts = copies([true, false]);
        facts.payload[2] = true;
        assert!(!flush(&rules, &facts), "R1");
        facts.reference[0] = true;
        assert!(flush(&rules, &facts));
        facts.payload = [true, false, false];
        assert!(!flush(&rules, &facts), "the same device twice is one domain");
        facts.payload = [false, true, false];
        assert!(flush(&rules, &facts), "the other leg's own log");
        facts.stale[2] = true;
        assert!(!flush(&rules, &facts), "R2");
        facts.member[2] = false;
        assert!(flush(&rules, &facts), "a device that is out contradicts nobody");
        facts.marked = true;
        assert!(!flush(&rules, &facts), "R4");
    }

    #[test]
    fn at_the_cap_the_second_copy_is_waited_for() {
        let facts = copies([true, false]);
        assert!(write(&Rules::new(Mode::Relaxed), &facts, true));
        assert!(!write(&Rules::new(Mode::Relaxed), &facts, false));
        assert!(!write(&Rules::new(Mode::Strict), &facts, true));
    }

    #[test]
    fn with_one_leg_left_its_copy_is_all() {
        let mut facts = copies([true, false]);
        facts.member[1] = false;
        assert!(
            flush(&Rules::new(Mode::Strict), &facts)
                && write(&Rules::new(Mode::Strict), &facts, false)
        );
    }
}
