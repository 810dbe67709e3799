//! What a session leaves behind: its conditions, and how late it was.

use serde::Serialize;

use crate::realtime::Priority;
use crate::statistics::Summary;

/// A session.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The frontend.
    pub frontend: &'static str,
    /// Wall time from the first client on, in seconds.
    pub wall_s: f64,
    /// Wall nanoseconds per modelled nanosecond.
    pub dilation: u64,
    /// Round trip of a request besides its time in the device, where it was measured, in
    /// microseconds.
    pub round_trip_us: Option<f64>,
    /// How much earlier than their arrival requests were stamped, in microseconds.
    pub compensation_us: f64,
    /// The event loop's scheduling class.
    pub priority: Priority,
    /// The share of the median modelled time that the p99 of lateness may reach.
    pub late_share: f64,
    /// True when every device was served in time.
    pub faithful: bool,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// The devices, in the order they were named.
    pub devices: Vec<DeviceReport>,
}

/// One device of a session.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceReport {
    /// The clients' name for it.
    pub export: String,
    /// The part.
    pub part: String,
    /// The model.
    pub model: String,
    /// How far the part can be trusted.
    pub status: String,
    /// Digest of everything the device depends on.
    pub digest: String,
    /// Pages programmed per page written, where there are pages.
    pub waf: Option<f64>,
    /// What was measured.
    #[serde(flatten)]
    pub measured: Summary,
}

/// What is to be done, behind what is wrong.
fn after(advice: &str) -> String {
    if advice.is_empty() { String::new() } else { format!("; {advice}") }
}

impl Report {
    /// For people: a few lines per device.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for device in &self.devices {
            let Summary { replies, operations, lateness, faithful, advice, .. } = &device.measured;
            let name = match device.export.as_str() {
                "" => device.part.clone(),
                export => format!("{export} ({})", device.part),
            };
            if *replies == 0 {
                lines.push(format!("{name}: no requests"));
                continue;
            }
            lines.push(format!("{name}: {replies} requests"));
            for op in operations {
                let (m, s) = (&op.modelled_us, &op.served_us);
                lines.push(format!(
                    "  {:<8} {:>9}  modelled p50 {:.1} p99 {:.1} us, served p50 {:.1} p99 {:.1} us",
                    op.op, op.requests, m.p50, m.p99, s.p50, s.p99
                ));
            }
            let us = &lateness.us;
            lines.push(format!(
                "  lateness p50 {:.1}  p99 {:.1}  p99.9 {:.1}  max {:.1} us; {} over 20 us, \
                 {} over 5 %; {} early",
                us.p50,
                us.p99,
                us.p99_9,
                us.max,
                lateness.late_over_20_us,
                lateness.late_over_5_percent,
                lateness.early
            ));
            let limit = lateness.limit_p99_us;
            lines.push(match faithful {
                true => format!("  faithful: p99 of lateness within {limit:.0} us"),
                false => {
                    format!("  NOT FAITHFUL: p99 of lateness beyond {limit:.0} us{}", after(advice))
                }
            });
        }
        lines.push(format!(
            "compensation {:.1} us, dilation {}{}",
            self.compensation_us,
            self.dilation,
            match &self.priority {
                Priority::Realtime => ", real-time priority".to_string(),
                Priority::Normal(_) => ", normal priority".to_string(),
            }
        ));
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        lines
    }
}
