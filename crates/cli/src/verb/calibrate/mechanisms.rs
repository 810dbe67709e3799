//! How a drive lets writes in, by what it does at offered loads.
//!
//! Each way is begun where the points themselves say it would be, or where a drive that was
//! measured has it; the fit moves the rest, and keeps the way that explains the points best.

use toml::{Table, Value};

use super::super::measured::{Load, Point, by_load, find};
use super::knobs::{Mechanism, bytes, lay, nested, number, stated};

/// What the points say of the drive as a whole.
#[derive(Debug)]
struct Seen {
    /// Writes a second that it takes at most.
    most: f64,
    /// What of these is in flight, as many as wait in all.
    inside: f64,
    in_flight: f64,
    /// Whether more was offered than it took.
    saturated: bool,
    /// How many times as long as at the least load half of the reads take then.
    reads_slower: f64,
    /// By the inverse of the rate: the 99th percentile of writes, between the least load and the
    /// most.
    tails: Vec<(f64, f64)>,
}

/// Whether writes were offered at a rate.
pub(super) fn is_offered(points: &[Point]) -> bool {
    points.iter().any(|point| point.offered.is_some() && point.direction() == "write")
}

/// A page of a larger page of the flash is what such a drive maps.
const MAP_UNIT: &str = "4KiB";
/// Done of what was offered by a drive that is not saturated.
const DONE: f64 = 0.97;

/// Requests a second that were offered.
fn offered<'a>(points: impl IntoIterator<Item = &'a Point>) -> f64 {
    points.into_iter().filter_map(|point| point.offered).map(|offered| offered.iops).sum()
}

/// Those that were done: all that were offered, where nothing else was measured.
fn done<'a>(points: impl IntoIterator<Item = &'a Point>) -> f64 {
    let each = |point: &Point| {
        let offered = point.offered.map(|offered| offered.iops);
        point.measured[0].or(offered).unwrap_or_default()
    };
    points.into_iter().map(each).sum()
}

impl Seen {
    fn new(points: &[Point]) -> Seen {
        let own = |load: Load| load.points.into_iter().map(|index| &points[index]);
        let open = |load: Load| own(load).filter(|point| point.offered.is_some()).collect();
        let mut loads: Vec<Vec<&Point>> = by_load(points).into_iter().map(open).collect();
        loads.retain(|load| !load.is_empty());
        let of = |load: &[&Point], direction: &str| -> Vec<Point> {
            let own = load.iter().filter(|point| point.direction() == direction);
            own.map(|point| (*point).clone()).collect()
        };
        let timed = |all: &[Point], metric: usize| {
            all.iter().filter_map(|point| point.measured[metric]).reduce(f64::max)
        };
        loads.sort_by(|a, b| done(&of(a, "write")).total_cmp(&done(&of(b, "write"))));
        let (Some(least), Some(most)) = (loads.first(), loads.last()) else {
            return Seen {
                most: 1.0,
                inside: 1.0,
                in_flight: 1.0,
                saturated: false,
                reads_slower: 1.0,
                tails: Vec::new(),
            };
        };
        let writes = of(most, "write");
        let rate = done(&writes);
        let half = |load: &[&Point]| timed(&of(load, "read"), 2);
        let middle = timed(&writes, 1).or(timed(&writes, 2)).unwrap_or_default();
        let inner = &loads[1.min(loads.len() - 1)..loads.len() - 1];
        let tails = inner.iter().filter_map(|load| {
            let writes = of(load, "write");
            Some((1.0 / done(&writes), timed(&writes, 3)?))
        });
        Seen {
            most: rate,
            inside: rate * middle / 1e6,
            in_flight: writes.iter().map(|point| point.in_flight() as f64).sum(),
            saturated: rate < DONE * offered(&writes),
            reads_slower: half(most).zip(half(least)).map_or(1.0, |(a, b)| a / b),
            tails: tails.collect(),
        }
    }

    /// D and r of tails that are D (1 - r / L) at rate L: a line over 1 / L, by least squares.
    fn turns(&self) -> Option<(f64, f64)> {
        let longest = self.tails.iter().map(|(_, us)| *us).reduce(f64::max)?;
        // From a rate on all that are in flight wait, and tails grow no more.
        let growing = |(_, us): &&(f64, f64)| (0.1 * longest..0.9 * longest).contains(us);
        let own: Vec<_> = self.tails.iter().filter(growing).collect();
        let count = own.len() as f64;
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| own.iter().map(|o| of(o)).sum::<f64>() / count;
        let (x, y) = (mean(&|one| one.0), mean(&|one| one.1));
        let xx = mean(&|one| (one.0 - x).powi(2));
        let slope = mean(&|one| (one.0 - x) * (one.1 - y)) / xx;
        let all = y - slope * x;
        (own.len() > 1 && slope < 0.0 && all > 0.0).then(|| (all, -slope / all))
    }
}

fn us(time: f64) -> Value {
    Value::String(format!("{time:.4}us"))
}

fn table<const N: usize>(pairs: [(&str, Value); N]) -> Value {
    Value::Table(pairs.into_iter().map(|(key, value)| (key.to_string(), value)).collect())
}

/// Ways that a drive which did what the points say may let writes in, the simplest first.
pub(super) fn of(points: &[Point], base: &Table) -> Vec<Mechanism> {
    let seen = Seen::new(points);
    let suspend = ["program", "erase"].map(|what| {
        let key = format!("ssd.nand.{what}_suspend");
        find(base, &key).is_none().then(|| (key, Value::String(SUSPEND.into())))
    });
    let mut common = map_unit(points, base);
    common.extend(spare(base).into_iter().chain(suspend.into_iter().flatten()));
    common.extend(channels(&seen, base).into_iter().flatten());
    let with = |name, laid: Vec<(&str, Value)>, knobs: &[&'static str]| {
        let laid = laid.into_iter().map(|(key, value)| (format!("ssd.{key}"), value));
        Mechanism { name, laid: common.iter().cloned().chain(laid).collect(), knobs: knobs.into() }
    };
    let step = ("collection.step_pages", Value::Integer(STEP_PAGES));
    let reads = ["ssd.nand.program_suspend", "ssd.collection.step_pages"];
    let mut found = vec![with("room in the buffer", vec![step.clone()], &reads)];

    // A pace, and how many commands are inside: those that a saturated write waits for.
    let pace = table([("page", us(1e6 / seen.most)), ("burst", Value::Integer(3))]);
    let mut paced = vec![step.clone(), ("buffer.pace", pace)];
    // What lets pages in stands at a buffer.
    let capacity = || ("buffer.capacity", Value::String("2MiB".into()));
    let buffer = find(base, "ssd.buffer.capacity").is_none().then(capacity);
    paced.extend(buffer.clone());
    let mut knobs = [&reads[..], &["ssd.buffer.pace.page"]].concat();
    if seen.saturated && seen.inside < COMMANDS_SHARE * seen.in_flight {
        paced.push(("host.commands", Value::Integer(seen.inside.round().max(1.0) as i64)));
    }
    if seen.saturated && seen.reads_slower > READS_SLOWER {
        // Programs are not suspended any more while as many writes wait as do when saturated.
        let waiting = (HELD_AT * seen.inside).round().max(1.0) as i64;
        paced.push(("buffer.suspend_when_full", Value::Boolean(false)));
        paced.push(("buffer.hold_at_waiting", Value::Integer(waiting)));
    }
    found.push(with("a pace", paced, &knobs));

    // Turns with the collector, as a KIOXIA CM7-R has them.
    let turns = seen.turns();
    let (all, rate) = turns.unwrap_or((2e6 * seen.in_flight / seen.most, 0.25 * seen.most));
    let pace = table([("page", us(1e6 / rate)), ("in_turns", Value::Boolean(true))]);
    knobs = [&reads[..], &["ssd.buffer.pace.page", "ssd.collection.turn_pages"]].concat();
    let mut whole = base.clone();
    common.iter().for_each(|(key, value)| lay(&mut whole, nested(key, value.clone())));
    let (moved, turn) = turn(&seen, &whole, all).unwrap_or((STEP_PAGES, 16));
    let turned = vec![
        capacity(),
        ("buffer.pace", pace),
        ("collection.turn_pages", Value::Integer(turn)),
        ("collection.step_pages", Value::Integer(moved)),
    ];
    found.push(with("turns", turned, &knobs));

    // A throttle, as a Micron 7450 MAX has it, in proportion to what it takes.
    let keys = [
        "ssd.buffer.throttle.page",
        "ssd.buffer.throttle.owed",
        "ssd.buffer.throttle.hold_back_percent",
        "ssd.buffer.throttle.stop",
    ];
    knobs = [&reads[..], &keys].concat();
    let throttled =
        [step, ("buffer.throttle", throttle(seen.most))].into_iter().chain(buffer).collect();
    found.push(with("a throttle", throttled, &knobs));
    found
}

/// Of a drive that takes so many pages a second.
fn throttle(most: f64) -> Value {
    let scale = THROTTLED / most;
    table([
        ("page", us(6.2 * scale)),
        ("owed", us(2.36 * scale)),
        ("every", Value::String("320ms".into())),
        ("stop", Value::String("3ms".into())),
        ("burst", Value::Integer(132)),
        ("hold_back_percent", Value::Integer(28)),
        ("least_percent", Value::Integer(70)),
        ("window", Value::String("1s".into())),
    ])
}

/// Time to suspend a program or an erase, to begin with: of a PM9A3.
const SUSPEND: &str = "40us";
/// Pages that are moved between two looks at the reads that wait, to begin with: the same.
const STEP_PAGES: i64 = 16;
/// Fewer inside than this share of what waits: commands are counted.
const COMMANDS_SHARE: f64 = 0.8;
/// Reads that take so many times as long as of an idle drive wait for programs.
const READS_SLOWER: f64 = 4.0;
/// Share of what waits when saturated, at which programs are held.
const HELD_AT: f64 = 0.4;
/// Writes a second of the drive whose throttle is begun with.
const THROTTLED: f64 = 117_000.0;

/// A map unit below the page of the flash, if writes are smaller.
fn map_unit(points: &[Point], base: &Table) -> Vec<(String, Value)> {
    let page = find(base, "ssd.geometry.page").and_then(Value::as_str).and_then(bytes);
    let small = points
        .iter()
        .any(|point| point.direction() == "write" && (point.bytes() as f64) < page.unwrap_or(0.0));
    if small { units_of_4k(base) } else { Vec::new() }
}

/// The model has no more units of a page.
const UNITS_MAX: i64 = 64;

/// A map unit of 4 KiB, over all planes of a die, if the base's is larger.
pub(super) fn units_of_4k(base: &Table) -> Vec<(String, Value)> {
    let of = |key: &str| number(base, key);
    let page = find(base, "ssd.geometry.page").and_then(Value::as_str).and_then(bytes);
    let unit = bytes(MAP_UNIT).unwrap_or(4096.0);
    let shape = (
        page,
        of("ssd.geometry.planes_per_die"),
        of("ssd.geometry.pages_per_block"),
        of("ssd.nand.units_per_page"),
    );
    let (Some(page), Some(planes), Some(pages), Some(own)) = shape else { return Vec::new() };
    let of_page = (page / unit) as i64;
    let units = planes * own * of_page;
    let is_none = page <= unit || units > UNITS_MAX || of_page as f64 * unit != page;
    if is_none || find(base, "ssd.nand.planes_as_one").is_some() {
        return Vec::new();
    }
    let laid = [
        ("geometry.page", Value::String(MAP_UNIT.into())),
        ("geometry.planes_per_die", Value::Integer(1)),
        ("geometry.pages_per_block", Value::Integer(pages * planes * of_page)),
        ("nand.units_per_page", Value::Integer(units)),
        ("nand.planes_as_one", Value::Integer(planes)),
        ("nand.multi_plane", Value::String("off".into())),
        ("allocation", Value::String("dynamic".into())),
    ];
    laid.into_iter().map(|(key, value)| (format!("ssd.{key}"), value)).collect()
}

/// Flash enough for a drive that is written to all day, where the base has little: each of its
/// writes would move many pages, whatever the drive's own do.
fn spare(base: &Table) -> Option<(String, Value)> {
    let ratio = find(base, "ssd.over_provisioning.ratio_percent")?;
    let ratio = ratio.as_float().or(ratio.as_integer().map(|ratio| ratio as f64))?;
    let more = Value::Float(SPARE_PERCENT);
    (ratio < SPARE_PERCENT).then(|| ("ssd.over_provisioning.ratio_percent".into(), more))
}

/// Channels, and blocks of as much flash, that carry what the drive writes and moves with half of
/// their time.
fn channels(seen: &Seen, base: &Table) -> [Option<(String, Value)>; 2] {
    let bus = find(base, "ssd.nand.bus").and_then(Value::as_str);
    let bus = bus.and_then(|text| config::Rate::parse(text).ok()).map_or(f64::MAX, |r| r.0 as f64);
    let (channels, blocks) = ("ssd.geometry.channels", "ssd.geometry.blocks_per_plane");
    let (Some(own), Some(each)) = (stated(base, channels), stated(base, blocks)) else {
        return [None, None];
    };
    let bytes = 2.0 * AMPLIFIED * seen.most * 4096.0;
    let mut now = own;
    while (now as f64) < 2.0 * bytes / bus && now < CHANNELS_MAX {
        now *= 2;
    }
    let laid = |key: &str, value: i64| (now > own).then(|| (key.into(), Value::Integer(value)));
    [laid(channels, now), laid(blocks, (each * own / now).max(1))]
}

/// No controller has more.
const CHANNELS_MAX: i64 = 16;

/// Pages of a step, with which a turn of the collector takes `all` microseconds, and of the host
/// between two turns.
fn turn(seen: &Seen, base: &Table, all: f64) -> Option<(i64, i64)> {
    let number = |key: &str| number(base, key);
    let time =
        |value: &Value| Some(config::Duration::parse(value.as_str()?).ok()?.0.0 as f64 / 1e3);
    let mean = |key: &str| {
        let times: Vec<f64> = find(base, key)?.as_array()?.iter().filter_map(time).collect();
        Some(times.iter().sum::<f64>() / times.len().max(1) as f64)
    };
    let dies = dies_of(seen, base)?;
    let bus = config::Rate::parse(find(base, "ssd.nand.bus")?.as_str()?).ok()?.0 as f64;
    let each = mean("ssd.nand.program")? / number("ssd.nand.units_per_page")? as f64
        + mean("ssd.nand.read")? / number("ssd.nand.planes_as_one")? as f64
        + dies as f64 * 4096e6 / bus;
    let packages = number("ssd.geometry.channels")? * number("ssd.geometry.packages_per_channel")?;
    let step = (all / each).max(1.0);
    let moved = step * (packages * dies) as f64;
    Some((step.round() as i64, (moved / (AMPLIFIED - 1.0)).round().max(1.0) as i64))
}

/// Percent of the capacity.
const SPARE_PERCENT: f64 = 28.0;
/// Pages that are moved and written for each of the host's, with about that.
const AMPLIFIED: f64 = 2.8;

/// Dies in a package that program as much as the drive takes, moved pages among it.
pub(super) fn dies(points: &[Point], base: &Table) -> Option<i64> {
    dies_of(&Seen::new(points), base)
}

fn dies_of(seen: &Seen, base: &Table) -> Option<i64> {
    let number = |key: &str| number(base, key);
    let packages = number("ssd.geometry.channels")? * number("ssd.geometry.packages_per_channel")?;
    let planes = number("ssd.geometry.planes_per_die")? * number("ssd.nand.units_per_page")?;
    let kinds = find(base, "ssd.nand.program").and_then(Value::as_array)?;
    let time = |value: &Value| config::Duration::parse(value.as_str()?).ok();
    let all: f64 = kinds.iter().filter_map(time).map(|time| time.0.0 as f64 / 1e9).sum();
    let each = (kinds.len() as i64 * planes) as f64 / all;
    let wanted = AMPLIFIED * seen.most / (each * packages as f64);
    (wanted.is_finite() && wanted > 0.0).then(|| (wanted.ceil() as u64).next_power_of_two() as i64)
}

/// Loads that ask for more than the drive takes are as one: those that differ in nothing else are
/// left out.
pub(super) fn distinct(points: &[Point]) -> Vec<Point> {
    let mut kept: Vec<Point> = Vec::new();
    let mut most: Vec<f64> = Vec::new();
    for load in by_load(points) {
        let own = || load.points.iter().map(|&index| &points[index]);
        let writes = || own().filter(|point| point.direction() == "write");
        let (offered, done) = (offered(writes()), done(writes()));
        if offered > 0.0 && done < DONE * offered {
            if most.iter().any(|known| (known / done).ln().abs() < ALIKE) {
                continue;
            }
            most.push(done);
        }
        kept.extend(own().cloned());
    }
    kept
}

/// Rates of saturated drives that are one, as a logarithm of their ratio.
const ALIKE: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::super::super::measured::points::{Beside, Offered};
    use super::*;

    const BASE: &str = "tlc-3d-128";

    /// Reads and writes of a quiet job beside the writes of six others: at this rate in all, done
    /// and with these latencies of half of the reads, of the mean write and of one in a hundred.
    fn load(rate: f64, done: f64, [read, mean, p99]: [f64; 3]) -> Vec<Point> {
        let of = |rw: &str, job: &str, offered: f64, measured| Point {
            rw: rw.into(),
            bs: "4k".into(),
            iodepth: 64,
            numjobs: if job == "load" { 6 } else { 1 },
            measured,
            offered: Some(Offered { iops: offered, poisson: true }),
            beside: Some(Beside { load: format!("{rate}"), job: job.into() }),
        };
        vec![
            of("randwrite", "load", rate - 5e3, [Some(done - 5e3), None, None, None]),
            of("randread", "quiet", 5e3, [None, None, Some(read), None]),
            of("randwrite", "quiet", 5e3, [None, Some(mean), None, Some(p99)]),
        ]
    }

    /// A drive that takes 100,000 writes a second, each of 256 of 448 in flight in 2,560 us then,
    /// with reads ten times as slow; whose tails are 12 ms (1 - 20,000 / rate) before.
    fn drive() -> Vec<Point> {
        let tail = |rate: f64| 12_000.0 * (1.0 - 20_000.0 / rate);
        let below = [10e3, 30e3, 40e3, 50e3].map(|rate| {
            load(rate, rate, [70.0, 10.0, if rate > 20e3 { tail(rate) } else { 12.0 }])
        });
        let most = load(200e3, 100e3, [700.0, 2_560.0, 2_700.0]);
        below.into_iter().flatten().chain(most).collect()
    }

    fn base() -> Table {
        study::part_source(BASE).unwrap().parse().unwrap()
    }

    /// What is laid over the base, by way.
    fn laid(points: &[Point]) -> Vec<(&'static str, Table)> {
        let ways = of(points, &base()).into_iter().map(|way| {
            let mut whole = Table::new();
            way.laid.into_iter().for_each(|(key, value)| lay(&mut whole, nested(&key, value)));
            for knob in way.knobs {
                // Dies are looked for apart; what is moved is there.
                assert!(find(&whole, knob).is_some(), "{}: {knob}", way.name);
            }
            (way.name, whole)
        });
        ways.collect()
    }

    fn time(table: &Table, key: &str) -> f64 {
        let text = find(table, key).and_then(Value::as_str).unwrap_or_else(|| panic!("no {key}"));
        config::Duration::parse(text).unwrap().0.0 as f64 / 1e3
    }

    #[track_caller]
    fn near(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 0.01, "{value}, not {expected}");
    }

    #[test]
    fn each_way_is_of_its_own_and_can_be_built() {
        let ways = laid(&drive());
        let own = ["collection.step_pages", "buffer.pace", "collection.turn_pages"];
        let own = [&own[..], &["buffer.throttle"]].concat();
        let has = [
            ("room in the buffer", [true, false, false, false]),
            ("a pace", [true, true, false, false]),
            ("turns", [true, true, true, false]),
            ("a throttle", [true, false, false, true]),
        ];
        assert_eq!(ways.len(), has.len());
        for ((name, table), (wanted, has)) in ways.iter().zip(has) {
            let found: Vec<bool> =
                own.iter().map(|key| find(table, &format!("ssd.{key}")).is_some()).collect();
            assert_eq!((*name, &found[..]), (wanted, &has[..]));
            let mut whole = base();
            lay(&mut whole, table.clone());
            let sets = find(&whole, "ssd").and_then(Value::as_table).unwrap();
            let sets: Vec<String> =
                sets.iter().map(|(key, value)| format!("ssd.{key}={value}")).collect();
            study::build_part(BASE, &sets, 1).unwrap_or_else(|why| panic!("{name}: {why}"));
        }
        // The drive has no turn in the first: reads are looked at each 16 pages.
        let step = |way: usize| find(&ways[way].1, "ssd.collection.step_pages").unwrap();
        assert_eq!(step(0).as_integer(), Some(STEP_PAGES));
    }

    #[test]
    fn a_map_of_4_kib_is_laid_over_pages_that_hold_several_units_already() {
        let base: Table = study::part_source("samsung-980-pro-1tb").unwrap().parse().unwrap();
        let mut laid = base.clone();
        let units = units_of_4k(&base);
        units.iter().for_each(|(key, value)| lay(&mut laid, nested(key, value.clone())));
        let bytes_of = |table: &Table| {
            let page = find(table, "ssd.geometry.page").and_then(Value::as_str).unwrap();
            let page = bytes(page).unwrap() as i64;
            let of = |key: &str| number(table, key).unwrap();
            let block = page * of("ssd.geometry.pages_per_block");
            (page * of("ssd.nand.units_per_page"), block * of("ssd.geometry.planes_per_die"))
        };
        // Pages of the flash of 16 KiB, in blocks of as many.
        assert_eq!(bytes_of(&base).0, 16 << 10);
        assert_eq!(bytes_of(&laid), bytes_of(&base));
        assert_eq!(number(&laid, "ssd.nand.units_per_page"), Some(4));
        let sets: Vec<String> = units.iter().map(|(key, value)| format!("{key}={value}")).collect();
        study::build_part("samsung-980-pro-1tb", &sets, 1).unwrap();
    }

    #[test]
    fn a_pace_is_the_rate_of_the_saturated_drive_and_counts_what_waits() {
        let (_, pace) = &laid(&drive())[1];
        near(time(pace, "ssd.buffer.pace.page"), 10.0);
        let number = |key: &str| find(pace, key).and_then(Value::as_integer);
        assert_eq!(number("ssd.host.commands"), Some(256));
        // Reads wait then, so programs are held, from 0.4 of what waits on.
        assert_eq!(number("ssd.buffer.hold_at_waiting"), Some(102));
        assert_eq!(find(pace, "ssd.buffer.suspend_when_full"), Some(&Value::Boolean(false)));
        // A drive that is not saturated says none of that.
        let (_, below) = &laid(&drive()[..12])[1];
        assert!(find(below, "ssd.host").is_none());
        assert!(find(below, "ssd.buffer.hold_at_waiting").is_none());
    }

    #[test]
    fn turns_have_the_length_and_the_pace_that_tails_grow_with() {
        let seen = Seen::new(&drive());
        let (all, rate) = seen.turns().unwrap();
        near(all, 12_000.0);
        near(rate, 20_000.0);
        let (_, turns) = &laid(&drive())[2];
        near(time(turns, "ssd.buffer.pace.page"), 50.0);
        assert_eq!(find(turns, "ssd.buffer.pace.in_turns"), Some(&Value::Boolean(true)));
        // As many pages are moved in a turn as collection has to for the host's.
        let number = |key: &str| find(turns, key).and_then(Value::as_integer).unwrap() as f64;
        let mut whole = base();
        lay(&mut whole, turns.clone());
        let packages = ["channels", "packages_per_channel"]
            .map(|key| number_of(&whole, &format!("ssd.geometry.{key}")));
        let dies = dies_of(&seen, &whole).unwrap() as f64 * packages[0] * packages[1];
        let moved = dies * number("ssd.collection.step_pages");
        near(moved / number("ssd.collection.turn_pages"), AMPLIFIED - 1.0);
    }

    fn number_of(table: &Table, key: &str) -> f64 {
        number(table, key).unwrap() as f64
    }

    #[test]
    fn a_throttle_takes_what_the_drive_takes_for_long() {
        let (_, throttle) = &laid(&drive())[3];
        let [page, owed] =
            ["page", "owed"].map(|key| time(throttle, &format!("ssd.buffer.throttle.{key}")));
        near(page + owed, 8.56 * THROTTLED / 100e3);
        near(owed / page, 2.36 / 6.2);
    }

    #[test]
    fn what_was_seen_is_that_of_the_least_and_of_the_most_load_in_any_order() {
        let mut points = drive();
        points.reverse();
        for points in [&drive(), &points] {
            let seen = Seen::new(points);
            near(seen.most, 100e3);
            near(seen.inside, 256.0);
            assert_eq!((seen.in_flight, seen.saturated, seen.tails.len()), (448.0, true, 3));
            near(seen.reads_slower, 10.0);
        }
    }
}
