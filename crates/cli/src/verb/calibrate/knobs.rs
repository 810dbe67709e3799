//! What of a part is fitted.

use study::Failure;
use toml::{Table, Value};

use super::super::measured::{Point, find};
use super::host_path::{self, BANDWIDTH, PROCESS_INTERVAL, tells_processes};
use super::scale::{is_scalable, is_seek, nanosecond, quantity, scale};

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

/// By key, what there is at least and at most, whatever the points say: a disk turns, a channel of
/// flash and a host's link carry no more and no less.
const POSSIBLE: [(&str, f64, f64); 3] =
    [(RPM, 3_600.0, 15_000.0), ("ssd.nand.bus", 0.0, 5e9), (BANDWIDTH, 0.0, 32e9)];
const RPM: &str = "hdd.rpm";
/// So near to the end of that, as a logarithm, is at it.
const AT_END: f64 = 0.02;

/// The number that is looked for by doubling and halving: flash that works at once.
pub(super) const DIES: &str = "ssd.geometry.dies_per_package";

impl Knob {
    /// The larger, the quicker; else it is a time.
    pub(super) fn is_rate(&self) -> bool {
        let is_time = |value: &Value| {
            let unit = value.as_str().and_then(quantity).map(|(_, unit)| unit);
            unit.is_some_and(|unit| nanosecond(unit).is_some())
        };
        !match &self.value {
            Value::Array(all) => all.iter().any(is_time),
            Value::Table(all) => is_seek(all),
            value => is_time(value),
        }
    }

    /// How much it is, in what [`POSSIBLE`] counts in.
    fn amount(&self) -> Option<f64> {
        match &self.value {
            Value::Integer(number) => Some(*number as f64),
            value => Some(config::Rate::parse(value.as_str()?).ok()?.0 as f64),
        }
    }

    /// How far from where it began it can be at all, as logarithms.
    fn possible(&self) -> (f64, f64) {
        let own = POSSIBLE.iter().find(|(key, ..)| *key == self.key).zip(self.amount());
        own.map_or((f64::NEG_INFINITY, f64::INFINITY), |((_, least, most), now)| {
            // Who sets more knows better.
            let beyond = |end: f64, is_beyond: bool| (!is_beyond).then(|| (end / now).ln());
            let low = beyond(*least, now <= *least).unwrap_or(f64::NEG_INFINITY);
            (low, beyond(*most, now >= *most).unwrap_or(f64::INFINITY))
        })
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
    /// Whether it was overwritten before it was measured, and has to collect.
    pub(super) collects: bool,
    /// In so many times the least number of blocks it is tried.
    pub(super) room: i64,
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
/// a table that is scaled as a whole within this one.
const FACTOR_ALL_MAX: f64 = 10.0;

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
        Ok(Base { model, table, knobs, added, dies, mechanism: None, collects: false, room: 1 })
    }

    /// The same drive with a way of letting writes in, and what is fitted of both; beside the way
    /// all that is fitted elsewhere if `points` are not only offered loads.
    pub(super) fn with(&self, mechanism: Mechanism, points: &[Point]) -> Base {
        let mut base = self.clone();
        (base.mechanism, base.collects) = (Some(mechanism.name), true);
        for (key, value) in mechanism.laid {
            lay(&mut base.table, nested(&key, value));
            base.added.retain(|known| *known != key);
            base.added.push(key);
        }
        let closed = points.iter().any(|point| point.offered.is_none() && point.beside.is_none());
        let usual = self.knobs.iter().filter(|_| closed).map(|knob| knob.key.as_str());
        let own = KNOBS_OFFERED.into_iter().filter(|_| !closed);
        let keys = usual.chain(own).chain(mechanism.knobs);
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
            let (low, high) = self.limits(knob);
            scale(&knob.value, log.clamp(low, high).exp())
        };
        let pairs = self.knobs.iter().zip(&place.logs);
        pairs.map(|(knob, log)| (knob.key.clone(), value(knob, *log))).collect()
    }

    /// How far from where it began a knob is looked for, as logarithms.
    fn limits(&self, knob: &Knob) -> (f64, f64) {
        let added = self.added.contains(&knob.key);
        let far = match &knob.value {
            // All of a disk's arm or tracks: none differ by more, and few can be built that do.
            Value::Table(_) => FACTOR_ALL_MAX,
            _ if added => FACTOR_ADDED_MAX,
            _ => FACTOR_MAX,
        };
        let far = far.ln();
        let (low, high) = knob.possible();
        (low.max(-far), high.min(far))
    }

    /// Why what is right may be further, if a knob is as far away as it is looked for.
    pub(super) fn at_limit(&self, knob: usize, place: &Candidate) -> Option<&'static str> {
        let (log, knob) = (place.logs[knob], &self.knobs[knob]);
        let within = |(low, high): (f64, f64)| low < log && log < high;
        if within(self.limits(knob)) {
            return None;
        }
        Some(if within(knob.possible()) {
            "as far as is looked; begin nearer, by --set"
        } else {
            "no other one can be: not known by these points"
        })
    }

    /// Of a disk that would have to turn as none does: how fast it turns at `place`.
    pub(super) fn impossible(&self, place: &Candidate) -> Option<String> {
        let rpm = self.knobs.iter().position(|knob| knob.key == RPM)?;
        let (low, high) = self.knobs[rpm].possible();
        // A descent ends a little before the end that it goes to.
        let is_possible = low + AT_END < place.logs[rpm] && place.logs[rpm] < high - AT_END;
        (!is_possible).then(|| self.values(place)[rpm].1.to_string())
    }

    /// The part's tables at `place`, as large as the base's.
    pub(super) fn scaled(&self, place: &Candidate) -> Table {
        let mut table = self.table.clone();
        for (key, value) in self.values(place) {
            put(&mut table, &key, value);
        }
        for (key, value) in self.shaped(place) {
            put(&mut table, key, value);
        }
        table
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
        let shaped = self.shaped(place).into_iter().map(|(key, value)| format!("{key}={value}"));
        let sets = [sets, &self.sets(place), &shaped.collect::<Vec<_>>()].concat();
        study::build_part(name, &sets, 1).map(|_| ())
    }

    /// The settings that a part at `place` is run with: those of the command line, `settings`, go
    /// before what is for all smaller drives, and after it. What was added may be of its shape.
    pub(super) fn tried(
        &self,
        place: &Candidate,
        [sets, while_fitting]: [&[String]; 2],
    ) -> Vec<String> {
        let smaller = self.smaller(place);
        [sets, &self.added(), &smaller, while_fitting, &self.found(place)].concat()
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
    use super::super::shape::{BLOCK_PAGES, BLOCKS};
    use super::*;

    #[test]
    fn what_the_base_does_not_have_is_looked_for_further_away() {
        let base = Base::read("tlc-3d-128", &[], &[], &[]).unwrap();
        let at = |key: &str, factor: f64| {
            let knob = base.knobs.iter().position(|knob| knob.key == key).unwrap();
            let mut place = base.place();
            place.logs[knob] = factor.ln();
            let values = base.values(&place);
            (values[knob].1.to_string(), base.at_limit(knob, &place).is_some())
        };
        assert!(!at("ssd.nand.program", 99.0).1);
        assert_eq!(at("ssd.nand.program", 1e3), at("ssd.nand.program", 100.0));
        assert_eq!(at("ssd.host.completion", 1e3), ("\"10000us\"".into(), false));
        assert_eq!(at("ssd.host.completion", 1e6), ("\"100000us\"".into(), true));
    }

    #[test]
    fn what_no_drive_has_is_not_looked_for() {
        let base = Base::read("tlc-3d-128", &[], &[], &[]).unwrap();
        let mut place = base.place();
        place.logs.fill(50f64.ln());
        let of = |values: &[(String, Value)], key: &str| {
            values.iter().find(|(own, _)| own == key).unwrap().1.to_string()
        };
        let values = base.values(&place);
        assert_eq!(of(&values, "ssd.nand.bus"), "\"5000MB/s\"");
        assert_eq!(of(&values, BANDWIDTH), "\"32000MB/s\"");
        assert!(base.impossible(&place).is_none());
        let bus = base.knobs.iter().position(|knob| knob.key == "ssd.nand.bus").unwrap();
        assert!(base.at_limit(bus, &place).unwrap().starts_with("no other one can be"));
        // Whoever sets more may have it.
        let sets = ["ssd.nand.bus=\"6000MB/s\"".to_string()];
        let values = Base::read("tlc-3d-128", &sets, &[], &[]).unwrap().values(&place);
        assert_eq!(of(&values, "ssd.nand.bus"), "\"300000MB/s\"");

        let disk = Base::read("wd-80g-5400", &[], &[], &[]).unwrap();
        let at = |factor: f64| {
            let mut place = disk.place();
            place.logs[0] = factor.ln();
            (of(&disk.values(&place), "hdd.rpm"), disk.impossible(&place))
        };
        assert_eq!(at(4.0 / 3.0), ("7200".into(), None));
        assert_eq!(at(5.0), ("15000".into(), Some("15000".into())));
        assert_eq!(at(0.1), ("3600".into(), Some("3600".into())));
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
            sets.extend(base.smaller(&place));
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
            Base { collects: true, ..base.clone() }.smaller(&base.place()),
            base.smaller(&base.place()),
        ] {
            study::build_part("tlc-3d-128", &sets, 1).unwrap();
        }
        let base = Base::read("tlc-3d-128", &[], &[], &[point("4k")]).unwrap();
        assert_eq!(base.added, added[..2]);
    }
}
