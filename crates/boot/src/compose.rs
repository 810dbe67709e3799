//! A recording on a device: what the processor takes, what the device takes, and where two ways to
//! store a kernel are equal.

use config::Failure;
use sim::{Device, Lba, Nanos, NoProbe, Request, Stop, simulate};
use workload::boot_recording::Recording;
use workload::{BootReplay, Until};

/// Seconds of one recording on one device.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Times {
    /// Computing, at the stated rate.
    pub processor_s: f64,
    /// Waiting for the device.
    pub device_s: f64,
}

impl Times {
    /// Both: the loader does one at a time.
    pub fn total_s(&self) -> f64 {
        self.processor_s + self.device_s
    }
}

/// Sectors that are written at a time where a device is filled.
const FILL_SECTORS: u64 = 2048;

/// Run `recording` on `device`, as it comes out of the box, in virtual time. What is read was
/// written before: a drive answers at once where it holds nothing.
///
/// # Errors
/// When the device is too small, or the speed is 0.
pub fn compose(
    recording: &Recording,
    device: &mut dyn Device,
    speed: u64,
    until: Until,
) -> Result<Times, Failure> {
    let mut replay = BootReplay::new(recording.clone(), speed, until)
        .map_err(|message| Failure::input(format!("instructions per second: {message}")))?;
    let sectors = device.limits().sectors().min(recording.span_sectors());
    for first in (0..sectors).step_by(FILL_SECTORS as usize) {
        let length = FILL_SECTORS.min(sectors - first) as u32;
        device.apply(&Request::write(Lba(first), length));
    }
    let outcome = simulate(device, &mut replay, Nanos::ZERO, Stop::default(), &mut NoProbe)
        .map_err(|why| {
            Failure::input(format!("{}: {why}", recording.variant)).expected("a larger device")
        })?;
    let processor = replay.computing();
    let device_s = (outcome.end - processor).as_secs_f64();
    Ok(Times { processor_s: processor.as_secs_f64(), device_s })
}

/// Where two ways to store a kernel take the same time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Crossover {
    /// The device's answers would take so many times as long.
    pub device_factor: f64,
    /// Or the processor would do so many instructions a second.
    pub instructions_per_second: f64,
}

/// The crossover of one way, and of another that computes more and reads less. None when one of
/// them is better in both, or equal in one.
pub fn crossover(light: Times, dense: Times, speed: u64) -> Option<Crossover> {
    let processor_s = dense.processor_s - light.processor_s;
    let device_s = light.device_s - dense.device_s;
    (processor_s > 0.0 && device_s > 0.0).then(|| Crossover {
        device_factor: processor_s / device_s,
        instructions_per_second: speed as f64 * processor_s / device_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::testing::FixedDelay;
    use workload::boot_recording::Read;

    fn recording(reads: usize, instructions: u64) -> Recording {
        let read = Read { instructions, sector: 0, sectors: 8, beside: false };
        Recording { reads: vec![read; reads], ..Recording::default() }
    }

    fn times(recording: &Recording, latency: u64, speed: u64) -> Times {
        let mut device = FixedDelay::new(Nanos(latency), 1);
        compose(recording, &mut device, speed, Until::Init).unwrap()
    }

    #[test]
    fn at_the_crossover_both_take_the_same_time() {
        let (light, dense) = (recording(400, 1000), recording(100, 90_000));
        let (speed, latency) = (1_000_000_000, 10_000);
        let (a, b) = (times(&light, latency, speed), times(&dense, latency, speed));
        assert!((a.device_s - 4e-3).abs() < 1e-12 && (a.processor_s - 4e-4).abs() < 1e-12);
        let at = crossover(a, b, speed).unwrap();
        let slower = (latency as f64 * at.device_factor).round() as u64;
        let scaled =
            times(&light, slower, speed).total_s() - times(&dense, slower, speed).total_s();
        assert!(scaled.abs() < 1e-6, "{scaled}");
        let faster = at.instructions_per_second.round() as u64;
        let other =
            times(&light, latency, faster).total_s() - times(&dense, latency, faster).total_s();
        assert!(other.abs() < 1e-6, "{other}");
        assert_eq!(crossover(b, a, speed), None);
    }
}
