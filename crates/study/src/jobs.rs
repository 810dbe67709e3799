//! The jobs of a workload told apart: metrics of each, under its name.

use std::collections::BTreeMap;

use config::Failure;
use sim::{Completion, Histogram, Nanos, Probe, Request};

use crate::job_names::{PREFIX, split};
use crate::metrics::{self, Metrics};
use crate::planned::Setup;

/// Response times and bytes of the clones of one job.
#[derive(Clone, Debug, Default)]
struct Share {
    histograms: [Histogram; 4],
    bytes: [u64; 4],
}

/// Counts what completes after the ramp, by job. Without several jobs it counts nothing.
#[derive(Clone, Debug)]
pub(crate) struct Jobs {
    names: Vec<String>,
    /// The job of each process, from process 1 on, as an index into `names`.
    of: Vec<usize>,
    shares: Vec<Share>,
    first: Nanos,
}

impl Jobs {
    /// The jobs of a run that begins at `start` and has this ramp.
    ///
    /// # Errors
    /// When the workload's jobs cannot be read.
    pub(crate) fn of(setup: &Setup, start: Nanos, ramp: Nanos) -> Result<Jobs, Failure> {
        let plan = setup.fio_plan()?;
        let processes = plan.into_iter().flat_map(|plan| plan.jobs).map(|job| job.name);
        let mut names: Vec<String> = Vec::new();
        let mut of = Vec::new();
        for name in processes {
            let known = names.iter().position(|known| *known == name);
            of.push(known.unwrap_or(names.len()));
            if known.is_none() {
                names.push(name);
            }
        }
        if names.len() < 2 {
            (names, of) = (Vec::new(), Vec::new());
        }
        // As a run's recorder has it: what completes as the ramp ends belongs to the ramp.
        let first = start + ramp + Nanos(u64::from(ramp > Nanos::ZERO));
        Ok(Jobs { shares: vec![Share::default(); names.len()], names, of, first })
    }

    /// Add the metrics of each job, those that are defined.
    pub(crate) fn add(&self, metrics: &mut Metrics, time: Nanos) {
        for (name, share) in self.names.iter().zip(&self.shares) {
            let mut own = BTreeMap::new();
            metrics::work(&mut own, &share.histograms, share.bytes, time);
            let own = own.into_iter().filter(|(_, value)| value.is_some());
            metrics.extend(own.map(|(own, value)| (format!("{PREFIX}{name}.{own}"), value)));
        }
    }
}

impl Probe for Jobs {
    #[inline]
    fn on_complete(&mut self, request: &Request, issued: Nanos, completion: Completion) {
        let job = self.of.get((request.process as usize).wrapping_sub(1));
        let Some(&job) = job.filter(|_| completion.at >= self.first) else { return };
        let (share, op) = (&mut self.shares[job], request.op as usize);
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
