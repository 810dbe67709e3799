//! Who starts as what.

use super::*;
use crate::format::superblock::Seen;
use crate::format::superblock::tests::sample;
use crate::types::Mode;

const RULES: Rules = Rules::new(Mode::Log);

fn member(slot: u8) -> Superblock {
    Superblock {
        device: slot,
        identity: u128::from(slot) + 1,
        seen: Default::default(),
        generations: Generations { current: 5, ..Generations::default() },
        members: [Membership::Member; DEVICES],
        armed_relaxed: false,
        ..sample()
    }
}

fn start(found: &[Superblock]) -> Result<[Role; DEVICES], Refusal> {
    start_accepting(found, Accept::default())
}

fn start_accepting(found: &[Superblock], accept: Accept) -> Result<[Role; DEVICES], Refusal> {
    let offers: Vec<_> =
        found.iter().map(|s| Offer { superblock: Ok(s.clone()), pages: 1 << 40 }).collect();
    Ok(assemble(&RULES, &offers, accept)?.role)
}

fn went_on(mut superblock: Superblock, without: Slot, id: u128) -> Superblock {
    superblock.generations.begin(id);
    superblock.members[without] = Membership::Out;
    superblock
}

use Role::{Absent, Current, Partial, Whole};

#[test]
fn equal_generations_start_and_older_ones_are_filled() {
    let [a, b, w] = told([0, 1, 2].map(member));
    assert_eq!(start(&[w.clone(), b.clone(), a.clone()]).unwrap(), [Current; 3]);
    let b6 = went_on(b.clone(), 0, 6);
    assert_eq!(start(&[a.clone(), b6.clone()]).unwrap(), [Partial, Current, Absent]);
    assert_eq!(start(std::slice::from_ref(&b6)).unwrap(), [Absent, Current, Absent]);
    let mut b7 = b6.clone();
    b7.generations.base = 0;
    b7.generations.begin(7);
    assert_eq!(start(&[a.clone(), b7]).unwrap(), [Whole, Current, Absent]);
    // The witness is named a member: it only missed the news.
    assert_eq!(start(&[a, b6, w]).unwrap(), [Partial, Current, Current]);
}

/// More leavings than the history has room for, all without the witness.
#[test]
fn a_witness_that_was_left_out_long_ago_is_no_split_brain() {
    let [mut a, mut b, w] = told([0, 1, 2].map(member));
    for id in 6..23 {
        [a, b] = [a, b].map(|leg| went_on(leg, WITNESS, id));
    }
    assert_eq!(start(&[a.clone(), b.clone(), w.clone()]).unwrap(), [Current, Current, Whole]);
    // It went on without them: then it is one of the two that are named.
    let on = Superblock { update: w.update + 1, ..went_on(w, 0, 99) };
    let generations = [(22, a.incarnation), (99, on.incarnation)];
    assert_eq!(start(&[a, b, on]).unwrap_err(), Refusal::SplitBrain { generations });
}

#[test]
fn split_brain_and_stale_legs_are_refused() {
    let [a, b, w] = [0, 1, 2].map(member);
    let split = start(&[went_on(a.clone(), 1, 6), went_on(b.clone(), 0, 7)]).unwrap_err();
    assert!(split.to_string().starts_with("split brain: generation"), "{split}");
    let stale = start(&[a.clone(), went_on(w.clone(), 0, 6)]).unwrap_err();
    assert_eq!(stale, Refusal::Stale { slot: 0 });
    // Nobody can tell: the other leg may have gone on. A witness can.
    let alone = start(std::slice::from_ref(&a)).unwrap_err();
    assert_eq!(alone, Refusal::MissingLeg { slot: 1 });
    assert_eq!(start(&[a.clone(), w]).unwrap(), [Current, Absent, Current]);
    let accept = Accept { missing_leg: true, ..Accept::default() };
    assert_eq!(start_accepting(&[a], accept).unwrap(), [Current, Absent, Absent]);
}

#[test]
fn legs_that_are_older_than_the_witness_are_refused() {
    let [a, b, mut w] = [0, 1, 2].map(member);
    w.incarnation = a.incarnation + 1;
    let older = Refusal::Older { slot: 0, by: WITNESS };
    assert_eq!(start(&[a.clone(), b.clone(), w.clone()]).unwrap_err(), older);
    // One that died before it had told all is not that.
    let newer = Superblock { incarnation: w.incarnation, ..a };
    assert_eq!(start(&[newer, b, w]).unwrap(), [Current; 3]);
}

/// All know what all others have.
fn told<const N: usize>(mut all: [Superblock; N]) -> [Superblock; N] {
    let mut seen = [Seen::default(); DEVICES];
    for superblock in &all {
        seen[usize::from(superblock.device)] = superblock.as_seen();
    }
    all.iter_mut().for_each(|superblock| superblock.seen = seen);
    all
}

/// The same superblocks a start later, which all of them have seen through.
fn restarted<const N: usize>(all: &[Superblock; N]) -> [Superblock; N] {
    told(all.clone().map(|own| Superblock {
        update: own.update + 2,
        incarnation: own.incarnation + 1,
        run: own.run + 1,
        ..own
    }))
}

#[test]
fn an_older_copy_of_a_leg_never_passes_for_a_member() {
    let old = told([0, 1, 2].map(member));
    let new = restarted(&old);
    let legs = |a: &Superblock, b: &Superblock| start(&[a.clone(), b.clone()]);
    assert_eq!(legs(&new[0], &new[1]).unwrap(), [Current, Current, Absent]);
    let refused = legs(&new[0], &old[1]).unwrap_err();
    assert_eq!(refused, Refusal::Older { slot: 1, by: 0 });
    let refused = legs(&old[0], &new[1]).unwrap_err();
    assert_eq!(refused, Refusal::Older { slot: 0, by: 1 });
    // Accepted by name, it is copied whole, whichever came first.
    let accept = Accept { missing_leg: true, ..Accept::default() };
    for offered in [[&new[0], &old[1]], [&old[1], &new[0]]] {
        let role = start_accepting(&offered.map(Superblock::clone), accept).unwrap();
        assert_eq!(role, [Current, Whole, Absent]);
    }
    // Left out before, it is no better.
    let alone = went_on(new[0].clone(), 1, 6);
    assert_eq!(legs(&alone, &old[1]).unwrap(), [Current, Whole, Absent]);
    assert_eq!(legs(&alone, &new[1]).unwrap(), [Current, Partial, Absent]);
    // It went on alone: so it does not lead either.
    let on = went_on(old[1].clone(), 0, 7);
    assert_eq!(legs(&new[0], &on).unwrap_err(), Refusal::Older { slot: 1, by: 0 });
    let apart = legs(&alone, &on).unwrap_err();
    assert!(matches!(apart, Refusal::SplitBrain { .. }), "{apart:?}");
    // Alone nothing speaks against it, but it is asked for by name only.
    let alone = start(std::slice::from_ref(&old[1])).unwrap_err();
    assert_eq!(alone, Refusal::MissingLeg { slot: 0 });
    // Both restored to one moment are what they were then.
    assert_eq!(legs(&old[0], &old[1]).unwrap(), [Current, Current, Absent]);
}

#[test]
fn the_witness_knows_older_copies() {
    let old = told([0, 1, 2].map(member));
    let new = restarted(&old);
    let (fast, slow, witness) = (0, 1, 2);
    let three = |from: [&[Superblock; 3]; 3]| {
        start(&[from[0][fast].clone(), from[1][slow].clone(), from[2][witness].clone()])
    };
    assert_eq!(three([&new, &old, &new]).unwrap(), [Current, Whole, Current]);
    let refused = three([&old, &old, &new]).unwrap_err();
    assert_eq!(refused, Refusal::Older { slot: 0, by: 2 });
    let alone = start(&[old[slow].clone(), new[witness].clone()]).unwrap_err();
    assert_eq!(alone, Refusal::Older { slot: 1, by: 2 });
    // Its own old log says nothing; with both legs nothing relied on it.
    assert_eq!(three([&new, &new, &old]).unwrap(), [Current, Current, Whole]);
    let armed = Superblock { armed_witness: true, ..new[fast].clone() };
    let lone = start(&[armed, old[witness].clone()]).unwrap_err();
    assert_eq!(lone, Refusal::Exposed { slot: 1, relaxed: false });
}

#[test]
fn a_leg_that_left_and_came_back_is_not_what_it_was_before() {
    // As the issue found it: the leader's history has its generation, and names its slot.
    let [a, b] = told([0, 1].map(member));
    let mut later = went_on(a, 1, 6);
    later.members[1] = Membership::Member;
    later.generations.base = 0;
    let blank = Superblock { identity: 77, update: b.update + 3, ..later.clone() };
    let [later, _] = told([later, Superblock { device: 1, ..blank }]);
    let refused = start(&[later, b]).unwrap_err();
    assert_eq!(refused, Refusal::Older { slot: 1, by: 0 });
}

#[test]
fn clones_that_went_on_apart_are_refused() {
    let before = told([0, 1].map(member));
    let ours = restarted(&before);
    let mut theirs = restarted(&before);
    theirs.iter_mut().for_each(|own| own.run = 99);
    let theirs = told(theirs);
    let apart = start(&[ours[0].clone(), theirs[1].clone()]).unwrap_err();
    assert!(matches!(apart, Refusal::SplitBrain { .. }), "{apart:?}");
}

#[test]
fn what_version_1_wrote_is_judged_by_its_starts() {
    let [a, b] =
        [0, 1].map(member).map(|own| Superblock { seen: Default::default(), run: 0, ..own });
    let later =
        |starts, clean| Superblock { incarnation: a.incarnation + starts, clean, ..a.clone() };
    assert_eq!(start(&[later(0, true), b.clone()]).unwrap(), [Current, Current, Absent]);
    assert_eq!(start(&[later(1, false), b.clone()]).unwrap(), [Current, Current, Absent]);
    for older in [later(1, true), later(2, false)] {
        let refused = start(&[older, b.clone()]).unwrap_err();
        assert_eq!(refused, Refusal::Older { slot: 1, by: 0 });
    }
    // Its bitmap is not trusted: who knows whether the other is what was left out.
    let alone = went_on(later(1, false), 1, 6);
    assert_eq!(start(&[alone, b.clone()]).unwrap(), [Current, Whole, Absent]);
    // Its slot was replaced, and nobody else was left out.
    let mut later = went_on(later(0, false), 1, 6);
    later.members[1] = Membership::Member;
    later.generations.base = 0;
    assert_eq!(start(&[later, b]).unwrap_err(), Refusal::Older { slot: 1, by: 0 });
}

#[test]
fn what_may_be_lost_must_be_accepted() {
    let armed = Superblock { armed_relaxed: true, ..went_on(member(0), 1, 6) };
    let refused = start(std::slice::from_ref(&armed)).unwrap_err();
    assert_eq!(refused, Refusal::Exposed { slot: 1, relaxed: true });
    let accept = Accept { exposure: true, ..Accept::default() };
    assert!(start_accepting(std::slice::from_ref(&armed), accept).is_ok());
    assert!(start(&[Superblock { clean: true, ..armed }]).is_ok());
    let witness = Superblock { armed_witness: true, ..member(0) };
    let refused = start(&[witness]).unwrap_err();
    assert_eq!(refused, Refusal::Exposed { slot: 1, relaxed: false });
}

#[test]
fn strangers_clones_and_small_devices_are_refused() {
    let [a, b] = [0, 1].map(member);
    let foreign = start(&[a.clone(), Superblock { array: 1, ..b.clone() }]).unwrap_err();
    assert_eq!(foreign, Refusal::Foreign { offer: 1, array: 1, expected: 0xabc });
    let clone = start(&[a.clone(), b.clone(), a.clone()]).unwrap_err();
    assert_eq!(clone, Refusal::Clone { offers: [0, 2], slot: 0 });
    let small = [Offer { superblock: Ok(a), pages: 100 }];
    let small = assemble(&RULES, &small, Accept::default()).unwrap_err();
    assert!(matches!(small, Refusal::Smaller { offer: 0, pages: 100, .. }));
    let blank = Offer { superblock: Err(vec![Damage::Length { found: 0 }]), pages: 1 << 40 };
    let blank = assemble(&RULES, &[blank], Accept::default()).unwrap_err();
    assert!(blank.to_string().contains("the page has 0 bytes"), "{blank}");
    let filling = Superblock { generations: Generations::default(), ..b };
    assert_eq!(start(&[filling]).unwrap_err(), Refusal::Stale { slot: 1 });
}
