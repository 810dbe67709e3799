//! One device at the end of a vhost-user connection: what was agreed, the guest's memory, the
//! queues, and the requests inside. It has no socket and no clock: whoever has them gives it
//! messages, kicks and replies.

mod requests;

use std::collections::VecDeque;
use std::fs::File;

use sim::Limits;
use virtio_queue::{Queue, QueueOwnedT, QueueT};

use crate::buffer_pool::BufferPool;
use crate::clock::Wall;
use crate::identity::Identity;
use crate::order::{Command, Order, Reply, Ticket};
use crate::shared_state::{Budget, SharedState};
use crate::target::Target;

use super::block::{self, Asked, Geometry, feature, status};
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
    /// Requests of it that are inside.
    inside: u16,
}

/// A request inside.
struct Pending {
    ring: u32,
    chain: Chain,
}

/// One device at the end of a connection.
pub struct Backend {
    limits: Limits,
    geometry: Geometry,
    read_only: bool,
    name: String,
    features: u64,
    acknowledged: u64,
    protocol: u64,
    /// The driver's own switch of the cache.
    writeback: bool,
    memory: Option<Memory>,
    rings: Vec<Ring>,
    /// By slot; `None` in one that is not free: its queue was stopped, the engine still has it.
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
            rings.push(Ring { queue, enabled: false, addresses: None, inside: 0 });
        }
        Ok(Backend {
            limits,
            geometry: Geometry::implied(&limits),
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

    /// Tell the guest what the part says of its blocks and its longest request.
    pub fn presents(mut self, identity: &Identity) -> Backend {
        self.geometry = Geometry::of(identity);
        if self.geometry.request_max.is_some() {
            self.features |= feature::SIZE_MAX;
        }
        self
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
            ring.inside = 0;
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
                self.forget(index);
                let ring = self.ring(index)?;
                ring.queue.set_ready(false);
                let mut state = index.to_le_bytes().to_vec();
                state.extend(u32::from(ring.queue.next_avail()).to_le_bytes());
                return Ok((Answer::Payload(state), Some(Passed::Stopped(index))));
            }
            Message::VringKick { index } => Answer::Kicked(self.index(index)?),
            message => {
                let enabling = match message {
                    Message::SetVringEnable { index, enabled: true } => Some(index),
                    _ => None,
                };
                self.set_ring(message)?;
                // What was offered while the queue was disabled is not kicked for again. With
                // kicks inside the stream the driver's side has disabled none so far.
                let inband = self.protocol & protocol::INBAND != 0;
                enabling.filter(|_| !inband).map_or(Answer::Done, Answer::Kicked)
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

    /// True when the answer to `message` has to wait: it stops a queue, and behind that answer
    /// nothing of the guest may be touched on its behalf. The queue takes no new requests.
    pub fn must_wait(&mut self, message: &Message) -> bool {
        let &Message::GetVringBase { index } = message else { return false };
        let Some(ring) = self.rings.get_mut(index as usize) else { return false };
        ring.queue.set_ready(false);
        ring.inside > 0
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
        let event_index = wanted & feature::EVENT_INDEX != 0;
        self.rings.iter_mut().for_each(|ring| ring.queue.set_event_idx(event_index));
        Ok(())
    }

    fn config(&self, offset: u32, bytes: u32) -> Result<Answer, Malformed> {
        let queues = self.rings.len() as u16;
        let (limits, geometry) = (&self.limits, &self.geometry);
        let space = block::config(limits, geometry, queues, self.writeback, self.features);
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
}

#[cfg(test)]
mod tests;
