//! Requests on their way: off the queues, into the engine, and back onto the used rings.

use super::*;

impl Backend {
    /// Take everything that is available in queue `index`; it arrived at `now`.
    ///
    /// # Errors
    /// When the queue or a chain in it is broken.
    pub fn kicked(
        &mut self,
        index: u32,
        now: Wall,
        shared: &mut SharedState<impl Target>,
    ) -> Result<(), Malformed> {
        loop {
            self.drain(index, now, shared)?;
            let Some(memory) = &self.memory else { return Ok(()) };
            let ring = &mut self.rings[index as usize];
            if !ring.queue.ready() || !ring.enabled {
                return Ok(());
            }
            // True when more came in before the driver could know that it has to kick.
            let more = ring.queue.enable_notification(memory.guest());
            if !more.map_err(|why| Malformed(format!("queue {index}: {why}")))? {
                return Ok(());
            }
        }
    }

    fn drain(
        &mut self,
        index: u32,
        now: Wall,
        shared: &mut SharedState<impl Target>,
    ) -> Result<(), Malformed> {
        loop {
            let Some(memory) = &self.memory else { return Ok(()) };
            let ring = &mut self.rings[index as usize];
            if !ring.queue.ready() || !ring.enabled {
                return Ok(());
            }
            let (inside, size) = (ring.inside, ring.queue.size());
            let chain = {
                let mut heads = ring
                    .queue
                    .iter(memory.guest())
                    .map_err(|why| Malformed(format!("queue {index}: {why}")))?;
                let Some(head) = heads.next() else { return Ok(()) };
                if inside >= size {
                    return Err(Malformed(format!(
                        "queue {index}: {size} requests are inside; expected one more only when an \
                         entry was used"
                    )));
                }
                Chain::read(head, memory)
                    .map_err(|why| Malformed(format!("queue {index}: {}", why.0)))?
            };
            self.enter(index, chain, now, shared)?;
        }
    }

    /// One request.
    fn enter(
        &mut self,
        ring: u32,
        chain: Chain,
        now: Wall,
        shared: &mut SharedState<impl Target>,
    ) -> Result<(), Malformed> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let (header, range) = chain.front(memory)?;
        let (to_device, from_device) = chain.data_bytes();
        // A driver that cannot switch the cache and does not flush has none to care for.
        let cares = self.acknowledged & (feature::FLUSH | feature::CONFIG_WCE) != 0;
        let durable = self.limits.write_cache && !(self.writeback && cares);
        let asked = block::request(&header, &range, (to_device, from_device), durable);
        let slot = self.keep(Pending { ring, chain });
        let refused = |asked: &Asked| match asked {
            Asked::Order { command, .. } => {
                self.read_only && !matches!(command, Command::Read | Command::Flush)
            }
            Asked::Serial => false,
        };
        match asked {
            Err(status) => self.immediate.push_back((slot, status)),
            Ok(asked) if refused(&asked) => self.immediate.push_back((slot, status::IO_ERROR)),
            Ok(Asked::Serial) => {
                let status = self.tell_name(slot)?;
                self.immediate.push_back((slot, status));
            }
            // The answer's data has to be kept until it is due.
            Ok(Asked::Order { command: Command::Read, bytes, .. })
                if !shared.budget.take(u64::from(bytes)) =>
            {
                self.immediate.push_back((slot, status::IO_ERROR));
            }
            Ok(Asked::Order { command, offset, bytes }) => {
                let (connection, generation) = (self.device, self.generation);
                let ticket = Ticket { connection, generation, tag: u64::from(slot) };
                let mut order = Order::new(ticket, command, offset, bytes);
                if self.acknowledged & feature::SUBMITTER != 0 {
                    order.submitter = block::submitter(&header);
                }
                self.submit(slot, order, now, shared)?;
            }
        }
        Ok(())
    }

    fn keep(&mut self, pending: Pending) -> u32 {
        self.rings[pending.ring as usize].inside += 1;
        match self.free.pop() {
            Some(slot) => {
                self.pending[slot as usize] = Some(pending);
                slot
            }
            None => {
                self.pending.push(Some(pending));
                (self.pending.len() - 1) as u32
            }
        }
    }

    fn submit(
        &mut self,
        slot: u32,
        order: Order,
        now: Wall,
        shared: &mut SharedState<impl Target>,
    ) -> Result<(), Malformed> {
        let (engine, pool) = (&mut shared.exports[self.device as usize].engine, &mut shared.pool);
        if !matches!(order.command, Command::Write { .. }) {
            engine.submit(now, order, None, pool);
            return Ok(());
        }
        let (Some(memory), Some(pending)) = (&self.memory, &self.pending[slot as usize]) else {
            return Ok(());
        };
        let sink = match engine.begin_write(order.offset, order.bytes) {
            Ok(mut sink) => {
                for (address, bytes) in pending.chain.to_device() {
                    let mut piece = pool.take(bytes as usize);
                    memory.read(address, &mut piece)?;
                    engine.write(&mut sink, &piece, pool);
                    pool.put(piece);
                }
                Some(sink)
            }
            // The engine refuses it again, in its place in the queue.
            Err(_) => None,
        };
        engine.submit(now, order, sink, pool);
        Ok(())
    }

    fn tell_name(&self, slot: u32) -> Result<u8, Malformed> {
        let (Some(memory), Some(pending)) = (&self.memory, &self.pending[slot as usize]) else {
            return Ok(status::IO_ERROR);
        };
        if pending.chain.data_bytes().1 < block::SERIAL_BYTES as u64 {
            return Ok(status::IO_ERROR);
        }
        pending.chain.answer(memory, &block::serial(&self.name))?;
        Ok(status::OK)
    }

    /// True when something is done that the engine knows nothing of.
    pub fn has_immediate(&self) -> bool {
        !self.immediate.is_empty()
    }

    /// Put what is done without the engine on the used rings; the queues to call go to `calls`.
    ///
    /// # Errors
    /// When a queue is broken.
    pub fn finish_immediate(&mut self, calls: &mut Vec<u32>) -> Result<(), Malformed> {
        while let Some((slot, status)) = self.immediate.pop_front() {
            self.finish(slot, status, calls)?;
        }
        Ok(())
    }

    /// Put an engine's reply on its used ring; a queue to call goes to `calls`.
    ///
    /// # Errors
    /// When the queue is broken.
    pub fn reply(
        &mut self,
        reply: Reply,
        pool: &mut BufferPool,
        budget: &mut Budget,
        calls: &mut Vec<u32>,
    ) -> Result<(), Malformed> {
        let Ticket { generation, tag, .. } = reply.order.ticket;
        if reply.order.command == Command::Read {
            budget.release(u64::from(reply.order.bytes));
        }
        if generation != self.generation {
            return Ok(());
        }
        let slot = tag as u32;
        let status = block::status_of(reply.result.as_ref().map(|_| ()).map_err(|&why| why));
        if let Ok(data) = reply.result {
            let (memory, pending) = (&self.memory, &self.pending[slot as usize]);
            if let (Some(memory), Some(pending)) = (memory, pending)
                && !data.is_empty()
            {
                pending.chain.answer(memory, &data)?;
            }
            pool.put(data);
        }
        self.finish(slot, status, calls)
    }

    /// The device lost power: `forgotten` have no answer, and whoever asked finds it gone.
    pub fn power_cut(&mut self, forgotten: &[Order], budget: &mut Budget) {
        for order in forgotten.iter().filter(|order| order.command == Command::Read) {
            budget.release(u64::from(order.bytes));
        }
        self.disconnected();
    }

    /// Answer what is inside of queue `index` with an error: it is being stopped, and whoever
    /// stops it cannot wait for ever. A queue to call goes to `calls`.
    ///
    /// # Errors
    /// When the queue is broken.
    pub fn abandon(&mut self, index: u32, calls: &mut Vec<u32>) -> Result<(), Malformed> {
        for slot in 0..self.pending.len() {
            if self.pending[slot].as_ref().is_some_and(|pending| pending.ring == index) {
                self.complete(slot as u32, status::IO_ERROR, calls)?;
            }
        }
        Ok(())
    }

    /// Queue `index` is stopped: what the engine still has of it is answered into no memory.
    pub(super) fn forget(&mut self, index: u32) {
        for pending in &mut self.pending {
            pending.take_if(|pending| pending.ring == index);
        }
        if let Some(ring) = self.rings.get_mut(index as usize) {
            ring.inside = 0;
        }
    }

    fn finish(&mut self, slot: u32, status: u8, calls: &mut Vec<u32>) -> Result<(), Malformed> {
        self.free.push(slot);
        self.complete(slot, status, calls)
    }

    /// Put a request on its used ring. Its slot stays taken for as long as the engine has it.
    fn complete(&mut self, slot: u32, status: u8, calls: &mut Vec<u32>) -> Result<(), Malformed> {
        let Some(Pending { ring: index, chain }) = self.pending[slot as usize].take() else {
            return Ok(());
        };
        self.rings[index as usize].inside -= 1;
        let Some(memory) = &self.memory else { return Ok(()) };
        let written = chain.finish(memory, status)?;
        let broken = |why: virtio_queue::Error| Malformed(format!("queue {index}: {why}"));
        let queue = &mut self.rings[index as usize].queue;
        queue.add_used(memory.guest(), chain.head(), written).map_err(broken)?;
        if queue.needs_notification(memory.guest()).map_err(broken)? && !calls.contains(&index) {
            calls.push(index);
        }
        Ok(())
    }
}
