//! A disk for simulated hosts: a drive of blocklab for the times, and the bytes beside it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use models::{Drive, DriveBuilder, Failure, Lba, Nanos, Request, RequestId};
use tokio::sync::Notify;

pub const SECTOR: usize = 512;

/// It outlives its host's crashes: a clone is the same disk.
#[derive(Clone)]
pub struct Disk(Rc<Inner>);

struct Inner {
    state: RefCell<State>,
    /// Something has completed.
    done: Notify,
}

struct State {
    drive: Drive,
    /// What was written to each sector, and by which request: all of it, oldest first.
    sectors: BTreeMap<u64, Vec<(RequestId, [u8; SECTOR])>>,
    /// Inside the drive: when they were submitted, and what they write where.
    open: BTreeMap<RequestId, (Nanos, Lba, Vec<u8>)>,
    /// How long each request took, in the order of completion.
    took: Vec<Nanos>,
}

impl Disk {
    pub fn new(builder: &DriveBuilder) -> Result<Disk, Failure> {
        let (drive, sectors) = (builder.build()?, BTreeMap::new());
        let state = State { drive, sectors, open: BTreeMap::new(), took: Vec::new() };
        Ok(Disk(Rc::new(Inner { state: RefCell::new(state), done: Notify::new() })))
    }

    /// Write whole sectors. When it returns the drive has acknowledged them, and no more than that.
    pub async fn write(&self, lba: u64, bytes: &[u8]) {
        let request = Request::write(Lba(lba), (bytes.len() / SECTOR) as u32);
        self.request(request, bytes.to_vec()).await;
    }

    /// Make durable what was acknowledged before.
    pub async fn flush(&self) {
        self.request(Request::flush(), Vec::new()).await;
    }

    /// One sector; zeros where nothing was written.
    pub async fn read(&self, lba: u64) -> [u8; SECTOR] {
        self.request(Request::read(Lba(lba), 1), Vec::new()).await;
        let state = self.0.state.borrow();
        let newest = state.sectors.get(&lba).and_then(|written| written.last());
        newest.map_or([0; SECTOR], |(_, bytes)| *bytes)
    }

    /// Cut the power at `now`; returns how many acknowledged writes are gone.
    pub fn power_fail(&self, now: Duration) -> usize {
        let state = &mut *self.0.state.borrow_mut();
        let after = state.drive.power_fail(nanos(now).max(state.drive.now()));
        for lost in &after.lost {
            for lba in lost.lba.0..lost.lba.0 + u64::from(lost.sectors) {
                let written = state.sectors.entry(lba).or_default();
                written.retain(|(id, _)| *id != lost.id);
            }
        }
        // Each sector of these may be old or new; here all are old.
        state.open.clear();
        after.lost.len()
    }

    /// How long each request took.
    pub fn took(&self) -> Vec<Nanos> {
        self.0.state.borrow().took.clone()
    }

    /// Submit, and sleep from event to event until it is done.
    async fn request(&self, request: Request, bytes: Vec<u8>) {
        let id = {
            let mut state = self.0.state.borrow_mut();
            let now = now().max(state.drive.now());
            let id = state.drive.submit(now, request).expect("the log fits the drive");
            state.open.insert(id, (now, request.lba, bytes));
            id
        };
        loop {
            let told = self.0.done.notified();
            let wake = {
                let mut state = self.0.state.borrow_mut();
                if state.catch_up() {
                    self.0.done.notify_waiters();
                }
                if !state.open.contains_key(&id) {
                    return;
                }
                state.drive.next_event().expect("what is inside will complete")
            };
            let wait = Duration::from_nanos(wake.since(now()).0);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = told => {}
            }
        }
    }
}

impl State {
    /// Let the drive come to the present moment. True when something has completed.
    fn catch_up(&mut self) -> bool {
        let done = self.drive.advance(now().max(self.drive.now()));
        for completion in &done {
            let Some((submitted, lba, bytes)) = self.open.remove(&completion.id) else { continue };
            self.took.push(completion.at.since(submitted));
            for (index, sector) in bytes.chunks_exact(SECTOR).enumerate() {
                let sector = sector.try_into().expect("a chunk has its size");
                let written = self.sectors.entry(lba.0 + index as u64).or_default();
                written.push((completion.id, sector));
            }
        }
        !done.is_empty()
    }
}

/// The simulation's time.
fn now() -> Nanos {
    nanos(turmoil::sim_elapsed().expect("a host of the simulation asks"))
}

fn nanos(time: Duration) -> Nanos {
    Nanos(u64::try_from(time.as_nanos()).expect("a run is shorter than 584 years"))
}
