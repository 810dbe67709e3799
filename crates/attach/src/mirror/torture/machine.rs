//! The machine that the devices are in: what it did to each, and what it leaves when it stops.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::medium::Medium;
use crate::mirror::watch::Asked;

/// Which medium each watched file is, by device and inode.
static WATCHED: Mutex<BTreeMap<(u64, u64), Known>> = Mutex::new(BTreeMap::new());

/// A medium of a machine, by its number.
type Known = (Weak<Mutex<State>>, usize);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a test may do to a device.
#[derive(Clone, Default)]
pub(in crate::mirror) struct Switches {
    pub(in crate::mirror) frozen: Arc<AtomicBool>,
    pub(in crate::mirror) broken: Arc<AtomicBool>,
    pub(in crate::mirror) cached: bool,
}

/// A medium that is watched, and its switches.
struct Inserted {
    medium: Medium,
    switches: Switches,
}

/// A request that is out.
enum Out {
    Read {
        unreadable: bool,
    },
    Write {
        first: u64,
        durable: bool,
    },
    Zeros {
        first: u64,
        pages: u64,
    },
    /// Covers what had ended when it began.
    Sync {
        until: u64,
    },
}

struct State {
    media: Vec<Inserted>,
    out: BTreeMap<u64, (usize, Out)>,
    /// Counts requests, and what ended.
    requests: u64,
    steps: u64,
    stop_at: u64,
    /// What was there when it stopped.
    left: Option<Vec<Medium>>,
}

/// One run of a machine, from its start to a power cut or to the death of the server.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<State>>);

/// A request of a watched file.
pub(in crate::mirror) struct Ticket {
    machine: Shared,
    request: u64,
}

fn find(file: BorrowedFd<'_>) -> Option<(Shared, usize)> {
    let stat = rustix::fs::fstat(file).ok()?;
    let watched = locked(&WATCHED);
    let (machine, medium) = watched.get(&(stat.st_dev, stat.st_ino))?;
    Some((Shared(machine.upgrade()?), *medium))
}

/// The switches of a file; those of one that nobody watches do nothing.
pub(in crate::mirror) fn switches(file: &File) -> Switches {
    find(file.as_fd()).map_or_else(Switches::default, |(machine, medium)| machine.switches(medium))
}

/// Now and then a thread stands still for a while, as on a busy machine.
pub(in crate::mirror) fn dawdle() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static STEP: AtomicU64 = AtomicU64::new(0);
    let drawn = sim::mix64(STEP.fetch_add(1, Ordering::Relaxed));
    if drawn.is_multiple_of(64) {
        std::thread::sleep(std::time::Duration::from_micros(drawn >> 32 & 0x7ff));
    }
}

/// The kernel is asked for something.
pub(in crate::mirror) fn began(fd: RawFd, asked: Asked<'_>) -> Option<Ticket> {
    // SAFETY: whoever asks the kernel has the file open.
    let (machine, medium) = find(unsafe { BorrowedFd::borrow_raw(fd) })?;
    machine.began(medium, asked)
}

impl Ticket {
    /// The kernel has answered; the machine's own answer.
    pub(in crate::mirror) fn ended(self, answer: i32) -> i32 {
        self.machine.ended(self.request, answer)
    }
}

impl Shared {
    pub(super) fn new() -> Shared {
        Shared(Arc::new(Mutex::new(State {
            media: Vec::new(),
            out: BTreeMap::new(),
            requests: 0,
            steps: 0,
            stop_at: u64::MAX,
            left: None,
        })))
    }

    /// Make a file of a medium and watch it; returns the medium's number.
    pub(super) fn insert(&self, path: &Path, medium: Medium, cached: bool) -> usize {
        medium.make(path);
        let found = std::fs::metadata(path).expect("it was made");
        let key = (found.dev(), found.ino());
        let mut state = locked(&self.0);
        let switches = Switches { cached, ..Switches::default() };
        state.media.push(Inserted { medium, switches });
        let number = state.media.len() - 1;
        locked(&WATCHED).insert(key, (Arc::downgrade(&self.0), number));
        number
    }

    pub(super) fn switches(&self, medium: usize) -> Switches {
        locked(&self.0).media[medium].switches.clone()
    }

    /// Stop after so many more steps: as if between two instructions of the server.
    pub(super) fn stop_in(&self, steps: u64) {
        let mut state = locked(&self.0);
        state.stop_at = state.steps + steps;
    }

    /// Stop now if it has not.
    pub(super) fn stop(&self) -> Vec<Medium> {
        let mut state = locked(&self.0);
        state.stop();
        state.left.clone().expect("it has stopped")
    }

    pub(super) fn has_stopped(&self) -> bool {
        locked(&self.0).left.is_some()
    }

    /// Look at a medium as it is.
    pub(super) fn medium(&self, medium: usize) -> Medium {
        locked(&self.0).media[medium].medium.clone()
    }

    /// From now on these pages cannot be read.
    pub(super) fn unreadable(&self, medium: usize, pages: std::ops::Range<u64>) {
        locked(&self.0).media[medium].medium.unreadable = pages;
    }

    fn began(&self, medium: usize, asked: Asked<'_>) -> Option<Ticket> {
        let mut state = locked(&self.0);
        // A read changes nothing, so no stop before or after it is one of its own.
        let goes_on = match asked {
            Asked::Read { .. } => state.left.is_none(),
            _ => state.step(),
        };
        if !goes_on {
            return None;
        }
        state.requests += 1;
        let (request, until) = (state.requests, state.steps);
        let medium_state = &mut state.media[medium].medium;
        let out = match asked {
            Asked::Read { at, bytes } => {
                Out::Read { unreadable: medium_state.is_unreadable(at, bytes) }
            }
            Asked::Write { at, bytes, durable } => {
                medium_state.write(request, at / 4096, bytes);
                Out::Write { first: at / 4096, durable }
            }
            Asked::Zeros { at, bytes } => {
                let (first, pages) = (at / 4096, bytes / 4096);
                medium_state.zero(request, first, pages);
                Out::Zeros { first, pages }
            }
            Asked::Sync => Out::Sync { until },
        };
        state.out.insert(request, (medium, out));
        Some(Ticket { machine: self.clone(), request })
    }

    fn ended(&self, request: u64, answer: i32) -> i32 {
        let mut state = locked(&self.0);
        let Some((medium, out)) = state.out.remove(&request) else { return answer };
        if let Out::Read { unreadable } = out {
            return if unreadable { -libc::EIO } else { answer };
        }
        if answer < 0 || !state.step() {
            return answer;
        }
        let now = state.steps;
        let medium = &mut state.media[medium].medium;
        match out {
            Out::Read { .. } => unreachable!("it was answered above"),
            Out::Write { first, durable } => {
                medium.wrote(request, first..first + answer as u64 / 4096, now, durable);
            }
            Out::Zeros { first, pages } => {
                medium.wrote(request, first..first + pages, now, false);
            }
            Out::Sync { until } => medium.synced(until),
        }
        answer
    }
}

impl State {
    /// False once it has stopped.
    fn step(&mut self) -> bool {
        self.steps += 1;
        if self.steps >= self.stop_at {
            self.stop();
        }
        self.left.is_none()
    }

    fn stop(&mut self) {
        if self.left.is_none() {
            self.left = Some(self.media.iter().map(|it| it.medium.clone()).collect());
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        locked(&WATCHED).retain(|_, (machine, _)| machine.strong_count() > 0);
    }
}
