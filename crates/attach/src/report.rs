//! What a session leaves behind: its conditions, and how late it was.

use serde::Serialize;

use crate::realtime::Priority;
use crate::statistics::{Beyond, Summary};

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
    /// Bytes programmed per byte written, where there is flash.
    pub waf: Option<f64>,
    /// How long clients waited beyond the model's time, where it is known.
    pub clients: Option<Beyond>,
    /// What was measured.
    #[serde(flatten)]
    pub measured: Summary,
}

impl DeviceReport {
    /// One line: is the run to be trusted, and as far as what?
    fn verdict(&self) -> String {
        let Summary { faithful, doubts, lateness, .. } = &self.measured;
        if !faithful {
            return format!("  NOT FAITHFUL: {}", doubts.join("; "));
        }
        let limit = lateness.limit_p99_us;
        match &self.clients {
            Some(Beyond { source, requests, beyond_us }) => format!(
                "  faithful: p99 of lateness within {limit:.0} us, clients within {:.1} us of the \
                 model ({source}, {requests})",
                beyond_us.abs()
            ),
            None => format!(
                "  faithful up to the reply: p99 of lateness within {limit:.0} us; the way to the \
                 client was not watched, or too little"
            ),
        }
    }
}

impl Report {
    /// For people: a few lines per device.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for device in &self.devices {
            let Summary { replies, operations, failures, lateness, .. } = &device.measured;
            let name = match device.export.as_str() {
                "" => device.part.clone(),
                export => format!("{export} ({})", device.part),
            };
            if *replies == 0 {
                lines.push(format!("{name}: no requests"));
                continue;
            }
            let what = if *replies == 1 { "request" } else { "requests" };
            lines.push(format!("{name}: {replies} {what}"));
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
            for failed in failures {
                lines.push(format!("  failed: {} {} ({})", failed.requests, failed.op, failed.why));
            }
            lines.push(device.verdict());
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
