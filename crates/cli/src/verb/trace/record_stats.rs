//! `blocklab trace record-stats`: reuse, overwrites, arrivals and depths, as JSON.

use config::Size;
use serde_json::json;
use study::Failure;
use trace::LocalityMeter;

use super::source::Source;

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    source: Source,
    /// Size of the regions whose reuse is measured
    #[arg(long, default_value = "1MiB", value_parser = Size::parse)]
    region: Size,
    /// The answer is JSON with or without this
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<u8, Failure> {
        let bytes = self.region.0.0;
        if bytes == 0 || !bytes.is_multiple_of(sim::SECTOR_BYTES) {
            return Err(Failure::input(format!("--region {} is no region", self.region))
                .expected("a multiple of 512 B, such as 1MiB"));
        }
        let mut reading = self.source.open(true)?;
        let mut meter = LocalityMeter::new(bytes);
        reading.for_each(|record, _| {
            meter.add(record);
            Ok(())
        })?;
        let mut all = json!(meter.finish());
        all["file"] = json!(self.source.file.display().to_string());
        all["format"] = json!(reading.trace.format().name());
        all["notes"] = json!(reading.trace.remarks());
        super::say_json(&all)?;
        Ok(0)
    }
}
