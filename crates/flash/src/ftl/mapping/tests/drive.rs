//! Small drives to measure one thing on.

use config::ConfigError;
use sim::{Completions, Counters, Lba, Nanos, Request, Rng};

use crate::device::ssd::{OverProvisioning, Params, TimingMode};
use crate::ftl::mapping::MappingScheme;

/// One channel of `dies` dies of `planes` planes, each of 64 blocks, `live_percent` of it logical,
/// outside time.
pub(in super::super) fn small(
    mapping: MappingScheme,
    (dies, planes): (u32, u32),
    live_percent: f64,
) -> Params {
    let mut params = Params {
        mapping,
        over_provisioning: OverProvisioning::LivePercent(live_percent),
        timing: TimingMode::None,
        ..Params::default()
    };
    params.geometry.channels = 1;
    params.geometry.packages_per_channel = 1;
    params.geometry.dies_per_package = dies;
    params.geometry.planes_per_die = planes;
    params.geometry.blocks_per_plane = 64;
    params
}

pub(in super::super) fn build(params: &Params) -> Result<Box<dyn sim::Device>, ConfigError> {
    let context = config::device::Context { rng: Rng::new(1, "small") };
    Ok(Box::new(params.build_around(&context, |mapping| mapping)?))
}

pub(in super::super) fn count(device: &dyn sim::Device, name: &str) -> u64 {
    let mut counters = Counters::default();
    device.counters(&mut counters);
    counters.get(name)
}

/// Do a request of a drive outside time.
pub(in super::super) fn now(device: &mut dyn sim::Device, request: Request) {
    device.submit(Nanos::ZERO, request).unwrap();
    device.advance(Nanos::ZERO, &mut Completions::new());
}

/// Pages moved while a log of stream 0 goes round over the first eighth of the drive, and one of
/// stream 1 over the rest at the same pace; `rounds` times the drive's logical pages in all.
pub(in super::super) fn moved_by_logs(mut device: Box<dyn sim::Device>, rounds: u64) -> u64 {
    let pages = device.limits().sectors() / 4;
    let log = pages / 8;
    for turn in 0..rounds * pages {
        for (stream, lpn) in [(0, turn % log), (1, log + turn % (pages - log))] {
            now(&mut *device, Request { stream, ..Request::write(Lba(lpn * 4), 4) });
        }
    }
    count(&*device, "gc_pages_moved")
}
