//! One device at the end of a vhost-user connection: what was agreed, the guest's memory, the
//! queues, and the requests inside. It has no socket and no clock: whoever has them gives it
//! messages, kicks and replies.

use std::collections::VecDeque;
use std::fs::File;

use sim::Limits;
use virtio_queue::{Queue, QueueOwnedT, QueueT};

use crate::buffer_pool::BufferPool;
use crate::clock::Wall;
use crate::order::{Command, Order, Reply, Ticket};
use crate::shared_state::{Budget, SharedState};
use crate::target::Target;

use super::block::{self, Asked, feature, status};
use super::chain::Chain;
use super::memory::Memory;
use super::message::{Header, Malformed, Message, RingAddresses, protocol};

/// Entries of a queue at most; QEMU's largest.
const QUEUE_SIZE_MAX: u16 = 1024;
/// The same where every bio comes by itself: what a kernel has in its own queue is on its way here.
pub const BIOS_MAX: u16 = study::BIOS_MAX;

/// What a message is answered with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Nothing, unless the sender wants to know that it is done.
    Done,
    /// These bytes.
    Payload(Vec<u8>),
    /// Nothing yet: there is work in this queue.
    Kicked(u32),
}

/// What came with a message that is not for the device but for whoever has the sockets.
#[derive(Debug)]
pub enum Passed {
    /// Readable when there is work in the queue; `None`: look by yourself.
    Kick(u32, Option<File>),
    /// To be written when the queue has answers.
    Call(u32, Option<File>),
    /// Carries our own requests.
    Channel(File),
    /// The queue is served no longer; whoever watches it may stop.
    Stopped(u32),
}

/// One virtqueue.
struct Ring {
    queue: Queue,
    enabled: bool,
    /// Where it lies, as the driver's side sees it; looked up again when memory changes.
    addresses: Option<RingAddresses>,
}

/// A request inside.
struct Pending {
    ring: u32,
    chain: Chain,
}

/// One device at the end of a connection.
pub struct Backend {
    limits: Limits,
    read_only: bool,
    name: String,
    features: u64,
    acknowledged: u64,
    protocol: u64,
    writeback: bool,
    memory: Option<Memory>,
    rings: Vec<Ring>,
    pending: Vec<Option<Pending>>,
    free: Vec<u32>,
    /// Done without the engine, and their status.
    immediate: VecDeque<(u32, u8)>,
    /// Counts up when requests inside are forgotten, so that late replies are known as such.
    generation: u32,
    /// Which of the exports it is.
    device: u32,
    /// Kicks and calls may be messages.
    inband: bool,
}

impl Backend {
    /// Export number `device`, called `name`, of these limits, with so many queues. Kicks
    /// and calls are messages where `inband` offers it and the driver takes it.
    ///
    /// # Errors
    /// When there are too many queues.
    pub fn new(
        device: u32,
        name: &str,
        limits: Limits,
        queues: u16,
        read_only: bool,
        inband: bool,
    ) -> Result<Backend, Malformed> {
        let mut rings = Vec::new();
        for _ in 0..queues {
            let queue = Queue::new(QUEUE_SIZE_MAX).map_err(|why| Malformed(why.to_string()))?;
            rings.push(Ring { queue, enabled: false, addresses: None });
        }
        Ok(Backend {
            limits,
            read_only,
            name: name.into(),
            features: block::features(&limits, queues, read_only),
            acknowledged: 0,
            protocol: 0,
            writeback: limits.write_cache,
            memory: None,
            rings,
            pending: Vec::new(),
            free: Vec::new(),
            immediate: VecDeque::new(),
            generation: 0,
            device,
            inband,
        })
    }

    /// Offer to be told on whose behalf requests come, and to take each bio by itself.
    ///
    /// # Errors
    /// When there is no room for the larger queues.
    pub fn offer_submitters(mut self) -> Result<Backend, Malformed> {
        self.features |= feature::SUBMITTER;
        for ring in &mut self.rings {
            ring.queue = Queue::new(BIOS_MAX).map_err(|why| Malformed(why.to_string()))?;
        }
        Ok(self)
    }

    /// True when the driver has agreed without what it was [offered](Self::offer_submitters).
    pub fn misses_submitters(&self) -> bool {
        let refused = self.features & !self.acknowledged;
        self.acknowledged & feature::VERSION_1 != 0 && refused & feature::SUBMITTER != 0
    }

    /// The connection is over: forget everything that was agreed.
    pub fn disconnected(&mut self) {
        self.pending.clear();
        self.free.clear();
        self.immediate.clear();
        self.generation += 1;
        self.memory = None;
        (self.acknowledged, self.protocol) = (0, 0);
        self.writeback = self.limits.write_cache;
        for ring in &mut self.rings {
            ring.queue.reset();
            ring.enabled = false;
            ring.addresses = None;
        }
    }

    /// What the driver's side wants to know acknowledged.
    pub fn acknowledges(&self) -> bool {
        self.protocol & protocol::REPLY_ACK != 0
    }

    /// What is sent back for a message: its own answer, or that it is done if the sender wants to
    /// know.
    pub fn reply_to(&self, header: &Header, payload: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let wanted = header.need_reply && self.acknowledges();
        let done = || wanted.then(|| 0u64.to_le_bytes().to_vec());
        payload.or_else(done).map(|payload| header.reply(&payload))
    }

    /// [`Memory::is_there`], if there is any.
    pub fn memory_is_there(&self) -> Result<(), Malformed> {
        self.memory.as_ref().map_or(Ok(()), Memory::is_there)
    }

    /// Requests inside.
    pub fn in_flight(&self) -> usize {
        self.pending.len() - self.free.len()
    }

    /// Take a message and the descriptors that came with it.
    ///
    /// # Errors
    /// When it asks for what cannot be.
    pub fn take(
        &mut self,
        message: Message,
        mut files: Vec<File>,
    ) -> Result<(Answer, Option<Passed>), Malformed> {
        let number = |value: u64| Answer::Payload(value.to_le_bytes().to_vec());
        let answer = match message {
            Message::GetFeatures => number(self.features),
            Message::SetFeatures(wanted) => {
                self.agree(wanted)?;
                Answer::Done
            }
            Message::GetProtocolFeatures => number(self.protocol_features()),
            Message::SetProtocolFeatures(wanted) => {
                self.protocol = wanted & self.protocol_features();
                Answer::Done
            }
            Message::GetQueueNum => number(self.rings.len() as u64),
            Message::SetOwner | Message::ResetOwner => Answer::Done,
            Message::SetMemTable(regions) => {
                self.memory = Some(Memory::map(regions, files)?);
                (0..self.rings.len() as u32).try_for_each(|index| self.place(index))?;
                Answer::Done
            }
            Message::GetConfig { offset, bytes } => self.config(offset, bytes)?,
            Message::SetConfig { offset, content } => {
                self.set_config(offset, &content)?;
                Answer::Done
            }
            Message::SetVringKick { index, .. } => {
                let passed = Passed::Kick(self.index(index)?, files.pop());
                self.start(index)?;
                return Ok((Answer::Done, Some(passed)));
            }
            Message::SetVringCall { index, .. } => {
                let passed = Passed::Call(self.index(index)?, files.pop());
                return Ok((Answer::Done, Some(passed)));
            }
            Message::SetVringErr { .. } => Answer::Done,
            Message::SetBackendChannel => {
                let passed = files.pop().map(Passed::Channel);
                return Ok((Answer::Done, passed));
            }
            Message::GetVringBase { index } => {
                let ring = self.ring(index)?;
                ring.queue.set_ready(false);
                let mut state = index.to_le_bytes().to_vec();
                state.extend(u32::from(ring.queue.next_avail()).to_le_bytes());
                return Ok((Answer::Payload(state), Some(Passed::Stopped(index))));
            }
            Message::VringKick { index } => Answer::Kicked(self.index(index)?),
            message => {
                self.set_ring(message)?;
                Answer::Done
            }
        };
        Ok((answer, None))
    }

    /// Messages that describe a queue.
    fn set_ring(&mut self, message: Message) -> Result<(), Malformed> {
        match message {
            Message::SetVringNum { index, num } => {
                let size = u16::try_from(num).unwrap_or(0);
                let set = self.ring(index)?.queue.try_set_size(size);
                set.map_err(|_| Malformed(format!("queue {index} of {num} entries")))
            }
            Message::SetVringBase { index, num } => {
                let base = u16::try_from(num)
                    .map_err(|_| Malformed(format!("queue {index} begins at entry {num}")))?;
                let ring = self.ring(index)?;
                ring.queue.set_next_avail(base);
                ring.queue.set_next_used(base);
                Ok(())
            }
            Message::SetVringAddr { index, addresses } => {
                self.ring(index)?.addresses = Some(addresses);
                self.place(index)
            }
            Message::SetVringEnable { index, enabled } => {
                self.ring(index)?.enabled = enabled;
                match enabled {
                    // With kicks inside the stream this is the only sign that a queue begins.
                    true if self.protocol & protocol::INBAND != 0 => self.start(index),
                    _ => Ok(()),
                }
            }
            other => Err(Malformed(format!("{other:?} is about no queue"))),
        }
    }

    fn protocol_features(&self) -> u64 {
        use protocol::*;
        let inband = if self.inband { BACKEND_CHANNEL | INBAND } else { 0 };
        REPLY_ACK | MQ | CONFIG | inband
    }

    fn agree(&mut self, wanted: u64) -> Result<(), Malformed> {
        let unknown = wanted & !self.features;
        if unknown != 0 {
            return Err(Malformed(format!("features {unknown:#x} were not offered")));
        }
        self.acknowledged = wanted;
        // A driver that cannot switch the cache and does not flush has none to care for.
        if wanted & (feature::FLUSH | feature::CONFIG_WCE) == 0 {
            self.writeback = false;
        }
        let event_index = wanted & feature::EVENT_INDEX != 0;
        self.rings.iter_mut().for_each(|ring| ring.queue.set_event_idx(event_index));
        Ok(())
    }

    fn config(&self, offset: u32, bytes: u32) -> Result<Answer, Malformed> {
        let queues = self.rings.len() as u16;
        let space = block::config(&self.limits, queues, self.writeback, self.features);
        let (from, end) = (offset as usize, offset as usize + bytes as usize);
        let mut payload = offset.to_le_bytes().to_vec();
        payload.extend([bytes.to_le_bytes(), 0u32.to_le_bytes()].concat());
        // A newer driver asks for more than we know: the rest is zero.
        payload.extend((from..end).map(|at| space.get(at).copied().unwrap_or(0)));
        Ok(Answer::Payload(payload))
    }

    fn set_config(&mut self, offset: u32, content: &[u8]) -> Result<(), Malformed> {
        match (offset, content) {
            (block::WRITEBACK_AT, &[writeback @ 0..=1]) => {
                self.writeback = writeback == 1 && self.limits.write_cache;
                Ok(())
            }
            _ => Err(Malformed(format!("configuration byte {offset} is not the driver's"))),
        }
    }

    fn index(&self, index: u32) -> Result<u32, Malformed> {
        if (index as usize) < self.rings.len() {
            Ok(index)
        } else {
            Err(Malformed(format!("there is no queue {index}")))
        }
    }

    fn ring(&mut self, index: u32) -> Result<&mut Ring, Malformed> {
        let missing = || Malformed(format!("there is no queue {index}"));
        self.rings.get_mut(index as usize).ok_or_else(missing)
    }

    /// Find a queue in the guest's memory.
    fn place(&mut self, index: u32) -> Result<(), Malformed> {
        let (Some(memory), ring) = (&self.memory, &mut self.rings[index as usize]) else {
            return Ok(());
        };
        let Some(RingAddresses { descriptors, used, available }) = ring.addresses else {
            return Ok(());
        };
        type Set = fn(&mut Queue, Option<u32>, Option<u32>);
        let areas: [(&str, u64, Set); 3] = [
            ("descriptors", descriptors, Queue::set_desc_table_address),
            ("used", used, Queue::set_used_ring_address),
            ("available", available, Queue::set_avail_ring_address),
        ];
        for (what, user, set) in areas {
            let lost = || Malformed(format!("queue {index}: {what} at {user:#x} are not memory"));
            let at = memory.guest_address(user).ok_or_else(lost)?;
            set(&mut ring.queue, Some(at as u32), Some((at >> 32) as u32));
        }
        Ok(())
    }

    fn start(&mut self, index: u32) -> Result<(), Malformed> {
        // Without protocol features a queue is enabled from the beginning.
        let always = self.acknowledged & feature::PROTOCOL == 0;
        let Some(memory) = &self.memory else { return Ok(()) };
        let ring = &mut self.rings[index as usize];
        ring.enabled |= always;
        ring.queue.set_ready(true);
        if !ring.queue.is_valid(memory.guest()) {
            ring.queue.set_ready(false);
            return Err(Malformed(format!("queue {index} does not lie in memory")));
        }
        // After a pause the used ring says where it stood.
        let order = std::sync::atomic::Ordering::Acquire;
        if let Ok(used) = ring.queue.used_idx(memory.guest(), order) {
            ring.queue.set_next_used(used.0);
        }
        Ok(())
    }

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
            let chain = {
                let mut heads = ring
                    .queue
                    .iter(memory.guest())
                    .map_err(|why| Malformed(format!("queue {index}: {why}")))?;
                let Some(head) = heads.next() else { return Ok(()) };
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
        let durable = self.limits.write_cache && !self.writeback;
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

    fn finish(&mut self, slot: u32, status: u8, calls: &mut Vec<u32>) -> Result<(), Malformed> {
        let Some(Pending { ring: index, chain }) = self.pending[slot as usize].take() else {
            return Ok(());
        };
        self.free.push(slot);
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

#[cfg(test)]
mod tests;
