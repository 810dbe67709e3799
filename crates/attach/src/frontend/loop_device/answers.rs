//! Answers on their way to the kernel.

use std::fs::File;
use std::io::IoSlice;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use super::conduit::Conduit;
use super::wire;
use crate::buffer_pool::BufferPool;
use crate::frontend::linux::errno;
use crate::order::Order;
use crate::shared_state::SharedState;
use crate::target::Target;

enum Answer {
    /// A head, and the data of a read.
    Bytes(Vec<u8>, Vec<u8>),
    /// A read whose data is still in the store of this export.
    InPlace(usize, Order),
}

/// Answers that wait to be sent.
pub(super) struct Answers {
    waiting: Vec<Answer>,
    /// The way of long reads.
    conduit: Option<Conduit>,
}

impl Answers {
    pub(super) fn new() -> Answers {
        Answers { waiting: Vec::new(), conduit: Conduit::new() }
    }

    /// How long a read may be that leaves its data in the store.
    pub(super) fn lengths_in_place(&self) -> Option<RangeInclusive<u32>> {
        self.conduit.as_ref().map(Conduit::lengths)
    }

    /// A head, and nothing else.
    pub(super) fn head(&mut self, head: impl Into<Vec<u8>>) {
        self.waiting.push(Answer::Bytes(head.into(), Vec::new()));
    }

    /// What a read of `export` found: `data`, unless it was left in the store.
    pub(super) fn found(&mut self, export: usize, order: Order, data: Vec<u8>) {
        self.waiting.push(if data.len() < order.bytes as usize {
            Answer::InPlace(export, order)
        } else {
            Answer::Bytes(wire::header(order.ticket.tag, data.len(), 0).to_vec(), data)
        });
    }

    /// Send all of them; false when the kernel will take no more.
    ///
    /// It takes an answer whole and never makes us wait. One that it does not know any more was
    /// interrupted.
    pub(super) fn send(
        &mut self,
        connection: &File,
        shared: &mut SharedState<impl Target>,
    ) -> bool {
        let mut open = true;
        for answer in self.waiting.drain(..) {
            let sent = match answer {
                Answer::Bytes(head, data) => {
                    let sent = write(connection, &head, &data);
                    if data.capacity() > 0 {
                        shared.pool.put(data);
                    }
                    sent
                }
                Answer::InPlace(export, order) => {
                    let Some(source) = shared.exports[export].engine.source() else { continue };
                    let conduit = self.conduit.as_ref();
                    let sent = conduit.and_then(|conduit| conduit.send(&order, source, connection));
                    if sent != Some(Ok(())) {
                        // What is left in it belongs to nobody.
                        self.conduit = Conduit::new();
                    }
                    sent.unwrap_or_else(|| copy(&order, source, connection, &mut shared.pool))
                }
            };
            open &= sent != Err(Errno::NODEV);
        }
        open
    }
}

fn write(connection: &File, head: &[u8], data: &[u8]) -> Result<(), Errno> {
    rustix::io::writev(connection, &[IoSlice::new(head), IoSlice::new(data)]).map(|_| ())
}

fn copy(
    order: &Order,
    source: &File,
    connection: &File,
    pool: &mut BufferPool,
) -> Result<(), Errno> {
    let mut data = pool.take(order.bytes as usize);
    let sent = match source.read_exact_at(&mut data, order.offset) {
        Ok(()) => write(connection, &wire::header(order.ticket.tag, data.len(), 0), &data),
        Err(_) => write(connection, &wire::header(order.ticket.tag, 0, errno::IO), &[]),
    };
    pool.put(data);
    sent
}
