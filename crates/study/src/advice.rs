//! What a reader must be told before believing a run's numbers, and what to do about it.

use models::registry::{Replay, WorkloadModel};
use sim::{Completion, Nanos, Outcome, Probe, Request};
use workload::replay::timestamps::SCALE_MAX;

use crate::document::PreconditionStep;
use crate::metrics::Metrics;
use crate::planned::PlannedRun;
use crate::steady::Blocks;

/// Reads of what was never written are worth a word from this share on.
const UNWRITTEN_PERCENT: f64 = 1.0;
/// A write buffer that kept more than half of what was written hides what the drive does.
const REACHED_FLASH_MIN: f64 = 0.5;
/// A queue longer than the device's own is a backlog; of a device without a bound, than this.
const BACKLOG_MIN: u64 = 256;
/// An open loop is lost when somebody waits this long,
const BEHIND_MAX: Nanos = Nanos(1_000_000_000);
/// or when the device needs this share of the trace's time on top of it.
const BEHIND_PERCENT: u64 = 5;

/// How far a device is behind a workload that does not wait for it.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Backlog {
    now: u64,
    most: u64,
    /// When the latest request was issued, and how many were then under way.
    latest: (Nanos, u64),
    longest: Nanos,
}

impl Probe for Backlog {
    #[inline]
    fn on_issue(&mut self, now: Nanos, _request: &Request) {
        self.now += 1;
        self.most = self.most.max(self.now);
        self.latest = (now, self.now);
    }
    #[inline]
    fn on_complete(&mut self, _request: &Request, issued: Nanos, completion: Completion) {
        self.now -= 1;
        self.longest = self.longest.max(completion.at.since(issued));
    }
}

impl Backlog {
    /// What to say of a run that began at `start`, on a device that takes `depth` requests.
    fn note(&self, start: Nanos, outcome: &Outcome, depth: u32, scale: f64) -> Option<String> {
        let room = u64::from(depth).min(BACKLOG_MIN);
        let (latest, left) = self.latest;
        let (arrivals, behind) = (latest.since(start), outcome.end.since(latest));
        let late_at_end = left > room && behind.0 > arrivals.0 / 100 * BEHIND_PERCENT;
        if self.most <= room || (self.longest < BEHIND_MAX && !late_at_end) {
            return None;
        }
        let keeps_up = scale * (arrivals.0 + behind.0) as f64 / arrivals.0.max(1) as f64;
        let slower = match late_at_end {
            true if !(f64::MIN_POSITIVE..=SCALE_MAX).contains(&keeps_up) => String::new(),
            // Where requests come evenly that is enough.
            true => format!(
                ", or a replay.timestamps.scale of at least {:.1}, more if they come in bursts",
                (keeps_up * 10.0).ceil() / 10.0
            ),
            false => format!(", or a replay.timestamps.scale above {scale}"),
        };
        Some(format!(
            "the device fell behind the trace's times: at most {} requests waited, up to {}; when \
             the last arrived, {left} waited, for {behind} more. The response times are those of \
             this queue. Use replay = \"closed-loop\", a faster part{slower}",
            self.most, self.longest,
        ))
    }
}

/// Notes about a run that began at `start`.
pub(crate) fn notes(
    run: &PlannedRun,
    metrics: &Metrics,
    (backlog, start, outcome): (&Backlog, Nanos, &Outcome),
) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(unwritten(metrics));
    notes.extend(buffered(metrics));
    let is_overwrite = |step: &PreconditionStep| matches!(step, PreconditionStep::Overwrite(_));
    notes.extend(fresh(metrics, run.point.precondition.iter().any(is_overwrite)));
    if let Some(WorkloadModel::Trace(trace)) = &run.point.workload
        && let Replay::Timestamps(times) = &trace.replay
    {
        notes.extend(backlog.note(start, outcome, run.limits.queue_depth_max, times.scale));
    }
    if metrics["host_requests"] == Some(0.0) {
        notes.push("no request completed while measuring; a shorter ramp, or a longer run".into());
    } else if metrics["simulated_s"] == Some(0.0) {
        notes.push("no time passed while measuring, so there are no rates".into());
    }
    notes
}

/// Reads of pages with nothing on them, on the device or the legs it is made of.
fn unwritten(metrics: &Metrics) -> Option<String> {
    let percent = 100.0 * metrics.get("reads_unwritten_ratio").copied().flatten()?;
    (percent >= UNWRITTEN_PERCENT).then(|| {
        format!(
            "{percent:.0} % of the pages read were never written, or discarded, so no flash was \
             read for them and they took almost no time; write them first: [[precondition]] \
             fill = {{}}"
        )
    })
}

/// Writes into blocks that were free before, of which a drive in use has none. What is left free
/// after an overwrite goes first, too.
fn fresh(metrics: &Metrics, overwritten: bool) -> Option<String> {
    let blocks = Blocks::of(std::slice::from_ref(metrics))?;
    let overwrite =
        if overwritten { "" } else { "overwrite it first ([[precondition]] overwrite), and " };
    blocks.is_living_on_free_ones().then(|| {
        format!(
            "{} blocks of flash were begun to be written and {} erased: while free blocks last, a \
             drive writes faster than in steady state; {overwrite}let collection settle \
             (until_steady, or a longer ramp)",
            blocks.opened, blocks.erased
        )
    })
}

/// Writes that a buffer took, and flash did not.
fn buffered(metrics: &Metrics) -> Option<String> {
    let reached = metrics.get("waf_host").copied().flatten()?;
    (reached < REACHED_FLASH_MIN).then(|| {
        format!(
            "{:.0} % of what was written had reached flash when the run ended: the rest was in the \
             write buffer, or was written over there, and cost about nothing; write more, or set a \
             smaller buffer.capacity",
            100.0 * reached
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::{Digest, Lba, RequestId};

    /// Requests that arrive every `gap` and take `service` each, one after the other.
    fn queue(requests: u64, gap: u64, service: u64) -> (Backlog, Outcome) {
        let (mut backlog, mut done) = (Backlog::default(), 0);
        let request = Request::read(Lba(0), 8);
        let mut events: Vec<(u64, Option<u64>)> = Vec::new();
        for arrival in (0..requests).map(|number| number * gap) {
            done = arrival.max(done) + service;
            events.extend([(arrival, None), (done, Some(arrival))]);
        }
        events.sort();
        for (at, issued) in events {
            match issued {
                None => backlog.on_issue(Nanos(at), &request),
                Some(issued) => {
                    let completion = Completion { id: RequestId(0), at: Nanos(at) };
                    backlog.on_complete(&request, Nanos(issued), completion);
                }
            }
        }
        let outcome = Outcome {
            end: Nanos(done),
            requests,
            digest: Digest::default(),
            in_flight_ns: 0,
            response_ns: 0,
        };
        (backlog, outcome)
    }

    #[test]
    fn a_device_that_falls_behind_is_named_with_its_backlog() {
        // Three times too slow: after 3 s of arrivals 999 are done, the rest waits for 6 s more.
        let (backlog, outcome) = queue(3001, 1_000_000, 3_000_000);
        let note = backlog.note(Nanos(0), &outcome, 32, 1.0).unwrap();
        assert!(note.contains("at most 2002 requests waited, up to 6.003 s"), "{note}");
        assert!(note.contains("2002 waited, for 6.003 s more"), "{note}");
        assert!(note.contains("scale of at least 3.1, more"), "{note}");
        // Nothing to stretch, or not enough.
        for scale in [0.0, 500.0] {
            let note = backlog.note(Nanos(0), &outcome, 32, scale).unwrap();
            assert!(note.ends_with("\"closed-loop\", a faster part"), "{note}");
        }
        let (keeps_up, outcome) = queue(3001, 1_000_000, 999_999);
        assert_eq!(keeps_up.note(Nanos(0), &outcome, 32, 1.0), None);
        // A burst that the device's own queue takes is none, however long it takes.
        let (burst, outcome) = queue(32, 0, 3_000_000_000);
        assert_eq!(burst.note(Nanos(0), &outcome, 32, 1.0), None);
    }

    #[test]
    fn reads_of_nothing_are_told_from_a_hundredth_on() {
        let metrics = |ratio| Metrics::from([("reads_unwritten_ratio".to_string(), ratio)]);
        assert_eq!(unwritten(&metrics(Some(0.009))), None);
        let note = unwritten(&metrics(Some(0.01))).unwrap();
        assert!(note.starts_with("1 % of the pages read were never written"), "{note}");
        assert_eq!(unwritten(&metrics(None)), None);
        assert_eq!(unwritten(&Metrics::new()), None);
    }

    #[test]
    fn writes_that_stayed_in_the_buffer_are_told() {
        let of = |waf: Option<f64>| buffered(&Metrics::from([("waf_host".into(), waf)]));
        assert!(of(Some(0.113)).unwrap().starts_with("11 % of what was written had reached flash"));
        assert_eq!((of(Some(0.9)), of(None)), (None, None));
    }
}
