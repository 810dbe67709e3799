//! Elevators: the order in which requests go to a device. One policy per file; what they share is
//! in [`linux`].

pub(crate) mod counted;
pub(crate) mod linux;

mod mutant;

pub use linux::queue::recorded::{BesideRecording, Sent};

use sim::{Counters, Nanos, Request};

use config::ConfigError;
use linux::pool::{Fifo, Piece, Pool};
use linux::tags::Sharing;

sim::registry! {
    /// The order in which an elevator sends requests to its device.
    pub enum ElevatorPolicy("policy"): Context => Result<Built, ConfigError> = {
        Noop = "noop" => noop,
        Deadline = "deadline" => deadline,
        Anticipatory = "anticipatory" => anticipatory,
        Cfq = "cfq" => cfq,
        None = "none" => none,
        MqDeadline = "mq-deadline" => mq_deadline,
        Kyber = "kyber" => kyber,
        Bfq = "bfq" => bfq,
    }
}

/// What a policy is built with besides its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context {
    /// Requests in the pool of today's elevators.
    pub nr_requests: u32,
    /// Does the device below rotate?
    pub rotational: bool,
}

/// A policy, ready to run.
pub struct Built {
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) kind: Kind,
}

impl std::fmt::Debug for Built {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Built").finish_non_exhaustive()
    }
}

/// Where a bio looks for a request to join.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Merging {
    /// Only in the plug of its task.
    Plug,
    /// Among the newest entries of a software queue as well.
    Recent,
    /// Among all that the policy has.
    Elevator,
}

/// What kind of queue a policy sits in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kind {
    /// The queue of today, with a plug per task; else that of 2.6.26, with a plug of its own.
    pub(crate) task_plug: bool,
    pub(crate) merging: Merging,
    /// Who shares the pool of requests.
    pub(crate) sharing: Sharing,
    /// [`Policy::looks`] is of interest.
    pub(crate) asks_of_bios: bool,
}

/// Requests in a pool of 2.6.26 per direction, and of the queue that today's pools are made for.
const DEFAULT_REQUESTS: u32 = 128;

impl Kind {
    /// The single queue of Linux 2.6.26.
    pub(crate) const ERA: Kind = Kind {
        task_plug: false,
        merging: Merging::Elevator,
        sharing: Sharing::Directions,
        asks_of_bios: false,
    };
    /// The multi-queue block layer of today.
    pub(crate) const TODAY: Kind = Kind { task_plug: true, sharing: Sharing::Waited, ..Kind::ERA };

    /// Requests in the pool: the configuration's, else what the kernel makes before a device which
    /// takes `depth`.
    pub(crate) fn requests(&self, configured: Option<u32>, depth: u32) -> u32 {
        match self.sharing {
            Sharing::Directions => configured.unwrap_or(DEFAULT_REQUESTS),
            // Twice, as reads and writes are not kept apart.
            Sharing::Waited => configured.unwrap_or(2 * depth.min(DEFAULT_REQUESTS)),
            Sharing::All => configured.map_or(depth, |requests| requests.min(depth)),
        }
    }
}

/// An elevator policy. It decides which of the waiting requests goes next; plug, merging and the
/// request pool are not its business.
pub(crate) trait Policy: sim::Snapshot + Send {
    /// A new request. True when the queue should look at once what is to be sent.
    fn add(&mut self, now: Nanos, pool: &mut Pool, rq: u32) -> bool;

    /// Does nothing wait here?
    fn is_empty(&self) -> bool;

    /// Put what goes next behind `out`, at least one request if any may go now.
    fn dispatch(&mut self, now: Nanos, pool: &mut Pool, out: &mut Vec<u32>);

    /// Put everything behind `out`: a barrier comes.
    fn drain(&mut self, now: Nanos, pool: &mut Pool, out: &mut Vec<u32>);

    /// Send a request that waits, whatever the policy makes of it: beside a recording, in which it
    /// has been answered. False where the policy cannot.
    fn force(&mut self, now: Nanos, pool: &mut Pool, rq: u32) -> bool {
        let _ = (now, pool, rq);
        false
    }

    /// A request went to the device that the policy was not asked about, as the data of a flush.
    fn passed(&mut self, what: &Request) {
        let _ = what;
    }

    /// A process has ended: nobody waits for it any longer.
    fn ended(&mut self, now: Nanos, pool: &Pool, process: u32) {
        let _ = (now, pool, process);
    }

    /// A request goes to the device.
    fn started(&mut self, now: Nanos, pool: &Pool, rq: u32) {
        let _ = (now, pool, rq);
    }

    /// The device has answered.
    fn completed(&mut self, now: Nanos, pool: &Pool, rq: u32) {
        let _ = (now, pool, rq);
    }

    /// When it wants to be called without a request.
    fn next_event(&self) -> Option<Nanos> {
        None
    }

    /// What [`Policy::next_event`] announced is due. The queue looks again afterwards.
    fn timer(&mut self, now: Nanos, pool: &Pool) {
        let _ = (now, pool);
    }

    /// A bio looks for a request to join, and there are some that could be it; of kinds that ask.
    fn looks(&mut self, now: Nanos, pool: &Pool, piece: &Piece) {
        let _ = (now, pool, piece);
    }

    /// May this bio join this request, as far as the policy is concerned?
    fn may_merge(&self, pool: &Pool, rq: u32, piece: &Piece) -> bool {
        let _ = (pool, rq, piece);
        true
    }

    /// The request that begins where the bio ends.
    fn front(&self, pool: &Pool, piece: &Piece) -> Option<u32> {
        let _ = (pool, piece);
        None
    }

    /// A request began at `old` before a bio was put before it.
    fn grown(&mut self, pool: &Pool, rq: u32, old: u64) {
        let _ = (pool, rq, old);
    }

    /// The request that follows one in the policy's order.
    fn latter(&self, pool: &Pool, rq: u32) -> Option<u32>;

    /// The one before it.
    fn former(&self, pool: &Pool, rq: u32) -> Option<u32>;

    /// `second` becomes the tail of `first` and leaves.
    fn joined(&mut self, pool: &mut Pool, first: u32, second: u32);

    /// The software queue of a bio, where [`Merging::Recent`] says that there is one.
    fn software_queue(&self, what: &Request) -> Option<&Fifo> {
        let _ = what;
        None
    }

    /// The requests of each word of the map that this one may have; [`u32::MAX`] for all.
    fn depth(&self, what: &Request) -> u32 {
        let _ = what;
        u32::MAX
    }

    /// What the kernel takes for the lowest limit.
    fn depth_min(&self) -> u32 {
        u32::MAX
    }

    /// Is the policy waiting for this process?
    fn expects(&self, what: &Request) -> bool {
        let _ = what;
        false
    }

    /// Add what the policy counted.
    fn counters(&self, out: &mut Counters) {
        let _ = out;
    }

    /// The power is gone, and every request with it.
    fn clear(&mut self);

    /// A copy that will do exactly the same.
    fn boxed_clone(&self) -> Box<dyn Policy>;
}

impl Clone for Box<dyn Policy> {
    fn clone(&self) -> Box<dyn Policy> {
        self.boxed_clone()
    }
}

/// Refuse a value out of its range.
pub(crate) fn within<T: PartialOrd + std::fmt::Display>(
    key: &str,
    value: T,
    range: std::ops::RangeInclusive<T>,
) -> Result<(), ConfigError> {
    if range.contains(&value) {
        Ok(())
    } else {
        let message = format!("expected {} to {}, got {value}", range.start(), range.end());
        Err(ConfigError::new(key, message))
    }
}

#[cfg(test)]
mod tests {
    /// Nobody needs to read this file to add one.
    #[test]
    fn the_how_to_names_all_that_a_policy_is_asked() {
        let page = include_str!("../../../../docs/howto/add-an-elevator.md");
        let (_, policy) = include_str!("mod.rs").split_once("trait Policy:").unwrap();
        let (policy, _) = policy.split_once("\n}\n").unwrap();
        let asked: Vec<&str> = policy
            .lines()
            .filter_map(|line| line.strip_prefix("    fn ")?.split_once('('))
            .map(|(name, _)| name)
            .collect();
        assert!(asked.len() > 15, "{asked:?}");
        for name in asked {
            assert!(page.contains(&format!("{name}(")), "`{name}` is not in the page");
        }
    }
}
