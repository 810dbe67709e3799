//! The threads at a device: each takes a request, does it through the page cache, and tells.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use mirror::core::Io;
use mirror::format::PAGE_BYTES;

use super::device::Device;
use super::worker::{Done, NOTHING, Outcome, Place, Work, sums, wake};

/// What is under way at a device at a time.
const THREADS: usize = 8;

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

/// Some threads, all at one device.
pub(super) struct Threads {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    pub(super) fn new(
        place: Place,
        device: Device,
        array: u128,
        tell: &Sender<Done>,
        bell: &Arc<OwnedFd>,
    ) -> io::Result<Threads> {
        // The first one keeps the lock on the device.
        let mut own = vec![device];
        while own.len() < THREADS {
            own.push(own[0].again()?);
        }
        let work = Mutex::new(Some(VecDeque::new()));
        let queue = Arc::new(Queue { work, bell: Condvar::new() });
        let mut all = Threads { queue, threads: Vec::new() };
        for device in own {
            let (queue, tell, bell) = (Arc::clone(&all.queue), tell.clone(), Arc::clone(bell));
            let name = format!("{}-io", super::NAMES[place.slot]);
            all.threads.push(std::thread::Builder::new().name(name).spawn(move || {
                while let Some((io, work)) = queue.next() {
                    let outcome = perform(&device, work, array);
                    // Without anybody who listens there is nothing left to do.
                    if tell.send(Done { place, io, outcome }).is_err() {
                        return;
                    }
                    wake(&bell);
                }
            })?);
        }
        Ok(all)
    }

    pub(super) fn send(&self, io: Io, work: Work) {
        let mut queue = self.queue.work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queue.as_mut() {
            queue.push_back((io, work));
            self.queue.bell.notify_one();
        }
    }

    /// Wait for the threads, which have nothing to do but to end.
    pub(super) fn join(mut self) {
        self.close();
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }

    /// Forget what nobody has begun, and let the threads end.
    fn close(&self) {
        *self.queue.work.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.queue.bell.notify_all();
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Nobody waits for them: one may hang in a device that does.
        self.close();
    }
}

fn perform(device: &Device, work: Work, array: u128) -> Outcome {
    while device.is_frozen() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    device.works()?;
    match work {
        Work::Read { page, block, blocks } => {
            let mut bytes = vec![0; blocks as usize * PAGE_BYTES];
            device.read(page, &mut bytes)?;
            let sums = sums(array, block, &bytes);
            Ok((bytes, sums))
        }
        Work::Write { page, bytes, durable } => {
            device.write(page, bytes.get(), durable).map(|()| NOTHING)
        }
        Work::Zero { page, pages, durable } => device.zero(page, pages, durable).map(|()| NOTHING),
        Work::Flush => device.sync().map(|()| NOTHING),
    }
}
