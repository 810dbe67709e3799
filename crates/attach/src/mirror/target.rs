//! The served mirror as what frontends hand their orders to.

use std::io;

use sim::Limits;

use super::engine::MirrorEngine;
use crate::buffer_pool::BufferPool;
use crate::clock::Wall;
use crate::order::{Command, Order, Refusal, inside};
use crate::store::Extent;
use crate::target::Target;

impl Target for MirrorEngine {
    type Sink = Vec<u8>;

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn begin_write(&mut self, offset: u64, bytes: u32) -> Result<Vec<u8>, Refusal> {
        inside(&self.limits, offset, bytes)?;
        Ok(Vec::with_capacity(bytes as usize))
    }

    fn write(&mut self, sink: &mut Vec<u8>, piece: &[u8], _: &mut BufferPool) {
        sink.extend_from_slice(piece);
    }

    fn abandon(&mut self, _: Vec<u8>, _: &mut BufferPool) {}

    /// Which blocks were never written is nothing the mirror keeps.
    fn extents(&mut self, _: u64, bytes: u64, _: usize) -> io::Result<Vec<Extent>> {
        Ok(vec![Extent { bytes, hole: false }])
    }

    /// Until both legs have it, and behind a leg that is late it waits.
    fn keeps_writes(&self) -> bool {
        true
    }

    fn submit(&mut self, arrived: Wall, order: Order, sink: Option<Vec<u8>>, _: &mut BufferPool) {
        self.look(arrived);
        let is_write = matches!(order.command, Command::Write { .. });
        match inside(&self.limits, order.offset, order.bytes) {
            Err(why) => self.answer(order, arrived, Err(why)),
            Ok(()) if is_write && sink.as_ref().map(Vec::len) != Some(order.bytes as usize) => {
                self.answer(order, arrived, Err(Refusal::Io));
            }
            Ok(()) => self.begin(arrived, order, sink),
        }
    }
}
