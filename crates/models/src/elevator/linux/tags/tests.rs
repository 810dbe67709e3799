use sim::{Lba, Request};

use super::map::Words;
use super::*;
use crate::elevator::linux::pool::NONE;

fn piece(what: Request) -> Piece {
    Piece { what, split: NONE }
}

fn of(process: u32) -> Piece {
    piece(Request { process, ..Request::read(Lba(0), 8) })
}

fn take(tags: &mut Tags, now: u64, process: u32) -> bool {
    tags.take(Nanos(now), &of(process), u32::MAX, || false).is_some()
}

/// Requests with a limit, until there is none.
fn take_all(tags: &mut Tags, depth: u32) -> Vec<u32> {
    std::iter::from_fn(|| tags.take(Nanos(0), &of(1), depth, || false)).collect()
}

/// By hand from the rules: the process that fills the pool goes on for a batch of 32, but
/// never beyond half as much again; anybody else waits.
#[test]
fn the_process_that_fills_the_pool_may_go_on_and_others_may_not() {
    let mut tags = Tags::new(128, Sharing::Directions, 1);
    assert!((0..127).all(|_| take(&mut tags, 0, 1)));
    // The 128th marks the pool as full and process 1 as batching.
    assert!(take(&mut tags, 0, 1));
    assert!(!take(&mut tags, 0, 2));
    let more = (0..200).take_while(|_| take(&mut tags, 1, 1)).count();
    assert_eq!(more, 31);
    assert_eq!(tags.in_use(), 159);
    // Writes have a pool of their own.
    let write = piece(Request::write(Lba(0), 8));
    assert!(tags.take(Nanos(0), &write, u32::MAX, || false).is_some());
}

#[test]
fn a_batch_ends_after_twenty_milliseconds() {
    let mut tags = Tags::new(4, Sharing::Directions, 1);
    assert!((0..4).all(|_| take(&mut tags, 0, 1)));
    assert!(take(&mut tags, 19_999_999, 1));
    assert!(!take(&mut tags, 20_000_000, 1));
}

#[test]
fn nobody_has_more_than_half_as_much_again() {
    let mut tags = Tags::new(8, Sharing::Directions, 1);
    assert_eq!((0..100).take_while(|_| take(&mut tags, 0, 1)).count(), 12);
    // Even whom the policy waits for.
    assert!(tags.take(Nanos(0), &of(1), u32::MAX, || true).is_none());
    tags.give_back(0);
    assert!(tags.take(Nanos(0), &of(9), u32::MAX, || true).is_some());
}

/// As in Linux nobody is woken as long as there would be nothing for him, and the line stays as it
/// is.
#[test]
fn nobody_is_woken_while_the_pool_is_over_its_limit() {
    let mut tags = Tags::new(4, Sharing::Directions, 1);
    assert_eq!((0..100).take_while(|_| take(&mut tags, 0, 1)).count(), 6);
    for process in [2, 3] {
        tags.sleep(Nanos(0), of(process), u32::MAX);
    }
    let woken = [(); 4].map(|()| {
        tags.give_back(0);
        tags.next_woken(Nanos(0)).map(|sleeper| sleeper.process)
    });
    assert_eq!(woken, [None, None, Some(2), Some(3)]);
}

#[test]
fn a_woken_sleeper_gets_a_batch() {
    let mut tags = Tags::new(4, Sharing::Directions, 1);
    assert!((0..4).all(|_| take(&mut tags, 0, 1)));
    assert!(!take(&mut tags, 0, 2));
    tags.sleep(Nanos(0), of(2), u32::MAX);
    // What it asks for asleep waits behind; others and its writes do not.
    assert!(tags.wait_behind(Nanos(0), &of(2)) && !tags.wait_behind(Nanos(0), &of(3)));
    let write = piece(Request { process: 2, ..Request::write(Lba(0), 8) });
    assert!(!tags.wait_behind(Nanos(0), &write));
    assert_eq!(tags.waiting().count(), 2);
    tags.give_back(0);
    let sleeper = tags.next_woken(Nanos(9)).unwrap();
    assert_eq!(sleeper.pieces.len(), 2);
    // It fills the pool up to six.
    assert!((0..3).all(|_| take(&mut tags, 9, 2)));
    assert!(!take(&mut tags, 9, 2));
}

#[test]
fn the_map_has_four_words_or_more() {
    let words = |nr| Words::of(nr).requests;
    assert_eq!([2, 4, 8, 10, 64, 256, 512].map(words), [64, 1, 2, 2, 16, 64, 64]);
}

/// Ten in words of two: the limit of one leaves five, and the first of all is the lowest.
#[test]
fn a_limit_is_of_each_word() {
    let mut tags = Tags::new(10, Sharing::Waited, 1);
    assert_eq!(take_all(&mut tags, 1), [0, 2, 4, 6, 8]);
    assert_eq!(take_all(&mut tags, u32::MAX), [1, 3, 5, 7, 9]);
    assert_eq!(tags.in_use(), 10);
    // Another one of a word is free, but not the first.
    tags.give_back(3);
    assert!(take_all(&mut tags, 1).is_empty());
    tags.give_back(4);
    assert_eq!(take_all(&mut tags, 1), [4]);
}

/// What was given back is looked for once nothing else of its word is free.
#[test]
fn the_map_goes_on_behind_what_was_given_back() {
    let mut tags = Tags::new(16, Sharing::Waited, 1);
    let one = |tags: &mut Tags| tags.take(Nanos(0), &of(1), u32::MAX, || false).unwrap();
    assert_eq!([one(&mut tags), one(&mut tags)], [0, 1]);
    tags.give_back(0);
    assert_eq!([one(&mut tags), one(&mut tags), one(&mut tags)], [2, 3, 0]);
}

/// Whoever is over its share sleeps on for the first of a word, though others are free.
#[test]
fn a_sleeper_keeps_its_limit() {
    let mut tags = Tags::new(4, Sharing::Waited, 1);
    assert_eq!(take_all(&mut tags, u32::MAX), [0, 1, 2, 3]);
    tags.sleep(Nanos(0), of(1), 1);
    tags.give_back(2);
    let sleeper = tags.next_woken(Nanos(0)).unwrap();
    assert_eq!(sleeper.pieces[0].tried, Some(1));
    assert!(tags.next_woken(Nanos(0)).is_none());
}

/// One is woken for each that is given back where the policy may leave one of each word; in
/// the order of the lines, of which there are eight.
#[test]
fn who_sleeps_first_is_woken_first() {
    let mut tags = Tags::new(64, Sharing::Waited, 1);
    take_all(&mut tags, u32::MAX);
    (0..10).for_each(|process| tags.sleep(Nanos(0), of(process), u32::MAX));
    let woken: Vec<u32> = (0..10)
        .map(|tag| {
            tags.give_back(tag);
            tags.next_woken(Nanos(0)).unwrap().pieces[0].piece.what.process
        })
        .collect();
    // The ninth sleeps in the line of the first.
    assert_eq!(woken, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    tags.give_back(10);
    assert!(tags.next_woken(Nanos(0)).is_none());
}

/// 64 places of a device: eight have to be given back before eight of one line are woken.
#[test]
fn sleepers_are_woken_in_batches() {
    let mut tags = Tags::new(64, Sharing::All, u32::MAX);
    take_all(&mut tags, u32::MAX);
    (0..9).for_each(|process| tags.sleep(Nanos(0), of(process), u32::MAX));
    assert!(!(0..7).any(|tag| tags.give_back(tag)));
    assert!(tags.next_woken(Nanos(0)).is_none());
    assert!(tags.give_back(7));
    let mut woken = || Some(tags.next_woken(Nanos(0))?.pieces[0].piece.what.process);
    assert_eq!([woken(), woken(), woken()], [Some(0), Some(8), None]);
}

/// Who had no luck goes on in the line after, before those who come later.
#[test]
fn who_has_no_luck_falls_asleep_again() {
    let mut tags = Tags::new(4, Sharing::Waited, 1);
    take_all(&mut tags, u32::MAX);
    tags.sleep(Nanos(0), of(1), 1);
    tags.give_back(3);
    let sleeper = tags.next_woken(Nanos(0)).unwrap();
    tags.sleep(Nanos(0), of(2), u32::MAX);
    tags.sleep_on(sleeper);
    let mut woken = |tag| {
        tags.give_back(tag);
        tags.next_woken(Nanos(0)).unwrap().pieces[0].piece.what.process
    };
    assert_eq!([woken(0), woken(1)], [1, 2]);
}
