//! What a frontend needs of that which it serves.

use std::fs::File;
use std::io;
use std::ops::RangeInclusive;

use sim::Limits;

use crate::buffer_pool::BufferPool;
use crate::clock::Wall;
use crate::data::WriteSink;
use crate::engine::Engine;
use crate::order::{Order, Refusal};
use crate::store::Extent;

/// Something that takes a client's orders: a modelled device, or a mirror of real ones.
pub trait Target: 'static {
    /// A write whose data is coming in.
    type Sink: 'static;

    /// What it can take.
    fn limits(&self) -> &Limits;

    /// Begin a write.
    ///
    /// # Errors
    /// When the range does not lie on the device.
    fn begin_write(&mut self, offset: u64, bytes: u32) -> Result<Self::Sink, Refusal>;

    /// The next piece of a write's data. Nothing is written before all of it has come.
    fn write(&mut self, sink: &mut Self::Sink, piece: &[u8], pool: &mut BufferPool);

    /// The client of a write went away before all of its data had come.
    fn abandon(&mut self, sink: Self::Sink, pool: &mut BufferPool);

    /// The extents of a range, at most `most`.
    ///
    /// # Errors
    /// Those of the store.
    fn extents(&mut self, offset: u64, bytes: u64, most: usize) -> io::Result<Vec<Extent>>;

    /// Reads of so many bytes may leave their data in [`Target::source`]: the reply has none then,
    /// and the frontend takes it from there when it answers.
    fn leave_reads(&mut self, _bytes: RangeInclusive<u32>) {}

    /// Where that data is.
    fn source(&mut self) -> Option<&File> {
        None
    }

    /// Does a write keep its data in memory until it is answered? Else that is with the device when
    /// it is submitted.
    fn keeps_writes(&self) -> bool {
        false
    }

    /// Take a request that arrived at `arrived`. `sink` is what [`Target::begin_write`] gave for a
    /// write.
    fn submit(
        &mut self,
        arrived: Wall,
        order: Order,
        sink: Option<Self::Sink>,
        pool: &mut BufferPool,
    );
}

impl Target for Engine {
    type Sink = WriteSink;

    fn limits(&self) -> &Limits {
        Engine::limits(self)
    }

    fn begin_write(&mut self, offset: u64, bytes: u32) -> Result<WriteSink, Refusal> {
        Engine::begin_write(self, offset, bytes)
    }

    fn write(&mut self, sink: &mut WriteSink, piece: &[u8], pool: &mut BufferPool) {
        self.data().write(sink, piece, pool);
    }

    fn abandon(&mut self, sink: WriteSink, pool: &mut BufferPool) {
        self.data().abandon(sink, pool);
    }

    fn extents(&mut self, offset: u64, bytes: u64, most: usize) -> io::Result<Vec<Extent>> {
        self.data().extents(offset, bytes, most)
    }

    fn leave_reads(&mut self, bytes: RangeInclusive<u32>) {
        self.data().leave_reads(bytes);
    }

    fn source(&mut self) -> Option<&File> {
        Some(self.data().store().source())
    }

    fn submit(
        &mut self,
        arrived: Wall,
        order: Order,
        sink: Option<WriteSink>,
        pool: &mut BufferPool,
    ) {
        Engine::submit(self, arrived, order, sink, pool);
    }
}
