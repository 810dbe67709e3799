//! How much flash a drive has, by its write amplification at several fills.
//!
//! What collection costs follows from the share of the flash that holds data. So a part is run
//! with as much data for its flash as the drive would have if it had `factor` times as much flash,
//! with blocks of fewer pages and without time: a fill takes a second.
//!
//! What a drive writes beside the data, parity above all, is a share of all that it writes: what a
//! sequential fill writes more. Where no line of one says it, and the base does not, three fills
//! tell it from the flash.

use std::cell::Cell;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};
use study::Failure;

use super::super::in_toml;
use super::super::measured::amplification::{Amplified, GIB, Rows};
use super::super::measured::{PAGE, error, find, median, middle_and_worst, run_text};
use super::Fitting;
use super::beside::{Beside, PARITY, SHARE_MAX, SHARE_MIN, parity_set};
use super::knobs::{self, Base, Candidate, stated};
use super::mechanisms;
use super::split::fills;
use super::steps::Steps;
use super::write::{self, Findings};
use crate::say;

const BLOCKS: &str = "ssd.geometry.blocks_per_plane";
const SPARE: &str = "ssd.over_provisioning";
const CAPACITY: &str = "ssd.over_provisioning.capacity";
/// Different fills that tell what is written beside the data from how much flash there is.
const FILLS_TOLD: usize = 3;
/// Flash that holds more than this cannot be collected.
const FULL: f64 = 0.97;
/// No drive sells more of its flash: a plane has blocks to spare.
const SOLD: f64 = 0.95;
/// The most flash that is looked for, in times of what the fullest point needs.
const FACTOR_MAX: f64 = 4.0;
/// Parts that are tried to find the best: each takes 0.62 of what is left of the interval.
const TRIES: u32 = 16;
/// The same, with those that tell how well it is known, and the one that is judged.
const RUNS: u64 = TRIES as u64 + 3;
/// How far the flash is changed to see how well it is known.
const STEP: f64 = 0.03;
/// What two measurements of one drive differ by at least.
const REPEAT: f64 = 0.005;
/// A standard error above this, and the flash is not known.
const SPREAD_MAX: f64 = 0.05;
/// Further off than this in the middle, a part is none of the drive.
const FAR: f64 = 0.1;
/// A block of the tried parts has at least so many pages, and all of the flash so many.
const BLOCK_PAGES: i64 = 256;
const PAGES: i64 = 1 << 20;

/// The flash of the base, and of the smaller one that is tried.
struct Flash {
    /// Bytes of the base.
    bytes: f64,
    /// Pages of a block, bytes of all, and bytes of a page of the smaller one.
    block_pages: i64,
    small: f64,
    page: f64,
    /// Bytes that the base sells.
    capacity: f64,
}

impl Flash {
    fn of(base: &Base, from: &Fitting, capacity: f64) -> Result<Flash, Failure> {
        let wrong = |key: &str| {
            Failure::input(format!("{}: `ssd.geometry.{key}` is not stated", from.base))
                .expected("a base that says what its flash is made of")
                .help(format!("--set ssd.geometry.{key}=..."))
        };
        let number = |key: &str| {
            stated(&base.table, &format!("ssd.geometry.{key}")).ok_or_else(|| wrong(key))
        };
        let mut blocks = 1i64;
        for key in [
            "channels",
            "packages_per_channel",
            "dies_per_package",
            "planes_per_die",
            "blocks_per_plane",
        ] {
            blocks = blocks.saturating_mul(number(key)?);
        }
        let pages = number("pages_per_block")?;
        let page = find(&base.table, "ssd.geometry.page").and_then(toml::Value::as_str);
        let page = page.and_then(knobs::bytes).ok_or_else(|| wrong("page"))?;
        let units = stated(&base.table, "ssd.nand.units_per_page").unwrap_or(1);
        let least = BLOCK_PAGES.max(PAGES / blocks + 1);
        let block_pages = (least + (units - least % units) % units).min(pages);
        Ok(Flash {
            bytes: blocks as f64 * pages as f64 * page,
            block_pages,
            small: blocks as f64 * block_pages as f64 * page,
            page,
            capacity,
        })
    }

    /// What the tried part has to sell so that it is as full as `factor` times the flash would be.
    fn sells(&self, used: f64, factor: f64) -> f64 {
        let unit = self.page.max(4096.0);
        (used / (self.bytes * factor) * self.small / unit).round() * unit
    }
}

/// What was found.
struct Found {
    /// The flash, in times of the base's.
    factor: f64,
    /// What it writes for each byte that the base does at such a fill.
    share: f64,
    /// By row: what the part does.
    waf: Vec<f64>,
    /// The standard error of the factor.
    spread: f64,
}

impl Found {
    /// The base with that flash.
    fn place(&self) -> Candidate {
        Candidate { logs: vec![self.factor.ln()], dies: None }
    }
}

struct Search<'a> {
    from: &'a Fitting,
    flash: &'a Flash,
    /// (used bytes, what was measured).
    rows: Vec<(f64, f64)>,
    /// What is written beside the data, over the base, which has none, if it is looked for.
    beside: bool,
    /// What is laid over the base: see [`added`].
    added: &'a [String],
    progress: Steps,
    tried: Cell<u64>,
}

impl Search<'_> {
    /// By row, what a part with `factor` times the flash does.
    fn run(&self, rows: &[(f64, f64)], factor: f64) -> Result<Vec<f64>, Failure> {
        // Two measurements of one fill are one run.
        let capacity = |used: f64| format!("\"{:.0}KiB\"", self.flash.sells(used, factor) / 1024.0);
        let of_row: Vec<String> = rows.iter().map(|&(used, _)| capacity(used)).collect();
        let mut capacities = of_row.clone();
        capacities.dedup();
        let writes = self.flash.small / self.flash.page / 2.0;
        let text = format!(
            "[device.ssd]\npart = {}\n[workload.fio]\nrw = \"randwrite\"\nbs = \"4KiB\"\n\
             norandommap = true\ntime_based = true\nruntime = \"1000h\"\n\
             [[precondition]]\nfill = {{ span = \"100%\" }}\n[[precondition]]\n\
             overwrite = {{ span = \"100%\", writes = \"250%\", unit = \"4KiB\" }}\n\
             [run]\nrequests = {writes:.0}\n\
             [sweep]\n\"device.ssd.over_provisioning.capacity\" = [{}]\n",
            in_toml::part(&self.from.base),
            capacities.join(", ")
        );
        let mut sets = settings(self.from, self.added);
        sets.push("ssd.timing=\"none\"".into());
        sets.push(format!("ssd.geometry.pages_per_block={}", self.flash.block_pages));
        let sets: Vec<String> = sets.iter().map(|set| format!("device.{set}")).collect();
        let runs = run_text(&text, &sets, false)?;
        self.tried.set(self.tried.get() + 1);
        self.progress.at(self.tried.get());
        let waf = of_row.iter().map(|own| {
            let run = capacities.iter().position(|capacity| capacity == own)?;
            runs.get(run)?.metrics.get("waf").copied().flatten()
        });
        waf.collect::<Option<Vec<f64>>>().ok_or_else(|| {
            Failure::input(format!("{}: writes nothing to its flash", self.from.base))
                .expected("a part of an SSD that collects")
        })
    }

    /// By row: how far `waf` is off.
    fn off(&self, waf: &[f64]) -> Vec<f64> {
        self.rows.iter().zip(waf).map(|(&(_, measured), waf)| (waf / measured).ln()).collect()
    }

    /// The share by which `waf` is nearest, whatever the flash.
    fn share(&self, waf: &[f64]) -> f64 {
        let mean = self.off(waf).iter().sum::<f64>() / waf.len().max(1) as f64;
        if self.beside { (-mean).exp().clamp(1.0, SHARE_MAX) } else { 1.0 }
    }

    /// The sum of the squares of what it is off then.
    fn cost(&self, waf: &[f64]) -> f64 {
        let share = self.share(waf).ln();
        self.off(waf).iter().map(|error| (error + share).powi(2)).sum()
    }

    /// The less flash, the more is written: one best value, found by the golden section.
    fn find(&self, fullest: f64) -> Result<Found, Failure> {
        let golden = (5f64.sqrt() - 1.0) / 2.0;
        // There is as much as is sold at the least, whatever was filled.
        let fullest = fullest.max(self.flash.capacity * FULL / SOLD);
        let least = (fullest / (FULL * self.flash.bytes)).ln();
        let (mut low, mut high) = (least, least + FACTOR_MAX.ln());
        // A part that is too full to be built is as wrong as one can be.
        let at = |log: f64| match self.run(&self.rows, log.exp()) {
            Ok(waf) => (self.cost(&waf), Ok(waf)),
            Err(why) => (f64::INFINITY, Err(why)),
        };
        let inner =
            |low: f64, high: f64| (high - golden * (high - low), low + golden * (high - low));
        let (mut left, mut right) = inner(low, high);
        let (mut at_left, mut at_right) = (at(left), at(right));
        for _ in 2..TRIES {
            // Of equals the one with more flash: too little of it cannot be run at all.
            if at_left.0 < at_right.0 {
                (high, right, at_right) = (right, left, at_left);
                left = inner(low, high).0;
                at_left = at(left);
            } else {
                (low, left, at_left) = (left, right, at_right);
                right = inner(low, high).1;
                at_right = at(right);
            }
        }
        let (log, (cost, waf)) =
            if at_left.0 < at_right.0 { (left, at_left) } else { (right, at_right) };
        let waf = waf?;
        let count = self.rows.len() as f64;
        let share = self.share(&waf);
        let fitted = if self.beside { 2.0 } else { 1.0 };
        let noise = (cost / (count - fitted).max(1.0)).sqrt().max(REPEAT);
        let factor = log.exp();
        let more = self.run(&self.rows, factor * (1.0 + STEP))?;
        // Too full to be run with less: the slope is steep, whatever it is.
        let less = self.run(&self.rows, factor * (1.0 - STEP)).unwrap_or_else(|_| waf.clone());
        let slopes = more.iter().zip(&less).map(|(a, b)| (a / b).ln() / (2.0 * STEP));
        // What all fills do alike may be the share.
        let alike = slopes.clone().sum::<f64>() / count;
        let alike = if self.beside { alike } else { 0.0 };
        let known: f64 = slopes.map(|slope| (slope - alike).powi(2)).sum();
        let spread = noise / known.sqrt().max(f64::MIN_POSITIVE);
        Ok(Found { factor, share, waf: waf.iter().map(|waf| waf * share).collect(), spread })
    }
}

/// Fit the flash of a base to `rows`, and write the part.
///
/// # Errors
/// What is wrong with the rows or the base; what keeps a part from being run or written.
pub(super) fn run(from: &Fitting, rows: Rows) -> Result<u8, Failure> {
    let Rows { uniform: mut rows, sequential, mut notes } = rows;
    refuse_options(from, ("a table of write amplification", "only the flash is fitted to it"))?;
    let model = study::model_of(&from.base)?;
    if model != "ssd" {
        let wrong = format!("{}: the model `{model}` has no flash to fit", from.base);
        return Err(Failure::input(wrong).expected("a part of an SSD"));
    }
    // What the drive sells is laid over the base only here: it may be more than the base's flash.
    let (spare, sets): (Vec<_>, Vec<_>) =
        from.sets.iter().cloned().partition(|set| set.starts_with(SPARE));
    let mut base = Base::read(&from.base, &sets, &[BLOCKS.to_string()], &[])?;
    base.lay(&spare)?;
    let asked = from.sets.iter().any(|set| set.starts_with(PARITY));
    let said = Beside::of(&sequential, asked);
    notes.extend(said.note(sequential.len()));
    let parity = said.set(find(&base.table, PARITY).is_some());
    let added = [added(from, &base), parity.clone().into_iter().collect()].concat();
    notes.extend(coarse(&base, &added));
    base.lay(&added)?;
    let stated = find(&base.table, CAPACITY).and_then(toml::Value::as_str);
    let capacity = match stated.and_then(knobs::bytes) {
        Some(capacity) => capacity,
        None => {
            let built = study::build_part(&from.base, &from.sets, 1)?;
            built.device.limits().capacity.0 as f64
        }
    };
    let flash = Flash::of(&base, from, capacity)?;
    rows.sort_by(|a, b| a.used.bytes(flash.capacity).total_cmp(&b.used.bytes(flash.capacity)));
    check(from, &rows, &flash)?;
    let (held, fitted): (Vec<_>, Vec<_>) =
        fills(rows, flash.capacity, from.hold_out).into_iter().partition(|(_, judges)| *judges);
    let [fitted, held] =
        [fitted, held].map(|rows| rows.into_iter().map(|(row, _)| row).collect::<Vec<_>>());
    let pairs = |rows: &[Amplified]| -> Vec<(f64, f64)> {
        rows.iter().map(|row| (row.used.bytes(flash.capacity), row.waf)).collect()
    };
    let fullest = pairs(&fitted).iter().chain(&pairs(&held)).map(|row| row.0).fold(0.0, f64::max);
    let progress = Steps::new("amounts of flash", RUNS, !from.json);
    let rows = pairs(&fitted);
    let mut fills: Vec<f64> = rows.iter().map(|row| row.0).collect();
    fills.dedup();
    let beside =
        said != Beside::Nothing && find(&base.table, PARITY).is_none() && fills.len() >= FILLS_TOLD;
    let (flash, tried) = (&flash, Cell::default());
    let search = Search { from, flash, rows, beside, added: &added, progress, tried };
    let found = search.find(fullest)?;
    let mut judged =
        if held.is_empty() { Vec::new() } else { search.run(&pairs(&held), found.factor)? };
    judged.iter_mut().for_each(|waf| *waf *= found.share);
    drop(search);
    let answer = Answer { flash, found, fitted, held, judged, notes, parity, added };
    base.lay(&answer.share_set())?;
    answer.check(from, &base)?;
    write::part(from, answer.table(&base), answer.findings(from))?;
    if from.json {
        say(answer.as_json(&base, &from.out.display().to_string()));
    } else {
        answer.told(&base).iter().for_each(say);
        say(format!("wrote {}", from.out.display()));
    }
    Ok(u8::from(!answer.fits()))
}

/// What a base lacks that a drive has which writes little more than 4 KiB for 4 KiB: a page that is
/// no larger, or a map of parts of it. Not where the command line says what the flash is made of.
fn added(from: &Fitting, base: &Base) -> Vec<String> {
    let shaped =
        |set: &String| ["ssd.geometry.p", "ssd.nand."].iter().any(|key| set.starts_with(key));
    if from.sets.iter().any(shaped) {
        return Vec::new();
    }
    let units = mechanisms::units_of_4k(&base.table).into_iter();
    units.map(|(key, value)| format!("{key}={value}")).collect()
}

/// What is to be said of a base that still has a map of more than 4 KiB.
fn coarse(base: &Base, added: &[String]) -> Option<String> {
    let page = find(&base.table, PAGE).and_then(toml::Value::as_str)?;
    let is_fine = knobs::bytes(page)? <= 4096.0 || added.iter().any(|set| set.starts_with(PAGE));
    (!is_fine).then(|| {
        format!(
            "this base maps {page}, and no 4KiB were laid over it: a write of 4 KiB is one of \
             {page}, whatever flash there is"
        )
    })
}

/// What a part is built with over the base, but for its flash and what it sells, which are looked
/// for.
fn settings(from: &Fitting, added: &[String]) -> Vec<String> {
    let sets = from.sets.iter().filter(|set| !set.starts_with(SPARE));
    sets.chain(added).cloned().collect()
}

/// What says how other things are fitted has no meaning here.
pub(super) fn refuse_options(from: &Fitting, (table, why): (&str, &str)) -> Result<(), Failure> {
    let given = [
        ("--fit", !from.keys.is_empty()),
        ("--while-fitting", !from.while_fitting.is_empty()),
        ("--overwritten", from.overwritten.is_some_and(|percent| percent > 0)),
    ];
    let given = given.into_iter().find(|(_, given)| *given);
    given.map_or(Ok(()), |(option, _)| {
        let what = format!("{option}: {} is {table}", from.from.display());
        Err(Failure::input(what).expected(format!("no such option: {why}")))
    })
}

fn check(from: &Fitting, rows: &[Amplified], flash: &Flash) -> Result<(), Failure> {
    let wrong = |what: String, expected: &str| {
        Err(Failure::input(format!("{}: {what}", from.from.display())).expected(expected))
    };
    let used = |row: &Amplified| row.used.bytes(flash.capacity);
    let Some((first, last)) = rows.first().zip(rows.last()) else {
        return wrong("no line says how much was written".into(), "two fills or more");
    };
    if used(first) == used(last) {
        return wrong("one fill".into(), "two fills or more, of which one is nearly full");
    }
    if used(last) > flash.capacity * 1.001 {
        let what = format!(
            "{} is more than the {:.0} GiB of {}",
            last.label,
            flash.capacity / GIB,
            from.base
        );
        return wrong(
            what,
            "what the drive was filled to; --set ssd.over_provisioning={capacity=\"...\"} says \
             what it sells",
        );
    }
    let times = used(last) / (FULL * flash.bytes);
    if times * FACTOR_MAX > knobs::FACTOR_MAX {
        let have = flash.bytes / GIB;
        let what = format!("{} needs {times:.0} times the {have:.0} GiB of flash", last.label);
        let least = have * times * FACTOR_MAX / knobs::FACTOR_MAX;
        return Err(Failure::input(format!("{}: {what} of {}", from.from.display(), from.base))
            .expected(format!("a base with {least:.0} GiB or more"))
            .help("--set ssd.geometry.dies_per_package=... makes one larger"));
    }
    Ok(())
}

struct Answer<'a> {
    flash: &'a Flash,
    found: Found,
    fitted: Vec<Amplified>,
    held: Vec<Amplified>,
    /// By held row, what the part does.
    judged: Vec<f64>,
    notes: Vec<String>,
    /// A setting for what is written beside the data, of sequential fills.
    parity: Option<String>,
    /// All that was laid over the base, that among it.
    added: Vec<String>,
}

impl Answer<'_> {
    /// Whether there can be such a part.
    fn check(&self, from: &Fitting, base: &Base) -> Result<(), Failure> {
        let own = [
            format!("{BLOCKS}={}", self.blocks(base)),
            format!("{CAPACITY}=\"{:.0}KiB\"", self.flash.capacity / 1024.0),
        ];
        let mut sets = settings(from, &self.added);
        sets.extend(self.share_set().into_iter().chain(own));
        study::build_part(&from.base, &sets, 1).map(|_| ())
    }

    /// A setting for it, if fills told it.
    fn share_set(&self) -> Vec<String> {
        (self.found.share >= SHARE_MIN).then(|| parity_set(self.found.share)).into_iter().collect()
    }

    /// Sizes of the errors, least first.
    fn errors(rows: &[Amplified], waf: &[f64]) -> Vec<f64> {
        let pairs = rows.iter().zip(waf);
        let each = pairs.filter_map(|(row, waf)| error(Some(row.waf), Some(*waf)));
        let mut errors: Vec<f64> = each.map(f64::abs).collect();
        errors.sort_by(f64::total_cmp);
        errors
    }

    fn summary(rows: &[Amplified], waf: &[f64]) -> String {
        middle_and_worst("WAF", &Answer::errors(rows, waf)).unwrap_or_default()
    }

    fn fits(&self) -> bool {
        let sets = [(&self.fitted, &self.found.waf), (&self.held, &self.judged)];
        sets.iter().all(|(rows, waf)| {
            median(&Answer::errors(rows, waf)).is_none_or(|middle| middle <= FAR)
        })
    }

    fn is_known(&self) -> bool {
        self.found.spread <= SPREAD_MAX
    }

    fn known(&self) -> String {
        if self.is_known() {
            format!("{:.1} %", 100.0 * self.found.spread)
        } else {
            "not known by these points".into()
        }
    }

    /// The value that was fitted.
    fn blocks(&self, base: &Base) -> String {
        base.values(&self.found.place())[0].1.to_string()
    }

    /// The base's tables with the flash that was found, and the base's capacity.
    fn table(&self, base: &Base) -> toml::Table {
        let mut table = base.scaled(&self.found.place());
        if let Some(ssd) = table.get_mut("ssd").and_then(toml::Value::as_table_mut) {
            let capacity = format!("{:.0}KiB", self.flash.capacity / 1024.0);
            let stated = find(&base.table, CAPACITY);
            let capacity = stated.cloned().unwrap_or(toml::Value::String(capacity));
            let spare = toml::Table::from_iter([("capacity".to_string(), capacity)]);
            ssd.insert("over_provisioning".into(), toml::Value::Table(spare));
        }
        table
    }

    fn findings(&self, from: &Fitting) -> Findings {
        let error = if self.held.is_empty() {
            let summary = Answer::summary(&self.fitted, &self.found.waf);
            format!(
                "on the fills it was fitted to, median and worst: {summary}; no other was tried"
            )
        } else {
            let summary = Answer::summary(&self.held, &self.judged);
            format!("held back, median and worst of {}: {summary}", self.held.len())
        };
        let (fills, known) = (self.fitted.len(), self.known());
        let known = if self.is_known() {
            format!("standard error {known}")
        } else {
            format!("but {known}")
        };
        let measured = write::name_of(&from.from);
        let why = format!("fitted: write amplification at {fills} fills of {measured}, {known}");
        let keys = self.added.iter().filter_map(|set| set.split_once('='));
        let mut source: Vec<(String, String)> = keys
            .map(|(key, _)| (key.to_string(), "added by blocklab calibrate".to_string()))
            .collect();
        source.push((BLOCKS.to_string(), why));
        if self.parity.is_some() {
            source.push((PARITY.into(), format!("fitted: sequential writes of {measured}")));
        } else if !self.share_set().is_empty() {
            let why = format!("fitted: the same fills of {measured}, beside the flash");
            source.push((PARITY.into(), why));
        }
        Findings { error, fits: self.fits(), source }
    }

    fn told(&self, base: &Base) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.fits() {
            lines.push(format!(
                "no answer: with no amount of flash does this base write what the drive writes; \
                 half of the numbers, fitted or held back, are more than {:.0} % off; another \
                 policy of collection is one reason (--set ssd.gc=...)",
                100.0 * FAR
            ));
        }
        lines.push(format!("fitted to:  {}", Answer::summary(&self.fitted, &self.found.waf)));
        lines.push(match self.held.len() {
            0 => "held back:  no fill; nothing judges this part".into(),
            _ => format!("held back:  {}", Answer::summary(&self.held, &self.judged)),
        });
        let flash = self.flash.bytes * self.found.factor;
        lines.push(format!(
            "{:.0} GiB of flash for {:.0} GiB that are sold, {:.1} % more; known to: {}",
            flash / GIB,
            self.flash.capacity / GIB,
            100.0 * (flash / self.flash.capacity - 1.0),
            self.known()
        ));
        lines.push(format!("{BLOCKS} = {}", self.blocks(base)));
        for set in self.share_set() {
            let more = 100.0 * (self.found.share - 1.0);
            lines.push(format!("{set}: {more:.1} % more than the data is written"));
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["used", "", "drive", "part", ""]);
        let sets = [("fitted", &self.fitted, &self.found.waf), ("held", &self.held, &self.judged)];
        for (set, rows, values) in sets {
            for (row, waf) in rows.iter().zip(values) {
                let off = 100.0 * (waf / row.waf - 1.0);
                table.add_row([
                    row.label.clone(),
                    set.into(),
                    format!("{:.3}", row.waf),
                    format!("{waf:.3}"),
                    format!("{off:+.1} %"),
                ]);
            }
        }
        let right = table.column_iter_mut().skip(2);
        right.for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        lines.extend(table.lines().map(|line| line.trim_end().to_string()));
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        lines
    }

    fn as_json(&self, base: &Base, out: &str) -> Value {
        let rows = |rows: &[Amplified], waf: &[f64]| -> Vec<Value> {
            let row = |(row, waf): (&Amplified, &f64)| {
                json!({ "used_bytes": row.used.bytes(self.flash.capacity),
                        "measured": { "waf": row.waf }, "modelled": { "waf": waf } })
            };
            rows.iter().zip(waf).map(row).collect()
        };
        let unknown = (!self.is_known()).then(|| self.known());
        let beside: Vec<_> = self.parity.iter().cloned().chain(self.share_set()).collect();
        json!({ "part": out, "tries": TRIES + 2,
                "keys": [{ "key": BLOCKS, "value": self.blocks(base),
                           "standard_error": self.found.spread, "not_identified": unknown }],
                "flash_bytes": self.flash.bytes * self.found.factor,
                "written_beside": beside,
                "capacity_bytes": self.flash.capacity, "fits": self.fits(),
                "fitted": rows(&self.fitted, &self.found.waf),
                "held_back": rows(&self.held, &self.judged), "notes": self.notes })
    }
}
