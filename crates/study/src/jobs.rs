//! The jobs of a workload told apart: metrics of each, under its name.

use std::collections::BTreeMap;

use config::Failure;
use sim::{Completion, Histogram, Nanos, Probe, Request};

use crate::job_names::{PREFIX, split};
use crate::metrics::{self, Metrics};
use crate::planned::Setup;
use crate::recorder::measured_from;

/// Response times and bytes of the clones of one job.
#[derive(Clone, Debug, Default)]
struct Share {
    histograms: [Histogram; 4],
    bytes: [u64; 4],
}

/// One clone of one job.
#[derive(Clone, Debug)]
struct Process {
    /// The job, as an index into the names.
    job: usize,
    /// Its own ramp, until its first request, where that of the run does not cover it.
    ramp: Option<Nanos>,
    /// When measuring it begins, and the first moment whose completions count.
    from: Nanos,
    first: Nanos,
}

/// Counts what completes after the ramp, by job. Without several jobs it counts nothing.
#[derive(Clone, Debug)]
pub(crate) struct Jobs {
    names: Vec<String>,
    /// From process 1 on.
    processes: Vec<Process>,
    shares: Vec<Share>,
}

impl Jobs {
    /// The jobs of a run that begins at `start` and has this ramp.
    ///
    /// # Errors
    /// When the workload's jobs cannot be read.
    pub(crate) fn of(setup: &Setup, start: Nanos, ramp: Nanos) -> Result<Jobs, Failure> {
        let plan = setup.fio_plan()?;
        let (mut names, mut processes) = (Vec::<String>::new(), Vec::new());
        let (run, first) = measured_from(start, ramp);
        for info in plan.into_iter().flat_map(|plan| plan.jobs) {
            let known = names.iter().position(|known| *known == info.name);
            let job = known.unwrap_or(names.len());
            if known.is_none() {
                names.push(info.name);
            }
            // The run's own ramp covers those of the first group.
            let ramp = Some(info.ramp).filter(|ramp| info.group > 0 && *ramp > Nanos::ZERO);
            processes.push(Process { job, ramp, from: run, first });
        }
        if names.len() < 2 {
            (names, processes) = (Vec::new(), Vec::new());
        }
        Ok(Jobs { shares: vec![Share::default(); names.len()], names, processes })
    }

    /// Add the metrics of each job, those that are defined, of a run that ended at `end`.
    pub(crate) fn add(&self, metrics: &mut Metrics, at_work: &[(Nanos, Nanos)], end: Nanos) {
        let times = self.times(at_work, end);
        for ((name, share), time) in self.names.iter().zip(&self.shares).zip(times) {
            let mut own = BTreeMap::new();
            metrics::work(&mut own, &share.histograms, share.bytes, time);
            let own = own.into_iter().filter(|(_, value)| value.is_some());
            metrics.extend(own.map(|(own, value)| (format!("{PREFIX}{name}.{own}"), value)));
        }
    }

    /// The measured time of each job. A rate is of that: what others did before it began and after
    /// it was done says nothing about it.
    fn times(&self, at_work: &[(Nanos, Nanos)], end: Nanos) -> Vec<Nanos> {
        let mut spans = vec![(Nanos::MAX, Nanos::ZERO); self.names.len()];
        for (process, &(began, finished)) in self.processes.iter().zip(at_work) {
            let (from, until) = &mut spans[process.job];
            *from = began.max(process.from).min(*from);
            *until = finished.min(end).max(*until);
        }
        spans.into_iter().map(|(from, until)| until.since(from)).collect()
    }
}

impl Probe for Jobs {
    #[inline]
    fn on_issue(&mut self, now: Nanos, request: &Request) {
        let process = self.processes.get_mut((request.process as usize).wrapping_sub(1));
        if let Some(process) = process
            && let Some(ramp) = process.ramp.take()
        {
            let (from, first) = measured_from(now, ramp);
            (process.from, process.first) = (process.from.max(from), process.first.max(first));
        }
    }

    #[inline]
    fn on_complete(&mut self, request: &Request, issued: Nanos, completion: Completion) {
        let process = self.processes.get((request.process as usize).wrapping_sub(1));
        let Some(process) = process.filter(|process| completion.at >= process.first) else {
            return;
        };
        let (share, op) = (&mut self.shares[process.job], request.op as usize);
        share.histograms[op].record(completion.at.since(issued).0);
        share.bytes[op] += request.bytes().0;
    }
}

/// Refuse a metric of a job that no workload of the document has. The jobs of a file are not known
/// before it is read: then any name will do.
pub(crate) fn check(name: &str, document: &toml::Value) -> Result<(), Failure> {
    let Some((job, _)) = split(name) else { return Ok(()) };
    let Some(known) = of_document(document) else { return Ok(()) };
    if known.iter().any(|known| known == job) {
        return Ok(());
    }
    let failure = Failure::input(format!("no workload of the study has a job `{job}`"));
    Err(match known[..] {
        [] => failure.expected("a table [workload.fio.jobs.NAME] for each of its jobs"),
        _ => failure.expected(config::names::expected(job, known.iter().map(String::as_str))),
    })
}

/// The names of all jobs that stand in the document; nothing where a file has them.
fn of_document(document: &toml::Value) -> Option<Vec<String>> {
    let labelled = document.get("workloads").and_then(toml::Value::as_table);
    let all = labelled.into_iter().flat_map(toml::Table::values).chain(document.get("workload"));
    let mut names = Vec::new();
    for fio in all.filter_map(|workload| workload.get("fio")) {
        if fio.get("file").is_some() {
            return None;
        }
        let jobs = fio.get("jobs").and_then(toml::Value::as_table);
        names.extend(jobs.into_iter().flat_map(toml::Table::keys).cloned());
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_looked_for_where_the_document_has_them() {
        let table = |text: &str| toml::Value::Table(text.parse().expect("TOML"));
        let two = table("workload.fio.jobs = { quiet = {}, load = {} }");
        assert_eq!(check("job.quiet.iops", &two), Ok(()));
        let error = check("job.quite.iops", &two).unwrap_err().to_string();
        assert!(error.contains("`quite`") && error.contains("quiet"), "{error}");
        assert!(check("job.fio.iops", &table("workload.fio.rw = 'read'")).is_err());
        assert_eq!(check("job.any.iops", &table("workloads.a.fio.file = 'b.fio'")), Ok(()));
        assert_eq!(split("job.a.b.waf"), Some(("a.b", "waf")));
    }
}
