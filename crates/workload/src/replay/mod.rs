//! When a replayed trace issues its next request.

use config::ConfigError;
use sim::Nanos;

sim::registry! {
    /// When a replayed trace issues its next request.
    pub enum Replay("replay"): () => Result<Order, ConfigError> = {
        Timestamps = "timestamps" => timestamps,
        ClosedLoop = "closed-loop" => closed_loop,
        BackToBack = "back-to-back" => back_to_back,
        Dependencies = "dependencies" => dependencies,
    }
}

/// What decides when a request is issued.
pub enum Order {
    /// Requests in the order of the trace, each when the pace lets it go.
    Paced(Box<dyn Pace>),
    /// Each request follows another one, as far as the trace shows.
    Dependencies {
        /// Requests of a process that are closer than this follow each other.
        burst: Nanos,
        /// Others follow the latest completion, where it is not longer ago than this.
        handover: Nanos,
        /// Cores that what is computed between shares; `None`: each process has its own.
        cores: Option<u32>,
    },
}

impl Order {
    /// True when requests need a time: a trace without times is then refused.
    pub fn needs_times(&self) -> bool {
        match self {
            Order::Paced(pace) => pace.needs_times(),
            Order::Dependencies { .. } => true,
        }
    }

    /// True when times count from the recording's time 0 rather than from its first request.
    pub fn counts_from_start(&self) -> bool {
        matches!(self, Order::Paced(pace) if pace.counts_from_start())
    }
}

/// What to do with the next request of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Issue it now.
    Now,
    /// Not before this moment, later than now.
    At(Nanos),
    /// After the next completion.
    Wait,
}

/// Paces a replay.
pub trait Pace: Send {
    /// True when requests need a time: a trace without times is then refused.
    fn needs_times(&self) -> bool {
        false
    }

    /// True when times count from the recording's time 0 rather than from its first request.
    fn counts_from_start(&self) -> bool {
        false
    }

    /// When to issue the next request, `time` after the first in the trace, with `in_flight`
    /// requests not completed and the last completion at `completed`. Times count from the start
    /// of the replay.
    fn turn(&self, now: Nanos, time: Nanos, in_flight: u64, completed: Nanos) -> Turn;
}
