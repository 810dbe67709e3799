//! Who reads and writes the devices: the ring where the kernel lets it, threads elsewhere.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use mirror::core::Io;
use mirror::format::sums::BlockSums;
use mirror::{DEVICES, Slot};
use rustix::event::{EventfdFlags, eventfd};

use super::device::Device;
use super::mutant::planted;
use super::ring::Ring;
use super::threads::Threads;
use super::work::{Done, MediumId, Work, wake};

/// How a medium is read and written.
#[derive(Default)]
enum IoPath {
    #[default]
    None,
    /// Past the page cache.
    Ring(Arc<Device>),
    /// Through it.
    Threads(Threads),
}

/// What is known of a slot.
#[derive(Default)]
struct SlotState {
    path: IoPath,
    past: u32,
    /// Requests that were sent to this medium and not answered.
    out: BTreeSet<Io>,
}

/// A device that is used no longer.
pub(super) struct Released {
    path: IoPath,
    /// No request is out that it does not answer.
    answered: bool,
}

impl Released {
    /// Let go of it. A block device may take its time for that.
    pub(super) fn close(self) {
        if let (IoPath::Threads(threads), true) = (self.path, self.answered) {
            threads.join();
        }
    }
}

/// Everybody who works for an array.
pub(super) struct Workers {
    sums_of: BlockSums,
    slots: [SlotState; DEVICES],
    ring: Option<Ring>,
    /// What has ended, but for the threads.
    ended: VecDeque<Done>,
    done: Receiver<Done>,
    tell: Sender<Done>,
    wakeup: Arc<OwnedFd>,
}

impl Workers {
    /// For the devices of an array that sums its blocks so.
    pub(super) fn new(
        devices: [Option<Device>; DEVICES],
        sums_of: BlockSums,
    ) -> io::Result<Workers> {
        let (tell, done) = channel();
        let wakeup = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let mut workers = Workers {
            sums_of,
            slots: Default::default(),
            // A kernel that has none, or whose administrator has turned it off.
            ring: Ring::new(sums_of, &wakeup).ok(),
            ended: VecDeque::new(),
            done,
            tell,
            wakeup,
        };
        for (slot, device) in devices.into_iter().enumerate() {
            if let Some(device) = device {
                workers.install(slot, device)?;
            }
        }
        Ok(workers)
    }

    /// Begin to use a device in a slot that has none.
    pub(super) fn install(&mut self, slot: Slot, mut device: Device) -> io::Result<()> {
        let state = &mut self.slots[slot];
        let medium = MediumId { slot, past: state.past };
        state.path = if self.ring.is_some() && device.bypass_cache() {
            IoPath::Ring(Arc::new(device))
        } else {
            IoPath::Threads(Threads::new(medium, device, self.sums_of, &self.tell, &self.wakeup)?)
        };
        Ok(())
    }

    /// The device's own time is hidden by the page cache.
    pub(super) fn is_cached(&self, slot: Slot) -> bool {
        matches!(self.slots[slot].path, IoPath::Threads(_))
    }

    /// Writes of this device wait for room.
    pub(super) fn is_full(&self, slot: Slot) -> bool {
        match &self.slots[slot].path {
            IoPath::None => false,
            IoPath::Ring(device) => device.is_full(),
            IoPath::Threads(threads) => threads.is_full(),
        }
    }

    /// Try again what found no room; the threads do so by themselves.
    pub(super) fn retry(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.retry();
        }
    }

    /// Use a device no longer, whatever it still does. Its lock is gone when this returns, unless
    /// a request is out that it does not answer. Those that are out are returned: nothing more is
    /// heard of them.
    pub(super) fn retire(&mut self, slot: Slot) -> Vec<Io> {
        let (released, out) = self.release(slot);
        released.close();
        out
    }

    /// The same; the device is still open, and locked.
    pub(super) fn release(&mut self, slot: Slot) -> (Released, Vec<Io>) {
        let SlotState { path, past, out } = std::mem::take(&mut self.slots[slot]);
        self.slots[slot].past = past + 1;
        if let Some(ring) = &mut self.ring {
            ring.forget(MediumId { slot, past });
        }
        (Released { path, answered: out.is_empty() }, out.into_iter().collect())
    }

    /// Has the slot no device?
    pub(super) fn is_empty(&self, slot: Slot) -> bool {
        matches!(self.slots[slot].path, IoPath::None)
    }

    /// How many requests were sent to the medium in a slot and not answered.
    pub(super) fn out(&self, slot: Slot) -> usize {
        self.slots[slot].out.len()
    }

    /// Becomes readable when something is done.
    pub(super) fn wakeup(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }

    /// Give a device something to do; it may wait for [`Workers::submit`].
    pub(super) fn send(&mut self, slot: Slot, io: Io, work: Work) {
        let state = &mut self.slots[slot];
        let medium = MediumId { slot, past: state.past };
        state.out.insert(io);
        match (&state.path, &mut self.ring) {
            (IoPath::Ring(device), Some(ring)) => ring.begin(medium, io, device, work),
            (IoPath::Threads(threads), _) => threads.send(io, work),
            _ => {
                let outcome = Err(io::ErrorKind::NotFound.into());
                self.ended.push_back(Done { medium, io, outcome });
                wake(&self.wakeup);
            }
        }
    }

    /// Let the devices begin what was sent.
    pub(super) fn submit(&mut self) {
        if let Some(ring) = &mut self.ring
            && ring.submit(&mut self.ended)
        {
            wake(&self.wakeup);
        }
    }

    /// The next request that has ended.
    pub(super) fn take(&mut self) -> Option<Done> {
        if let Some(ring) = &mut self.ring {
            ring.take(&mut self.ended);
        }
        loop {
            let done = self.ended.pop_front().or_else(|| self.done.try_recv().ok())?;
            let state = &mut self.slots[done.medium.slot];
            if done.medium.past == state.past || planted!(LateAnswer) {
                state.out.remove(&done.io);
                return Some(done);
            }
        }
    }

    /// Reset the eventfd.
    pub(super) fn clear_wakeup(&self) {
        // Nothing to read: it was not signalled.
        let _ = rustix::io::read(&self.wakeup, &mut [0; 8]);
    }
}
