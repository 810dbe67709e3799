//! How large the part is that was fitted, and the smaller one that is tried in its place.
//!
//! A part that has to collect is tried with small blocks, or each of its many loads would have to
//! overwrite far more flash. Collecting a large block holds the host for longer, whatever the knobs
//! are: so the part that is written has the blocks that it was judged with, and as much flash as
//! the base by having more of them.

use toml::Value;

use super::super::measured::{BUFFER, PAGE, find};
use super::knobs::{Base, Candidate, DIES, bytes, number, stated};
use super::scale::scale;

pub(super) const BLOCKS: &str = "ssd.geometry.blocks_per_plane";
pub(super) const BLOCK_PAGES: &str = "ssd.geometry.pages_per_block";
const UNITS: &str = "ssd.nand.units_per_page";
const ERASE: &str = "ssd.nand.erase";
const SPARE: &str = "ssd.over_provisioning";
const ZONES: &str = "ssd.mapping.zns";
const URGENT: &str = "ssd.collection.urgent_free_blocks";
/// So many bytes are enough of a buffer to begin with,
const BUFFER_MIN: f64 = 8.0 * 1024.0 * 1024.0;
/// or so many times what all flash programs at once.
const BUFFER_OF_PROGRAMS: f64 = 2.0;
/// So many blocks of a plane are enough to collect, where the base does not have fewer.
const BLOCKS_MIN: i64 = 128;
/// Blocks of a plane that is only read, or written until it is full.
const BLOCKS_FEW: i64 = 24;
/// Pages that a part is filled with while it is fitted, where it has to collect.
const PAGES: i64 = 1 << 18;
/// Bytes of it elsewhere: a quarter of them takes what any load writes.
const BYTES: f64 = 4.0 * 1024.0 * 1024.0 * 1024.0;

impl Base {
    /// The same with so many blocks of the part that is tried that it can be built: zones that are
    /// open, and whatever else its map keeps, have to fit into those that are spare. Where none
    /// can, what keeps it from that is said once it is run.
    pub(super) fn with_room(self, name: &str, settings: [&[String]; 2]) -> Base {
        let Some(own) = stated(&self.table, BLOCKS).filter(|_| self.model == "ssd") else {
            return self;
        };
        let rooms = (0..).map(|twice| 1i64 << twice);
        for room in rooms.take_while(|room| BLOCKS_FEW * room < 2 * own) {
            let base = Base { room, ..self.clone() };
            let sets = base.tried(&base.place(), settings);
            if study::build_part(name, &sets, 1).is_ok() {
                return base;
            }
        }
        self
    }

    /// What of the part's shape at `place` is not the base's, for as much flash.
    pub(super) fn shaped(&self, place: &Candidate) -> Vec<(&'static str, Value)> {
        let mut blocks = self.blocks(place);
        blocks.extend(self.shape(place, BLOCKS).and_then(|blocks| self.urgent(blocks)));
        let numbers = blocks.into_iter().map(|(key, value)| (key, Value::Integer(value)));
        numbers.chain(self.erase(place).map(|erase| (ERASE, erase))).collect()
    }

    /// By key, why [`shaped`](Base::shaped) is as it is, where the part had to collect.
    pub(super) fn why_shaped(&self, place: &Candidate) -> Vec<(String, String)> {
        let why = "as parts were tried and judged: small blocks, more of them, and as much time to \
                   erase for each page";
        let keys = self.shaped(place).into_iter().filter(|(key, _)| self.collects && *key != DIES);
        keys.map(|(key, _)| (key.to_string(), why.to_string())).collect()
    }

    /// Dies, blocks and pages of as much flash as the base has, where dies are looked for or blocks
    /// are small.
    pub(super) fn blocks(&self, place: &Candidate) -> Vec<(&'static str, i64)> {
        let Some((before, dies)) = self.dies_of(place) else { return Vec::new() };
        let looked = self.dies.is_some() && place.dies.is_some();
        let mut found = if looked { vec![(DIES, dies)] } else { Vec::new() };
        let Some((pages_large, _)) = self.large(place) else { return found };
        let mut pages_now = pages_large;
        if let Some(planes) = self.planes(dies).filter(|_| self.collects) {
            let whole = self.whole();
            let small =
                PAGES / planes.saturating_mul(BLOCKS_MIN * self.room).max(1) / whole * whole;
            pages_now = pages_now.min(small.max(whole));
        }
        if Some(pages_now) != stated(&self.table, BLOCK_PAGES) {
            found.push((BLOCK_PAGES, pages_now));
        }
        found.extend(self.as_much((before, dies), pages_now).map(|blocks| (BLOCKS, blocks)));
        found
    }

    /// Dies of a package of the base and at `place`, where blocks are not the base's.
    fn dies_of(&self, place: &Candidate) -> Option<(i64, i64)> {
        let own = stated(&self.table, DIES).unwrap_or(1);
        self.dies.zip(place.dies).or(self.collects.then_some((own, own)))
    }

    /// Blocks of a plane with so many pages, for as much flash.
    fn as_much(&self, (before, dies): (i64, i64), pages_now: i64) -> Option<i64> {
        let [blocks, pages] = [BLOCKS, BLOCK_PAGES].map(|key| stated(&self.table, key));
        let of_blocks = dies * pages_now;
        Some((blocks? * before * pages? + of_blocks - 1) / of_blocks)
    }

    /// Pages and blocks before blocks are made small. A plane keeps blocks enough to collect: those
    /// of many dies are smaller. A zone is as large as it was, whatever it is made of.
    fn large(&self, place: &Candidate) -> Option<(i64, i64)> {
        let dies = self.dies_of(place)?;
        let (blocks, pages) = (stated(&self.table, BLOCKS)?, stated(&self.table, BLOCK_PAGES)?);
        let zoned = find(&self.table, ZONES).is_some();
        let enough = if zoned { blocks } else { BLOCKS_MIN };
        let (fewer, wanted) = (self.as_much(dies, pages)?, blocks.min(enough));
        let mut pages_now = pages;
        if fewer < wanted {
            let whole = self.whole();
            pages_now = (pages * fewer / wanted / whole * whole).max(whole).min(pages);
        }
        Some((pages_now, self.as_much(dies, pages_now)?))
    }

    /// Where the collector goes before the host, as the same share of a plane's `blocks`: of more
    /// and smaller ones the base's number would be next to nothing.
    fn urgent(&self, blocks: i64) -> Option<(&'static str, i64)> {
        let (urgent, own) = (stated(&self.table, URGENT)?, stated(&self.table, BLOCKS)?);
        let share = (urgent as f64 / own as f64 * blocks as f64).round() as i64;
        (self.collects && blocks != own).then_some((URGENT, share.max(1)))
    }

    /// As much time for each page of a small block as the base's takes.
    fn erase(&self, place: &Candidate) -> Option<Value> {
        let (now, (before, _)) = (self.shape(place, BLOCK_PAGES)?, self.large(place)?);
        let share = now as f64 / before as f64;
        let erase = find(&self.table, ERASE).filter(|_| self.collects && now < before)?;
        Some(scale(erase, share))
    }

    /// Pages of a block come in so many: those of each kind, and programs of several, stay whole.
    fn whole(&self) -> i64 {
        let kinds = ["ssd.nand.read", "ssd.nand.program"].map(|key| {
            let kinds = find(&self.table, key).and_then(Value::as_array);
            kinds.map_or(1, |kinds| kinds.len() as i64)
        });
        kinds[0].max(kinds[1]) * stated(&self.table, UNITS).unwrap_or(1)
    }

    /// Settings for a smaller drive that does what the one at `place` does, and is filled sooner.
    /// Reads do not notice; collection does if there are few blocks.
    pub(super) fn smaller(&self, place: &Candidate) -> Vec<String> {
        let of = |key| self.shape(place, key);
        let planes = of(DIES).and_then(|dies| self.planes(dies));
        let (Some(planes), Some(pages), Some(blocks), Some(page)) =
            (planes, of(BLOCK_PAGES), of(BLOCKS), self.size(PAGE))
        else {
            return Vec::new();
        };
        let (least, most) = match self.collects {
            true => (BLOCKS_MIN * self.room, PAGES),
            false => (BLOCKS_FEW * self.room, (BYTES / page) as i64),
        };
        let mut pages_now = pages;
        if !self.collects {
            // A part that need not collect: blocks are smaller, not only fewer.
            let whole = self.whole();
            pages_now = (most / (planes * least) / whole * whole).max(whole).min(pages);
        }
        let fewer = (most / planes.saturating_mul(pages_now).max(1)).max(least);
        if fewer >= blocks && !self.collects {
            return Vec::new();
        }
        let large = self.large(place).filter(|_| self.collects);
        let fewer = fewer.min(large.map_or(blocks, |(_, blocks)| blocks));
        let mut sets = vec![format!("{BLOCKS}={fewer}"), format!("{BLOCK_PAGES}={pages_now}")];
        sets.extend(self.erase(place).map(|erase| format!("{ERASE}={erase}")));
        sets.extend(self.urgent(fewer).map(|(key, value)| format!("{key}={value}")));
        let physical = (planes * pages * blocks) as f64 * page;
        let stated = find(&self.table, SPARE).and_then(|spare| spare.get("capacity")?.as_str());
        match stated.and_then(bytes).filter(|capacity| *capacity < physical) {
            _ if !self.collects => sets.push(format!("{SPARE}=\"28%\"")),
            Some(capacity) => {
                sets.push(format!(
                    "{SPARE}={{ratio_percent={:.2}}}",
                    100.0 * (physical / capacity - 1.0)
                ));
            }
            None => {}
        }
        sets
    }

    /// A setting for a buffer that is full sooner: nothing else of a drive that writes for long
    /// depends on what more it holds than its programs.
    pub(super) fn smaller_buffer(&self, place: &Candidate) -> Option<String> {
        let kinds = find(&self.table, "ssd.nand.program").and_then(Value::as_array);
        let planes = self.planes(self.shape(place, DIES)?)?;
        let pages = planes * kinds.map_or(1, |kinds| kinds.len() as i64);
        let programs = (pages * self.shape(place, UNITS)?) as f64 * self.size(PAGE)?;
        let wanted = (BUFFER_OF_PROGRAMS * programs).max(BUFFER_MIN);
        (wanted < self.size(BUFFER)?).then(|| format!("{BUFFER}=\"{wanted}B\""))
    }

    /// A number of the part at `place`, 1 where its table is silent; `None` if it is none.
    fn shape(&self, place: &Candidate, key: &str) -> Option<i64> {
        let own = self.blocks(place).into_iter().find(|(own, _)| *own == key);
        own.map_or_else(|| number(&self.table, key), |(_, value)| Some(value))
    }

    /// Planes of a part with so many dies in a package.
    fn planes(&self, dies: i64) -> Option<i64> {
        let keys = ["channels", "packages_per_channel", "planes_per_die"];
        let mut numbers =
            keys.iter().map(|key| number(&self.table, &format!("ssd.geometry.{key}")));
        numbers.try_fold(dies, |product, number| product.checked_mul(number?))
    }

    /// Bytes that the part's table has at a key.
    fn size(&self, key: &str) -> Option<f64> {
        find(&self.table, key).and_then(Value::as_str).and_then(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn number(base: &toml::Table, key: &str) -> i64 {
        find(base, key).and_then(Value::as_integer).unwrap()
    }

    /// What is collected at once, and how long that takes, is what was tried and judged.
    #[test]
    fn a_part_that_collects_is_written_with_the_blocks_that_it_was_tried_with() {
        let base = Base::read("tlc-3d-128", &[], &[], &[]).unwrap();
        let collects = Base { collects: true, ..base.clone() };
        for dies in [1, 4, 32] {
            let place = Candidate { dies: Some(dies), ..base.place() };
            let written = collects.scaled(&place);
            let tried = collects.tried(&place, [&[], &[]]);
            for key in [BLOCK_PAGES, ERASE] {
                let set = format!("{key}={}", find(&written, key).unwrap());
                assert!(tried.contains(&set), "{dies}: {set}: {tried:?}");
            }
            let pages = number(&written, BLOCK_PAGES);
            assert!(pages < 1152 && pages % 3 == 0, "{dies}: {pages}");
            // As much flash, up to a block of each die.
            let all = dies * number(&written, BLOCKS) * pages;
            assert!((256 * 1152..256 * 1152 + dies * pages).contains(&all), "{dies}: {all}");
            collects.check("tlc-3d-128", &[], &place).unwrap();
        }
        let place = Candidate { dies: Some(1), ..base.place() };
        assert_eq!(number(&base.scaled(&place), BLOCK_PAGES), 1152);
        assert!(base.why_shaped(&place).is_empty());
        let keys: Vec<_> = collects.why_shaped(&place).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [BLOCK_PAGES, BLOCKS, ERASE]);
    }

    /// Whatever its map keeps, each shipped SSD can be tried and written, with more dies, too.
    #[test]
    fn every_shipped_ssd_can_be_begun_with() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../devices");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let names = files.filter(|file| file.extension().is_some_and(|end| end == "toml"));
        let names = names.map(|file| file.file_stem().unwrap().to_str().unwrap().to_string());
        let ssds: Vec<_> = names.filter(|name| study::model_of(name).unwrap() == "ssd").collect();
        assert!(ssds.len() > 20 && ssds.contains(&"wd-zn540".into()), "{ssds:?}");
        for (name, collects) in ssds.iter().flat_map(|name| [(name, false), (name, true)]) {
            let base = Base { collects, ..Base::read(name, &[], &[], &[]).unwrap() };
            let base = base.with_room(name, [&[], &[]]);
            for dies in [1, 2, 8].map(|times| base.dies.map(|dies| times * dies)) {
                let place = Candidate { dies, ..base.place() };
                let tried = study::build_part(name, &base.tried(&place, [&[], &[]]), 1);
                let wrong = tried.err().map(|wrong| wrong.to_string());
                assert_eq!(wrong, None, "{name}, collects: {collects}, dies: {dies:?}");
                base.check(name, &[], &place).unwrap();
            }
        }
    }

    /// The written part has many more blocks than the base, the tried one fewer.
    #[test]
    fn the_collector_goes_before_the_host_at_the_base_s_share_of_free_blocks() {
        let base = Base::read("samsung-pm9a3-960", &[], &[], &[]).unwrap();
        let collects = Base { collects: true, ..base.clone() };
        let share = number(&base.table, URGENT) as f64 / number(&base.table, BLOCKS) as f64;
        let written = collects.scaled(&base.place());
        let mut tried = collects.clone();
        tried.lay(&collects.tried(&base.place(), [&[], &[]])).unwrap();
        for (table, least) in [(&written, 100_000), (&tried.table, 100)] {
            let (urgent, blocks) = (number(table, URGENT), number(table, BLOCKS));
            assert!(blocks > least, "{blocks}");
            assert!((urgent as f64 - share * blocks as f64).abs() < 1.0, "{urgent} of {blocks}");
        }
        let keys: Vec<_> =
            collects.why_shaped(&base.place()).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [BLOCK_PAGES, BLOCKS, URGENT, ERASE]);
    }
}
