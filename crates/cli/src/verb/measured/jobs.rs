//! Which of fio's entries are one job, which jobs ran at once, and on how many drives.

use serde_json::Value;

use super::outputs::Entry;
use super::points::{Beside, Point, several};

/// A job of fio.
pub(super) struct Job<'a> {
    /// Its own; with a number where others before it, which are not its clones, have it, too.
    pub(super) name: String,
    /// Its entries: without group_reporting, one for each of `numjobs`.
    pub(super) clones: Vec<Entry<'a>>,
}

impl Job<'_> {
    /// Whether both ran beside each other. Files of several runs may be put into one; and where fio
    /// does not say when a job began, those of a group began at once.
    fn is_beside(&self, other: &Job) -> bool {
        let (own, other) = (&self.clones[0], &other.clones[0]);
        let groups = own.number("groupid").zip(other.number("groupid"));
        let later = |entry: &Entry| entry.option(&LATER).is_some();
        own.may_be_of_a_run_with(other)
            && groups.is_some_and(|(a, b)| a == b)
            && own.began_with(other).unwrap_or(!later(own) && !later(other))
    }
}

/// Options of a job that begins after the others of its group.
const LATER: [&str; 3] = ["startdelay", "start_delay", "wait_for"];

pub(super) fn by_job<'a>(entries: &[Entry<'a>]) -> Vec<Job<'a>> {
    let mut found: Vec<Job> = Vec::new();
    for entry in entries {
        if let Some(job) = found.iter_mut().find(|job| is_clone(&job.clones[0], entry)) {
            job.clones.push(*entry);
            continue;
        }
        let same = |job: &&Job| job.clones[0].job.get("jobname") == entry.job.get("jobname");
        let before = found.iter().filter(same).count();
        let name = entry.job.get("jobname").and_then(Value::as_str).unwrap_or_default();
        let name = if before > 0 { format!("{name} #{}", before + 1) } else { name.to_string() };
        found.push(Job { name, clones: vec![*entry] });
    }
    found
}

/// Whether two entries are of clones of one job. Sections may have one name, and so may the jobs of
/// several runs in one file.
fn is_clone(first: &Entry, other: &Entry) -> bool {
    first.may_be_of_a_run_with(other)
        && first.has_the_options_of(other)
        && first.began_with(other).unwrap_or(true)
}

/// Why a job is not of one drive: it asks several, or is asked of one while others are asked of
/// another.
pub(super) fn of_several_drives(jobs: &[Job], job: &Job) -> Option<String> {
    let of = |job: &Job| job.clones[0].option(&FILENAME).map(str::to_string);
    let own = of(job)?;
    // A colon of a name is escaped.
    if own.replace("\\:", "").contains(':') {
        return Some(format!("filename={own}, which is several drives,"));
    }
    let beside = jobs.iter().filter(|other| other.is_beside(job));
    let other = beside.filter_map(of).find(|other| *other != own)?;
    Some(format!("filename={own}, asked while filename={other} was,"))
}

const FILENAME: [&str; 1] = ["filename"];

/// What is to be said of jobs, each by itself, that are of several drives or files.
pub(super) fn note_of_drives<'a>(jobs: impl Iterator<Item = &'a Job<'a>>) -> Option<String> {
    let mut names: Vec<&str> = jobs.filter_map(|job| job.clones[0].option(&FILENAME)).collect();
    names.sort_unstable();
    names.dedup();
    (names.len() > 1).then(|| several("jobs", "filename", &names))
}

/// What is to be said of some jobs, in one line.
pub(super) fn note_of(jobs: &[&str], what: &str) -> Option<String> {
    let names: Vec<String> = jobs.iter().map(|name| format!("`{name}`")).collect();
    let which = match &names[..] {
        [] => return None,
        [one] => format!("job {one}"),
        [first, more @ ..] => format!("job {first} and {} more", more.len()),
    };
    Some(format!("{which}: {what}"))
}

/// Points of jobs that ran at once are of one load; `of_job` says of which job each is. And what is
/// to be said where that is not known.
pub(super) fn at_once(points: &mut [Point], jobs: &[Job], of_job: &[usize]) -> Option<String> {
    let mut guessed: Vec<&str> = Vec::new();
    for first in 0..points.len() {
        let near = |index: &usize| {
            of_job[*index] == of_job[first] || jobs[of_job[*index]].is_beside(&jobs[of_job[first]])
        };
        let own: Vec<usize> = (0..points.len()).filter(near).collect();
        // Alone, or seen from the first of them.
        if own[0] < first || own.iter().all(|&index| of_job[index] == of_job[first]) {
            continue;
        }
        let starts = |&index: &usize| jobs[of_job[index]].clones[0].number("job_start");
        if own.iter().any(|index| starts(index).is_none()) {
            guessed.extend(own.iter().map(|&index| &*jobs[of_job[index]].name));
        }
        for index in own {
            let (load, job) = (jobs[of_job[first]].name.clone(), jobs[of_job[index]].name.clone());
            points[index].beside = Some(Beside { load, job });
        }
    }
    guessed.dedup();
    note_of(
        &guessed,
        "taken for one load, as they are of one group and this fio does not say when they began; \
         were they several runs, append their files, and merge no lists",
    )
}

#[cfg(test)]
mod tests {
    use super::super::fio::of_fio;

    fn fio(jobs: &[String]) -> String {
        let all = r#"{"rw":"randread","bs":"4k","direct":"1"}"#;
        format!(r#"{{"global options":{all},"jobs":[{}]}}"#, jobs.join(","))
    }

    /// A job with more options, and more of what is measured.
    fn job(name: &str, options: &str, more: &str) -> String {
        format!(
            r#"{{"jobname":"{name}","groupid":0,{more}"job options":{{"name":"{name}"{options}}},
                 "read":{{"iops":100.5,"lat_ns":{{"mean":9000}},
                 "clat_ns":{{"percentile":{{"50.000000":9000,"99.000000":9900}}}}}}}}"#
        )
    }

    /// By job: the load that it is of.
    fn loads(jobs: &[String]) -> (Vec<Option<String>>, Vec<String>) {
        let (points, notes) = of_fio(&fio(jobs)).unwrap();
        let load = |point: &super::Point| point.beside.as_ref().map(|beside| beside.load.clone());
        (points.iter().map(load).collect(), notes)
    }

    #[test]
    fn a_load_whose_begin_is_not_said_is_told() {
        let [a, b, c] = ["a", "b", "c"].map(|name| job(name, "", ""));
        let (one, notes) = loads(&[a, b, c]);
        assert_eq!(one, vec![Some("a".to_string()); 3]);
        assert!(notes.len() == 1 && notes[0].starts_with("job `a` and 2 more: taken for one load"));
        let at = |name: &str| job(name, "", r#""job_start":5000,"#);
        assert_eq!(loads(&[at("a"), at("b")]).1, Vec::<String>::new());
    }

    /// Programs merge the lists of several runs, in each of which the job was of group 0.
    #[test]
    fn what_no_run_of_fio_says_at_once_is_of_several() {
        let apart = (vec![None; 2], Vec::new());
        let aged = |name: &str, age: u64| job(name, "", &format!(r#""elapsed":{age},"#));
        assert_eq!(loads(&[aged("a", 23), aged("b", 24)]), apart);
        assert_eq!(loads(&[aged("a", 23), aged("a", 24)]), apart, "and no clones");
        assert_eq!(loads(&[aged("a", 23), aged("b", 23)]).0.len(), 2);
        let grouped = |name: &str| job(name, r#","group_reporting":"1""#, "");
        assert_eq!(loads(&[grouped("a"), grouped("b")]), apart);
        assert_eq!(loads(&[grouped("a"), grouped("a")]), apart);
    }

    #[test]
    fn several_drives_are_none() {
        let of = |name: &str, file: &str| job(name, &format!(r#","filename":"{file}""#), "");
        let left_out = |jobs: &[String]| of_fio(&fio(jobs)).unwrap();
        let (points, notes) = left_out(&[of("a", "/dev/a"), of("b", "/dev/b")]);
        let said = "job `a`: filename=/dev/a, asked while filename=/dev/b was, is left out";
        assert!(points.is_empty() && notes.len() == 2 && notes[0] == said, "{notes:?}");
        let (points, notes) = left_out(&[of("a", "/dev/a:/dev/b")]);
        let said = "job `a`: filename=/dev/a:/dev/b, which is several drives, is left out";
        assert_eq!((points.len(), &*notes), (0, &[said.to_string()][..]));
        // A name with a colon, two sections of one drive, and drives one after the other.
        assert_eq!(left_out(&[of("a", r"/dev/pci-0\\:1")]).0.len(), 1);
        assert_eq!(left_out(&[of("a", "/dev/a"), of("b", "/dev/a")]).0.len(), 2);
        let later = of("b", "/dev/b").replace(r#""groupid":0"#, r#""groupid":1"#);
        let (points, notes) = left_out(&[of("a", "/dev/a"), later]);
        let said = "the jobs have 2 values of `filename` (/dev/a, /dev/b): ";
        assert!(points.len() == 2 && notes[0].starts_with(said), "{notes:?}");
    }
}
