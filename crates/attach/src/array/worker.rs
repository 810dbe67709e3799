//! The threads that read and write the devices: each takes a request, does it, and tells.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

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

    /// Forget what nobody has begun, and let the threads end.
    fn close(&self) {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.bell.notify_all();
    }
}

/// The threads at one medium.
#[derive(Default)]
struct Place {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
    /// Media that were here before.
    past: u32,
    /// Requests that were sent to this one and not answered.
    out: BTreeSet<Io>,
}

/// All threads of an array.
pub(super) struct Workers {
    array: u128,
    places: [Place; DEVICES],
    /// Each with the number of media that were there before the one that answers.
    done: Receiver<(u32, Done)>,
    tell: Sender<(u32, Done)>,
    bell: Arc<OwnedFd>,
}

impl Workers {
    /// Threads for the devices of the array `array`.
    pub(super) fn new(devices: [Option<Device>; DEVICES], array: u128) -> io::Result<Workers> {
        let (tell, done) = channel();
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let mut workers = Workers { array, places: Default::default(), done, tell, bell };
        for (slot, device) in devices.into_iter().enumerate() {
            if let Some(device) = device {
                workers.install(slot, device)?;
            }
        }
        Ok(workers)
    }

    /// Begin to use a device in a slot that has none.
    pub(super) fn install(&mut self, slot: Slot, device: Device) -> io::Result<()> {
        // The first one keeps the lock on the device.
        let mut own = vec![device];
        while own.len() < THREADS {
            own.push(own[0].again()?);
        }
        let place = &mut self.places[slot];
        *place.queue.work.lock().unwrap_or_else(PoisonError::into_inner) = Some(VecDeque::new());
        let (past, array) = (place.past, self.array);
        for device in own {
            let (queue, tell) = (Arc::clone(&place.queue), self.tell.clone());
            let bell = Arc::clone(&self.bell);
            let name = format!("{}-io", super::NAMES[slot]);
            place.threads.push(std::thread::Builder::new().name(name).spawn(move || {
                while let Some((io, work)) = queue.next() {
                    let outcome = perform(&device, work, array);
                    // Without anybody who listens there is nothing left to do.
                    if tell.send((past, Done { io, slot, outcome })).is_err() {
                        return;
                    }
                    ring(&bell);
                }
            })?);
        }
        Ok(())
    }

    /// Use a device no longer, whatever it still does. Its lock is gone when this returns, unless
    /// a request is out that it does not answer. Those that are out are returned: nothing more is
    /// heard of them.
    pub(super) fn retire(&mut self, slot: Slot) -> Vec<Io> {
        let Place { queue, threads, past, out } = std::mem::take(&mut self.places[slot]);
        self.places[slot].past = past + 1;
        queue.close();
        if out.is_empty() {
            // They have nothing to do but to end.
            threads.into_iter().for_each(|thread| drop(thread.join()));
        }
        out.into_iter().collect()
    }

    /// Becomes readable when something is done.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    pub(super) fn send(&mut self, slot: Slot, io: Io, work: Work) {
        let place = &mut self.places[slot];
        place.out.insert(io);
        let mut queue = place.queue.work.lock().unwrap_or_else(PoisonError::into_inner);
        match queue.as_mut() {
            Some(queue) => {
                queue.push_back((io, work));
                place.queue.bell.notify_one();
            }
            None => {
                let outcome = Err(io::ErrorKind::NotFound.into());
                // We hold the other end.
                let _ = self.tell.send((place.past, Done { io, slot, outcome }));
                ring(&self.bell);
            }
        }
    }

    /// The next request that has ended.
    pub(super) fn take(&mut self) -> Option<Done> {
        loop {
            let (past, done) = self.done.try_recv().ok()?;
            let place = &mut self.places[done.slot];
            if past == place.past {
                place.out.remove(&done.io);
                return Some(done);
            }
        }
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
        self.places.iter().for_each(|place| place.queue.close());
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
    #[cfg(test)]
    if device.broken.load(std::sync::atomic::Ordering::SeqCst) {
        return Err(io::Error::other("broken for a test"));
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
