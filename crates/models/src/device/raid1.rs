//! RAID-1 of two equal drives, as Linux md runs it.
//!
//! # What it models
//! Every write, flush and discard goes to both legs and completes when both have answered. A read
//! goes to one: to the leg whose last read ends, or last answer ended, where it begins; otherwise,
//! when a leg is flash or idle, to the one with fewer requests out (the first of equals), else to
//! the one whose last answer was nearer. The smaller leg decides the size. After a power cut the
//! first leg is copied over the second.
//!
//! # Equation
//! `write = max(first, second)`, `read = one of them`
//!
//! # Parameters
//! `first`, `second` (each a device table), `queue_depth_max`.
//!
//! # What it leaves out
//! The intent bitmap and the superblock writes that md adds before the first write after idle,
//! resync, failed legs. Both legs have the same random stream: two drives of one model then freeze
//! together unless something else tells them apart.
//!
//! # Validated against
//! The contract tests, and closed forms of two fixed servers in its own tests.
//!
//! # References
//! Linux 6.1, `drivers/md/raid1.c`: `raid1_write_request`, `read_balance`.

use config::ConfigError;
use config::device::Context;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::Device;

use crate::device::{DeviceModel, check_depth};
use crate::raid::counted::{EXPOSURE, MD};
use crate::raid::legs::Legs;
use crate::raid::md::Md;

/// Parameters of the mirror of equals.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// The leg that is copied from after a power cut.
    pub first: Box<DeviceModel>,
    /// The other leg.
    pub second: Box<DeviceModel>,
    /// Requests accepted at once.
    pub queue_depth_max: u32,
}

impl Default for Params {
    fn default() -> Params {
        let ssd = || Box::new(DeviceModel::Ssd(Default::default()));
        Params { first: ssd(), second: ssd(), queue_depth_max: 1024 }
    }
}

impl Params {
    /// What md counts.
    pub const COUNTED: sim::metric::Declarations = &[&EXPOSURE, &MD];

    /// Build the mirror.
    ///
    /// # Errors
    /// What is wrong with a leg, named after it.
    pub fn build(&self, context: &Context) -> Result<Box<dyn Device>, ConfigError> {
        check_depth(self.queue_depth_max)?;
        let first = self.first.build_leg("first", context)?;
        let second = self.second.build_leg("second", context)?;
        let legs = Legs::new(vec![("first", first), ("second", second)]);
        Ok(Box::new(Md::new(legs, self.queue_depth_max, None)))
    }
}

#[cfg(test)]
mod tests {
    use config::Duration;
    use sim::{Lba, Nanos, Request, Rng, Stepper};

    use super::*;
    use crate::device::null;

    fn leg(us: u64) -> Box<DeviceModel> {
        let latency = Duration(Nanos::from_micros(us));
        Box::new(DeviceModel::Null(null::Params { latency, ..Default::default() }))
    }

    /// Two disks.
    fn disks() -> Stepper<Box<dyn Device>> {
        let disk = || Box::new(DeviceModel::Hdd(Default::default()));
        let params = Params { first: disk(), second: disk(), ..Params::default() };
        Stepper::new(params.build(&Context { rng: Rng::new(1, "raid1") }).unwrap())
    }

    /// Reads that each leg was given.
    fn reads(host: &Stepper<Box<dyn Device>>) -> [u64; 2] {
        let mut counters = sim::Counters::default();
        host.device.counters(&mut counters);
        ["first", "second"].map(|leg| counters.get(&format!("{leg}.reads")))
    }

    fn mirror() -> Stepper<Box<dyn Device>> {
        let params = Params { first: leg(10), second: leg(30), ..Params::default() };
        Stepper::new(params.build(&Context { rng: Rng::new(1, "raid1") }).unwrap())
    }

    #[test]
    fn a_write_takes_as_long_as_the_slower_leg() {
        let mut host = mirror();
        host.submit(Request::write(Lba(0), 8)).unwrap();
        assert!(host.run_until(Nanos::from_micros(29)).is_empty());
        assert_eq!(host.run_until(Nanos::from_micros(30)).len(), 1);
    }

    #[test]
    fn reads_go_to_the_leg_with_less_to_do() {
        let mut host = mirror();
        for nth in 1..5 {
            host.submit(Request::read(Lba(nth * 1000), 8)).unwrap();
        }
        // Two of them on each leg, whatever it takes: md does not know which leg is faster.
        assert_eq!(host.run_until(Nanos::from_micros(10)).len(), 2);
        assert_eq!(host.run_until(Nanos::from_micros(30)).len(), 2);
    }

    #[test]
    fn an_idle_disk_goes_before_the_one_whose_arm_is_nearer() {
        // The first of the legs that a read on each of which would be nearest to goes on there.
        let (mut host, far) = (disks(), 100_000_000);
        host.submit(Request::read(Lba(far), 8)).unwrap();
        assert_eq!(reads(&host), [1, 0]);
        host.submit(Request::read(Lba(far + 1000), 8)).unwrap();
        assert_eq!(reads(&host), [1, 1], "the first leg is busy");
        host.run_until(Nanos::from_secs(1));
        // The second leg goes on where it is; nearer to it alone is no reason.
        host.submit(Request::read(Lba(far + 1008), 8)).unwrap();
        assert_eq!(reads(&host), [1, 2]);
        host.run_until(Nanos::from_secs(2));
        host.submit(Request::read(Lba(0), 8)).unwrap();
        host.run_until(Nanos::from_secs(3));
        host.submit(Request::read(Lba(far + 2000), 8)).unwrap();
        assert_eq!(reads(&host), [3, 2], "both are idle");
        // Both are busy: what they answered last counts, and not what they are on their way to.
        host.run_until(Nanos::from_secs(4));
        host.submit(Request::read(Lba(3_000), 8)).unwrap();
        host.submit(Request::read(Lba(far + 3000), 8)).unwrap();
        assert_eq!(reads(&host), [4, 3]);
        host.submit(Request::read(Lba(far + 9000), 8)).unwrap();
        assert_eq!(reads(&host), [5, 3], "the first leg's last answer was there");
    }

    #[test]
    fn a_read_that_goes_on_stays_on_its_leg() {
        let mut host = mirror();
        host.submit(Request::read(Lba(1000), 8)).unwrap();
        host.submit(Request::read(Lba(1008), 8)).unwrap();
        assert_eq!(host.run_until(Nanos::from_micros(10)).len(), 2);
    }
}
