//! Everything an engine was asked and when, with the data of every write: enough to do it again.

use std::io;

use sim::Bytes;
use study::Failure;

use crate::clock::Wall;
use crate::fault::{FaultId, Rule};
use crate::order::{Command, Order};
use crate::store::Store;
use crate::volatile::WriteTicket;

/// One call of the engine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EngineCall {
    /// What was due was done.
    Advance(Wall),
    /// A request came. A write's data begins at byte `data` of the log's.
    Submit { at: Wall, order: Order, data: u64 },
    /// A fault was injected: that one of the log's rules.
    Inject { at: Wall, rule: usize },
    /// A fault was lifted.
    Lift { at: Wall, id: FaultId },
}

impl EngineCall {
    /// When it was.
    pub(crate) fn at(&self) -> Wall {
        match *self {
            EngineCall::Advance(at)
            | EngineCall::Submit { at, .. }
            | EngineCall::Inject { at, .. }
            | EngineCall::Lift { at, .. } => at,
        }
    }
}

/// The calls of an engine in their order. It keeps data in a file without a name, so a long
/// session does not fill the memory.
#[derive(Debug)]
pub(crate) struct RequestLog {
    steps: Vec<EngineCall>,
    rules: Vec<Rule>,
    data: Store,
    data_bytes: u64,
    /// Where the data of a write lies that has come whole, but is not submitted.
    arrived: Vec<(WriteTicket, u64)>,
}

impl RequestLog {
    /// An empty log, whose data may take `limit` of this machine's disk.
    pub(crate) fn new(limit: Bytes) -> Result<RequestLog, Failure> {
        /// The file is sparse: this is no room, only more than any limit.
        const MOST: Bytes = Bytes(1 << 43);
        let data = Store::temporary(MOST, limit)?;
        Ok(RequestLog {
            steps: Vec::new(),
            rules: Vec::new(),
            data,
            data_bytes: 0,
            arrived: Vec::new(),
        })
    }

    /// Where the data of the writes is.
    pub(crate) fn store(&self) -> &Store {
        &self.data
    }

    /// All of a write's data has come.
    pub(crate) fn arrived(&mut self, ticket: WriteTicket, data: &[u8]) -> io::Result<()> {
        self.data.write(self.data_bytes, data)?;
        self.arrived.push((ticket, self.data_bytes));
        self.data_bytes += data.len() as u64;
        Ok(())
    }

    /// A request was submitted.
    pub(crate) fn submitted(&mut self, at: Wall, order: Order, ticket: Option<WriteTicket>) {
        let mut data = 0;
        if let Some(index) = self.arrived.iter().position(|(known, _)| Some(*known) == ticket) {
            data = self.arrived.swap_remove(index).1;
        }
        self.steps.push(EngineCall::Submit { at, order, data });
    }

    /// The device did what was due.
    pub(crate) fn advanced(&mut self, at: Wall) {
        self.steps.push(EngineCall::Advance(at));
    }

    /// A fault was injected.
    pub(crate) fn injected(&mut self, at: Wall, rule: &Rule) {
        self.steps.push(EngineCall::Inject { at, rule: self.rules.len() });
        self.rules.push(rule.clone());
    }

    /// A fault was lifted.
    pub(crate) fn lifted(&mut self, at: Wall, id: FaultId) {
        self.steps.push(EngineCall::Lift { at, id });
    }

    /// The rules of the faults that were injected.
    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    pub(crate) fn steps(&self) -> &[EngineCall] {
        &self.steps
    }

    /// Bytes of data that were written.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// The data of a write that was submitted.
    pub(crate) fn data(&self, order: &Order, at: u64) -> io::Result<Vec<u8>> {
        let is_write = matches!(order.command, Command::Write { .. });
        let mut data = vec![0; if is_write { order.bytes as usize } else { 0 }];
        self.data.read(at, &mut data)?;
        Ok(data)
    }
}
