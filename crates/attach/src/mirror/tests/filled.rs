//! A leg that is filled has pages of its maps from before. Here they are newer than any that the
//! others have, as those of a leg that somebody started without the others, when the power was cut
//! before it could say so.

use mirror::core::Meta;
use mirror::format::maps::{Activity, BITS_PER_PAGE, Bitmap, SUMS_PER_PAGE, TablePage};

use super::super::media::meta_pages;
use super::older::{NO_FAST, NO_SLOW, NONE};
use super::*;

/// Both slots of a page.
const NEWER: [u64; 2] = [1000, 1001];

/// A mirror whose slow leg has been filled whole over such pages.
fn filled_over(maps: &[Meta]) -> (Folder, Host) {
    let folder = Folder::created(false, Mode::Log);
    folder.session(false, 0, 1);
    folder.copy("slow", "old");
    folder.session(false, 1 << 20, 2);
    folder.copy("old", "slow");
    let host = Host::new(&folder.start(false, NO_SLOW));
    let (array, layout) = (host.array.id(), host.array.layout(SLOW));
    host.stop();
    for meta in maps {
        let (page, bytes) = meta_pages(meta, SLOW, array, &layout);
        folder.spoil("slow", page, &bytes);
    }
    let mut host = Host::new(&folder.start(false, NONE));
    assert!(host.is(SLOW, State::Filling));
    host.until("it is filled", |array| array.core.states()[SLOW] == State::Member);
    (folder, host)
}

/// Page 5 is of blocks that nobody has written.
#[test]
fn checksums_of_before_are_not_believed() {
    let sums = vec![(7, 1); SUMS_PER_PAGE as usize];
    let page = |index| {
        let sums = sums.clone();
        NEWER.map(|version| Meta::Table(TablePage { version, index, sums: sums.clone() }))
    };
    let (folder, mut host) = filled_over(&[page(0), page(5)].concat());
    host.write(0, &[3; 8192]);
    host.flush();
    host.stop();
    let mut host = Host::new(&folder.start(false, NONE));
    assert_eq!(host.read(0, 8192), [3; 8192]);
    assert_eq!(host.read(5 * SUMS_PER_PAGE * 4096, 4096), [0; 4096]);
}

/// What was recorded of a hot block may be outdated.
#[test]
fn hot_extents_of_before_are_not_believed() {
    let maps = NEWER.map(|version| Meta::Activity(Activity { version, hot: Vec::new() }));
    let (folder, mut host) = filled_over(&maps);
    host.write(0, &[3; 8192]);
    host.flush();
    let after = folder.cut();
    let mut alone = Host::new(&after.start(false, NO_FAST));
    assert_eq!(alone.read(0, 8192), [3; 8192]);
}

#[test]
fn regions_of_before_are_not_believed() {
    let words = vec![0; (BITS_PER_PAGE / 64) as usize];
    let maps =
        NEWER.map(|version| Meta::Bitmap(Bitmap { version, index: 0, words: words.clone() }));
    let (folder, mut host) = filled_over(&maps);
    let layout = host.array.layout(SLOW);
    host.array.tell(mirror::core::Event::Command(mirror::core::Command::Fail(FAST)));
    host.until("it is out", |array| array.core.states()[FAST] == State::Out);
    host.write(8 << 20, &[5; 65536]);
    host.flush();
    host.stop();
    let mut host = Host::new(&folder.start(false, NONE));
    host.until("it is filled", |array| array.core.states()[FAST] == State::Member);
    host.stop();
    let legs = ["fast", "slow"].map(|name| std::fs::read(folder.file(name)).unwrap());
    let data = layout.data as usize * 4096..layout.superblock(2) as usize * 4096;
    assert!(legs[0][data.clone()] == legs[1][data], "the legs differ");
}
