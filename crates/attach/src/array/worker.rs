//! The threads that read and write the devices: each takes a request, does it, and tells.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use mirror::core::Io;
use mirror::format::PAGE_BYTES;
use mirror::format::crc::block_sum;
use mirror::{Block, DEVICES, Slot};
use rustix::event::{EventfdFlags, eventfd};

use super::device::Device;

/// Threads per device: what is under way there at a time.
const THREADS: usize = 8;

/// Some bytes of a shared buffer.
#[derive(Clone, Debug)]
pub(super) struct Bytes {
    pub(super) data: Arc<Vec<u8>>,
    pub(super) range: Range<usize>,
}

impl Bytes {
    pub(super) fn all(data: Vec<u8>) -> Bytes {
        let range = 0..data.len();
        Bytes { data: Arc::new(data), range }
    }

    pub(super) fn get(&self) -> &[u8] {
        &self.data[self.range.clone()]
    }

    /// `blocks` blocks after the first `offset` ones.
    pub(super) fn blocks(&self, offset: u32, blocks: u32) -> Bytes {
        let start = self.range.start + offset as usize * PAGE_BYTES;
        let range = start..start + blocks as usize * PAGE_BYTES;
        Bytes { data: Arc::clone(&self.data), range }
    }
}

/// One device request, at pages of the device.
#[derive(Debug)]
pub(super) enum Work {
    /// Read blocks of data, the first of which is `block`.
    Read {
        page: u64,
        block: Block,
        blocks: u32,
    },
    Write {
        page: u64,
        bytes: Bytes,
        durable: bool,
    },
    Zero {
        page: u64,
        pages: u64,
        durable: bool,
    },
    Flush,
}

/// What a read read, with a checksum per block; nothing for anything else.
pub(super) type Outcome = io::Result<(Vec<u8>, Vec<u32>)>;

/// A device request ended.
pub(super) struct Done {
    pub(super) io: Io,
    pub(super) slot: Slot,
    pub(super) outcome: Outcome,
}

#[derive(Default)]
struct Queue {
    /// `None` ends the threads.
    work: Mutex<Option<VecDeque<(Io, Work)>>>,
    bell: Condvar,
}

impl Queue {
    fn next(&self) -> Option<(Io, Work)> {
        let mut queue = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match queue.as_mut()?.pop_front() {
                Some(next) => return Some(next),
                None => queue = self.bell.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// All threads of an array.
pub(super) struct Workers {
    queues: [Arc<Queue>; DEVICES],
    done: Receiver<Done>,
    /// Kept so that requests to a device that is not there can be answered.
    tell: Sender<Done>,
    there: [bool; DEVICES],
    bell: Arc<OwnedFd>,
}

impl Workers {
    /// Threads for the devices of the array `array`.
    pub(super) fn new(devices: [Option<Device>; DEVICES], array: u128) -> io::Result<Workers> {
        let (tell, done) = channel();
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let queues: [Arc<Queue>; DEVICES] = Default::default();
        let there = devices.each_ref().map(Option::is_some);
        for (slot, device) in devices.into_iter().enumerate() {
            let Some(device) = device else { continue };
            let queue = &queues[slot];
            *queue.work.lock().unwrap_or_else(PoisonError::into_inner) = Some(VecDeque::new());
            // The first one keeps the lock on the device.
            let mut own = vec![device];
            while own.len() < THREADS {
                own.push(own[0].again()?);
            }
            for device in own {
                let (queue, tell, bell) = (Arc::clone(queue), tell.clone(), Arc::clone(&bell));
                let name = format!("{}-io", super::NAMES[slot]);
                std::thread::Builder::new().name(name).spawn(move || {
                    while let Some((io, work)) = queue.next() {
                        let outcome = perform(&device, work, array);
                        // Without anybody who listens there is nothing left to do.
                        if tell.send(Done { io, slot, outcome }).is_err() {
                            return;
                        }
                        ring(&bell);
                    }
                })?;
            }
        }
        Ok(Workers { queues, done, tell, there, bell })
    }

    /// Becomes readable when something is done.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    pub(super) fn send(&self, slot: Slot, io: Io, work: Work) {
        if !self.there[slot] {
            let outcome = Err(io::ErrorKind::NotFound.into());
            // We hold the other end.
            let _ = self.tell.send(Done { io, slot, outcome });
            return ring(&self.bell);
        }
        let queue = &self.queues[slot];
        let mut work_list = queue.work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(list) = work_list.as_mut() {
            list.push_back((io, work));
        }
        queue.bell.notify_one();
    }

    /// The next request that has ended.
    pub(super) fn take(&self) -> Option<Done> {
        self.done.try_recv().ok()
    }

    /// The bell has been heard.
    pub(super) fn quiet(&self) {
        // Nothing to read: it had not rung.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // Nobody waits for them: one may hang in a device that does.
        for queue in &self.queues {
            *queue.work.lock().unwrap_or_else(PoisonError::into_inner) = None;
            queue.bell.notify_all();
        }
    }
}

fn ring(bell: &OwnedFd) {
    // A counter that is full has rung.
    let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
}

fn perform(device: &Device, work: Work, array: u128) -> Outcome {
    #[cfg(test)]
    while device.frozen.load(std::sync::atomic::Ordering::SeqCst) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let nothing = (Vec::new(), Vec::new());
    match work {
        Work::Read { page, block, blocks } => {
            let mut bytes = vec![0; blocks as usize * PAGE_BYTES];
            device.read(page, &mut bytes)?;
            let sums = sums(array, block, &bytes);
            Ok((bytes, sums))
        }
        Work::Write { page, bytes, durable } => {
            device.write(page, bytes.get(), durable).map(|()| nothing)
        }
        Work::Zero { page, pages, durable } => device.zero(page, pages, durable).map(|()| nothing),
        Work::Flush => device.sync().map(|()| nothing),
    }
}

/// The checksum of each block of `bytes`, the first of which is `block`.
pub(super) fn sums(array: u128, block: Block, bytes: &[u8]) -> Vec<u32> {
    let blocks = (block..).zip(bytes.chunks(PAGE_BYTES));
    blocks.map(|(block, bytes)| block_sum(array, block, bytes)).collect()
}
