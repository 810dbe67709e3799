//! The path between host and controller: command overheads and a link of finite bandwidth.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Nanos, Op, Request, snapshot_fields};

use config::{Duration, Rate};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Parameters of the host path. The default costs nothing.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostParams {
    /// From submission until the controller has the command.
    pub command: Duration,
    /// From the end of the work until the host sees the completion.
    pub completion: Duration,
    /// Bandwidth of the link in each direction; absent: infinite.
    pub bandwidth: Option<Rate>,
}

/// State of the link.
#[derive(Clone, Debug)]
pub struct HostPath {
    command: Nanos,
    completion: Nanos,
    bandwidth: Option<u64>,
    to_device_free: Nanos,
    to_host_free: Nanos,
}

snapshot_fields!(HostPath { to_device_free, to_host_free });

impl HostPath {
    /// An idle link.
    pub fn new(params: &HostParams) -> HostPath {
        HostPath {
            command: params.command.0,
            completion: params.completion.0,
            bandwidth: params.bandwidth.map(|rate| rate.0.max(1)),
            to_device_free: Nanos::ZERO,
            to_host_free: Nanos::ZERO,
        }
    }

    /// Time on the link of a request's data, which goes with operation `with` only.
    #[inline]
    fn transfer(&self, request: &Request, with: Op) -> Option<Nanos> {
        let bandwidth = self.bandwidth.filter(|_| request.op == with)?;
        let bytes = request.bytes().0;
        Some(Nanos(match bytes.checked_mul(NANOS_PER_SECOND) {
            Some(product) => product / bandwidth,
            None => {
                (u128::from(bytes) * u128::from(NANOS_PER_SECOND) / u128::from(bandwidth)) as u64
            }
        }))
    }

    /// When the controller has the command and, for a write, its data.
    #[inline]
    pub fn arrival(&mut self, now: Nanos, request: &Request) -> Nanos {
        let ready = now + self.command;
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
        (self.to_device_free, self.to_host_free) = (Nanos::ZERO, Nanos::ZERO);
    }
}
