//! How far a modelled disk is from a measured one.

use sim::{Completions, Device, Lba, Nanos, Request, RequestId};

use crate::disksim::Measured;

/// The demerit figure of Ruemmler and Wilkes (IEEE Computer 27(3), 1994): the root mean square
/// of the horizontal distance between two cumulative distributions of response times, in the
/// unit of the times. `None` unless both have the same number of values, at least one.
pub fn demerit(measured: &[Nanos], modelled: &[Nanos]) -> Option<f64> {
    if measured.len() != modelled.len() || measured.is_empty() {
        return None;
    }
    let sorted = |times: &[Nanos]| {
        let mut times = times.to_vec();
        times.sort_unstable();
        times
    };
    let pairs = sorted(measured).into_iter().zip(sorted(modelled));
    let squares: f64 = pairs
        .map(|(a, b)| {
            let distance = a.0.abs_diff(b.0) as f64;
            distance * distance
        })
        .sum();
    Some(libm::sqrt(squares / measured.len() as f64))
}

/// Run the requests of a validation trace one at a time, each the measured gap after the
/// completion before it; returns the modelled response times.
///
/// # Errors
/// Says which request does not fit the device, from 1.
pub fn replay(device: &mut dyn Device, trace: &[Measured]) -> Result<Vec<Nanos>, String> {
    let limits = device.limits();
    let mut now = Nanos::ZERO;
    let mut out = Completions::new();
    let mut times = Vec::with_capacity(trace.len());
    for (index, sample) in trace.iter().enumerate() {
        let lba = Lba(sample.lba);
        let mut request = if sample.write {
            Request::write(lba, sample.sectors)
        } else {
            Request::read(lba, sample.sectors)
        };
        request.id = RequestId(index as u64);
        let fault = |why: &dyn std::fmt::Display| format!("request {}: {why}", index + 1);
        limits.check(&request).map_err(|why| fault(&why))?;
        run_until(device, now, &mut out);
        device.submit(now, request).map_err(|_| fault(&"the device is busy"))?;
        while out.done.is_empty() {
            let next = device.next_event().ok_or_else(|| fault(&"the device is stuck"))?;
            device.advance(next, &mut out);
        }
        let done = out.done.remove(0);
        times.push(done.at.since(now));
        now = done.at + sample.gap;
    }
    Ok(times)
}

/// Let the device do what is due before `now` (nothing completes: no request is inside).
fn run_until(device: &mut dyn Device, now: Nanos, out: &mut Completions) {
    while let Some(next) = device.next_event().filter(|&next| next <= now) {
        device.advance(next, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demerit_is_the_horizontal_distance() {
        let times = |list: &[u64]| list.iter().map(|&t| Nanos(t)).collect::<Vec<_>>();
        assert_eq!(demerit(&times(&[3, 1, 2]), &times(&[2, 3, 1])), Some(0.0));
        assert_eq!(demerit(&times(&[10, 20]), &times(&[24, 13])), Some((12.5f64).sqrt()));
        assert_eq!(demerit(&times(&[1]), &times(&[])), None);
        assert_eq!(demerit(&[], &[]), None);
    }
}
