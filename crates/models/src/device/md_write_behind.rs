//! Linux md RAID-1 with write-behind: the nearest product to a hetero-mirror.
//!
//! # What it models
//! A write completes when the fast leg has it, as long as fewer than `write_behind` such writes
//! are still out on the slow one; beyond that it waits for both. A write over sectors of a write
//! that is still out waits for that. Reads go to the fast leg. A flush goes to both legs at once
//! and **does not wait for writes behind**: it can complete while the slow leg holds older data
//! than was flushed, which `flushes_exposed` counts.
//!
//! # Equation
//! `write = fast` while `behind < write_behind`, else `max(fast, slow)`
//!
//! `flush = max(flush of fast, flush of slow)`
//!
//! # Parameters
//! `fast`, `slow` (each a device table; slow is write-mostly), `write_behind`, `queue_depth_max`.
//!
//! # What it leaves out
//! The intent bitmap on both legs, which the first write to a clean chunk waits for, and the
//! superblock writes after idle; failed legs; that kernels before 6.6 do nothing of this unless
//! the write-mostly leg is listed first. A bound in bytes or age does not exist in md either.
//!
//! # Validated against
//! The contract tests, and fixed servers in its own tests: the bound, the order of overlapping
//! writes, and a flush that does not wait, as seen on a 6.1 kernel in a guest.
//!
//! # References
//! Linux 6.1, `drivers/md/raid1.c` (`raid1_write_request`, `wait_for_serialization`) and `md.c`
//! (`md_flush_request`).

use config::ConfigError;
use config::device::Context;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::Device;

use crate::device::{DeviceModel, check_depth};
use crate::raid::counted::{EXPOSURE, MD};
use crate::raid::legs::Legs;
use crate::raid::md::Md;

/// The most that md takes.
const BEHIND_MAX: u32 = 16_383;

/// Parameters of a mirror with write-behind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// The leg that is read and waited for.
    pub fast: Box<DeviceModel>,
    /// The write-mostly leg.
    pub slow: Box<DeviceModel>,
    /// Writes that may be out on the slow leg after they were acknowledged: 1 to 16383.
    pub write_behind: u32,
    /// Requests accepted at once.
    pub queue_depth_max: u32,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            fast: Box::new(DeviceModel::Ssd(Default::default())),
            slow: Box::new(DeviceModel::Hdd(Default::default())),
            write_behind: 256,
            queue_depth_max: 1024,
        }
    }
}

impl Params {
    /// What md counts.
    pub const COUNTED: sim::metric::Declarations = &[&EXPOSURE, &MD];

    /// Build the mirror.
    ///
    /// # Errors
    /// What is wrong with a leg, named after it, or a bound that md does not take.
    pub fn build(&self, context: &Context) -> Result<Box<dyn Device>, ConfigError> {
        check_depth(self.queue_depth_max)?;
        if !(1..=BEHIND_MAX).contains(&self.write_behind) {
            let message = format!(
                "expected 1 to {BEHIND_MAX}, got {}; a mirror that waits for both legs is \
                 device.raid1",
                self.write_behind
            );
            return Err(ConfigError::new("write_behind", message));
        }
        let fast = self.fast.build_leg("fast", context)?;
        let below = Context { rng: context.rng.split("slow") };
        let slow = self.slow.build_leg("slow", &below)?;
        let legs = Legs::new(vec![("fast", fast), ("slow", slow)]);
        Ok(Box::new(Md::new(legs, self.queue_depth_max, Some(self.write_behind))))
    }
}

#[cfg(test)]
mod tests {
    use config::Duration;
    use sim::{Counters, Lba, Nanos, Request, Rng, Stepper};

    use super::*;
    use crate::device::null;

    fn leg(us: u64) -> Box<DeviceModel> {
        let latency = Duration(Nanos::from_micros(us));
        Box::new(DeviceModel::Null(null::Params { latency, ..Default::default() }))
    }

    fn mirror(write_behind: u32) -> Stepper<Box<dyn Device>> {
        let params = Params { fast: leg(10), slow: leg(1000), write_behind, ..Params::default() };
        Stepper::new(params.build(&Context { rng: Rng::new(1, "md") }).unwrap())
    }

    fn done(host: &mut Stepper<Box<dyn Device>>, us: u64) -> Vec<u64> {
        host.run_until(Nanos::from_micros(us)).into_iter().map(|done| done.id.0).collect()
    }

    #[test]
    fn beyond_the_bound_a_write_waits_for_both_legs() {
        let mut host = mirror(2);
        for nth in 0..3 {
            host.submit(Request::write(Lba(nth * 100), 8)).unwrap();
        }
        assert_eq!(done(&mut host, 10), [0, 1]);
        assert_eq!(done(&mut host, 1000), [2]);
    }

    #[test]
    fn a_write_over_one_that_is_behind_waits_for_it() {
        let mut host = mirror(256);
        host.submit(Request::write(Lba(0), 8)).unwrap();
        assert_eq!(done(&mut host, 10), [0]);
        host.submit(Request::write(Lba(7), 8)).unwrap();
        host.submit(Request::write(Lba(100), 8)).unwrap();
        assert_eq!(done(&mut host, 20), [2]);
        assert_eq!(done(&mut host, 1010), [1]);
    }

    /// The finding: an acknowledged flush, and only one leg has what it covers.
    #[test]
    fn a_flush_does_not_wait_for_what_is_behind() {
        let mut host = mirror(256);
        host.submit(Request::write(Lba(0), 8)).unwrap();
        assert_eq!(done(&mut host, 10), [0]);
        host.submit(Request::flush()).unwrap();
        // The slow leg serves them side by side; the write is done at 1000 us, the flush at 1010.
        assert_eq!(done(&mut host, 1009), [0u64; 0]);
        assert_eq!(done(&mut host, 1010), [1]);
        let mut host = mirror(256);
        host.submit(Request::flush()).unwrap();
        host.submit(Request::write(Lba(0), 8)).unwrap();
        assert_eq!(done(&mut host, 999), [1]);
        let mut counters = Counters::default();
        host.device.counters(&mut counters);
        assert_eq!(counters.get("flushes_exposed"), 0);
    }

    #[test]
    fn a_bound_that_md_does_not_take_is_refused() {
        let params = Params { write_behind: 0, ..Params::default() };
        let error = params.build(&Context { rng: Rng::new(1, "md") }).map(drop).unwrap_err();
        assert_eq!(error.key, "write_behind");
        assert!(error.message.starts_with("expected 1 to 16383, got 0"), "{error}");
    }
}
