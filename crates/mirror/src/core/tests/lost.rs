//! Blocks that cannot be read.

use super::*;

fn bench() -> Bench {
    let mut bench = Bench::new(Config::new(Mode::Log));
    bench.filled();
    bench
}

#[test]
fn a_bad_sector_of_the_survivor_is_lost_and_the_rest_is_copied() {
    let mut bench = bench();
    bench.legs[FAST].unreadable = BTreeSet::from([21, 22, 63]);
    bench.replace(SLOW);
    bench.until(|bench| bench.core.out_of_sync()[SLOW] == 0);
    // Else a start would take what the new leg happens to hold for the content.
    assert_eq!([21, 22, 63].map(|block| bench.legs[FAST].table[block]), [LOST; 3]);
    bench.until(|bench| bench.is(SLOW, State::Member));
    assert_eq!([21, 22, 63].map(|block| bench.legs[SLOW].table[block]), [LOST; 3]);
    assert_eq!(bench.core.lost_ranges(9), [Span::new(21, 2), Span::new(63, 1)]);
    for block in (0..BLOCKS).filter(|block| ![21, 22, 63].contains(block)) {
        assert_eq!(bench.legs[SLOW].data[block as usize], block + 1000);
    }
    assert_eq!(bench.said(Notice::Lost(21)), 1);
    assert!(bench.legs[FAST].reads[&21] < 6, "{:?}", bench.legs[FAST].reads);
    assert_eq!(bench.read(Span::new(21, 1)), Err(IoError));
    assert_eq!(bench.read(Span::new(16, 16)), Err(IoError));
    assert_eq!(bench.read(Span::new(23, 1)), Ok(vec![1023]));
    // The new leg never passes off what it happens to hold.
    bench.tell(Event::Command(Command::Fail(FAST)));
    assert_eq!(bench.read(Span::new(21, 1)), Err(IoError));
    bench.tell(Event::Returned(FAST));
    bench.until(|bench| bench.is(FAST, State::Member));
    // A scrub passes it over, and a write heals it.
    bench.scrub();
    assert_eq!((bench.core.lost(), bench.core.stats().mismatches), (3, 0));
    for span in [Span::new(21, 2), Span::new(60, 4)] {
        bench.write(span, 7, false);
    }
    bench.settled();
    assert_eq!((bench.core.lost(), bench.read(Span::new(20, 3))), (0, Ok(vec![1020, 7, 7])));
}

#[test]
fn a_survivor_that_answers_no_read_loses_nothing() {
    let mut bench = bench();
    bench.replace(SLOW);
    bench.legs[FAST].blind = true;
    bench.run_to(bench.now + Nanos::from_secs(60));
    assert_eq!(bench.core.lost(), 0);
    bench.legs[FAST].blind = false;
    bench.until(|bench| bench.is(SLOW, State::Member));
    assert_eq!((bench.core.lost(), &bench.legs[SLOW].data), (0, &bench.legs[FAST].data));
}

#[test]
fn one_bad_sector_counts_once_and_is_repaired() {
    let mut bench = bench();
    bench.legs[SLOW].unreadable.insert(21);
    bench.scrub();
    assert_eq!((bench.core.stats().mismatches, bench.legs[SLOW].unreadable.len()), (1, 0));
    // A host's read is long, too.
    bench.legs[FAST].unreadable.insert(40);
    assert!(bench.read(Span::new(32, 32)).is_ok());
    bench.settled();
    assert_eq!((bench.core.stats().mismatches, bench.legs[FAST].unreadable.len()), (2, 0));
    assert_eq!(bench.said(Notice::Mismatch(FAST, 40)), 1);
}

#[test]
fn what_neither_of_two_legs_can_read_is_lost() {
    let mut bench = bench();
    for leg in &mut bench.legs {
        leg.unreadable.insert(21);
    }
    assert_eq!(bench.read(Span::new(16, 16)), Err(IoError));
    assert_eq!(bench.said(Notice::Unreadable(21)), 1);
    assert_eq!(bench.said(Notice::Unreadable(20)), 0);
    bench.settled();
    assert_eq!(bench.core.lost_ranges(9), [Span::new(21, 1)]);
    // A content that the table condemns on both is as good as none.
    (0..LEGS).for_each(|leg| bench.legs[leg].data[33] = leg as u64);
    assert_eq!(bench.read(Span::new(33, 1)), Err(IoError));
    bench.settled();
    assert_eq!(bench.core.lost_ranges(9), [Span::new(21, 1), Span::new(33, 1)]);
}

#[test]
fn the_own_copy_of_the_leg_that_is_filled_may_be_the_right_one() {
    let mut bench = bench();
    bench.tell(Event::Command(Command::Fail(SLOW)));
    // The same region, another block.
    bench.write(Span::new(20, 1), 7, false);
    bench.legs[FAST].unreadable.insert(21);
    bench.until(|bench| bench.is(SLOW, State::Out));
    bench.tell(Event::Returned(SLOW));
    bench.until(|bench| bench.is(SLOW, State::Member));
    bench.settled();
    assert_eq!((bench.core.lost(), bench.read(Span::new(20, 2))), (0, Ok(vec![7, 1021])));
    assert_eq!(bench.legs[FAST].unreadable.len(), 0, "it was not repaired from the other leg");
}

/// Between a write over a lost block and the mark's end on media, a start would call it lost.
#[test]
fn a_flush_waits_until_the_mark_is_gone_from_media() {
    let mut bench = bench();
    bench.legs[FAST].unreadable.insert(21);
    bench.replace(SLOW);
    bench.until(|bench| bench.is(SLOW, State::Member));
    bench.settled();
    let before = bench.core.lost();
    bench.write(Span::new(21, 1), 7, false);
    bench.run_to(bench.now + Nanos::from_millis(4));
    let flush = bench.flush();
    bench.ends(flush).1.unwrap();
    assert_eq!((before, bench.core.lost()), (1, 0));
    assert!((0..LEGS).all(|leg| bench.legs[leg].table[21] != LOST));
}

/// One block of those that a scrub compares at once cannot be read; the others are compared all the
/// same.
#[test]
fn a_scrub_compares_the_neighbours_of_a_bad_sector() {
    let mut bench = bench();
    bench.legs[SLOW].unreadable.insert(16);
    bench.legs[FAST].data[17] = 5;
    bench.legs[SLOW].data[30] = 6;
    bench.scrub();
    assert_eq!((bench.core.stats().mismatches, bench.said(Notice::Scrubbed)), (3, 1));
    let whole: Vec<u64> = (0..BLOCKS).map(|block| block + 1000).collect();
    assert_eq!([FAST, SLOW].map(|leg| bench.legs[leg].data == whole), [true; LEGS]);
    assert!(bench.legs[SLOW].unreadable.is_empty());
    // Beyond them it goes on as before.
    assert_eq!(bench.legs[FAST].reads.get(&40), None);
}

/// The drive tries a sector for longer than a leg may be silent: it is left out, comes back, and
/// then the sector is written over.
#[test]
fn a_bad_sector_that_takes_seconds_is_repaired() {
    let mut bench = bench();
    bench.legs[SLOW].unreadable.insert(21);
    bench.legs[SLOW].tries_for = Nanos::from_secs(7);
    bench.scrub();
    assert_eq!(bench.core.stats().drops, 1, "{:?}", bench.notices);
    bench.until(|bench| bench.is(SLOW, State::Member));
    assert!(bench.legs[SLOW].unreadable.is_empty());
    bench.scrub();
    assert_eq!((bench.core.stats().drops, bench.said(Notice::Scrubbed)), (1, 1));
    assert_eq!(bench.legs[SLOW].data[21], 1021);
}
