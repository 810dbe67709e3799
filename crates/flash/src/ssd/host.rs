//! The path between host and controller: command overheads and a link of finite bandwidth.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Nanos, Op, Request, snapshot_fields};

use config::{ConfigError, Duration, Rate, Size};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Parameters of the host path. The default costs nothing.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostParams {
    /// From submission until the controller has the command.
    pub command: Duration,
    /// A process submits one command after the other, each in this time, whatever its size: what a
    /// core of the host takes for it. (The device `cpu` is that in detail: not both.)
    #[serde(skip_serializing_if = "is_zero")]
    pub process_interval: Duration,
    /// From the end of the work until the host sees the completion.
    pub completion: Duration,
    /// Bandwidth of the link in each direction; absent: infinite.
    pub bandwidth: Option<Rate>,
    /// Time that a read or a write takes on that link beside its data, whatever its size.
    #[serde(skip_serializing_if = "is_zero")]
    pub link_command: Duration,
    /// Larger reads, if their data come at another rate than the link's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub large_reads: Option<LargeReads>,
    /// Commands the controller has fetched and not answered, reads and writes together; more wait
    /// in queues of the host, one for each process, from which they are fetched in turns. Absent:
    /// it fetches whatever comes.
    pub commands: Option<u32>,
}

/// Reads whose data the controller brings to the link at a rate of its own.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LargeReads {
    /// Reads of more than this.
    pub above: Size,
    /// Their rate.
    pub bandwidth: Rate,
}

fn is_zero(time: &Duration) -> bool {
    time.0 == Nanos::ZERO
}

/// What is kept of `process`, in rising order of processes.
fn of_process<T: Default>(all: &mut Vec<(u32, T)>, process: u32) -> &mut T {
    let at = all.binary_search_by_key(&process, |(process, _)| *process).unwrap_or_else(|at| {
        all.insert(at, (process, T::default()));
        at
    });
    &mut all[at].1
}

/// State of the link.
#[derive(Clone, Debug)]
pub struct HostPath {
    command: Nanos,
    process_interval: Nanos,
    completion: Nanos,
    bandwidth: Option<u64>,
    /// Reads of more bytes than the first cross the link at the second.
    large_reads: (u64, u64),
    link_command: Nanos,
    /// By process, in rising order: when it has submitted its last command.
    submitted: Vec<(u32, Nanos)>,
    to_device_free: Nanos,
    to_host_free: Nanos,
}

snapshot_fields!(HostPath { submitted, to_device_free, to_host_free });

impl HostPath {
    /// An idle link.
    ///
    /// # Errors
    /// When commands, or large reads, take time on a link that takes none.
    pub fn new(params: &HostParams) -> Result<HostPath, ConfigError> {
        if params.bandwidth.is_none() && !is_zero(&params.link_command) {
            let message = format!("expected a `bandwidth` beside it, got {}", params.link_command);
            return Err(ConfigError::new("link_command", message));
        }
        if params.bandwidth.is_none() && params.large_reads.is_some() {
            return Err(ConfigError::new("large_reads", "expected a `bandwidth` beside it"));
        }
        let large = |large: &LargeReads| (large.above.0.0, large.bandwidth.0.max(1));
        Ok(HostPath {
            command: params.command.0,
            process_interval: params.process_interval.0,
            completion: params.completion.0,
            bandwidth: params.bandwidth.map(|rate| rate.0.max(1)),
            large_reads: params.large_reads.as_ref().map_or((u64::MAX, 1), large),
            link_command: params.link_command.0,
            submitted: Vec::new(),
            to_device_free: Nanos::ZERO,
            to_host_free: Nanos::ZERO,
        })
    }

    /// Time on the link of a request with data, which goes with operation `with` only.
    #[inline]
    fn transfer(&self, request: &Request, with: Op) -> Option<Nanos> {
        let mut bandwidth = self.bandwidth.filter(|_| request.op == with)?;
        let bytes = request.bytes().0;
        if with == Op::Read && bytes > self.large_reads.0 {
            bandwidth = self.large_reads.1;
        }
        let data = Nanos(match bytes.checked_mul(NANOS_PER_SECOND) {
            Some(product) => product / bandwidth,
            None => {
                (u128::from(bytes) * u128::from(NANOS_PER_SECOND) / u128::from(bandwidth)) as u64
            }
        });
        Some(self.link_command + data)
    }

    /// When `process` has submitted a command that it has now.
    #[inline]
    pub fn submitted(&mut self, now: Nanos, process: u32) -> Nanos {
        if self.process_interval == Nanos::ZERO {
            return now;
        }
        let last = of_process(&mut self.submitted, process);
        *last = now.max(*last) + self.process_interval;
        *last
    }

    /// When the controller has a command that was submitted then and, for a write, its data.
    #[inline]
    pub fn arrival(&mut self, submitted: Nanos, request: &Request) -> Nanos {
        let ready = submitted + self.command;
        match self.transfer(request, Op::Write) {
            None => ready,
            Some(time) => {
                self.to_device_free = self.to_device_free.max(ready) + time;
                self.to_device_free
            }
        }
    }

    /// When the host has the completion and, for a read, its data.
    #[inline]
    pub fn delivery(&mut self, now: Nanos, request: &Request) -> Nanos {
        match self.transfer(request, Op::Read) {
            None => now + self.completion,
            Some(time) => {
                self.to_host_free = self.to_host_free.max(now) + time;
                self.to_host_free + self.completion
            }
        }
    }

    /// The power failed: nothing is on the link.
    pub fn clear(&mut self) {
        self.submitted.clear();
        (self.to_device_free, self.to_host_free) = (Nanos::ZERO, Nanos::ZERO);
    }
}

/// Commands that the controller has not fetched: a queue for each process, and whose turn it is.
#[derive(Clone, Debug)]
pub struct HostQueues {
    room: u32,
    /// Commands fetched and not answered.
    fetched: u32,
    /// By process, in rising order: commands and when they were submitted. A queue stays when it is
    /// empty.
    queues: Vec<(u32, VecDeque<(u32, Nanos)>)>,
    /// The queue to look at first.
    turn: u32,
    waiting: u32,
}

snapshot_fields!(HostQueues { fetched, queues, turn, waiting });

impl HostQueues {
    /// Empty queues, or `None` where the controller fetches whatever comes.
    ///
    /// # Errors
    /// When it would never fetch anything.
    pub fn new(params: &HostParams) -> Result<Option<HostQueues>, ConfigError> {
        if params.commands == Some(0) {
            return Err(ConfigError::new("commands", "expected at least 1, got 0"));
        }
        Ok(params.commands.map(|room| HostQueues {
            room,
            fetched: 0,
            queues: Vec::new(),
            turn: 0,
            waiting: 0,
        }))
    }

    /// A command came: true when it is fetched as soon as it is submitted, else it waits.
    pub fn come(&mut self, process: u32, slot: u32, submitted: Nanos) -> bool {
        if self.fetched < self.room {
            self.fetched += 1;
            return true;
        }
        of_process(&mut self.queues, process).push_back((slot, submitted));
        self.waiting += 1;
        false
    }

    /// A command was answered: the one that is fetched in its place, if any waits, and when that
    /// was submitted.
    pub fn answered(&mut self) -> Option<(u32, Nanos)> {
        if self.waiting == 0 {
            self.fetched -= 1;
            return None;
        }
        self.waiting -= 1;
        loop {
            let at = self.turn as usize % self.queues.len();
            self.turn = (at as u32 + 1) % self.queues.len() as u32;
            if let Some(command) = self.queues[at].1.pop_front() {
                return Some(command);
            }
        }
    }

    /// The power failed: nothing waits.
    pub fn clear(&mut self) {
        self.queues.clear();
        (self.fetched, self.turn, self.waiting) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Lba;

    #[test]
    fn a_command_takes_its_time_on_the_link_beside_its_data() {
        let (bandwidth, us) = (Some(Rate(512_000_000)), |time: u64| Duration(Nanos(time * 1_000)));
        let params = HostParams { bandwidth, link_command: us(3), ..HostParams::default() };
        let mut path = HostPath::new(&params).unwrap();
        // Eight sectors take 8 us; the second read waits for the first, a write for neither.
        let read = Request::new(Op::Read, Lba(0), 8);
        let times: Vec<u64> = (0..2).map(|_| path.delivery(Nanos(100), &read).0).collect();
        assert_eq!(times, [11_100, 22_100]);
        assert_eq!(path.arrival(Nanos(100), &Request::write(Lba(0), 16)), Nanos(19_100));
        assert_eq!(path.arrival(Nanos(100), &read), Nanos(100));
        let infinite = HostParams { bandwidth: None, ..params };
        assert_eq!(HostPath::new(&infinite).unwrap_err().key, "link_command");
    }

    #[test]
    fn a_process_submits_one_command_after_the_other_whatever_their_size() {
        let us = |time: u64| Duration(Nanos(time * 1_000));
        let params =
            HostParams { command: us(4), process_interval: us(3), ..HostParams::default() };
        let mut path = HostPath::new(&params).unwrap();
        let mut at = |now: u64, process: u32, sectors: u32| {
            let submitted = path.submitted(Nanos(now), process);
            path.arrival(submitted, &Request::write(Lba(0), sectors)).0
        };
        // Another process has a core of its own.
        assert_eq!([at(100, 7, 8), at(100, 7, 1024), at(100, 2, 8)], [7_100, 10_100, 7_100]);
        // After a pause there is nothing to wait for.
        assert_eq!([at(20_000, 7, 8), at(20_001, 7, 8)], [27_000, 30_000]);
    }

    #[test]
    fn large_reads_and_nothing_else_cross_the_link_at_their_rate() {
        let large = LargeReads { above: Size(sim::Bytes(4096)), bandwidth: Rate(256_000_000) };
        let (bandwidth, large_reads) = (Some(Rate(512_000_000)), Some(large));
        let params = HostParams { bandwidth, large_reads, ..HostParams::default() };
        let mut path = HostPath::new(&params).unwrap();
        let read = |path: &mut HostPath, sectors| {
            let at = Nanos(1_000_000) + path.to_host_free;
            path.delivery(at, &Request::new(Op::Read, Lba(0), sectors)).since(at).0
        };
        assert_eq!([8, 9, 16].map(|sectors| read(&mut path, sectors)), [8_000, 18_000, 32_000]);
        assert_eq!(path.arrival(Nanos(0), &Request::write(Lba(0), 16)), Nanos(16_000));
        let infinite = HostParams { bandwidth: None, ..params };
        assert_eq!(HostPath::new(&infinite).unwrap_err().key, "large_reads");
    }

    #[test]
    fn processes_take_turns_for_a_place_inside() {
        let params = HostParams { commands: Some(1), ..HostParams::default() };
        let mut queues = HostQueues::new(&params).unwrap().unwrap();
        let mut come = |process, slot| queues.come(process, slot, Nanos(u64::from(slot)));
        assert!(come(1, 10));
        assert!([(1, 11), (1, 12), (2, 20), (1, 13)].iter().all(|&(of, slot)| !come(of, slot)));
        let order: Vec<_> = (0..5).map(|_| queues.answered()).collect();
        let waited = [11, 20, 12, 13].map(|slot| Some((slot, Nanos(u64::from(slot)))));
        assert!(order[..4] == waited && order[4].is_none(), "{order:?}");
        assert!(queues.come(2, 21, Nanos::ZERO));
        let none = HostParams { commands: Some(0), ..HostParams::default() };
        assert_eq!(HostQueues::new(&none).unwrap_err().key, "commands");
    }
}
