//! What an elevator did while the program ran.

use std::collections::BTreeMap;

use serde::Serialize;
use sim::{Counters, SECTOR_BYTES};

/// An elevator before a device.
#[derive(Clone, Debug, Serialize)]
pub struct ElevatorReport {
    /// Its policy.
    pub policy: String,
    /// What it counted: bios, what became of them, requests to the device, and the policy's own.
    pub counts: BTreeMap<String, u64>,
    /// What each process got of the device; those that asked first.
    pub shares: Vec<ShareReport>,
}

/// What one process got.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ShareReport {
    /// Its number in the guest; `None` for all that are not told apart.
    pub process: Option<u64>,
    /// Requests of the device.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their time in the device, together.
    pub service_ns: u64,
}

/// Names of what the device below counts begin so.
const BELOW: &str = "device.";
/// Names of what a process got begin so.
const SHARE: &str = "share.";
/// The share of all that are not told apart.
const OTHERS: &str = "others";

impl ElevatorReport {
    /// From what was counted in between.
    pub(super) fn of(policy: &str, counted: &Counters) -> ElevatorReport {
        let own = counted.counts.iter().filter(|(name, _)| !name.starts_with(BELOW));
        let counts = own.filter(|(name, _)| !name.starts_with(SHARE)).cloned().collect();
        let shares = counted.counts.iter().filter_map(|(name, requests)| {
            let nth = name.strip_prefix(SHARE)?.strip_suffix(".requests")?;
            let get = |what: &str| counted.get(&format!("{SHARE}{nth}.{what}"));
            let named = format!("{SHARE}{nth}.process");
            let process = counted.levels.iter().find(|(name, _)| *name == named);
            Some(ShareReport {
                process: process.filter(|_| nth != OTHERS).map(|&(_, process)| process),
                requests: *requests,
                bytes: get("sectors") * SECTOR_BYTES,
                service_ns: get("service_ns"),
            })
        });
        let shares = shares.filter(|share| share.requests > 0).collect();
        ElevatorReport { policy: policy.into(), counts, shares }
    }

    /// For people.
    pub(super) fn lines(&self) -> Vec<String> {
        let get = |name: &str| self.counts.get(name).copied().unwrap_or(0);
        let mut lines = vec![format!(
            "  {:<8} {:>8} enqueued  {:>8} merged back  {} front  {} requests joined  {:>8} \
             dequeued ({} reads, {} writes)",
            self.policy,
            get("enqueued"),
            get("merged_back"),
            get("merged_front"),
            get("merged_requests"),
            get("dequeued"),
            get("dequeued_reads"),
            get("dequeued_writes"),
        )];
        if self.counts.contains_key("anticipations_won") {
            lines.push(format!(
                "  {:<8} {:>8} anticipations won, {} lost, {:.3} s idle for them",
                "",
                get("anticipations_won"),
                get("anticipations_lost"),
                get("idled_ns") as f64 / 1e9
            ));
        }
        lines.extend(self.shares.iter().map(|share| {
            let process = share.process.map_or(OTHERS.into(), |process| process.to_string());
            format!(
                "  {:<8} {:>8} requests of process {process}: {:.1} MiB in {:.3} s of the device",
                "",
                share.requests,
                share.bytes as f64 / f64::from(1 << 20),
                share.service_ns as f64 / 1e9
            )
        }));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_elevators_own_and_each_processs_is_told_apart() {
        let mut counted = Counters::default();
        for (name, count) in [
            ("enqueued", 9),
            ("anticipations_won", 2),
            ("idled_ns", 1_500_000_000),
            ("share.1.requests", 4),
            ("share.1.sectors", 2048),
            ("share.1.service_ns", 7),
            ("share.2.requests", 0),
            ("share.others.requests", 3),
            ("device.writes", 5),
        ] {
            counted.add(name, count);
        }
        counted.level("share.1.process", 77);
        counted.level("share.2.process", 78);
        let report = ElevatorReport::of("cfq", &counted);
        let names: Vec<&str> = report.counts.keys().map(String::as_str).collect();
        assert_eq!(names, ["anticipations_won", "enqueued", "idled_ns"]);
        let first = ShareReport { process: Some(77), requests: 4, bytes: 1 << 20, service_ns: 7 };
        assert_eq!(report.shares[0], first);
        assert_eq!((report.shares.len(), report.shares[1].process), (2, None));
        let lines = report.lines();
        assert!(lines[1].contains("2 anticipations won, 0 lost, 1.500 s"), "{lines:?}");
        assert!(lines[3].contains("3 requests of process others"), "{lines:?}");
    }
}
