//! How a metric of one job is written.

/// What a metric of one job begins with; then come the job's name, a dot, and the metric.
pub(crate) const PREFIX: &str = "job.";

/// The job and the metric that `job.NAME.METRIC` is about.
pub(crate) fn split(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(PREFIX)?.rsplit_once('.')
}
