//! What the host's path lets through: the bytes of its link, and the requests of a process.

use toml::Value;

use super::super::measured::Point;

pub(super) const BANDWIDTH: &str = "ssd.host.bandwidth";
pub(super) const PROCESS_INTERVAL: &str = "ssd.host.process_interval";

/// Whether one direction was measured at several sizes, or by several numbers of processes: what a
/// process takes for a request, whatever its size, can be told from what its bytes take then.
pub(super) fn tells_processes(points: &[Point]) -> bool {
    ["read", "write"].iter().any(|direction| {
        let own = points.iter().filter(|point| point.direction() == *direction);
        let mut kinds = own.map(|point| (point.bytes(), point.numjobs));
        kinds.next().is_some_and(|first| kinds.any(|other| other != first))
    })
}

/// What is to be said of a process that takes `interval` for each request, if `points` are of one
/// number of processes: a drive of so many requests a second does the same to them.
pub(super) fn may_be_the_drive_s(points: &[Point], interval: &str) -> Option<String> {
    let jobs = points.first()?.numjobs;
    points.iter().all(|point| point.numjobs == jobs).then(|| {
        format!(
            "{PROCESS_INTERVAL} = {interval}: all was measured by one number of processes \
             ({jobs}), so that may be a limit of the drive, which more processes share; measure \
             with several, or, if the drive is sold with such a limit, set \
             {LINK_COMMAND} = {interval} and {PROCESS_INTERVAL} = \"0ns\" in the part"
        )
    })
}

const LINK_COMMAND: &str = "ssd.host.link_command";

/// How many times what `value` lets through `points` did at most, if `key` is of the host's path.
pub(super) fn ratio(key: &str, value: &Value, points: &[Point]) -> Option<f64> {
    let most = |of: &dyn Fn(&Point) -> f64| {
        let each = points.iter().filter_map(|point| Some(point.measured[0]? * of(point)));
        each.fold(0.0, f64::max)
    };
    let text = value.as_str()?;
    let ratio = match key {
        BANDWIDTH => most(&|point| point.bytes() as f64) / config::Rate::parse(text).ok()?.0 as f64,
        PROCESS_INTERVAL => {
            let each_ns = 1e9 / most(&|point| 1.0 / f64::from(point.numjobs));
            each_ns / config::Duration::parse(text).ok()?.0.0 as f64
        }
        _ => return None,
    };
    Some(ratio).filter(|ratio| ratio.is_finite() && *ratio > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(bs: &str, numjobs: u32, iops: f64) -> Point {
        let measured = [Some(iops), None, None, None];
        let (rw, bs) = ("randread".into(), bs.into());
        Point { rw, bs, iodepth: 128, numjobs, measured, ..Point::default() }
    }

    #[test]
    fn the_path_is_the_limit_of_what_was_done_at_most() {
        // A core takes 2.5 us for each, whatever its size, and the link 2 GB/s.
        let points = [point("4k", 1, 400e3), point("4k", 4, 480e3), point("64k", 1, 2e9 / 65536.0)];
        assert!(tells_processes(&points) && tells_processes(&points[..2]));
        assert!(!tells_processes(&points[..1]));
        let of = |key, value: &str| ratio(key, &Value::String(value.into()), &points);
        assert_eq!(of(BANDWIDTH, "4000MB/s"), Some(0.5));
        assert_eq!(of(PROCESS_INTERVAL, "0.1us"), Some(25.0));
        assert_eq!(of("ssd.host.completion", "10us"), None);
        assert_eq!(ratio(BANDWIDTH, &Value::String("4000MB/s".into()), &[]), None);
    }
}
