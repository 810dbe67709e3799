//! `blocklab calibrate`: a part of what was measured on a drive.

use std::path::PathBuf;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};
use study::Failure;

use super::measured::{
    Bench, METRICS, Point, SEED, Values, by_load, contradiction, error, errors, files, named,
    of_model, overwritten, row, summary,
};
use crate::{interrupt, say};

mod beside;
mod descent;
mod doubt;
mod fit;
mod flash;
mod host_path;
mod iocost;
mod knobs;
mod known;
mod mechanisms;
mod offered;
mod probe;
mod scale;
mod settings;
mod shape;
mod split;
mod steps;
mod trial;
mod write;

use fit::Fit;
use knobs::{Base, DIES};
use split::Split;
use trial::{Best, off_rms};

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    fit: Option<Fitting>,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Measure a drive with fio, for `calibrate --from`
    Probe(probe::Args),
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        match (self.verb, self.fit) {
            (Some(Verb::Probe(probe)), _) => probe.run(),
            (None, Some(fit)) => fit.run(),
            (None, None) => Err(Failure::bug("neither a verb nor a file to fit to")),
        }
    }
}

#[derive(clap::Args)]
struct Fitting {
    /// What was measured on the drive: fio's JSON output, or a table
    /// (docs/howto/compare-with-my-drive.md)
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// The part to begin with, by name or file: what is not fitted stays as it says
    #[arg(long, value_name = "PART")]
    base: String,
    /// The part to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Fit this key and no others, as ssd.nand.read; may be repeated
    #[arg(long = "fit", value_name = "KEY")]
    keys: Vec<String>,
    /// Hold back each Nth point, to judge the part by; 0 fits to all
    #[arg(long, value_name = "N", default_value_t = 3)]
    hold_out: usize,
    /// Parts that are tried
    #[arg(long, value_name = "N", default_value_t = 800,
          value_parser = clap::value_parser!(u64).range(10..))]
    tries: u64,
    /// Before it is measured, overwrite this much of the filled part at random, in percent;
    /// default: 300 of an SSD if writes have a rate offered or the table is one of SNIA's, else 0
    #[arg(long, value_name = "PERCENT")]
    overwritten: Option<u32>,
    /// Requests that each point is run with
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(1_000..))]
    requests: u64,
    /// Change a key of the base, as ssd.geometry.channels=8; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// The same, only while parts are tried; an SSD has fewer blocks then, which are filled sooner
    #[arg(long, value_name = "KEY=VALUE")]
    while_fitting: Vec<String>,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

/// Fewer points say too little about a drive.
const POINTS_MIN: usize = 4;

/// What came of it.
struct Calibrated {
    split: Split,
    fit: Fit,
    /// Of the part that was written.
    fitted: Vec<Values>,
    held: Vec<Values>,
    notes: Vec<String>,
    /// What the disk would have to turn with.
    impossible: Option<String>,
    /// A load whose measurements are not those of one drive.
    contradiction: Option<String>,
}

impl Fitting {
    fn run(mut self) -> Result<u8, Failure> {
        write::check_free(&self.out)?;
        for sets in [&mut self.sets, &mut self.while_fitting] {
            sets.iter_mut().for_each(|set| *set = settings::as_toml(set));
        }
        let text = files::text(&self.from)?;
        if let Some(rows) = files::amplification(&self.from, &text)? {
            return flash::run(&self, rows);
        }
        if let Some(rates) = files::rates(&self.from, &text)? {
            return iocost::run(&self, &rates);
        }
        let files::Measured { points, mut notes, behind } = files::points(&self.from, &text)?;
        check_points(&points, &self.from)?;
        let contradiction = contradiction(&points);
        let split = Split::new(points, self.hold_out);
        let base = Base::read(&self.base, &self.sets, &self.keys, &split.fitted)?;
        if let Some(set) = self.while_fitting.iter().find(|set| !of_model(set, &base.model)) {
            let wrong = format!("--while-fitting {set}: the base is no such device");
            return Err(Failure::input(wrong).expected(format!("a key of {}", base.model)));
        }
        let model = base.model.clone();
        let (overwritten, unknown) = overwritten(self.overwritten, &model, &split.fitted, behind);
        let settings = [&self.sets, &self.while_fitting].map(Vec::as_slice);
        let base = Base { collects: overwritten > 0, ..base }.with_room(&self.base, settings);
        notes.extend(unknown);
        let bench = Bench {
            part: &self.base,
            model: &model,
            overwritten,
            requests: self.requests,
            seed: SEED,
            keep: false,
        };
        let (ground, limits) = ((&bench, &base), (self.tries, !self.json));
        let offered = base.model == "ssd" && self.keys.is_empty();
        let (base, mut fit) = if offered && mechanisms::is_offered(&split.fitted) {
            offered::fit(ground, &split.fitted, settings, limits)?
        } else {
            let fit = fit::fit(ground, &split.fitted, settings, limits)?;
            (base, fit)
        };
        let sets = base.tried(&fit.place, settings);
        // Who listened for signals while it fitted has taken from them what they do by themselves.
        let (fitted, more, held) = interrupt::during(interrupt::end_by, || {
            let (fitted, more) = bench.run(&split.fitted, &sets)?;
            let held =
                if split.held.is_empty() { Vec::new() } else { bench.run(&split.held, &sets)?.0 };
            fit.off = dies_off((&bench, &base), &fit, &split.fitted, settings)?;
            Ok::<_, Failure>((fitted, more, held))
        })?;
        notes.extend(more);
        notes.extend(doubt::notes(&[(&split.fitted, &fitted), (&split.held, &held)]));
        let impossible = base.impossible(&fit.place);
        let mut calibrated =
            Calibrated { split, fit, fitted, held, notes, impossible, contradiction };
        calibrated.notes.extend(calibrated.one_process(&base));
        base.check(&self.base, &self.sets, &calibrated.fit.place)?;
        let table = base.scaled(&calibrated.fit.place);
        write::part(&self, table, calibrated.findings(&self, &base))?;
        self.tell(&calibrated, &base);
        Ok(u8::from(!calibrated.fits()))
    }

    fn tell(&self, calibrated: &Calibrated, base: &Base) {
        let (out, from) = (self.out.display(), self.from.display());
        if self.json {
            say(calibrated.as_json(base, &out.to_string()));
            return;
        }
        calibrated.told(base).iter().for_each(say);
        say(format!("wrote {out}"));
        say(format!("next: blocklab compare {out} --with {from}"));
    }
}

/// How far off the nearest part with each number of dies is, as the table of the answer has it.
fn dies_off(
    (bench, base): (&Bench, &Base),
    fit: &Fit,
    points: &[Point],
    settings: [&[String]; 2],
) -> Result<Vec<f64>, Failure> {
    let off = |(_, best): &(i64, Best)| {
        let sets = base.tried(&best.place, settings);
        Ok(off_rms(points, &bench.run(points, &sets)?.0))
    };
    fit.dies.iter().map(off).collect()
}

fn check_points(points: &[Point], from: &std::path::Path) -> Result<(), Failure> {
    let wrong = |what: String, expected: &str| {
        Err(Failure::input(format!("{}: {what}", from.display()))
            .expected(expected.to_string())
            .help("docs/calibrate.md says what to measure, and `calibrate probe` measures it"))
    };
    if points.len() < POINTS_MIN {
        return wrong(format!("{} points", points.len()), "4 points or more, at several depths");
    }
    let expected = "loads under which the drive differs";
    if points.iter().all(|point| point.measured[0] == points[0].measured[0]) {
        return wrong("all points have the same IOPS".into(), expected);
    }
    let alike = points.iter().all(|point| point.asked() == points[0].asked());
    if alike || by_load(points).len() == 1 {
        // Programs merge the lists of several runs of fio, which ran at once by that.
        let merged = points[0].beside.as_ref().map_or("", |_| {
            "; of several runs of fio, their files one after the other (`cat`), not merged into one"
        });
        return wrong(
            format!("{} points of one load", points.len()),
            &(expected.to_string() + merged),
        );
    }
    Ok(())
}

/// Further off than this in the middle, a part is none of the drive.
const FAR: f64 = 0.25;

impl Calibrated {
    /// Whether the part does about what the drive does, where it was fitted and where not.
    fn fits(&self) -> bool {
        self.impossible.is_none() && self.contradiction.is_none() && self.is_near()
    }

    fn is_near(&self) -> bool {
        let sets = [(&self.split.fitted, &self.fitted), (&self.split.held, &self.held)];
        sets.iter().all(|(points, values)| {
            let errors = errors(points, values, None);
            errors.get(errors.len() / 2).is_none_or(|middle| *middle <= FAR)
        })
    }

    fn told(&self, base: &Base) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(rpm) = &self.impossible {
            lines.push(format!(
                "no answer: the disk would have to turn with {rpm} rpm or beyond that, as none \
                 does; try another --base"
            ));
        } else if let Some(load) = &self.contradiction {
            lines.push(format!(
                "no answer: {load}: no drive in one state does both, and the part is of none; keep \
                 the rows of one"
            ));
        } else if !self.fits() {
            lines.push(format!(
                "no answer: with none of the values tried does this base do what the drive does; \
                 half of the numbers, fitted or held back, are more than {:.0} % off; try another \
                 --base, or more --tries",
                100.0 * FAR
            ));
        }
        lines.push(format!("fitted to:  {}", summary(&self.split.fitted, &self.fitted)));
        lines.push(match self.held.len() {
            0 => "held back:  no point; nothing judges this part".into(),
            _ => format!("held back:  {}", summary(&self.split.held, &self.held)),
        });
        if let Some(name) = base.mechanism {
            let all: Vec<String> = self.fit.ways.iter().map(fit::Way::told).collect();
            let all = all.join(", ");
            lines.push(format!("writes are let in by: {name}; off by, weighted: {all}"));
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["key", "value", "known to"]);
        if let Some(dies) = self.fit.place.dies {
            table.add_row([DIES.to_string(), dies.to_string(), self.fit.of_dies()]);
        }
        for (index, (key, value)) in base.values(&self.fit.place).into_iter().enumerate() {
            table.add_row([key, value.to_string(), self.fit.known(index)]);
        }
        lines.extend(table.lines().map(|line| line.trim_end().to_string()));
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["load", "", "", "drive", "part", ""]);
        let sets =
            [("fitted", &self.split.fitted, &self.fitted), ("held", &self.split.held, &self.held)];
        for (set, points, values) in sets {
            for (point, values) in points.iter().zip(values) {
                for (metric, (name, _)) in METRICS.iter().enumerate() {
                    let Some(measured) = point.measured[metric] else { continue };
                    let off = error(Some(measured), values[metric]);
                    table.add_row([
                        point.label(),
                        set.into(),
                        (*name).into(),
                        format!("{measured:.1}"),
                        values[metric].map_or("none".into(), |value| format!("{value:.1}")),
                        off.map_or(String::new(), |off| format!("{:+.1} %", 100.0 * off)),
                    ]);
                }
            }
        }
        let right = table.column_iter_mut().skip(3);
        right.for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        lines.extend(table.lines().map(|line| line.trim_end().to_string()));
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        lines
    }

    fn as_json(&self, base: &Base, out: &str) -> Value {
        let values = base.values(&self.fit.place).into_iter().enumerate();
        let keys: Vec<Value> = values
            .map(|(index, (key, value))| {
                json!({ "key": key, "value": value.to_string(),
                    "standard_error": self.fit.spreads[index],
                    "not_identified": self.fit.unknown[index] })
            })
            .collect();
        let rows = |points: &[Point], values: &[Values]| -> Vec<Value> {
            let row = |(point, values): (&Point, &Values)| row(point, named(values));
            points.iter().zip(values).map(row).collect()
        };
        let dies = self.fit.dies.iter().zip(&self.fit.off).map(
            |((dies, best), off)| json!({ "dies": dies, "error": off, "weighted": best.cost }),
        );
        let ways: Vec<_> = self.fit.ways.iter().map(fit::Way::as_json).collect();
        json!({ "part": out, "tries": self.fit.tries, "keys": keys,
                "dies_per_package": self.fit.place.dies, "dies_tried": dies.collect::<Vec<_>>(),
                "fits": self.fits(), "mechanism": base.mechanism, "mechanisms_tried": ways,
                "fitted": rows(&self.split.fitted, &self.fitted),
                "held_back": rows(&self.split.held, &self.held), "notes": self.notes })
    }
}
