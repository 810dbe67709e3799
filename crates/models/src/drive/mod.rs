//! A drive for programs that own their clock: [`Device`] with what every driver of one needs.

mod builder;
mod saved;

pub use builder::DriveBuilder;

use std::collections::{BTreeSet, VecDeque};

use sim::{
    BadRequest, Completion, Completions, Counters, Device, Limits, LostWrite, Nanos, Request,
    RequestId,
};

/// A modelled drive. It names the requests, keeps those that find its queue full, and does what is
/// due up to any moment.
///
/// Time is whatever its user says, and does not go back. A clone does exactly the same.
///
/// ```
/// use models::{Drive, Lba, Nanos, Request};
///
/// let mut drive = Drive::part("tlc-3d-96").set("ssd.buffer.capacity", "0B").build()?;
/// for page in 0..64 {
///     drive.submit(Nanos(0), Request::write(Lba(page * 32), 32))?;
/// }
/// let mut last = Nanos::ZERO;
/// while let Some(at) = drive.next_event() {
///     last = drive.advance(at).last().map_or(last, |done| done.at);
/// }
/// assert!(last > Nanos::from_micros(100), "64 pages of 16 KiB take their time");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Drive {
    device: Box<dyn Device>,
    limits: Limits,
    /// Digest of what it was built from.
    built_from: u64,
    now: Nanos,
    next_id: u64,
    /// Taken from the user, not yet by the device, whose queue is full.
    held: VecDeque<Request>,
    /// Submitted, and their completion not yet told.
    open: BTreeSet<RequestId>,
    out: Completions,
}

/// What a power failure left of what was asked for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PowerLoss {
    /// Completed writes that are gone, wholly or in part, in the order they completed: they were in
    /// a volatile cache, and no flush came after them. Where writes overlap, a sector has the
    /// content of the last one that is not lost.
    pub lost: Vec<LostWrite>,
    /// Requests that will never complete. Of a write among them each sector may have the old
    /// content or the new.
    pub forgotten: Vec<RequestId>,
}

impl Drive {
    /// A shipped part, by name: see [`parts`](crate::parts).
    pub fn part(name: &str) -> DriveBuilder {
        DriveBuilder::part(name)
    }

    /// A part of yours, as text in TOML: `[ssd]` and its tables, as in the files of
    /// [`parts`](crate::parts).
    pub fn toml(text: &str) -> DriveBuilder {
        DriveBuilder::toml(text)
    }

    fn new(device: Box<dyn Device>, built_from: u64) -> Drive {
        Drive {
            limits: device.limits(),
            device,
            built_from,
            now: Nanos::ZERO,
            next_id: 0,
            held: VecDeque::new(),
            open: BTreeSet::new(),
            out: Completions::new(),
        }
    }

    /// Its size and abilities.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The latest moment it was told.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Requests that were submitted and whose completion [`advance`](Drive::advance) has not told.
    pub fn in_flight(&self) -> usize {
        self.open.len()
    }

    /// Submit a request at `now`. Its id is given here, in rising order. While the drive's queue is
    /// full the request waits, and later ones behind it.
    ///
    /// # Errors
    /// When no drive of this size can take it: it ends beyond the end, or has no sectors.
    ///
    /// # Panics
    /// When time goes back.
    pub fn submit(&mut self, now: Nanos, mut request: Request) -> Result<RequestId, BadRequest> {
        self.limits.check(&request)?;
        self.go_to(now);
        request.id = RequestId(self.next_id);
        self.next_id += 1;
        self.open.insert(request.id);
        self.held.push_back(request);
        self.hand_over();
        Ok(request.id)
    }

    /// When to call [`advance`](Drive::advance) next; `None` while it waits for requests only. The
    /// answer holds until the next call that changes the drive. Not every event completes a
    /// request.
    pub fn next_event(&self) -> Option<Nanos> {
        if self.out.done.is_empty() { self.device.next_event() } else { Some(self.now) }
    }

    /// Do all that is due up to and at `now`. What has completed since the last call, in order,
    /// with the moment of each.
    ///
    /// # Panics
    /// When time goes back.
    pub fn advance(&mut self, now: Nanos) -> Vec<Completion> {
        self.go_to(now);
        let done = std::mem::take(&mut self.out.done);
        done.iter().for_each(|completion| {
            self.open.remove(&completion.id);
        });
        done
    }

    /// Lose power at `now` and come back at once, with an empty queue. Ids go on.
    ///
    /// # Panics
    /// When time goes back.
    pub fn power_fail(&mut self, now: Nanos) -> PowerLoss {
        self.go_to(now);
        let mut lost = self.device.power_fail(now).lost;
        self.held.clear();
        self.out.done.clear();
        // What completed and was never told is not known to have been done.
        let forgotten = std::mem::take(&mut self.open);
        lost.retain(|write| !forgotten.contains(&write.id));
        PowerLoss { lost, forgotten: forgotten.into_iter().collect() }
    }

    /// What it has counted since it was built, such as `gc_pages` of a drive of flash.
    /// `blocklab list metrics` and the pages of the models say what the names mean.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        self.device.counters(&mut counters);
        counters
    }

    /// Let the device come to `now`, event by event.
    fn go_to(&mut self, now: Nanos) {
        assert!(now >= self.now, "time goes back from {} to {now}", self.now);
        while let Some(event) = self.device.next_event().filter(|&event| event <= now) {
            self.now = event;
            self.device.advance(event, &mut self.out);
            self.hand_over();
        }
        self.now = now;
    }

    /// Give the device what waits for room.
    fn hand_over(&mut self) {
        while let Some(&request) = self.held.front() {
            if self.device.submit(self.now, request).is_err() {
                return;
            }
            self.held.pop_front();
        }
    }
}

impl Clone for Drive {
    fn clone(&self) -> Drive {
        Drive {
            device: self.device.boxed_clone(),
            held: self.held.clone(),
            open: self.open.clone(),
            out: self.out.clone(),
            ..*self
        }
    }
}

impl std::fmt::Debug for Drive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Drive")
            .field("limits", &self.limits)
            .field("now", &self.now)
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}
