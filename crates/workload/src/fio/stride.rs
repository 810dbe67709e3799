//! `zonemode=strided`: so much of one zone, then the next.

use sim::SECTOR_BYTES;

use super::options::Options;

/// Where a job's requests lie for now, in sectors of its region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window {
    pub(super) first: u64,
    pub(super) sectors: u64,
}

impl Window {
    pub(super) fn end(self) -> u64 {
        self.first + self.sectors
    }
}

/// The zones of a job, in sectors.
#[derive(Clone, Debug)]
pub(super) struct Stride {
    /// What is done in a zone before the next, and how much was.
    size: u64,
    done: u64,
    /// From the start of a zone to that of the next.
    step: u64,
    region: u64,
}

impl Stride {
    /// The zones of a job of this region and the first of them; `None` without zones.
    pub(super) fn new(o: &Options, region: u64) -> Option<(Stride, Window)> {
        if o.strided == Some(false) || o.zonesize == 0 {
            return None;
        }
        let range = range(o);
        let step = range.saturating_add(o.zoneskip / SECTOR_BYTES);
        let stride = Stride { size: o.zonesize / SECTOR_BYTES, done: 0, step, region };
        Some((stride, Window { first: 0, sectors: range }))
    }

    /// The next zone, when all is done in this one. Behind the last that fits comes the first.
    pub(super) fn turn(&mut self, zone: Window) -> Option<Window> {
        if self.done < self.size {
            return None;
        }
        self.done = 0;
        let next = zone.first.saturating_add(self.step);
        let fits = next.saturating_add(zone.sectors) <= self.region;
        Some(Window { first: if fits { next } else { 0 }, ..zone })
    }

    pub(super) fn book(&mut self, sectors: u64) {
        self.done += sectors;
    }
}

/// The size of a zone in sectors; 0 without zones.
pub(super) fn range(o: &Options) -> u64 {
    let range = if o.zonerange == 0 { o.zonesize } else { o.zonerange };
    if o.strided == Some(false) || o.zonesize == 0 { 0 } else { range / SECTOR_BYTES }
}

#[cfg(test)]
mod tests {
    use crate::fio::tests::{plan, run};

    fn places(keys: &str, requests: u64) -> Vec<u64> {
        let job = format!("[a]\nbs=4k\n{keys}");
        run(&job, requests).iter().map(|(_, request)| request.lba.0 / 8).collect()
    }

    #[test]
    fn a_zone_is_done_before_the_next_and_behind_the_last_comes_the_first() {
        // Five zones of two blocks, eight blocks apart; in a smaller region the fifth does not fit.
        let keys = "rw=read\nzonemode=strided\nzonesize=8k\nzoneskip=24k\nsize=136k";
        assert_eq!(places(keys, 12), [0, 1, 8, 9, 16, 17, 24, 25, 32, 33, 0, 1]);
        let told = [0, 1, 8, 9, 16, 17, 24, 25, 0, 1];
        assert_eq!(places(&keys.replace("136k", "132k"), 10), told);
        assert_eq!(places(keys, 100).len(), 34, "as many bytes as without zones");
        // A size of zones alone means it, and `none` none.
        assert_eq!(places(&keys.replace("zonemode=strided", ""), 10), places(keys, 10));
        let none = places(&keys.replace("strided", "none"), 10);
        assert!(none.iter().copied().eq(0..10), "{none:?}");
        // A part of each zone, and more than there is of it.
        assert_eq!(places(&format!("{keys}\nzonerange=16k"), 6), [0, 1, 10, 11, 20, 21]);
        assert_eq!(places(&format!("{keys}\nzonerange=4k"), 6), [0, 0, 7, 7, 14, 14]);
    }

    #[test]
    fn random_places_lie_in_the_zone_and_each_comes_once() {
        let keys = "zonemode=strided\nzonesize=64k\nzoneskip=192k\nsize=1m\noffset=1m\nrw=";
        for rw in ["randread", "randrw", "randwrite", "randtrim"] {
            let all = places(&format!("{keys}{rw}"), 64);
            for (zone, places) in all.chunks(16).enumerate() {
                let mut places = places.to_vec();
                places.sort_unstable();
                let first = 256 + 64 * zone as u64;
                assert!(places.iter().copied().eq(first..first + 16), "{rw}: {places:?}");
            }
        }
        // Half of a zone: each visit begins a new pass, so nothing repeats within one.
        let half = places(&format!("{keys}randread\nzonerange=128k"), 160);
        for visit in half.chunks(16) {
            let mut places = visit.to_vec();
            places.sort_unstable();
            places.dedup();
            assert!(places.len() == 16 && places[15] - places[0] < 32, "{visit:?}");
        }
        let laws = ["norandommap", "random_distribution=zipf:1.2", "percentage_random=50"];
        for law in laws {
            let all = places(&format!("{keys}randrw:4\n{law}"), 64);
            for (zone, places) in all.chunks(16).enumerate() {
                let first = 256 + 64 * zone as u64;
                assert!(places.iter().all(|at| (first..first + 16).contains(at)), "{law}: {all:?}");
            }
        }
    }

    #[test]
    fn a_write_follows_its_trim_into_the_next_zone() {
        let keys = "rw=trimwrite\nzonesize=4k\nzoneskip=4k\nsize=16k";
        assert_eq!(places(keys, 8), [0, 0, 2, 2, 0, 0, 2, 2]);
        let backwards = places("rw=read:-8k\nzonesize=16k\nzoneskip=16k\nsize=64k", 8);
        assert_eq!(backwards, [2, 1, 0, 2, 10, 9, 8, 10]);
    }

    #[test]
    fn zones_that_do_not_fit_are_refused() {
        let error = |keys: &str| plan(1 << 20, &format!("[a]\n{keys}")).unwrap_err().to_string();
        assert!(error("zonemode=strided").contains("zonemode=strided needs a zonesize"));
        assert!(error("zonesize=1000").contains("expected a multiple of 512 bytes, got 1000"));
        let told = error("zonesize=2m");
        assert!(told.starts_with("zonerange: job \"a\": expected a zone of at least"), "{told}");
        assert!(error("zonesize=4k\nzonerange=2k").starts_with("zonerange: "));
        assert!(plan(1 << 20, "[a]\nzonesize=2m\nzonemode=none").is_ok());
    }
}
