//! `blocklab trace info`: what a trace is like.

use serde_json::json;
use sim::{Bytes, Nanos};
use study::Failure;
use trace::{Summary, SummaryMeter};

use super::source::Source;

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    source: Source,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<u8, Failure> {
        let mut reading = self.source.open(false)?;
        let mut meter = SummaryMeter::default();
        reading.for_each(|record, _| {
            meter.add(record);
            Ok(())
        })?;
        let summary = meter.finish(&reading.trace);
        let (format, compression) = (reading.trace.format().name(), reading.trace.compression());
        let notes = reading.trace.remarks();
        let file = self.source.file.display().to_string();
        if self.json {
            let about = json!({
                "file": file, "format": format, "compression": compression, "notes": notes,
            });
            let mut all = json!(summary);
            if let (Some(all), Some(about)) = (all.as_object_mut(), about.as_object()) {
                all.extend(about.clone());
            }
            super::say_json(&all)?;
            return Ok(0);
        }
        let packed = compression.map(|by| format!(", {by}")).unwrap_or_default();
        let mut lines = vec![format!("{file}: {format}{packed}")];
        describe(&summary, &mut lines);
        lines.extend(notes.iter().map(|note| format!("note         {note}")));
        lines.push(String::new());
        super::say(&lines.join("\n"))?;
        Ok(0)
    }
}

/// Devices and processes listed at most.
const LISTED: usize = 8;

fn describe(summary: &Summary, lines: &mut Vec<String>) {
    let span = summary.span_s.map_or(", no times".into(), |s| format!(" in {s:.3} s"));
    lines.push(format!("requests     {}{span}", summary.requests));
    let kinds = [
        ("reads", summary.read),
        ("writes", summary.write),
        ("flushes", summary.flush),
        ("discards", summary.discard),
    ];
    for (name, share) in kinds.iter().filter(|kind| kind.1.requests > 0) {
        let (bytes, mean) = (Bytes(share.bytes), share.mean_bytes / 1024.0);
        match share.bytes {
            0 => lines.push(format!("{name:<12} {}", share.requests)),
            _ => lines.push(format!("{name:<12} {}, {bytes}, mean {mean:.2} KiB", share.requests)),
        }
    }
    if summary.fua > 0 {
        lines.push(format!("FUA          {}", summary.fua));
    }
    lines.push(format!("sequential   {:.1} %", summary.sequential_share * 100.0));
    match summary.footprint_bytes {
        Some(bytes) => lines.push(format!("footprint    {} in 4 KiB blocks", Bytes(bytes))),
        None => lines.push("footprint    too spread to be counted".into()),
    }
    if let Some(first) = summary.sector_first {
        let reach = Bytes(summary.sector_end * sim::SECTOR_BYTES);
        lines.push(format!("sectors      {first} to {} ({reach})", summary.sector_end));
    }
    if let Some(mean) = summary.response_mean_us {
        lines.push(format!("response     mean {}", Nanos((mean * 1e3) as u64)));
    }
    let transfers = (summary.read.requests + summary.write.requests).max(1) as f64;
    for class in &summary.sizes {
        let share = class.requests as f64 / transfers * 100.0;
        let bar = "#".repeat((share / 2.5).ceil() as usize);
        let size = Bytes(class.bytes_max).to_string();
        lines.push(format!("size <= {size:>8} {share:5.1} % {bar}"));
    }
    for (what, names) in [("device", &summary.devices), ("process", &summary.processes)] {
        for named in names.iter().take(LISTED) {
            let share = named.share;
            let (requests, bytes) = (share.requests, Bytes(share.bytes));
            lines.push(format!("{what:<12} {}: {requests} requests, {bytes}", named.name));
        }
        if names.len() > LISTED {
            let more = names.len() - LISTED;
            lines.push(format!("             ... and {more} more (--json lists all)"));
        }
    }
}
