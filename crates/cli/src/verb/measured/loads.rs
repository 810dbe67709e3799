//! Loads of several points, or with a rate offered, as workloads of a study.

use super::super::in_toml;
use super::Buffer;
use super::points::Point;

/// What runs at once, by index of its points.
pub(in crate::verb) struct Load {
    pub(in crate::verb) points: Vec<usize>,
    /// By point: its job, where there are several.
    pub(super) jobs: Vec<Option<String>>,
}

/// Seconds that are measured at least: a drive that collects by turns has some in it.
const SECONDS_MIN: f64 = 0.15;
/// No more than so many times the requests of a load without a rate, whatever is offered.
const REQUESTS_MAX: f64 = 12.0;
/// Seconds before, with which a load begins to be what it stays.
const RAMP_SECONDS: f64 = 0.1;

/// A throttle looks back for a second, and stops each third of one: seconds before, and measured.
const THROTTLED: (f64, f64) = (1.3, 1.0);

/// Points by the load that they are of, in order of the first of each.
pub(in crate::verb) fn by_load(points: &[Point]) -> Vec<Load> {
    let mut found: Vec<Load> = Vec::new();
    for (index, point) in points.iter().enumerate() {
        let same = |load: &&mut Load| {
            let (own, first) = (&point.beside, &points[load.points[0]].beside);
            own.as_ref().zip(first.as_ref()).is_some_and(|(own, first)| own.load == first.load)
        };
        match found.iter_mut().find(same) {
            Some(load) => load.points.push(index),
            None => found.push(Load { points: vec![index], jobs: Vec::new() }),
        }
    }
    for load in &mut found {
        let job = |index: usize| points[index].beside.as_ref().map(|beside| &beside.job);
        let own = load.points.clone();
        let name = |&index: &usize| {
            // Rows without a job are one each.
            let named = job(index).is_some_and(|job| !job.is_empty());
            let first = own.iter().position(|&other| named && job(other) == job(index));
            let place = first.or_else(|| own.iter().position(|&other| other == index));
            (own.len() > 1).then(|| format!("j{:03}", place.unwrap_or_default()))
        };
        load.jobs = own.iter().map(name).collect();
    }
    found
}

/// By load: the number of what was asked there. Loads that were measured several times have one
/// number, and say nothing of each other that a held-back one would.
pub(in crate::verb) fn questions(points: &[Point], loads: &[Load]) -> Vec<usize> {
    let asked = |load: &Load| -> Vec<Point> {
        let own = load.points.iter().map(|&index| {
            let point = points[index].asked();
            // A size may be written in two ways, and loads have names of their own.
            Point { bs: point.bytes().to_string(), beside: None, ..point }
        });
        own.collect()
    };
    let mut known: Vec<Vec<Point>> = Vec::new();
    let mut number = |load: &Load| {
        let own = asked(load);
        known.iter().position(|other| *other == own).unwrap_or_else(|| {
            known.push(own);
            known.len() - 1
        })
    };
    loads.iter().map(&mut number).collect()
}

impl Load {
    /// Whether it is run for a time, at the rates that its jobs say.
    pub(super) fn is_open(&self, points: &[Point]) -> bool {
        self.points.len() > 1 || self.points.iter().any(|&index| points[index].offered.is_some())
    }

    /// Its workload `name`: `requests` of what it has least of, of which latencies were measured.
    pub(super) fn workload(
        &self,
        (name, points): (&str, &[Point]),
        requests: f64,
        (buffer, throttled): (Buffer, bool),
    ) -> String {
        let rate = |index: usize| {
            let offered = points[index].offered.map(|offered| offered.iops);
            let done = points[index].measured[0];
            offered.zip(done).map_or(offered.or(done), |(a, b)| Some(a.min(b))).unwrap_or(1.0)
        };
        let own = || self.points.iter().copied();
        let all: f64 = own().map(rate).sum();
        let timed = own().filter(|&index| points[index].measured[1..].iter().any(Option::is_some));
        let least = timed.map(rate).reduce(f64::min).unwrap_or(all).max(1.0);
        let most = (REQUESTS_MAX * requests / all).max(SECONDS_MIN);
        let mut seconds = (requests / least).clamp(SECONDS_MIN, most);
        // Until a buffer is full, it takes whatever comes.
        let written = own().filter(|&index| points[index].direction() == "write");
        let filled = written.map(|index| 2.0 * buffer.takes(&points[index]) / rate(index));
        let mut ramp = filled.reduce(f64::min).unwrap_or_default().clamp(RAMP_SECONDS, seconds);
        if throttled {
            (ramp, seconds) = (ramp.max(THROTTLED.0), seconds.max(THROTTLED.1));
        }
        let us = |seconds: f64| (1e6 * seconds).ceil();
        let mut text = format!(
            "[workloads.{name}.fio]\nnorandommap = true\ntime_based = true\n\
             ramp_time = \"{}us\"\nruntime = \"{}us\"\n",
            us(ramp),
            us(seconds)
        );
        for (place, &index) in self.points.iter().enumerate() {
            let job = &self.jobs[place];
            if self.jobs[..place].iter().any(|known| known == job) {
                continue;
            }
            if let Some(job) = job {
                text += &format!("[workloads.{name}.fio.jobs.{job}]\n");
            }
            let halves: Vec<&Point> = self
                .points
                .iter()
                .zip(&self.jobs)
                .filter(|(_, other)| *other == job)
                .map(|(&index, _)| &points[index])
                .collect();
            text += &of_job(&points[index], &halves);
        }
        text
    }
}

/// The keys of a job: of `point`, which may be one half of a mix.
fn of_job(point: &Point, halves: &[&Point]) -> String {
    let Point { bs, iodepth, numjobs, offered, .. } = point;
    let mixed = halves.iter().any(|half| half.direction() != point.direction());
    let rw = match (mixed, point.rw.starts_with("rand")) {
        (true, true) => "randrw",
        (true, false) => "rw",
        (false, _) => &point.rw,
    };
    let mut text = format!(
        "rw = \"{rw}\"\nbs = {}\niodepth = {iodepth}\nnumjobs = {numjobs}\n",
        in_toml::text(bs)
    );
    let of = |direction: &str| {
        let half = halves.iter().find(|half| half.direction() == direction);
        half.and_then(|half| half.offered).map(|offered| offered.iops)
    };
    let each = |iops: f64| (iops / f64::from(*numjobs)).round().max(1.0);
    text += &match (mixed, of("read"), of("write"), offered) {
        (true, Some(read), Some(write), _) => {
            let percent = (100.0 * read / (read + write)).round().clamp(1.0, 99.0);
            format!("rwmixread = {percent}\nrate_iops = \"{},{}\"\n", each(read), each(write))
        }
        (false, _, _, Some(offered)) => format!("rate_iops = {}\n", each(offered.iops)),
        _ => String::new(),
    };
    if offered.is_some_and(|offered| offered.poisson) {
        text += "rate_process = \"poisson\"\n";
    }
    text
}
