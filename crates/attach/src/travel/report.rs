//! What a journey leaves behind.

use serde::Serialize;
use sim::{Histogram, Op};
use study::{HostProfile, host, metrics};

use crate::session::open::Origin;
use crate::statistics::{Operation, Quantiles};

use super::elevator::ElevatorReport;
use super::faults::FaultReport;
use super::plan::{BlockStatistics, Findings};
use super::queue::Latencies;
use super::serve::Server;

/// What travel does not model where code is free.
const FREE: &str =
    "CPU time is free: exact where the device is the limit, too fast where the CPU is";
/// And where it is charged.
const CHARGED: &str = "a program's own computing is free: charged is what the kernel does for it";
/// And where that is, too.
const AVERAGE: &str =
    "a program's own computing is the same between any two of its calls, whatever it computes";
/// In every report.
const LEAVES_OUT: [&str; 2] = [
    "one CPU: the guest's kernel is not SMP, so every disk has one queue",
    "a program that asks the processor for the time (fio's default) or for random numbers sees \
     the host's; fio: --clocksource=clock_gettime",
];

/// A journey.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Its exit code.
    pub code: u8,
    /// The guest's kernel.
    pub kernel: String,
    /// Virtual seconds from the program's start to its end.
    pub command_s: f64,
    /// Virtual seconds that writing back what the program left took after it.
    pub sync_s: f64,
    /// Virtual seconds from the guest's boot to its end.
    pub whole_s: f64,
    /// Wall seconds of all of it.
    pub wall_s: f64,
    /// The host whose code was charged; `none`: code was free.
    pub host: String,
    /// Virtual seconds of the program that were charged for code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor_s: Option<f64>,
    /// Their share of the program's time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor_share: Option<f64>,
    /// CPU seconds of this machine that the guest took while the program ran, where they are known;
    /// they cost no virtual time.
    pub free_cpu_s: Option<f64>,
    /// Their share of the program's time, had they cost as much: `free_cpu_s` of `free_cpu_s` and
    /// `command_s`.
    pub free_cpu_share: Option<f64>,
    /// The guest's memory.
    pub memory_mib: u64,
    /// File system that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_system: Option<String>,
    /// Root of the guest's random numbers.
    pub seed: u64,
    /// Requests that a disk takes at a time.
    pub queue_depth: u32,
    /// Digest of every request that a device was given, and of when it was done.
    pub digest: String,
    /// The disks, in order.
    pub disks: Vec<DiskReport>,
    /// What travel does not model.
    pub leaves_out: Vec<&'static str>,
}

/// One disk; figures are of the program alone where nothing else is said.
#[derive(Clone, Debug, Serialize)]
pub struct DiskReport {
    /// What the guest calls it.
    pub name: String,
    /// The part.
    pub part: String,
    /// The model.
    pub model: String,
    /// How far the part can be trusted.
    pub status: String,
    /// Digest of everything the device depends on.
    pub digest: String,
    /// The scheduler.
    pub scheduler: String,
    /// The elevator that is part of the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elevator: Option<ElevatorReport>,
    /// Bytes programmed per byte written, where there is flash, over the whole session.
    pub waf: Option<f64>,
    /// Share of the time with at least one request inside.
    pub busy_share: f64,
    /// At the block layer, as the guest's kernel counts.
    pub block: Vec<BlockReport>,
    /// What writing back added after the program, as the guest's kernel counts.
    pub block_sync: Vec<BlockReport>,
    /// At the device, its elevator included, by operation.
    pub device: Vec<Operation>,
    /// At the device, by operation, over the whole session.
    pub device_whole: Vec<Operation>,
    /// What went wrong with it, as it was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultReport>,
}

/// One operation at the block layer.
#[derive(Clone, Debug, Serialize)]
pub struct BlockReport {
    /// Its name.
    pub op: &'static str,
    /// What the queue was given.
    pub queued: u64,
    /// Of these, what became part of another request.
    pub merged: u64,
    /// Of these, what has no data for the device: the kernel counts a flush by itself as a write,
    /// and sends one flush for all that wait for one.
    pub without_data: u64,
    /// Requests that the device was given, and completed.
    pub dispatched: u64,
    /// Bytes that the kernel counts.
    pub bytes: u64,
    /// Mean time of what was not merged, from the queue to its end, in microseconds.
    pub mean_us: f64,
    /// The mean is wrong by at most this: the kernel says whole milliseconds, of all together.
    pub mean_us_error: f64,
    /// The same of each request before merging, by percentile; only where the queue was recorded,
    /// because that reads the guest's clock. Flushes are not in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Quantiles>,
}

/// What the user asked for.
pub(super) struct Asked {
    pub(super) queue_depth: u32,
    pub(super) memory_mib: u64,
    pub(super) mkfs: Option<String>,
    pub(super) seed: u64,
    pub(super) command: Vec<String>,
    pub(super) host: Option<HostProfile>,
}

/// Operation, and where the kernel has its requests, merges, sectors and milliseconds.
const FIELDS: [(&str, [Option<usize>; 4]); 4] = [
    ("read", [Some(0), Some(1), Some(2), Some(3)]),
    ("write", [Some(4), Some(5), Some(6), Some(7)]),
    ("discard", [Some(11), Some(12), Some(13), Some(14)]),
    ("flush", [Some(15), None, None, Some(16)]),
];

fn block(
    between: BlockStatistics,
    device: &[Operation],
    latencies: Option<&[Histogram; 4]>,
) -> Vec<BlockReport> {
    let of = |field: Option<usize>| field.map_or(0, |index| between.0[index]);
    let all = FIELDS.iter().map(|&(op, [requests, merges, sectors, time])| {
        let known = Op::ALL.into_iter().find(|known| known.name() == op);
        let latency = latencies.zip(known).map(|(all, known)| &all[known as usize]);
        let dispatched = device.iter().find(|of_device| of_device.op == op);
        let dispatched = dispatched.map_or(0, |of_device| of_device.requests);
        let (requests, merged) = (of(requests), of(merges));
        let us_per_ms = 1e3 / requests.max(1) as f64;
        BlockReport {
            op,
            queued: requests + merged,
            merged,
            without_data: requests.saturating_sub(dispatched),
            dispatched,
            bytes: of(sectors) * sim::SECTOR_BYTES,
            mean_us: of(time) as f64 * us_per_ms,
            mean_us_error: us_per_ms,
            latency_us: latency.filter(|latency| latency.count() > 0).map(Quantiles::of),
        }
    });
    all.filter(|report| report.queued + report.dispatched > 0).collect()
}

/// Put together what the guest and the devices say.
pub(super) fn of(
    server: &mut Server,
    origins: &[Origin],
    (findings, latencies): (Findings, Vec<Latencies>),
    asked: Asked,
    wall_s: f64,
) -> Report {
    let seconds = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1e9;
    let Findings { began_ns, ended_ns, synced_ns, charged_ns, .. } = findings;
    let command_s = seconds(began_ns, ended_ns);
    let free_cpu_s = server.free_cpu.seconds();
    let processor_s = charged_ns.map(|ns| ns as f64 / 1e9);
    let left_out = match &asked.host {
        None => FREE,
        Some(host) if host.costs.call.between.is_none() => CHARGED,
        Some(_) => AVERAGE,
    };
    let mut disks = Vec::new();
    for (index, identity) in origins.iter().enumerate() {
        let export = &server.shared.exports[index];
        let [before, after, synced] = findings.statistics.get(index).copied().unwrap_or_default();
        let latencies = latencies.get(index);
        let phase = |index: usize| latencies.map(|latencies| &latencies.0[index]);
        let [_, program, sync, _] = &server.phases[index].all;
        let mut whole = crate::statistics::Statistics::default();
        server.phases[index].all.iter().for_each(|phase| whole.merge(&phase.statistics));
        disks.push(DiskReport {
            name: format!("vd{}", (b'a' + index as u8) as char),
            part: identity.part.name.clone(),
            model: identity.model.clone(),
            status: identity.part.status.clone(),
            digest: identity.digest.clone(),
            scheduler: findings.schedulers.get(index).cloned().unwrap_or_default(),
            elevator: identity
                .elevator
                .as_ref()
                .map(|policy| ElevatorReport::of(policy, &server.phases[index].counted())),
            waf: metrics::value(&identity.counted(&export.engine), "waf"),
            busy_share: (program.busy_ns as f64 / 1e9 / command_s.max(1e-9)).min(1.0),
            block: block(after.since(&before), &program.statistics.operations(), phase(0)),
            block_sync: block(synced.since(&after), &sync.statistics.operations(), phase(1)),
            device: program.statistics.operations(),
            device_whole: whole.operations(),
            faults: server.faults.report(index, export.engine.faults()),
        });
    }
    Report {
        code: findings.code.unwrap_or(1),
        command: asked.command,
        kernel: findings.kernel,
        command_s,
        sync_s: seconds(ended_ns, synced_ns),
        whole_s: server.now().0 as f64 / 1e9,
        wall_s,
        host: asked.host.map_or_else(|| host::NONE.into(), |host| host.name),
        processor_s,
        processor_share: processor_s.map(|s| s / command_s.max(1e-9)),
        free_cpu_s,
        free_cpu_share: free_cpu_s.map(|free| free / (free + command_s).max(1e-9)),
        memory_mib: asked.memory_mib,
        file_system: asked.mkfs,
        seed: asked.seed,
        queue_depth: asked.queue_depth,
        digest: server.digest.to_string(),
        disks,
        leaves_out: [left_out].into_iter().chain(LEAVES_OUT).collect(),
    }
}

fn times(us: &Quantiles) -> String {
    format!(
        "mean {:.1} p50 {:.1} p95 {:.1} p99 {:.1} max {:.1} us",
        us.mean, us.p50, us.p95, us.p99, us.max
    )
}

impl BlockReport {
    fn lines(&self) -> Vec<String> {
        let BlockReport { op, queued, merged, without_data, dispatched, .. } = self;
        let without_data = match without_data {
            0 => String::new(),
            some => format!("  {some:>8} without data"),
        };
        let mean = mean(self.mean_us, self.mean_us_error);
        let mut lines = vec![format!(
            "  {op:<8} {queued:>8} queued  {merged:>8} merged{without_data}  {dispatched:>8} \
             dispatched  {mean} us mean in the block layer"
        )];
        if let Some(us) = &self.latency_us {
            lines.push(format!("  {:<8} {:>8} in the block layer: {}", "", "", times(us)));
        }
        lines
    }
}

/// As much of a mean as is known.
fn mean(us: f64, error_us: f64) -> String {
    match us {
        _ if error_us < 0.05 => format!("{us:.1}"),
        _ if us <= error_us => format!("under {:.1}", us + error_us),
        _ => format!("{us:.1} ±{error_us:.1}"),
    }
}

/// From this share on a result is called distorted.
const DISTORTED: f64 = 0.1;

impl Report {
    /// For people: a few lines per disk.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "{:.6} s of virtual time, {:.6} s more to write back; Linux {} on {} MiB; {:.1} s of \
             wall time",
            self.command_s, self.sync_s, self.kernel, self.memory_mib, self.wall_s
        )];
        lines.extend(self.processor().or_else(|| self.free_cpu()));
        for disk in &self.disks {
            let waf = disk.waf.map_or(String::new(), |waf| format!(", WAF {waf:.3}"));
            let busy = format!(", busy {:.0} % of the time", disk.busy_share * 100.0);
            let above = match &disk.elevator {
                Some(elevator) => format!("elevator {}", elevator.policy),
                None => disk.scheduler.clone(),
            };
            lines.push(format!("{} ({}), {above}{waf}{busy}", disk.name, disk.part));
            lines.extend(disk.faults.iter().map(|fault| format!("  {}", fault.note())));
            if disk.block.is_empty() {
                lines.push("  no requests".into());
            }
            lines.extend(disk.block.iter().flat_map(BlockReport::lines));
            lines.extend(disk.elevator.iter().flat_map(ElevatorReport::lines));
            let inside = if disk.elevator.is_some() { "elevator and device" } else { "device" };
            for op in &disk.device {
                let (name, times) = (op.op, times(&op.modelled_us));
                lines.push(format!("  {name:<8} {:>8} in the {inside}: {times}", op.requests));
            }
        }
        lines.push(format!("digest {}", self.digest));
        lines.extend(self.leaves_out.iter().map(|what| format!("left out: {what}")));
        lines
    }

    /// How much of the result is code.
    fn processor(&self) -> Option<String> {
        let (s, share) = (self.processor_s?, self.processor_share?);
        Some(format!(
            "processor time: {:.0} % of the run, {s:.6} s, charged as on {}",
            share * 100.0,
            self.host
        ))
    }

    /// How far the result may be off because code takes no time.
    fn free_cpu(&self) -> Option<String> {
        let (free_s, share) = (self.free_cpu_s?, self.free_cpu_share?);
        let verdict = judged(share);
        Some(format!(
            "free CPU: {:.0} % of the run; {free_s:.2} s of this machine's CPU cost no virtual \
             time, with them it would take up to {:.2} s: {verdict}",
            share * 100.0,
            self.command_s + free_s
        ))
    }
}

/// What a share of the run that was free CPU says about its result.
fn judged(share: f64) -> &'static str {
    if share < DISTORTED {
        "the result stands"
    } else {
        "the result is distorted where the CPU would be the limit"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_free_cpu_distorts_a_result() {
        assert_eq!(judged(0.099), "the result stands");
        assert!(judged(0.1).contains("distorted"));
    }

    #[test]
    fn the_kernels_counts_become_a_report() {
        let mut fields = [0; 17];
        (fields[0], fields[1], fields[2], fields[3]) = (10, 5, 120, 30);
        (fields[4], fields[5], fields[7]) = (7, 1, 0);
        (fields[15], fields[16]) = (2, 8);
        let device = [("read", 10), ("write", 4), ("flush", 2)].map(|(op, requests)| Operation {
            op,
            requests,
            bytes: 0,
            modelled_us: Quantiles::default(),
            served_us: Quantiles::default(),
        });
        let reports = block(BlockStatistics(fields), &device, None);
        let [read, write, flush] = &reports[..] else { panic!("{reports:?}") };
        assert_eq!((read.queued, read.merged, read.dispatched), (15, 5, 10));
        assert_eq!((read.bytes, read.mean_us), (61440, 3000.0));
        // Three of the writes are flushes by themselves: the device has no such writes.
        assert_eq!(
            (write.queued, write.merged, write.without_data, write.dispatched),
            (8, 1, 3, 4)
        );
        assert!(write.lines()[0].contains("3 without data"), "{:?}", write.lines());
        assert_eq!((flush.op, flush.queued, flush.mean_us), ("flush", 2, 4000.0));
    }

    #[test]
    fn a_mean_has_the_digits_that_are_known() {
        assert_eq!(mean(63.81, 0.01), "63.8");
        assert_eq!(mean(63.81, 2.04), "63.8 ±2.0");
        assert_eq!(mean(0.0, 83.3), "under 83.3");
        assert_eq!(mean(83.3, 83.3), "under 166.6");
    }
}
