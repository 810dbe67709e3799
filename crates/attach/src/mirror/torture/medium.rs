//! A device with a volatile cache: what is on it for good, and what a power cut may take.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use sim::Rng;

const SECTOR: usize = 512;

pub(super) type Page = Arc<[u8; 4096]>;

#[derive(Clone)]
struct Written {
    request: u64,
    /// When it ended; a request that has not may have done all, nothing, or something of it.
    ended: Option<u64>,
    page: Page,
}

#[derive(Clone)]
pub(super) struct Medium {
    pages: u64,
    /// What is durable; zeros elsewhere.
    kept: BTreeMap<u64, Page>,
    /// What is not, oldest first.
    cache: BTreeMap<u64, Vec<Written>>,
    pub(super) unreadable: Range<u64>,
}

/// How the server ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// The kernel and the devices live on.
    Killed,
    PowerCut,
}

impl Medium {
    /// A new one, all zeros.
    pub(super) fn new(pages: u64) -> Medium {
        Medium { pages, kept: BTreeMap::new(), cache: BTreeMap::new(), unreadable: 0..0 }
    }

    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// A page as it is read now.
    pub(super) fn newest(&self, page: u64) -> Option<&Page> {
        let cached = self.cache.get(&page).and_then(|list| list.last());
        cached.map(|written| &written.page).or_else(|| self.kept.get(&page))
    }

    /// All pages as they are read now, but for those that were never written.
    pub(super) fn written(&self) -> impl Iterator<Item = (u64, &Page)> {
        let cached = self.cache.keys().filter(|&page| !self.kept.contains_key(page));
        let pages = self.kept.keys().chain(cached);
        pages.filter_map(|&page| Some((page, self.newest(page)?)))
    }

    /// A page as it is on the medium; `None` for zeros.
    pub(super) fn kept(&self, page: u64) -> Option<&Page> {
        self.kept.get(&page)
    }

    /// Change a durable page behind everybody's back.
    pub(super) fn rot(&mut self, page: u64) {
        if let Some(page) = self.kept.get_mut(&page) {
            Arc::make_mut(page)[100] ^= 0x40;
        }
    }

    /// Make a file of it.
    pub(super) fn make(&self, path: &Path) {
        let file =
            File::create(path).and_then(|file| file.set_len(self.pages * 4096).map(|()| file));
        let file = file.expect("a file in the folder of the test");
        for (page, bytes) in self.written() {
            file.write_all_at(&bytes[..], page * 4096).expect("room for a page");
        }
    }

    pub(super) fn is_unreadable(&self, at: u64, bytes: u64) -> bool {
        at / 4096 < self.unreadable.end && self.unreadable.start * 4096 < at + bytes
    }

    pub(super) fn write(&mut self, request: u64, first: u64, bytes: &[u8]) {
        for (page, bytes) in (first..).zip(bytes.chunks_exact(4096)) {
            let page_bytes = Arc::new(bytes.try_into().expect("a page"));
            let written = Written { request, ended: None, page: page_bytes };
            self.cache.entry(page).or_default().push(written);
        }
    }

    pub(super) fn zero(&mut self, request: u64, first: u64, pages: u64) {
        let zeros = Arc::new([0; 4096]);
        for page in first..first + pages {
            if self.newest(page).is_some() {
                let written = Written { request, ended: None, page: Arc::clone(&zeros) };
                self.cache.entry(page).or_default().push(written);
            }
        }
    }

    /// Pages of a request are written, and durable when `durable`.
    pub(super) fn wrote(&mut self, request: u64, pages: Range<u64>, now: u64, durable: bool) {
        for page in pages {
            let Some(list) = self.cache.get_mut(&page) else { continue };
            let Some(nth) = list.iter().position(|written| written.request == request) else {
                continue;
            };
            list[nth].ended = Some(now);
            if durable {
                let last = list.drain(..=nth).next_back().expect("it was found");
                self.kept.insert(page, last.page);
            }
        }
        self.cache.retain(|_, list| !list.is_empty());
    }

    /// What had ended at `until` is durable.
    pub(super) fn synced(&mut self, until: u64) {
        for (&page, list) in &mut self.cache {
            let covered = |written: &Written| written.ended.is_some_and(|ended| ended <= until);
            if let Some(nth) = list.iter().rposition(covered) {
                let last = list.drain(..=nth).next_back().expect("it was found");
                self.kept.insert(page, last.page);
            }
        }
        self.cache.retain(|_, list| !list.is_empty());
    }

    /// What is left of it.
    pub(super) fn after(&self, end: End, rng: &mut Rng) -> Medium {
        let mut left = Medium { unreadable: 0..0, ..self.clone() };
        let chance = [0.0, 0.5, 0.9, 1.0][rng.below(4) as usize];
        for (&page, list) in &mut left.cache {
            match end {
                // What was given to the kernel ends, or was never begun.
                End::Killed => list.retain_mut(|written| {
                    let stays = written.ended.is_some() || rng.below(2) == 0;
                    // The next machine counts its requests from 1 again: its own must not be
                    // taken for this one.
                    (written.request, written.ended) = (0, Some(0));
                    stays
                }),
                End::PowerCut => {
                    for written in list.drain(..) {
                        if rng.unit() < chance {
                            let kept = left.kept.entry(page).or_insert_with(|| Arc::new([0; 4096]));
                            let torn = rng.below(3) == 0;
                            land(Arc::make_mut(kept), &written.page, torn, rng);
                        }
                    }
                }
            }
        }
        left.cache.retain(|_, list| !list.is_empty());
        left
    }
}

/// A page is written, or a part of its sectors.
fn land(on: &mut [u8; 4096], page: &Page, torn: bool, rng: &mut Rng) {
    for (to, from) in on.chunks_mut(SECTOR).zip(page.chunks(SECTOR)) {
        if !torn || rng.below(2) == 0 {
            to.copy_from_slice(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(medium: &Medium, page: u64) -> u8 {
        medium.kept(page).map_or(0, |page| page[0])
    }

    #[test]
    fn a_sync_covers_what_ended_before_it_began() {
        let mut medium = Medium::new(8);
        medium.write(1, 0, &[1; 4096]);
        medium.write(2, 1, &[2; 4096]);
        medium.wrote(1, 0..1, 5, false);
        medium.wrote(2, 1..2, 7, false);
        medium.synced(6);
        assert_eq!([first(&medium, 0), first(&medium, 1)], [1, 0]);
        medium.write(3, 2, &[3; 8192]);
        // Only its first page was moved.
        medium.wrote(3, 2..3, 8, true);
        assert_eq!([2, 3].map(|page| first(&medium, page)), [3, 0]);
    }

    /// What it held was an older value for good, beside a newer one that was never over.
    #[test]
    fn a_request_is_not_taken_for_one_of_a_machine_before() {
        let mut rng = Rng::new(1, "");
        let mut before = Medium::new(8);
        before.write(1, 0, &[1; 4096]);
        before.wrote(1, 0..1, 1, false);
        let mut medium = before.after(End::Killed, &mut rng);
        medium.write(1, 0, &[2; 4096]);
        medium.wrote(1, 0..1, 1, false);
        medium.synced(1);
        assert_eq!(first(&medium, 0), 2);
        assert_eq!(first(&medium.after(End::PowerCut, &mut rng), 0), 2);
    }

    #[test]
    fn a_power_cut_takes_some_of_the_cache_and_a_kill_nothing_that_ended() {
        let mut medium = Medium::new(8);
        medium.write(1, 0, &[1; 4096]);
        medium.wrote(1, 0..1, 1, true);
        medium.write(2, 0, &[2; 4096]);
        medium.wrote(2, 0..1, 2, false);
        medium.write(3, 1, &[3; 4096]);
        let mut rng = Rng::new(1, "");
        let (mut first_seen, mut third_seen) = ([0; 3], [0; 4]);
        for _ in 0..100 {
            first_seen[usize::from(first(&medium.after(End::PowerCut, &mut rng), 0))] += 1;
            let killed = medium.after(End::Killed, &mut rng);
            assert_eq!(killed.newest(0).unwrap()[0], 2);
            third_seen[usize::from(killed.newest(1).map_or(0, |page| page[0]))] += 1;
        }
        assert!(first_seen[0] == 0 && first_seen[1] > 10 && first_seen[2] > 10, "{first_seen:?}");
        assert!(third_seen[0] > 10 && third_seen[3] > 10, "{third_seen:?}");
    }
}
