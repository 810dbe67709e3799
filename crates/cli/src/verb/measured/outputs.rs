//! The JSON objects in what fio printed: one for each run, and around them warnings and its report
//! for people (`--output-format=normal,json`).

use serde_json::{Map, Value};

use super::points::Wrong;

/// What fio says of a job, and where it says it.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    /// Number of the object.
    pub(super) run: usize,
    pub(super) job: &'a Value,
    /// Options of all jobs of the run.
    pub(super) global: &'a Map<String, Value>,
}

/// A job's option: its own, or that of all.
pub(super) fn option<'a>(
    global: &'a Map<String, Value>,
    job: &'a Value,
    names: &[&str],
) -> Option<&'a str> {
    let own = job.get("job options").and_then(Value::as_object);
    let tables = own.into_iter().chain([global]);
    tables.flat_map(|table| names.iter().filter_map(|name| table.get(*name)?.as_str())).next()
}

/// Jobs of one group that begin within so many milliseconds run beside each other.
const AT_ONCE_MS: u64 = 1_000;

impl Entry<'_> {
    /// Its group, and when it began.
    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.job.get(key)?.as_u64()
    }

    /// Whether both began at one moment; `None` where fio does not say it.
    pub(super) fn began_with(&self, other: &Entry) -> Option<bool> {
        let starts = self.number("job_start").zip(other.number("job_start"));
        starts.map(|(a, b)| a.abs_diff(b) < AT_ONCE_MS)
    }

    /// An option: its own, or that of all.
    pub(super) fn option(&self, names: &[&str]) -> Option<&str> {
        option(self.global, self.job, names)
    }

    /// Whether fio may have written both at one time. Programs merge the lists of several runs into
    /// one; of one run all say the same age, and of a group whose reports are one there is one.
    pub(super) fn may_be_of_a_run_with(&self, other: &Entry) -> bool {
        let ages = self.number("elapsed").zip(other.number("elapsed"));
        let is_one = |entry: &Entry| entry.option(&["group_reporting"]).is_some_and(|is| is != "0");
        let group = |entry: &Entry| entry.number("groupid");
        self.run == other.run
            && ages.is_none_or(|(a, b)| a == b)
            && !(is_one(self)
                && is_one(other)
                && group(self).is_some_and(|_| group(self) == group(other)))
    }

    /// Whether fio wrote with what was asked for: those before 2.2.11 did not.
    pub(super) fn says_what_was_asked(&self) -> bool {
        self.job.get("job options").is_some() || !self.global.is_empty()
    }

    /// Whether both are of one section with one name.
    pub(super) fn has_the_options_of(&self, other: &Entry) -> bool {
        let same = |key: &&str| self.job.get(key) == other.job.get(key);
        ["jobname", "job options", "groupid"].iter().all(same)
    }

    /// Whether both say the same moment, to the millisecond.
    fn job_start_is(&self, other: &Entry) -> bool {
        let start = self.number("job_start");
        start.is_some() && start == other.number("job_start")
    }
}

/// Where the next object begins: fio begins a line with it, and `cat` appends one to another.
fn begin(text: &str, from: usize) -> Option<usize> {
    let rest = &text[from..];
    let white = rest.len() - rest.trim_start().len();
    match rest[white..].starts_with('{') {
        true => Some(from + white),
        false => rest.find("\n{").map(|at| from + at + 1),
    }
}

/// Whether there is one, or a word of fio why not.
pub(super) fn is_one(text: &str) -> bool {
    begin(text, 0).is_some() || text.starts_with("fio: ") || text.starts_with("fio-")
}

/// The objects.
pub(super) fn runs(text: &str) -> Result<Vec<Value>, Wrong> {
    let mut found = Vec::new();
    let mut next = Some(begin(text, 0).unwrap_or(0));
    while let Some(at) = next {
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => found.push(value),
            Some(Err(why)) => {
                // Its own line is counted from where the object begins.
                let line = text[..at].matches('\n').count() + why.line();
                let why = why.to_string();
                let what = why.split(" at line ").next().unwrap_or_default();
                return Err((format!("line {line}: {what}"), "fio's JSON output".into()));
            }
            None => {}
        }
        next = begin(text, at + values.byte_offset());
    }
    Ok(found)
}

/// What each says of its jobs. Of a job that is reported as it goes on (`--status-interval`), what
/// is said last.
pub(super) fn entries<'a>(
    runs: &'a [Value],
    none: &'a Map<String, Value>,
) -> Result<Vec<Entry<'a>>, Wrong> {
    let mut found: Vec<Entry> = Vec::new();
    for (run, whole) in runs.iter().enumerate() {
        let jobs = whole.get("jobs").and_then(Value::as_array).ok_or_else(|| {
            ("there is no list `jobs`".to_string(), "the output of fio --output-format=json".into())
        })?;
        let global = whole.get("global options").and_then(Value::as_object).unwrap_or(none);
        let own: Vec<Entry> = jobs.iter().map(|job| Entry { run, job, global }).collect();
        found.retain(|old| {
            let again = |new: &Entry| old.has_the_options_of(new) && old.job_start_is(new);
            !own.iter().any(again)
        });
        found.extend(own);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_around_the_objects_is_passed_over() {
        let one = "{\n \"jobs\": [\n  {\"jobname\": \"a\"}\n ]\n}";
        let numbers = |text: &str| runs(text).map(|runs| runs.len());
        for (text, count) in [
            (one.to_string(), 1),
            (
                format!("note: both iodepth >= 1 and synchronous I/O engine are selected\n{one}\n"),
                1,
            ),
            (format!("a: (g=0): rw=randread\n{one}\n\na: (groupid=0)\n  read: IOPS=1\n"), 1),
            (format!("{one}{one}\n{one}"), 3),
            (format!("{one}\nfio: terminating on signal 2\n{one}\n"), 2),
        ] {
            assert!(is_one(&text));
            assert_eq!(numbers(&text), Ok(count), "{text}");
        }
        let (what, _) = runs(&format!("{one}\nnote\n{}", &one[..30])).unwrap_err();
        assert!(what.starts_with("line 9: EOF") && !what.contains(" at line "), "{what}");
        assert!(!is_one("rw,bs,iodepth,iops\nread,4k,1,{\n"));
    }

    #[test]
    fn of_reports_as_it_goes_on_the_last_counts() {
        let run = |job: &str, start: u64, iops: u64| {
            let text = format!(
                r#"{{"jobs":[{{"jobname":"{job}","job_start":{start},"read":{{"iops":{iops}}}}}]}}"#
            );
            serde_json::from_str::<Value>(&text).unwrap()
        };
        let none = Map::new();
        let all = [run("a", 5, 1), run("a", 5, 2), run("a", 7_000, 3), run("b", 5, 4)];
        let entries = entries(&all, &none).unwrap();
        let iops: Vec<_> =
            entries.iter().map(|entry| entry.job.pointer("/read/iops").unwrap()).collect();
        assert_eq!(iops, [2, 3, 4]);
    }
}
