//! Disks that points begin with: each is prepared once, by a session of its own, and every point
//! with the same disk begins with a fork of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;
use sim::Device;
use study::{AxisValue, Failure, Setup, Travel};

use crate::session::Start;
use crate::travel::Disk;

#[derive(Default)]
struct Shared {
    /// Points that still need it.
    users: usize,
    /// It, or why there is none.
    disk: Option<Result<Disk, Failure>>,
}

/// All disks of a study, by what they depend on.
#[derive(Default)]
pub(super) struct Disks(Mutex<BTreeMap<String, Arc<Mutex<Shared>>>>);

/// The arguments that the setup's text names. It is given no others: a disk is shared by the points
/// that differ in those.
pub(super) fn setup_arguments(travel: &Travel) -> impl Iterator<Item = (&String, &AxisValue)> {
    travel.arguments.iter().filter(|(name, _)| travel.setup.contains(name.as_str()))
}

/// What a disk depends on: the device and how it came into its state, and everything that its own
/// session is told.
fn key(setup: &Setup, travel: &Travel) -> String {
    let point = setup.point;
    let arguments: BTreeMap<_, _> = setup_arguments(travel).collect();
    let (kind, memory) = (travel.file_system, travel.memory);
    json!({
        "device": point.device, "block": setup.block, "precondition": point.precondition,
        "seed": point.study.seed, "repeat": setup.repeat, "file_system": kind,
        "mkfs_options": travel.mkfs_options, "mkfs_discard": travel.mkfs_discard,
        "mount_options": travel.mount_options, "setup": travel.setup, "arguments": arguments,
        "memory": memory,
    })
    .to_string()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disks {
    /// A point will begin with its disk.
    pub(super) fn expect(&self, setup: &Setup, travel: &Travel) {
        let mut all = lock(&self.0);
        lock(all.entry(key(setup, travel)).or_default()).users += 1;
    }

    /// A fork of the point's disk; the first point that needs it makes it.
    pub(super) fn fork(
        &self,
        setup: &Setup,
        travel: &Travel,
        make: impl FnOnce() -> Result<Disk, Failure>,
    ) -> Result<(Box<dyn Device>, Start), Failure> {
        let shared = Arc::clone(lock(&self.0).entry(key(setup, travel)).or_default());
        let mut shared = lock(&shared);
        shared.users = shared.users.saturating_sub(1);
        let is_last = shared.users == 0;
        let disk = shared.disk.get_or_insert_with(make);
        let forked =
            disk.as_ref().map_err(Failure::clone).and_then(|disk| disk.fork(travel.data_limit.0));
        if is_last {
            shared.disk = None;
        }
        forked
    }
}
