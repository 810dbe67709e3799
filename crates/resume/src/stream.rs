//! From pages to runs, while they stream past.

use crate::run::{Kind, Run};
use crate::{PAGE_BYTES, bytes::u64_at};

/// Makes runs of pages that come in rising order of frames.
#[derive(Clone, Copy, Default, Debug)]
pub struct Runner {
    open: Option<Run>,
    data_pages: u64,
}

impl Runner {
    /// Take the page of `frame`; returns the run that it ends. Afterwards [`Runner::is_data`] says
    /// whether the page goes into the image's data.
    pub fn page(&mut self, frame: u64, page: &[u8; PAGE_BYTES]) -> Option<Run> {
        match repeated_word(page) {
            Some(word) => self.grow(frame, Kind::Word(word)),
            None => {
                let at = self.data_pages;
                self.data_pages += 1;
                self.grow(frame, Kind::Data(at))
            }
        }
    }

    /// Take a page of zeros.
    pub fn zeros(&mut self, frame: u64) -> Option<Run> {
        self.grow(frame, Kind::Word(0))
    }

    fn grow(&mut self, frame: u64, kind: Kind) -> Option<Run> {
        if let Some(run) = &mut self.open
            && run.end() == frame
            && run.count < u32::MAX
        {
            let goes_on = match (run.kind, kind) {
                (Kind::Data(from), Kind::Data(at)) => from + u64::from(run.count) == at,
                (before, now) => before == now,
            };
            if goes_on {
                run.count += 1;
                return None;
            }
        }
        self.open.replace(Run { start: frame, count: 1, kind })
    }

    /// Did the last page go into the data?
    pub fn is_data(&self) -> bool {
        matches!(self.open, Some(Run { kind: Kind::Data(_), .. }))
    }

    /// Pages of data so far.
    pub fn data_pages(&self) -> u64 {
        self.data_pages
    }

    /// The last run.
    pub fn end(&mut self) -> Option<Run> {
        self.open.take()
    }
}

/// The word that fills the page, if one does.
fn repeated_word(page: &[u8; PAGE_BYTES]) -> Option<u64> {
    let first = u64_at(page, 0);
    let (words, _) = page.as_chunks::<8>();
    words.iter().all(|word| u64::from_le_bytes(*word) == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    extern crate std;
    use std::vec::Vec;

    #[test]
    fn pages_become_runs() {
        let (mut zero, mut word, mut data) = ([0; PAGE_BYTES], [7; PAGE_BYTES], [0; PAGE_BYTES]);
        data[4000] = 1;
        let pages: [(u64, &mut [u8; PAGE_BYTES]); 3] =
            [(0, &mut zero), (1, &mut word), (2, &mut data)];
        let page = |which: usize| *pages[which].1;
        let mut runner = Runner::default();
        let mut runs: Vec<Run> = Vec::new();
        // Two of data, a gap, one of data, two of zeros, one of a word, one of zeros again.
        for (frame, which) in [(1, 2), (2, 2), (5, 2), (6, 0), (7, 0), (8, 1), (9, 0)] {
            runs.extend(runner.page(frame, &page(which)));
            assert_eq!(runner.is_data(), which == 2);
        }
        runs.extend(runner.zeros(10));
        runs.extend(runner.end());
        let sevens = Kind::Word(0x0707_0707_0707_0707);
        let expected = [
            (1, 2, Kind::Data(0)),
            (5, 1, Kind::Data(2)),
            (6, 2, Kind::Word(0)),
            (8, 1, sevens),
            (9, 2, Kind::Word(0)),
        ];
        let found: Vec<_> = runs.iter().map(|run| (run.start, run.count, run.kind)).collect();
        assert_eq!((found.as_slice(), runner.data_pages()), (&expected[..], 3));
    }
}
