//! `blocklab compare`: how far is my drive from this part?

use std::path::PathBuf;

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};
use study::Failure;

use super::measured::{
    Bench, METRICS, Point, SEED, Values, error, errors, files, median, named, of_model,
    overwritten, row, summary,
};
use crate::say;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Parts, by name or file
    #[arg(required = true)]
    parts: Vec<String>,
    /// What was measured on the drive: fio's JSON output, or a table
    /// (docs/howto/compare-with-my-drive.md)
    #[arg(long, value_name = "FILE")]
    with: PathBuf,
    /// Before it is measured, overwrite this much of the filled part at random, in percent;
    /// default: 300 of an SSD if writes have a rate offered or the table is one of SNIA's, else 0
    #[arg(long, value_name = "PERCENT")]
    overwritten: Option<u32>,
    /// Requests that each point is measured with
    #[arg(long, value_name = "N", default_value_t = 50_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// Change a key of each part that is such a device, as ssd.geometry.blocks_per_plane=64 does of
    /// SSDs; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

/// A part beside the drive.
struct Compared {
    part: String,
    /// By point and metric: what the part does there.
    modelled: Vec<Values>,
    notes: Vec<String>,
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        let text = files::text(&self.with)?;
        let files::Measured { points, notes, behind } = files::points(&self.with, &text)?;
        let models: Result<Vec<String>, Failure> =
            self.parts.iter().map(|part| study::model_of(part)).collect();
        let models = models?;
        let is_of_none = |set: &&String| !models.iter().any(|model| of_model(set, model));
        if let Some(set) = self.sets.iter().find(is_of_none) {
            return Err(Failure::input(format!("--set {set}: none of the parts is such a device"))
                .expected(format!("a key of {}", models.join(", "))));
        }
        let pairs = self.parts.iter().zip(&models);
        let compared: Result<Vec<Compared>, Failure> =
            pairs.map(|(part, model)| self.compare(part, model, (&points, behind))).collect();
        let compared = compared?;
        if self.json {
            say(as_json(&points, &compared, &notes));
        } else {
            told(&points, &compared, &notes).iter().for_each(say);
        }
        Ok(0)
    }

    fn compare(
        &self,
        part: &str,
        model: &str,
        (points, behind): (&[Point], Option<u32>),
    ) -> Result<Compared, Failure> {
        let (overwritten, unknown) = overwritten(self.overwritten, model, points, behind);
        let requests = self.requests;
        let bench = Bench { part, model, overwritten, requests, seed: SEED, keep: true };
        let (modelled, mut notes) = bench.run(points, &self.sets)?;
        notes.extend(unknown);
        Ok(Compared { part: part.to_string(), modelled, notes })
    }
}

impl Compared {
    fn median(&self, points: &[Point]) -> f64 {
        median(&errors(points, &self.modelled, None)).unwrap_or(f64::INFINITY)
    }
}

fn told(points: &[Point], compared: &[Compared], notes: &[String]) -> Vec<String> {
    let mut ranked: Vec<&Compared> = compared.iter().collect();
    ranked.sort_by(|a, b| a.median(points).total_cmp(&b.median(points)));
    let mut lines = Vec::new();
    for one in ranked {
        let errors = summary(points, &one.modelled);
        lines.push(format!("{}: median errors: {errors}", one.part));
        lines.extend(one.notes.iter().map(|note| format!("note: {note}")));
    }
    lines.extend(notes.iter().map(|what| format!("note: {what}")));
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec!["load".to_string(), String::new(), "drive".to_string()];
    header.extend(compared.iter().flat_map(|one| [one.part.clone(), String::new()]));
    table.set_header(header);
    for (index, point) in points.iter().enumerate() {
        for (metric, (name, _)) in METRICS.iter().enumerate() {
            let Some(measured) = point.measured[metric] else { continue };
            let mut row = vec![point.label(), (*name).into(), format!("{measured:.1}")];
            for one in compared {
                let modelled = one.modelled[index][metric];
                row.push(modelled.map_or("none".into(), |value| format!("{value:.1}")));
                let error = error(Some(measured), modelled);
                row.push(error.map_or(String::new(), |error| format!("{:+.1} %", 100.0 * error)));
            }
            table.add_row(row);
        }
    }
    let right = table.column_iter_mut().skip(2);
    right.for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    lines.extend(table.lines().map(|line| line.trim_end().to_string()));
    lines
}

fn as_json(points: &[Point], compared: &[Compared], notes: &[String]) -> Value {
    let parts = compared.iter().map(|one| {
        let rows =
            points.iter().zip(&one.modelled).map(|(point, modelled)| row(point, named(modelled)));
        let rows: Vec<Value> = rows.collect();
        json!({ "part": one.part, "median_error": one.median(points), "points": rows,
                "notes": one.notes })
    });
    json!({ "parts": parts.collect::<Vec<_>>(), "notes": notes })
}
