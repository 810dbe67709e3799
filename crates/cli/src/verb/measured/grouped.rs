//! What `group_reporting` makes of sections that are not alike: the numbers of all, and the options
//! of the last.

use super::jobs::Job;
use super::outputs::Entry;

/// A mean size of requests that is further from `bs` is that of several.
const SIZE_OFF: f64 = 0.01;

/// Why the numbers of a job are not those of what its options ask for: `rw` is all that it asks
/// for, in requests of `bytes`.
pub(super) fn others(job: &Job, rw: &[String], (bs, bytes): (&str, u64)) -> Option<String> {
    let of_another = match rw {
        [rw] => {
            let other = if rw.ends_with("read") { "write" } else { "read" };
            let does = |entry: &Entry| number(entry, other, "iops").is_some_and(|iops| iops > 0.0);
            job.clones
                .iter()
                .any(does)
                .then(|| format!("rw={rw}, to which group_reporting added {other}s of another,"))
        }
        _ => None,
    };
    of_another.or_else(|| {
        let direction = |rw: &String| if rw.ends_with("read") { "read" } else { "write" };
        let sizes = job.clones.iter().flat_map(|entry| {
            rw.iter().filter_map(|rw| size_of_several(entry, direction(rw), bytes))
        });
        let (direction, mean) = sizes.into_iter().next()?;
        Some(format!(
            "bs={bs}, but its {direction}s have {mean:.0} bytes in the mean, as where \
             group_reporting added those of another,"
        ))
    })
}

/// The direction and the mean size of requests that are not of `bytes`.
fn size_of_several<'d>(entry: &Entry, direction: &'d str, bytes: u64) -> Option<(&'d str, f64)> {
    let iops = number(entry, direction, "iops").filter(|iops| *iops > 0.0)?;
    // fio 2 has whole KiB a second only.
    let (rate, whole) = match number(entry, direction, "bw_bytes") {
        Some(rate) => (rate, 1.0),
        None => (number(entry, direction, "bw")? * 1024.0, 1024.0),
    };
    let mean = rate / iops;
    let off = (mean - bytes as f64).abs();
    (bytes > 0 && off > SIZE_OFF * bytes as f64 + whole / iops).then_some((direction, mean))
}

/// A number of an entry's reads or writes.
pub(super) fn number(entry: &Entry, direction: &str, key: &str) -> Option<f64> {
    entry.job.get(direction)?.get(key)?.as_f64()
}

#[cfg(test)]
mod tests {
    use super::super::fio::of_fio;

    /// A section of 4 KiB with these numbers of its reads.
    fn read(numbers: &str) -> (usize, Vec<String>) {
        let text = format!(
            r#"{{"jobs":[{{"jobname":"a","job options":{{"rw":"randread","bs":"4k","direct":"1"}},
                 "read":{{{numbers}}}}}]}}"#
        );
        let (points, notes) = of_fio(&text).unwrap();
        (points.len(), notes)
    }

    #[test]
    fn sections_of_one_direction_are_told_by_the_size_of_their_requests() {
        let none = (1, Vec::new());
        assert_eq!(read(r#""iops":1000.0,"bw_bytes":4096000,"bw":4000"#), none);
        // The last request of a drive may be short.
        assert_eq!(read(r#""iops":1000.0,"bw_bytes":4080000,"bw":3984"#), none);
        // [a] bs=64k iodepth=32, and behind it [b] bs=4k iodepth=1: of the last are the options.
        let said = "job `a`: bs=4k, but its reads have 49152 bytes in the mean, as where \
                    group_reporting added those of another, is left out";
        let left_out = (0, vec![said.to_string()]);
        assert_eq!(read(r#""iops":1000.0,"bw_bytes":49152000,"bw":48000"#), left_out);
        // fio 2.
        assert_eq!(read(r#""iops":1000.0,"bw":48000"#), left_out);
        assert_eq!(read(r#""iops":3.25,"bw":13"#), none);
        assert_eq!(read(r#""iops":0.4,"bw":1"#), none, "whole KiB a second");
    }
}
