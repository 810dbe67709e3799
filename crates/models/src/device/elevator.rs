//! An elevator: the block layer's queue before any device.
//!
//! # What it models
//! What Linux does with a request between the file system and the driver, as a device that holds
//! another one. Requests of the host (bios) are kept back for a moment (plugged), joined with
//! neighbours, and given to the device below in the order that the `policy` likes, at most
//! `queue_depth` at once. Each process has an identity, each write says whether somebody waits for
//! it, and each request may have an I/O priority; the workload gives them, or the kernel of
//! `blocklab travel --elevator`.
//!
//! Two queues are modelled. `noop`, `deadline`, `anticipatory` and `cfq` sit in that of Linux
//! 2.6.26: an empty queue is plugged until 4 requests wait, 3 ms are over, the device answers, or
//! somebody waits; a bio is merged with the request that took the last one, with one that ends
//! where it begins, or with one that begins where it ends; `nr_requests` requests exist per
//! direction, and a process that had to wait for one may then take a batch of 32, or for 20 ms.
//! `none`, `mq-deadline`, `kyber` and `bfq` sit in that of today: each task has a plug of its own,
//! in which a bio is compared with the last request only, and which is handed over when the task
//! sleeps, at 32 requests, or behind one of 128 KiB.
//!
//! # Equation
//! `enqueued + splits = dequeued + merged_back + merged_front + merged_requests` on a drained queue
//!
//! # Parameters
//! `device` and `policy` (each by name, or a table), `queue_depth` and `nr_requests` under their
//! kernel names (when they are not given: what the device takes; 128, or for `mq-deadline`, `kyber`
//! and `bfq` twice what the device takes and at most 256), `budget`, `max_sectors_kb`,
//! `max_segments`, `nomerges`, `unplug_thresh`, `unplug_delay`, `processes`, `queue_depth_max`. A
//! request has a segment per started 4 KiB. Counted are bios (`enqueued`), what became of them,
//! requests (`dequeued`), anticipations won and lost and the time that they took, and the `share`
//! of each process in requests, sectors and time in the device.
//!
//! Whoever finds no request left sleeps, and with it all that its process asks for later. Today's
//! pool is the kernel's map: words of 1 to 64 requests, of each of which a policy may leave the
//! first few only to some; whoever sleeps keeps the limit it came with; eight lines to sleep in, of
//! which one is woken when enough was given back. `budget` says whether the driver asks for a place
//! in the device before it asks the policy (SATA, SAS, USB, UFS), or takes one request ahead (NVMe,
//! virtio, eMMC), which nothing joins or passes any more.
//!
//! Flushes go to the device at once, and in 2.6.26 they and FUA writes are barriers: what came
//! before is sent and awaited first, what comes later waits. Today a FUA write keeps its place in
//! the policy's order (since Linux 6.5; before, it went at once). None of these is ever merged, and
//! nor are discards.
//!
//! # What it leaves out
//! The processor's time, several processors with a queue each, cgroups, write-back throttling, and
//! processes that end: a process that is waited for is taken to be alive. A journal's commit is one
//! request in Linux, a write with a flush before it, which goes before all that waits; here it is a
//! flush and a write. In virtual time a task
//! sleeps when it has nothing more to submit at that instant, so bios that a task submits some
//! microseconds apart inside one plug do not meet there.
//! Whoever is woken asks before whoever got an answer at the same moment; on one processor it is
//! the other way round, and then a process can starve others of a pool of few requests. The
//! guest of `travel` does not see the sleep: in Linux whoever sleeps takes no answers meanwhile.
//! Of merged writes that a power cut takes, the last 65,536 parts since a flush are known by name.
//!
//! # Validated against
//! The contract tests with every policy; closed forms and state tables by hand in the policies'
//! own tests; planted bugs (`elevator/linux/tests`). Merging follows rules that gave request counts
//! within 1 % of recordings of Linux 6.18; the recordings are not part of this repository. A reader
//! beside a writer before devices that take 1 to 32 requests, against the kernel's own schedulers
//! (`docs/measured/linux-io.md`).
//!
//! # References
//! Linux 2.6.27, `block/blk-core.c`, `block/elevator.c`, `block/blk-merge.c`; Linux 6.18,
//! `block/blk-mq.c`, `block/blk-merge.c`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Bytes, Device, Nanos, Rng};
use trace::QueueEvent;

use crate::device::{Context, check_depth, null};
use crate::elevator::counted::QUEUE;
use crate::elevator::{self, BesideRecording, Built, linux, within};
use crate::raid::legs::Legs;
use crate::registry::{DeviceModel, ElevatorPolicy};
use config::{ConfigError, Duration, Size};
use linux::queue::{Queue, Settings, recorded};

/// Requests in the largest pool.
const NR_REQUESTS_MAX: u32 = 1 << 13;

/// Parameters of an elevator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// The device below.
    pub device: Box<DeviceModel>,
    /// The order of requests.
    pub policy: ElevatorPolicy,
    /// Requests in the device below at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u32>,
    /// Today: the driver asks the policy when the device has a place (SCSI: SATA, SAS, USB, UFS).
    /// Else (NVMe, virtio, eMMC) it takes one request ahead.
    pub budget: bool,
    /// Requests in the pool, per direction in 2.6.26; with `none` at most `queue_depth`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nr_requests: Option<u32>,
    /// The longest request, in KiB.
    pub max_sectors_kb: u32,
    /// Memory segments of a request at most.
    pub max_segments: u32,
    /// Join nothing.
    pub nomerges: bool,
    /// 2.6.26: waiting requests that open the plug.
    pub unplug_thresh: u32,
    /// 2.6.26: after so long the plug opens by itself.
    pub unplug_delay: Duration,
    /// Processes whose shares are counted one by one: those that ask first.
    pub processes: u32,
    /// Requests accepted at once.
    pub queue_depth_max: u32,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            device: Box::new(DeviceModel::Hdd(Default::default())),
            policy: ElevatorPolicy::MqDeadline(Default::default()),
            queue_depth: None,
            budget: true,
            nr_requests: None,
            max_sectors_kb: 512,
            max_segments: 128,
            nomerges: false,
            unplug_thresh: 4,
            unplug_delay: Duration(Nanos::from_millis(3)),
            processes: 8,
            queue_depth_max: 1024,
        }
    }
}

impl Params {
    /// What the queue counts above any policy.
    pub const COUNTED: sim::metric::Declarations = &[&QUEUE];

    /// Build the queue and what is below it.
    ///
    /// # Errors
    /// What is wrong with the device or the policy, named after it, or a value out of range.
    pub fn build(&self, context: &Context) -> Result<Box<dyn Device>, ConfigError> {
        check_depth(self.queue_depth_max)?;
        let device = self.device.build_leg("device", context)?;
        let below = Legs::new(vec![("device", device)]);
        let limits = below.limits(0);
        let depth = self.queue_depth.unwrap_or(limits.queue_depth_max);
        within("queue_depth", depth, 1..=limits.queue_depth_max)?;
        let (built, settings) = self.settings(limits.rotational, depth)?;
        Ok(Box::new(Queue::new(below, built.policy, built.kind, settings)))
    }

    /// The policy, and the queue's settings before a device of this depth.
    fn settings(&self, rotational: bool, depth: u32) -> Result<(Built, Settings), ConfigError> {
        within("max_sectors_kb", self.max_sectors_kb, 4..=1 << 20)?;
        within("max_segments", self.max_segments, 1..=1 << 16)?;
        within("unplug_thresh", self.unplug_thresh, 1..=1 << 16)?;
        within("processes", self.processes, 0..=1024)?;
        if let Some(nr_requests) = self.nr_requests {
            // As in the kernel: the pool never has fewer than four.
            within("nr_requests", nr_requests, 4..=NR_REQUESTS_MAX)?;
        }
        let nr_requests = elevator::Kind::TODAY.requests(self.nr_requests, depth);
        let policy = elevator::Context { nr_requests, rotational };
        let name = self.policy.name();
        let built = self.policy.build(&policy).map_err(|e| e.within(name).within("policy"))?;
        let nr_requests = built.kind.requests(self.nr_requests, depth);
        let settings = Settings {
            bios_max: self.queue_depth_max,
            depth,
            budget: self.budget || !built.kind.task_plug,
            nr_requests,
            extent: linux::queue::extent(self.max_sectors_kb, self.max_segments, !self.nomerges),
            unplug_thresh: self.unplug_thresh,
            unplug_delay: self.unplug_delay.0,
            processes: self.processes,
        };
        Ok((built, settings))
    }

    /// What this elevator makes of a recorded stream, without a device below: `device`,
    /// `queue_depth` and `nr_requests` have no meaning, since what was recorded had room.
    ///
    /// # Errors
    /// A value out of range, named after it.
    pub fn beside(
        &self,
        events: &[QueueEvent],
        rotational: bool,
    ) -> Result<BesideRecording, ConfigError> {
        let params = Params { nr_requests: Some(NR_REQUESTS_MAX), ..self.clone() };
        let (built, settings) = params.settings(rotational, NR_REQUESTS_MAX)?;
        let nothing = null::Params {
            capacity: Size(Bytes(1 << 62)),
            queue_depth_max: u32::MAX,
            ..Default::default()
        };
        let below = nothing.build(&Context { rng: Rng::new(0, "beside") })?;
        let below = Legs::new(vec![("device", below)]);
        let queue = Queue::new(below, built.policy, built.kind, settings);
        Ok(recorded::beside(queue, events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(params: Params) -> String {
        let built = params.build(&Context { rng: Rng::new(1, "elevator") });
        built.err().expect("it is refused").to_string()
    }

    fn read(table: &str) -> Result<DeviceModel, String> {
        #[derive(Deserialize)]
        struct Document {
            device: DeviceModel,
        }
        let document = toml::from_str(&format!("device = {{ elevator = {{ {table} }} }}"));
        document.map(|document: Document| document.device).map_err(|error| error.to_string())
    }

    #[test]
    fn values_out_of_range_name_their_key() {
        let none = ElevatorPolicy::None(Default::default());
        for (params, expected) in [
            (Params { nr_requests: Some(3), ..Params::default() }, "nr_requests: expected 4 to"),
            (Params { queue_depth: Some(0), ..Params::default() }, "queue_depth: expected 1 to"),
            (Params { max_sectors_kb: 0, ..Params::default() }, "max_sectors_kb: expected 4 to"),
            (Params { max_segments: 0, ..Params::default() }, "max_segments: expected 1 to"),
            (Params { queue_depth_max: 0, policy: none, ..Params::default() }, "queue_depth_max:"),
        ] {
            assert!(error(params).starts_with(expected), "{expected}");
        }
        let deep = error(Params { queue_depth: Some(1 << 20), ..Params::default() });
        assert!(deep.starts_with("queue_depth: expected 1 to ") && deep.ends_with("got 1048576"));
    }

    #[test]
    fn errors_inside_say_where() {
        let policy = crate::elevator::cfq::Params { quantum: 0, ..Default::default() };
        let policy = ElevatorPolicy::Cfq(policy);
        let message = error(Params { policy, ..Params::default() });
        assert_eq!(message, "policy.cfq.quantum: expected 1 to 65536, got 0");
        let null = crate::device::null::Params { queue_depth_max: 0, ..Default::default() };
        let device = Box::new(DeviceModel::Null(null));
        let message = error(Params { device, ..Params::default() });
        assert_eq!(message, "device.null.queue_depth_max: expected at least 1, got 0");
    }

    #[test]
    fn unknown_policies_and_keys_are_refused() {
        assert!(read("policy = 'cfq', nr_requests = 64").is_ok());
        let unknown = read("policy = 'cfk'").unwrap_err();
        assert!(unknown.contains("cfk") && unknown.contains("anticipatory"), "{unknown}");
        let key = read("policy = { cfq = { slice_idel = '8ms' } }").unwrap_err();
        assert!(key.contains("slice_idel") && key.contains("slice_idle"), "{key}");
    }

    /// One answer covers what the model sent in two pieces: none of them stays in the device, or
    /// bfq would wait for it for ever.
    #[test]
    fn beside_a_recording_each_piece_of_what_was_joined_is_answered() {
        let text = "\
            8,0 0 1 0.000000000 7 P N [a]\n\
            8,0 0 2 0.000000000 7 Q R 0 + 8 [a]\n\
            8,0 0 3 0.000000000 7 Q R 8 + 8 [a]\n\
            8,0 0 4 0.000001000 7 U N [a] 1\n\
            8,0 0 5 0.000001000 7 D R 0 + 16 [a]\n\
            8,0 0 6 0.001000000 0 C R 0 + 16 [0]\n\
            8,0 0 7 0.002000000 9 Q R 900000 + 8 [b]\n\
            8,0 0 8 0.002000000 9 I R 900000 + 8 [b]\n\
            8,0 0 9 0.002000000 9 D R 900000 + 8 [b]\n\
            8,0 0 10 0.003000000 0 C R 900000 + 8 [0]\n";
        let events = trace::queue_events("recorded", Box::new(text.as_bytes())).unwrap();
        // Two new processes would both be raised, and raised ones wait for nobody.
        let policy = crate::elevator::bfq::Params { low_latency: false, ..Default::default() };
        let policy = ElevatorPolicy::Bfq(policy);
        let params = Params { policy, nomerges: true, ..Params::default() };
        let made = params.beside(&events, true).unwrap();
        let first: Vec<u64> = made.modelled.requests.iter().map(|request| request.1).collect();
        assert_eq!(first, [0, 8, 900_000]);
    }

    /// With `none` a request holds a place in the device, so there are no more of them than places.
    #[test]
    fn none_has_no_more_requests_than_the_device_has_places() {
        let params = Params {
            policy: ElevatorPolicy::None(Default::default()),
            queue_depth: Some(2),
            ..Params::default()
        };
        let mut device = params.build(&Context { rng: Rng::new(1, "elevator") }).unwrap();
        for n in 0..5 {
            let id = sim::RequestId(n);
            let request = sim::Request { id, ..sim::Request::read(sim::Lba(n * 1000), 8) };
            device.submit(Nanos::ZERO, request).unwrap();
        }
        let mut counters = sim::Counters::default();
        device.counters(&mut counters);
        assert_eq!(counters.get("waited_for_request"), 1);
    }
}
