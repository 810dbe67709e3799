//! What fio would have recorded, per job.

use sim::{Completion, Histogram, Nanos, Op, Probe, Request};

use super::plan::{JobInfo, JobPlan};

/// fio samples bandwidth and request rate once per this span.
const WINDOW: Nanos = Nanos::from_millis(500);

/// Upper edges of fio's latency classes, in the unit of each of its three tables.
const EDGES: [u64; 11] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000];
/// Classes of the tables of nanoseconds, microseconds and milliseconds.
const CLASSES: [usize; 3] = [10, 10, 12];

/// Watches a run and groups it by job, as fio reports it. Requests of an unknown process belong
/// to the first job.
#[derive(Clone, Debug)]
pub struct Recorder {
    pub(super) jobs: Vec<JobRecord>,
    pub(super) global: Vec<(String, String)>,
    in_flight: u64,
    /// When the device last became busy, and how long it was busy before.
    busy_since: Nanos,
    pub(super) busy: Nanos,
    pub(super) start: Option<Nanos>,
    pub(super) end: Nanos,
}

/// One job's share of the run.
#[derive(Clone, Debug)]
pub(super) struct JobRecord {
    pub(super) info: JobInfo,
    /// When measuring starts: the first request plus the ramp.
    pub(super) from: Option<Nanos>,
    /// When its last request was answered.
    end: Nanos,
    /// When it began, and when it had nothing more to do, where that is known.
    at_work: Option<(Nanos, Nanos)>,
    /// Reads, writes and trims.
    pub(super) sides: [Side; 3],
    pub(super) sync: Latency,
    in_flight: u64,
    /// Requests that found 1, 2 to 3, 4 to 7, ... 64 and more in flight, themselves included.
    pub(super) depths: [u64; 7],
    /// Requests per latency class: nanoseconds, microseconds, milliseconds.
    pub(super) classes: [[u64; 12]; 3],
}

impl JobRecord {
    /// How long it was measured.
    pub(super) fn runtime(&self) -> Nanos {
        let Some(from) = self.from else { return Nanos::ZERO };
        match self.at_work {
            // What came before a first request that was late is the job's time, too.
            Some((began, until)) if self.info.ramp == Nanos::ZERO => until.since(began),
            Some((_, until)) => until.since(from),
            None => self.end.since(from),
        }
    }
}

/// One direction of one job.
#[derive(Clone, Debug, Default)]
pub(super) struct Side {
    pub(super) bytes: u64,
    pub(super) latency: Latency,
    window: u64,
    window_bytes: u64,
    window_ios: u64,
    /// KiB per second, and requests per second, per window.
    pub(super) bandwidth: Samples,
    pub(super) rate: Samples,
}

/// Latencies with their exact deviation. The histogram exists once there is a value.
#[derive(Clone, Debug, Default)]
pub(super) struct Latency {
    pub(super) histogram: Option<Histogram>,
    squares: u128,
}

impl Latency {
    fn record(&mut self, latency: Nanos) {
        self.histogram.get_or_insert_default().record(latency.0);
        self.squares += u128::from(latency.0) * u128::from(latency.0);
    }

    /// Sample deviation in nanoseconds.
    pub(super) fn deviation(&self) -> f64 {
        let Some(histogram) = &self.histogram else { return 0.0 };
        let (n, sum) = (u128::from(histogram.count()), histogram.sum());
        if n < 2 {
            return 0.0;
        }
        // n * squares - sum^2 is exact where it fits, so no digits cancel.
        let spread = match (n.checked_mul(self.squares), sum.checked_mul(sum)) {
            (Some(a), Some(b)) => (a - b) as f64,
            _ => n as f64 * self.squares as f64 - sum as f64 * sum as f64,
        };
        libm::sqrt(spread.max(0.0) / (n as f64 * (n - 1) as f64))
    }
}

/// Minimum, maximum, mean and deviation of samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Samples {
    pub(super) n: u64,
    pub(super) min: f64,
    pub(super) max: f64,
    sum: f64,
    squares: f64,
}

impl Samples {
    fn add(&mut self, value: f64, times: u64) {
        self.min = if self.n == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.n += times;
        self.sum += value * times as f64;
        self.squares += value * value * times as f64;
    }

    pub(super) fn mean(&self) -> f64 {
        if self.n == 0 { 0.0 } else { self.sum / self.n as f64 }
    }

    pub(super) fn deviation(&self) -> f64 {
        if self.n < 2 {
            return 0.0;
        }
        let mean = self.mean();
        libm::sqrt((self.squares - mean * self.sum).max(0.0) / (self.n - 1) as f64)
    }
}

impl Side {
    fn record(&mut self, since: Nanos, bytes: u64, latency: Nanos) {
        let window = since.0 / WINDOW.0;
        if window > self.window {
            let per_second = 1e9 / WINDOW.0 as f64;
            self.bandwidth.add(self.window_bytes as f64 / 1024.0 * per_second, 1);
            self.rate.add(self.window_ios as f64 * per_second, 1);
            let empty = window - self.window - 1;
            if empty > 0 {
                self.bandwidth.add(0.0, empty);
                self.rate.add(0.0, empty);
            }
            (self.window, self.window_bytes, self.window_ios) = (window, 0, 0);
        }
        self.window_bytes += bytes;
        self.window_ios += 1;
        self.bytes += bytes;
        self.latency.record(latency);
    }
}

impl Recorder {
    /// A recorder of the jobs of `plan`.
    pub fn new(plan: &JobPlan) -> Recorder {
        Recorder::of(plan.jobs.clone(), plan.global.clone())
    }

    /// A recorder of any other workload, as one job.
    pub fn single(name: &str) -> Recorder {
        let info = JobInfo {
            name: name.into(),
            group: 0,
            process: 1,
            depth: 1,
            ramp: Nanos::ZERO,
            given: Vec::new(),
        };
        Recorder::of(vec![info], Vec::new())
    }

    fn of(jobs: Vec<JobInfo>, global: Vec<(String, String)>) -> Recorder {
        let record = |info| JobRecord {
            info,
            from: None,
            at_work: None,
            end: Nanos::ZERO,
            sides: std::array::from_fn(|_| Side::default()),
            sync: Latency::default(),
            in_flight: 0,
            depths: [0; 7],
            classes: [[0; 12]; 3],
        };
        Recorder {
            jobs: jobs.into_iter().map(record).collect(),
            global,
            in_flight: 0,
            busy_since: Nanos::ZERO,
            busy: Nanos::ZERO,
            start: None,
            end: Nanos::ZERO,
        }
    }

    /// The run ended at `end`, and its workload says when each job was at work
    /// ([`sim::Workload::at_work`]): as in fio, a rate is of that time, and not of that until the
    /// last answer. Without it that is all there is.
    pub fn ended(&mut self, at_work: &[(Nanos, Nanos)], end: Nanos) {
        for (job, &(began, finished)) in self.jobs.iter_mut().zip(at_work) {
            job.at_work = Some((began, finished.min(end)));
        }
    }

    fn job(&mut self, request: &Request) -> &mut JobRecord {
        let index = (request.process as usize).wrapping_sub(1);
        let index = if index < self.jobs.len() { index } else { 0 };
        &mut self.jobs[index]
    }
}

impl Probe for Recorder {
    fn on_issue(&mut self, now: Nanos, request: &Request) {
        self.start.get_or_insert(now);
        if self.in_flight == 0 {
            self.busy_since = now;
        }
        self.in_flight += 1;
        let job = self.job(request);
        job.in_flight += 1;
        let from = *job.from.get_or_insert(now.saturating_add(job.info.ramp));
        if now >= from {
            job.depths[job.in_flight.ilog2().min(6) as usize] += 1;
        }
    }

    fn on_complete(&mut self, request: &Request, issued: Nanos, completion: Completion) {
        self.in_flight -= 1;
        self.end = completion.at;
        if self.in_flight == 0 {
            self.busy += completion.at.since(self.busy_since);
        }
        let job = self.job(request);
        job.in_flight -= 1;
        let Some(from) = job.from.filter(|from| issued >= *from) else { return };
        job.end = completion.at;
        let latency = completion.at.since(issued);
        let side = match request.op {
            Op::Flush => return job.sync.record(latency),
            Op::Read => 0,
            Op::Write => 1,
            Op::Discard => 2,
        };
        job.sides[side].record(completion.at.since(from), request.bytes().0, latency);
        let (table, class) = class(latency);
        job.classes[table][class] += 1;
    }
}

/// (table, class) of a latency.
fn class(latency: Nanos) -> (usize, usize) {
    let (table, value) = match latency.0 {
        ns @ 0..1_000 => (0, ns),
        ns @ 1_000..1_000_000 => (1, ns / 1_000),
        ns => (2, ns / 1_000_000),
    };
    (table, EDGES.partition_point(|&edge| edge <= value).min(CLASSES[table] - 1))
}

/// The label of a class: its upper edge, below which its values lie.
pub(super) fn labels(table: usize) -> impl Iterator<Item = String> {
    let edges = EDGES.iter().map(u64::to_string).chain([">=2000".to_string()]);
    edges.take(CLASSES[table])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_fios() {
        let cases = [(1, 0, 0), (2, 0, 1), (999, 0, 9), (1_999, 1, 0), (750_000, 1, 9)];
        for (ns, table, index) in cases {
            assert_eq!(class(Nanos(ns)), (table, index), "{ns} ns");
        }
        assert_eq!(class(Nanos::from_secs(1)), (2, 10));
        assert_eq!(class(Nanos::from_secs(9)), (2, 11));
        assert_eq!(labels(2).last().unwrap(), ">=2000");
    }

    #[test]
    fn deviations_are_those_of_the_textbook() {
        let mut latency = Latency::default();
        [2u64, 4, 4, 4, 5, 5, 7, 9].into_iter().for_each(|ns| latency.record(Nanos(ns)));
        assert!((latency.deviation() - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        let mut samples = Samples::default();
        samples.add(1.0, 3);
        samples.add(5.0, 1);
        assert_eq!((samples.mean(), samples.deviation()), (2.0, 2.0));
    }
}
