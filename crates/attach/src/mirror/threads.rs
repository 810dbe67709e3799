//! The threads at a device: each takes a request, does it through the page cache, and tells.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use mirror::core::Io;
use mirror::format::PAGE_BYTES;
use mirror::format::sums::BlockSums;

use super::device::{Device, is_full};
use super::work::{Done, MediumId, NOTHING, Outcome, RETRY, Work, sums, wake};

/// What is under way at a device at a time.
const THREADS: usize = 8;

struct Item {
    io: Io,
    work: Work,
    /// There was no room for it the last time.
    full: bool,
}

#[derive(Default)]
struct Waiting {
    work: VecDeque<Item>,
    /// Writes that found no room.
    full: VecDeque<Item>,
    /// When they are tried again.
    retry_at: Option<Instant>,
}

struct Queue {
    /// `None` ends the threads.
    work: Mutex<Option<Waiting>>,
    available: Condvar,
}

impl Queue {
    fn next(&self) -> Option<Item> {
        let mut queue = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let waiting = queue.as_mut()?;
            let left = waiting.retry_at.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                waiting.retry_at = None;
                waiting.work.append(&mut waiting.full);
            }
            if let Some(next) = waiting.work.pop_front() {
                return Some(next);
            }
            queue = match left {
                Some(left) => {
                    let woken = self.available.wait_timeout(queue, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.available.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// There was no room for it: try again later.
    fn later(&self, item: Item) {
        let mut queue = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = queue.as_mut() {
            waiting.full.push_back(item);
            waiting.retry_at.get_or_insert_with(|| Instant::now() + RETRY);
        }
    }
}

/// Some threads, all at one device.
pub(super) struct Threads {
    queue: Arc<Queue>,
    /// One that the threads have, too.
    device: Device,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    pub(super) fn new(
        medium: MediumId,
        device: Device,
        sums_of: BlockSums,
        tell: &Sender<Done>,
        wakeup: &Arc<OwnedFd>,
    ) -> io::Result<Threads> {
        // The first one keeps the lock on the device.
        let same = device.again()?;
        let mut own = vec![device];
        while own.len() < THREADS {
            own.push(own[0].again()?);
        }
        let work = Mutex::new(Some(Waiting::default()));
        let queue = Arc::new(Queue { work, available: Condvar::new() });
        let mut all = Threads { queue, device: same, threads: Vec::new() };
        for device in own {
            let (queue, tell, wakeup) = (Arc::clone(&all.queue), tell.clone(), Arc::clone(wakeup));
            let name = format!("{}-io", super::NAMES[medium.slot]);
            #[cfg(test)]
            let planted = super::mutant::here();
            all.threads.push(std::thread::Builder::new().name(name).spawn(move || {
                #[cfg(test)]
                super::mutant::plant(planted);
                while let Some(item) = queue.next() {
                    let Item { io, ref work, full } = item;
                    let outcome = perform(&device, work, sums_of);
                    let writes = !matches!(work, Work::Read { .. } | Work::Flush);
                    if writes && outcome.as_ref().err().is_some_and(is_full) {
                        device.found_room(false);
                        queue.later(Item { full: true, ..item });
                        wake(&wakeup);
                        continue;
                    }
                    if full {
                        device.found_room(true);
                    }
                    // Without anybody who listens there is nothing left to do.
                    if tell.send(Done { medium, io, outcome }).is_err() {
                        return;
                    }
                    wake(&wakeup);
                }
            })?);
        }
        Ok(all)
    }

    pub(super) fn send(&self, io: Io, work: Work) {
        let mut queue = self.queue.work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queue.as_mut() {
            queue.work.push_back(Item { io, work, full: false });
            self.queue.available.notify_one();
        }
    }

    /// Writes wait for room.
    pub(super) fn is_full(&self) -> bool {
        self.device.is_full()
    }

    /// Wait for the threads, which have nothing to do but to end.
    pub(super) fn join(mut self) {
        self.close();
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }

    /// Forget what nobody has begun, and let the threads end.
    fn close(&self) {
        *self.queue.work.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.queue.available.notify_all();
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Nobody waits for them: one may hang in a device that does.
        self.close();
    }
}

fn perform(device: &Device, work: &Work, sums_of: BlockSums) -> Outcome {
    while device.is_frozen() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    device.works()?;
    match *work {
        Work::Read { page, block, blocks } => {
            let mut bytes = vec![0; blocks as usize * PAGE_BYTES];
            device.read(page, &mut bytes)?;
            let sums = sums(sums_of, block, &bytes);
            Ok((bytes, sums))
        }
        Work::Write { page, ref bytes, durable } => {
            device.write(page, bytes.get(), durable).map(|()| NOTHING)
        }
        Work::WriteAndFlush { page, ref bytes } => {
            device.is_trusted()?;
            device.write(page, bytes.get(), false)?;
            device.sync().map(|()| NOTHING)
        }
        Work::Zero { page, pages, durable, keep } => {
            device.zero(page, pages, durable, keep).map(|()| NOTHING)
        }
        Work::Flush => device.sync().map(|()| NOTHING),
    }
}
