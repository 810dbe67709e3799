//! What of a part is fitted.

use study::Failure;
use toml::{Table, Value};

use super::super::measured::{BUFFER, PAGE, Point, find};
use super::host_path::{self, BANDWIDTH, PROCESS_INTERVAL, tells_processes};
use super::scale::{is_scalable, quantity, scale};

/// A way of letting writes in, and what of it is fitted.
pub(super) struct Mechanism {
    pub(super) name: &'static str,
    /// By key: what is laid over the part.
    pub(super) laid: Vec<(String, Value)>,
    /// What of that is fitted.
    pub(super) knobs: Vec<&'static str>,
}

/// What is fitted where nothing else is asked for: (model, keys).
const KNOBS: [(&str, &[&str]); 3] = [
    (
        "ssd",
        &[
            "nand.read",
            "nand.read_small.read",
            "nand.program",
            "nand.bus",
            "buffer.access",
            "host.completion",
            "host.bandwidth",
            "host.process_interval",
        ],
    ),
    ("iocost", &["rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"]),
    ("hdd", &["rpm"]),
];

/// What is fitted beside a way of letting writes in, where latency over offered load was measured.
const KNOBS_OFFERED: [&str; 3] = ["ssd.nand.read", "ssd.nand.program", "ssd.host.completion"];

/// A quantity, or a list of them, that is scaled as one.
#[derive(Clone)]
pub(super) struct Knob {
    /// With the model before it.
    pub(super) key: String,
    value: Value,
}

/// What a drive has, even if the part of an SSD that is begun with says nothing of it.
const ADDED: [(&str, &str); 2] = [("ssd.host.completion", "10us"), (BANDWIDTH, "4000MB/s")];

/// The same, where [`tells_processes`]: next to nothing, and so it stays unless more pays.
const ADDED_TOLD: (&str, &str) = (PROCESS_INTERVAL, "0.1us");

/// Disks turn at least and at most so fast.
const RPM: (i64, i64) = (60, 100_000);

/// The number that is looked for by doubling and halving: flash that works at once.
pub(super) const DIES: &str = "ssd.geometry.dies_per_package";
const BLOCKS: &str = "ssd.geometry.blocks_per_plane";
const BLOCK_PAGES: &str = "ssd.geometry.pages_per_block";
const UNITS: &str = "ssd.nand.units_per_page";
const ERASE: &str = "ssd.nand.erase";
const SPARE: &str = "ssd.over_provisioning";
/// So many bytes are enough of a buffer to begin with,
const BUFFER_MIN: f64 = 8.0 * 1024.0 * 1024.0;
/// or so many times what all flash programs at once.
const BUFFER_OF_PROGRAMS: f64 = 2.0;
/// So many blocks of a plane are enough to collect, where the base does not have fewer.
const BLOCKS_MIN: i64 = 128;

/// Blocks of a plane that is only read, or written until it is full.
const BLOCKS_FEW: i64 = 24;

/// Pages that a part is filled with while it is fitted, where it has to collect.
const PAGES: i64 = 1 << 21;
/// The same where latency over offered load was measured.
const PAGES_OFFERED: i64 = 1 << 18;
/// Bytes of it elsewhere: a quarter of them takes what any load writes.
const BYTES: f64 = 4.0 * 1024.0 * 1024.0 * 1024.0;

impl Knob {
    /// The larger, the quicker; else it is a time.
    pub(super) fn is_rate(&self) -> bool {
        let is_time = |value: &Value| {
            let unit = value.as_str().and_then(quantity).map(|(_, unit)| unit.trim());
            unit.is_some_and(|unit| ["ns", "us", "ms", "s"].contains(&unit))
        };
        !match &self.value {
            Value::Array(all) => all.iter().any(is_time),
            value => is_time(value),
        }
    }
}

/// The part that is begun with.
#[derive(Clone)]
pub(super) struct Base {
    /// The model of the device that it describes.
    pub(super) model: String,
    /// Its text, with the settings of the command line.
    pub(super) table: Table,
    pub(super) knobs: Vec<Knob>,
    /// What was added to it, by key.
    pub(super) added: Vec<String>,
    /// Its dies in a package, if they are looked for.
    pub(super) dies: Option<i64>,
    /// How it lets writes in, where latency over offered load was measured.
    pub(super) mechanism: Option<&'static str>,
}

/// Where all that is looked for is.
#[derive(Clone)]
pub(super) struct Candidate {
    /// By knob: the logarithm of its factor.
    pub(super) logs: Vec<f64>,
    pub(super) dies: Option<i64>,
}

/// A value is looked for within this factor of the base's,
pub(super) const FACTOR_MAX: f64 = 100.0;
/// one that the base did not have within this one.
const FACTOR_ADDED_MAX: f64 = 10_000.0;

/// A host's path with so many times what a drive did at most is not what limits it.
const OPEN: f64 = 4.0;

impl Base {
    /// The part `name` with `sets` laid over it, to fit to `points`: `keys`, or those of its model.
    pub(super) fn read(
        name: &str,
        sets: &[String],
        keys: &[String],
        points: &[Point],
    ) -> Result<Base, Failure> {
        let model = study::model_of(name)?;
        // What the settings are is said by what builds it.
        study::build_part(name, sets, 1)?;
        let text = study::part_source(name)?;
        let unreadable = |why: toml::de::Error| Failure::input(format!("{name}: {why}"));
        let mut table: Table = text.parse().map_err(unreadable)?;
        for set in sets {
            let laid: Table = set.parse().map_err(unreadable)?;
            lay(&mut table, laid);
        }
        let free = keys.is_empty() && model == "ssd";
        let added = if free { add(&mut table, points) } else { Vec::new() };
        let chosen = sets.iter().any(|set| set.starts_with("ssd.geometry"));
        let dies = find(&table, DIES).and_then(Value::as_integer).filter(|_| free && !chosen);
        let asked = keys.iter().map(String::as_str);
        let usual =
            KNOBS.iter().find(|(known, _)| *known == model).map_or(&[][..], |(_, keys)| keys);
        let usual: Vec<String> = usual.iter().map(|key| format!("{model}.{key}")).collect();
        let mut knobs = Vec::new();
        for key in asked {
            let value = find(&table, key).filter(|value| is_scalable(value));
            let value = value.ok_or_else(|| {
                Failure::input(format!("--fit {key}: `{name}` has no such quantity"))
                    .expected(format!("a number that it states, such as {}", usual.join(", ")))
            })?;
            knobs.push(Knob { key: key.to_string(), value: value.clone() });
        }
        if keys.is_empty() {
            knobs.extend(usual.iter().filter_map(|key| {
                let value = find(&table, key).filter(|value| is_scalable(value))?;
                Some(Knob { key: key.clone(), value: value.clone() })
            }));
        }
        if knobs.is_empty() {
            return Err(Failure::input(format!("{name}: nothing to fit in a {model}"))
                .expected("a part that states quantities")
                .help("--fit KEY names one"));
        }
        Ok(Base { model, table, knobs, added, dies, mechanism: None })
    }

    /// The same drive with a way of letting writes in, and what is fitted of both.
    pub(super) fn with(&self, mechanism: Mechanism) -> Base {
        let mut base = self.clone();
        base.mechanism = Some(mechanism.name);
        for (key, value) in mechanism.laid {
            lay(&mut base.table, nested(&key, value));
            base.added.retain(|known| *known != key);
            base.added.push(key);
        }
        let keys = KNOBS_OFFERED.into_iter().chain(mechanism.knobs);
        let knobs = keys.filter_map(|key| {
            let value = find(&base.table, key).filter(|value| is_scalable(value))?;
            Some(Knob { key: key.to_string(), value: value.clone() })
        });
        base.knobs = knobs.collect();
        base
    }

    /// Lay settings over its tables.
    pub(super) fn lay(&mut self, sets: &[String]) -> Result<(), Failure> {
        for set in sets {
            let wrong = |why: toml::de::Error| {
                Failure::input(format!("--set {set}: {}", why.message())).expected("KEY=VALUE")
            };
            lay(&mut self.table, set.parse().map_err(wrong)?);
        }
        Ok(())
    }

    /// Where the search begins: the base itself.
    pub(super) fn place(&self) -> Candidate {
        Candidate { logs: vec![0.0; self.knobs.len()], dies: self.dies }
    }

    /// The knob that is moved only where that pays: what a process takes, if it was added.
    pub(super) fn optional(&self) -> Option<usize> {
        let added = self.added.iter().any(|key| key == PROCESS_INTERVAL);
        self.knobs.iter().position(|knob| added && knob.key == PROCESS_INTERVAL)
    }

    /// `place`, but what `points` did at most is what the host's path lets through: a drive that
    /// gives no more, however many wait, may be limited by that or by its flash, and from the one
    /// no small step leads to the other.
    pub(super) fn limited(&self, points: &[Point], place: &Candidate) -> Option<Candidate> {
        let mut limited = None;
        for (knob, log) in self.knobs.iter().zip(0..) {
            if let Some(ratio) = host_path::ratio(&knob.key, &knob.value, points) {
                limited.get_or_insert_with(|| place.clone()).logs[log] = ratio.ln();
            }
        }
        limited
    }

    /// `place`, but the host's path lets several times through what `points` did at most: flash is
    /// what limits the drive.
    pub(super) fn open(&self, points: &[Point], place: &Candidate) -> Candidate {
        let mut open = place.clone();
        for (knob, log) in self.knobs.iter().zip(&mut open.logs) {
            if let Some(ratio) = host_path::ratio(&knob.key, &knob.value, points) {
                let [limit, room] = [ratio.ln(), OPEN.ln()];
                *log = if knob.is_rate() { log.max(limit + room) } else { log.min(limit - room) };
            }
        }
        open
    }

    /// The settings `KEY=VALUE` of a part at `place`.
    pub(super) fn sets(&self, place: &Candidate) -> Vec<String> {
        [self.added(), self.found(place)].concat()
    }

    /// Those that were added to it.
    fn added(&self) -> Vec<String> {
        let added = self.added.iter().filter_map(|key| Some((key, find(&self.table, key)?)));
        added.map(|(key, value)| format!("{key}={value}")).collect()
    }

    /// Those that are looked for.
    fn found(&self, place: &Candidate) -> Vec<String> {
        let mut sets: Vec<String> =
            place.dies.map(|dies| format!("{DIES}={dies}")).into_iter().collect();
        sets.extend(self.values(place).iter().map(|(key, value)| format!("{key}={value}")));
        sets
    }

    /// The value of each knob at `place`, by key.
    pub(super) fn values(&self, place: &Candidate) -> Vec<(String, Value)> {
        let value = |knob: &Knob, log: f64| {
            let limit = self.limit(knob);
            match scale(&knob.value, log.clamp(-limit, limit).exp()) {
                Value::Integer(rpm) if knob.key == "hdd.rpm" => {
                    Value::Integer(rpm.clamp(RPM.0, RPM.1))
                }
                value => value,
            }
        };
        let pairs = self.knobs.iter().zip(&place.logs);
        pairs.map(|(knob, log)| (knob.key.clone(), value(knob, *log))).collect()
    }

    /// How far from where it began a knob is looked for, as a logarithm.
    fn limit(&self, knob: &Knob) -> f64 {
        let added = self.added.contains(&knob.key);
        if added { FACTOR_ADDED_MAX } else { FACTOR_MAX }.ln()
    }

    /// Whether a knob is as far away as it is looked for: what is right may be further.
    pub(super) fn is_at_limit(&self, knob: usize, place: &Candidate) -> bool {
        place.logs[knob].abs() >= self.limit(&self.knobs[knob])
    }

    /// The part's tables at `place`, as large as the base's.
    pub(super) fn scaled(&self, place: &Candidate) -> Table {
        let mut table = self.table.clone();
        for (key, value) in self.values(place) {
            put(&mut table, &key, value);
        }
        for (key, value) in self.blocks(place) {
            put(&mut table, key, Value::Integer(value));
        }
        table
    }

    /// Dies, blocks and pages of as much flash as the base has, where dies are looked for. A plane
    /// keeps blocks enough to collect: those of many dies are smaller.
    fn blocks(&self, place: &Candidate) -> Vec<(&'static str, i64)> {
        let (Some(before), Some(dies)) = (self.dies, place.dies) else { return Vec::new() };
        let mut found = vec![(DIES, dies)];
        let of = |key: &str| stated(&self.table, key);
        let (Some(blocks), Some(pages)) = (of(BLOCKS), of(BLOCK_PAGES)) else { return found };
        let fewer = |pages_now: i64| {
            let of_blocks = dies * pages_now;
            (blocks * before * pages + of_blocks - 1) / of_blocks
        };
        let wanted = blocks.min(BLOCKS_MIN);
        let mut pages_now = pages;
        if fewer(pages) < wanted {
            let whole = self.whole();
            pages_now = (pages * fewer(pages) / wanted / whole * whole).max(whole).min(pages);
            found.push((BLOCK_PAGES, pages_now));
        }
        found.push((BLOCKS, fewer(pages_now)));
        found
    }

    /// Pages of a block come in so many: those of each kind, and programs of several, stay whole.
    fn whole(&self) -> i64 {
        let kinds = ["ssd.nand.read", "ssd.nand.program"].map(|key| {
            let kinds = find(&self.table, key).and_then(Value::as_array);
            kinds.map_or(1, |kinds| kinds.len() as i64)
        });
        kinds[0].max(kinds[1]) * stated(&self.table, UNITS).unwrap_or(1)
    }

    /// Whether there can be such a part.
    ///
    /// # Errors
    /// What keeps it from being built.
    pub(super) fn check(
        &self,
        name: &str,
        sets: &[String],
        place: &Candidate,
    ) -> Result<(), Failure> {
        let blocks = self.blocks(place).into_iter().map(|(key, value)| format!("{key}={value}"));
        let sets = [sets, &self.sets(place), &blocks.collect::<Vec<_>>()].concat();
        study::build_part(name, &sets, 1).map(|_| ())
    }

    /// Settings for a smaller drive that does what the one at `place` does, and is filled sooner.
    /// Reads do not notice; collection does if there are few blocks.
    pub(super) fn smaller(&self, place: &Candidate, overwritten: bool) -> Vec<String> {
        let of = |key| self.shape(place, key);
        let (Some(planes), Some(pages), Some(blocks), Some(page)) =
            (self.planes(place), of(BLOCK_PAGES), of(BLOCKS), self.size(PAGE))
        else {
            return Vec::new();
        };
        let offered = self.mechanism.is_some();
        let (least, most) = match (offered, overwritten) {
            (true, _) => (BLOCKS_MIN, PAGES_OFFERED),
            (false, true) => (BLOCKS_MIN, PAGES),
            (false, false) => (BLOCKS_FEW, (BYTES / page) as i64),
        };
        let mut pages_now = pages;
        if offered || !overwritten {
            // Many loads, each of them long, or a part that need not collect: blocks are smaller,
            // not only fewer.
            let whole = self.whole();
            pages_now = (most / (planes * least) / whole * whole).max(whole).min(pages);
        }
        let fewer = (most / planes.saturating_mul(pages_now).max(1)).max(least);
        let smaller_blocks = offered && pages_now < pages;
        if fewer >= blocks && !smaller_blocks {
            return Vec::new();
        }
        let fewer = fewer.min(blocks);
        let mut sets = vec![format!("{BLOCKS}={fewer}"), format!("{BLOCK_PAGES}={pages_now}")];
        if let Some(erase) = find(&self.table, ERASE).filter(|_| offered) {
            // As much for each page of the smaller blocks.
            let share = pages_now as f64 / pages as f64;
            sets.push(format!("{ERASE}={}", scale(erase, share)));
        }
        let physical = (planes * pages * blocks) as f64 * page;
        let stated = find(&self.table, SPARE).and_then(|spare| spare.get("capacity")?.as_str());
        match stated.and_then(bytes).filter(|capacity| *capacity < physical) {
            _ if !overwritten => sets.push(format!("{SPARE}=\"28%\"")),
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

    /// The settings that a part at `place` is run with: those of the command line, `settings`, go
    /// before what is for all smaller drives, and after it. What was added may be of its shape.
    pub(super) fn tried(
        &self,
        place: &Candidate,
        [sets, while_fitting]: [&[String]; 2],
        overwritten: bool,
    ) -> Vec<String> {
        let smaller = self.smaller(place, overwritten);
        [sets, &self.added(), &smaller, while_fitting, &self.found(place)].concat()
    }

    /// A setting for a buffer that is full sooner: nothing else of a drive that writes for long
    /// depends on what more it holds than its programs.
    pub(super) fn smaller_buffer(&self, place: &Candidate) -> Option<String> {
        let kinds = find(&self.table, "ssd.nand.program").and_then(Value::as_array);
        let pages = self.planes(place)? * kinds.map_or(1, |kinds| kinds.len() as i64);
        let programs = (pages * self.shape(place, UNITS)?) as f64 * self.size(PAGE)?;
        let wanted = (BUFFER_OF_PROGRAMS * programs).max(BUFFER_MIN);
        (wanted < self.size(BUFFER)?).then(|| format!("{BUFFER}=\"{wanted}B\""))
    }

    /// A number of the part at `place`, 1 where its table is silent; `None` if it is none.
    fn shape(&self, place: &Candidate, key: &str) -> Option<i64> {
        let own = self.blocks(place).into_iter().find(|(own, _)| *own == key);
        own.map_or_else(|| number(&self.table, key), |(_, value)| Some(value))
    }

    fn planes(&self, place: &Candidate) -> Option<i64> {
        let keys = ["channels", "packages_per_channel", "dies_per_package", "planes_per_die"];
        let mut numbers = keys.iter().map(|key| self.shape(place, &format!("ssd.geometry.{key}")));
        numbers.try_fold(1i64, |product, number| product.checked_mul(number?))
    }

    /// Bytes that the part's table has at a key.
    fn size(&self, key: &str) -> Option<f64> {
        find(&self.table, key).and_then(Value::as_str).and_then(bytes)
    }
}

/// A whole number above 0 that a part states.
pub(super) fn stated(table: &Table, key: &str) -> Option<i64> {
    find(table, key).and_then(Value::as_integer).filter(|number| *number > 0)
}

/// The same, 1 where its table is silent; `None` if it is none.
pub(super) fn number(table: &Table, key: &str) -> Option<i64> {
    find(table, key).map_or(Some(1), |_| stated(table, key))
}

/// Add to `table` what it does not say of [`ADDED`], and say what that was.
fn add(table: &mut Table, points: &[Point]) -> Vec<String> {
    let known = ADDED.map(|(key, value)| (key, Value::String(value.to_string())));
    let mut missing: Vec<(&str, Value)> = known.into();
    let read = |small: bool| {
        let wanted = |point: &Point| point.rw.contains("read") && (point.bytes() <= 4096) == small;
        points.iter().any(wanted)
    };
    let page = find(table, "ssd.geometry.page").and_then(Value::as_str).and_then(bytes);
    // A smaller read can be told from a larger one only where both were measured.
    let told = read(true) && read(false) && page > Some(4096.0);
    if let Some(read) = find(table, "ssd.nand.read").filter(|_| told) {
        let up_to = Value::String("4KiB".into());
        let small = [("up_to".to_string(), up_to), ("read".to_string(), read.clone())];
        missing.push(("ssd.nand.read_small", Value::Table(Table::from_iter(small))));
    }
    if tells_processes(points) {
        let (key, value) = ADDED_TOLD;
        missing.push((key, Value::String(value.to_string())));
    }
    missing.retain(|(key, _)| find(table, key).is_none());
    for (key, value) in &missing {
        lay(table, nested(key, value.clone()));
    }
    missing.iter().map(|(key, _)| (*key).to_string()).collect()
}

/// A table that has `value` at a key such as `ssd.nand.read`.
pub(super) fn nested(key: &str, value: Value) -> Table {
    let (first, rest) = key.split_once('.').map_or((key, None), |(a, b)| (a, Some(b)));
    let value = rest.map_or(value.clone(), |rest| Value::Table(nested(rest, value)));
    Table::from_iter([(first.to_string(), value)])
}

/// `64KiB` in bytes.
pub(super) fn bytes(text: &str) -> Option<f64> {
    config::Size::parse(text).ok().map(|size| size.0.0 as f64)
}

fn put(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_string(), value);
        }
        Some((first, rest)) => {
            let below = table.get_mut(first).and_then(Value::as_table_mut);
            put(below.expect("the key was found before"), rest, value);
        }
    }
}

/// Lay one table over another.
pub(super) fn lay(table: &mut Table, over: Table) {
    for (key, value) in over {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => lay(below, above),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_base_does_not_have_is_looked_for_further_away() {
        let base = Base::read("tlc-3d-128", &[], &[], &[]).unwrap();
        let at = |key: &str, factor: f64| {
            let knob = base.knobs.iter().position(|knob| knob.key == key).unwrap();
            let mut place = base.place();
            place.logs[knob] = factor.ln();
            let values = base.values(&place);
            (values[knob].1.to_string(), base.is_at_limit(knob, &place))
        };
        assert!(!at("ssd.nand.bus", 99.0).1);
        assert_eq!(at("ssd.nand.bus", 1e3), at("ssd.nand.bus", 100.0));
        assert_eq!(at("ssd.host.completion", 1e3), ("\"10000us\"".into(), false));
        assert_eq!(at("ssd.host.completion", 1e6), ("\"100000us\"".into(), true));
    }

    #[test]
    fn the_base_is_what_the_part_says_and_what_is_set() {
        let sets = ["ssd.nand.read_small.up_to=\"8KiB\"".to_string()];
        let base = Base::read("samsung-980-pro-1tb", &sets, &[], &[]).unwrap();
        assert_eq!((base.model.as_str(), base.knobs.len()), ("ssd", 6));
        let place = Candidate { logs: vec![2f64.ln(); 6], dies: Some(8) };
        assert!(base.sets(&place).contains(&"ssd.nand.bus=\"878MB/s\"".to_string()));
        let table = base.scaled(&place);
        assert_eq!(find(&table, "ssd.host.completion").unwrap().as_str(), Some("17.2us"));
        assert_eq!(find(&table, "ssd.nand.read_small.up_to").unwrap().as_str(), Some("8KiB"));
        // Twice the dies, of half the size.
        assert_eq!(find(&table, DIES).unwrap().as_integer(), Some(8));
        assert_eq!(find(&table, BLOCKS).unwrap().as_integer(), Some(683));
        assert_eq!(find(&table, BLOCK_PAGES), find(&base.table, BLOCK_PAGES));
        let wrong = Base::read("samsung-980-pro-1tb", &[], &["ssd.gc".into()], &[]);
        assert!(wrong.err().unwrap().to_string().contains("has no such quantity"));
    }

    #[test]
    fn a_drive_of_many_dies_has_blocks_enough_to_be_built() {
        let base = Base::read("tlc-3d-128", &[], &[], &[]).unwrap();
        let pages = |blocks: &[(&str, i64)]| {
            let of = |key| blocks.iter().find(|(own, _)| *own == key).map_or(1152, |one| one.1);
            (of(DIES) * of(BLOCKS) * of(BLOCK_PAGES), of(BLOCK_PAGES))
        };
        for dies in [1, 2, 4, 8, 32, 256] {
            let place = Candidate { dies: Some(dies), ..base.place() };
            let (all, block) = pages(&base.blocks(&place));
            // As much flash, up to a block of each die.
            assert!((256 * 1152..256 * 1152 + dies * block).contains(&all), "{dies}: {all}");
            assert_eq!(block % 3, 0);
            base.check("tlc-3d-128", &[], &place).unwrap();
            // While parts are tried, none is large: each is filled.
            let mut sets = base.sets(&place);
            sets.extend(base.smaller(&place, false));
            let part = study::build_part("tlc-3d-128", &sets, 1).unwrap();
            let capacity = part.device.limits().capacity.0 / (16 << 10);
            assert!((1 << 17..1 << 18).contains(&capacity), "{dies}: {capacity}");
        }
    }

    #[test]
    fn what_a_sketch_does_not_say_is_added() {
        let point = |bs: &str| Point {
            rw: "randread".into(),
            bs: bs.into(),
            iodepth: 1,
            numjobs: 1,
            measured: [Some(1.0), None, None, None],
            ..Point::default()
        };
        let base = Base::read("tlc-3d-128", &[], &[], &[point("4k"), point("16k")]).unwrap();
        let added =
            ["completion", "bandwidth", "process_interval"].map(|key| format!("ssd.host.{key}"));
        assert_eq!(base.added[..2], added[..2]);
        assert_eq!(base.added[2..], ["ssd.nand.read_small", &added[2]]);
        for sets in [
            base.sets(&base.place()),
            base.smaller(&base.place(), true),
            base.smaller(&base.place(), false),
        ] {
            study::build_part("tlc-3d-128", &sets, 1).unwrap();
        }
        let base = Base::read("tlc-3d-128", &[], &[], &[point("4k")]).unwrap();
        assert_eq!(base.added, added[..2]);
    }
}
