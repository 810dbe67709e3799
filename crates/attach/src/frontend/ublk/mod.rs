//! The ublk frontend: a real block device of this machine, without FUSE and loop in between. The
//! kernel's requests come out of an io_uring, and several are in the device at a time, flushes
//! and discards included.
//!
//! Nobody who is killed can keep the block device: it goes with its server. What stays then is an
//! entry of the driver, `/dev/ublkcN`; the next session deletes it.

mod control;
mod queue;
mod wire;

use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use study::Failure;

use crate::client_side::{Account, ClientSide};
use crate::frontend::block_queue::{BlockDeviceOptions, BlockQueue};
use crate::frontend::{Address, BackgroundTask, Frontend, Started, linux, probe, shown};
use crate::order::{Command, Order, Reply, Ticket};
use crate::poll::{Event, Interest, Poll};
use crate::realtime;
use crate::shared_state::{Export, SharedState};
use crate::target::Target;

use control::Control;
pub use queue::io_uring_permitted;
use queue::{Came, Queue};
use wire::{DeviceInfo, Parameters};

/// Whether the kernel would serve it.
pub(crate) fn check(_: &BlockDeviceOptions) -> Result<(), Failure> {
    Control::open().map(drop)
}

/// Make the frontend.
pub(crate) fn build<T: Target>(
    options: BlockDeviceOptions,
    _: &[Export<T>],
) -> Result<Box<dyn Frontend<T>>, Failure> {
    let (devices, came, accounts) = (Vec::new(), Vec::new(), Vec::new());
    let ublk = Ublk { options, devices, came, accounts, over: false };
    Ok(Box::new(ublk))
}

/// Longest request, where the part does not say.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Requests in the device at a time, where the model takes more.
const DEPTH_MAX: u32 = 256;
/// How long the system may take to make a device's file.
const PATIENCE: Duration = Duration::from_secs(5);

/// An entry of the driver.
struct Device {
    number: u32,
    queue: Option<Queue>,
}

impl Device {
    /// Make it; its queue waits for requests then, but there is no block device yet.
    fn new(control: &mut Control, export: &Export<impl Target>) -> Result<Device, Failure> {
        let refused = |what: &str, why: std::io::Error| {
            Failure::machine(format!("ublk refuses to {what}: {why}"))
                .help("run as root on Linux 6.5 or newer, or use --as loop")
        };
        let (limits, identity) = (export.engine.limits(), &export.identity);
        let request_bytes_max = identity.request_bytes_max.unwrap_or(REQUEST_BYTES_MAX);
        let depth = limits.queue_depth_max.clamp(1, DEPTH_MAX) as u16;
        let wanted = DeviceInfo {
            depth,
            state: 0,
            request_bytes_max,
            device: wire::ANY_DEVICE,
            flags: wire::USER_COPY,
            mark: wire::mark(std::process::id()),
        };
        let made = control.add(&wanted).map_err(|why| refused("make a device", why))?;
        let mut device = Device { number: made.device, queue: None };
        if made.flags & wire::USER_COPY == 0 {
            return Err(Failure::machine("this kernel's ublk is too old: it cannot copy data")
                .expected("Linux 6.5 or newer")
                .help("use --as loop"));
        }
        let parameters = Parameters {
            sectors: limits.capacity.sectors(),
            read_only: export.read_only,
            rotational: identity.rotational,
            write_cache: limits.write_cache,
            logical_block_bytes: identity.logical_block_bytes,
            physical_block_bytes: identity.physical_block_bytes,
            request_bytes_max,
            discard_bytes: limits.discard.then_some(identity.discard_granularity_bytes),
        };
        control
            .set_parameters(made.device, &parameters)
            .map_err(|why| refused("describe the device", why))?;
        let path = PathBuf::from(format!("/dev/ublkc{}", made.device));
        wait_for(&path)?;
        let queue = Queue::open(&path, made.depth).map_err(|why| refused("serve it", why))?;
        device.queue = Some(queue);
        Ok(device)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // While its file is open it cannot be deleted. What cannot be deleted now is deleted by
        // the next session.
        self.queue = None;
        if let Ok(mut control) = Control::open() {
            let _ = control.delete(self.number);
        }
    }
}

fn block_device(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/ublkb{number}"))
}

/// A file of another kind in its place would be taken for it.
fn wait_for(path: &std::path::Path) -> Result<(), Failure> {
    let began = Instant::now();
    let is_device = || {
        let kind = std::fs::metadata(path).map(|found| found.file_type());
        kind.is_ok_and(|kind| kind.is_block_device() || kind.is_char_device())
    };
    while !is_device() {
        if began.elapsed() > PATIENCE {
            return Err(Failure::machine(format!("there is no {} yet", path.display()))
                .expected("devtmpfs on /dev, or udev, to make it"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The numbers of devices that a killed session has left; none where nobody may ask.
pub fn abandoned() -> Vec<u32> {
    Control::open().map_or_else(|_| Vec::new(), |mut control| control.abandoned())
}

struct Ublk {
    options: BlockDeviceOptions,
    devices: Vec<Device>,
    came: Vec<Came>,
    /// The kernel's, when clients were let in.
    accounts: Vec<Account>,
    over: bool,
}

impl Ublk {
    /// The kernel's account of each device.
    fn account(&self) -> Vec<Account> {
        let queue = |device: &Device| BlockQueue::of(&block_device(device.number));
        let account = |device| queue(device).account().unwrap_or_default();
        self.devices.iter().map(account).collect()
    }

    /// Hand request `tag` of a device to the engine, or answer it.
    fn take(&mut self, index: usize, tag: u16, shared: &mut SharedState<impl Target>) {
        let arrived = shared.clock.now();
        let Some(queue) = &mut self.devices[index].queue else { return };
        let Some((command, offset, bytes)) = wire::understand(&queue.description(tag)) else {
            return queue.answer(tag, -linux::errno::OPNOTSUPP);
        };
        let ticket = Ticket { tag: u64::from(tag), ..Ticket::default() };
        let order = Order::new(ticket, command, offset, bytes);
        let engine = &mut shared.exports[index].engine;
        let mut sink = None;
        if let Command::Write { .. } = command
            && let Ok(mut begun) = engine.begin_write(offset, bytes)
        {
            let mut data = shared.pool.take(bytes as usize);
            let moved = queue.read_data(tag, &mut data);
            if moved.is_ok() {
                engine.write(&mut begun, &data, &mut shared.pool);
            }
            shared.pool.put(data);
            if moved.is_err() {
                engine.abandon(begun, &mut shared.pool);
                return queue.answer(tag, -linux::errno::IO);
            }
            sink = Some(begun);
        }
        engine.submit(arrived, order, sink, &mut shared.pool);
    }
}

impl<T: Target> Frontend<T> for Ublk {
    fn start(
        &mut self,
        shared: &mut SharedState<T>,
        poll: &Poll,
    ) -> Result<BackgroundTask<Started>, Failure> {
        let mut control = Control::open()?;
        let mut notes = Vec::new();
        for number in control.abandoned() {
            if control.delete(number).is_ok() {
                notes.push(format!("removed /dev/ublkc{number}, which a killed session had left"));
            }
        }
        for (index, export) in shared.exports.iter().enumerate() {
            let device = Device::new(&mut control, export)?;
            if let Some(queue) = &device.queue {
                poll.add(queue, index as u64, Interest::READ)
                    .map_err(|why| Failure::machine(format!("cannot wait for ublk: {why}")))?;
            }
            self.devices.push(device);
        }
        realtime::set_io_flusher(true);
        let numbers: Vec<u32> = self.devices.iter().map(|device| device.number).collect();
        let options = self.options.clone();
        Ok(Box::new(move || {
            let mut control = Control::open()?;
            let mut paths = Vec::new();
            for number in numbers {
                control.start(number).map_err(|why| {
                    Failure::machine(format!("ublk refuses to start the device: {why}"))
                })?;
                let path = block_device(number);
                wait_for(&path)?;
                // They go with the device; nothing is to be undone.
                BlockQueue::of(&path).set_all(&[
                    ("scheduler", options.scheduler.clone()),
                    ("read_ahead_kb", options.read_ahead_kib.to_string()),
                ])?;
                paths.push(path);
            }
            let trips = match paths.first() {
                Some(path) if options.calibrate => Some(probe::direct_reads(path)?),
                _ => None,
            };
            let names: Vec<String> = paths.iter().map(|path| shown(path)).collect();
            let address = Address::devices(names);
            Ok(Started { address, round_trip_ns: None, notes }.judge(trips.as_deref()))
        }))
    }

    fn ready(&mut self, event: Event, shared: &mut SharedState<T>, poll: &Poll) {
        let index = event.token as usize;
        let mut came = std::mem::take(&mut self.came);
        let Some(queue) = self.devices.get_mut(index).and_then(|d| d.queue.as_mut()) else {
            return;
        };
        queue.take(&mut came);
        let mut closing = false;
        for one in came.drain(..) {
            match one.result {
                0 => self.take(index, one.tag, shared),
                // Whoever stopped the device, it does not come back.
                _ => closing = true,
            }
        }
        self.came = came;
        if closing && let Some(queue) = &self.devices[index].queue {
            self.over = true;
            poll.remove(queue);
        }
    }

    fn reply(&mut self, export: usize, reply: Reply, shared: &mut SharedState<T>) {
        let Some(queue) = &mut self.devices[export].queue else { return };
        let Order { command, bytes, ticket, .. } = reply.order;
        let tag = ticket.tag as u16;
        let result = match (reply.result, command) {
            (Err(why), _) => -linux::number(why),
            (Ok(data), Command::Read) => {
                let moved = queue.write_data(tag, &data);
                shared.pool.put(data);
                moved.map_or(-linux::errno::IO, |()| bytes as i32)
            }
            (Ok(_), Command::Write { .. }) => bytes as i32,
            (Ok(_), _) => 0,
        };
        queue.answer(tag, result);
    }

    fn flush(&mut self, _: &mut SharedState<T>, _: &Poll) {
        for queue in self.devices.iter_mut().filter_map(|device| device.queue.as_mut()) {
            self.over |= queue.submit().is_err();
        }
    }

    /// What was inside fails; a host that lost its disk for a moment sees the same.
    fn power_cut(&mut self, export: usize, forgotten: &[Order], _: &mut SharedState<T>, _: &Poll) {
        let Some(queue) = &mut self.devices[export].queue else { return };
        for order in forgotten {
            queue.answer(order.ticket.tag as u16, -linux::errno::IO);
        }
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn open(&mut self, _: &Poll) {
        self.accounts = self.account();
    }

    fn seen(&mut self) -> ClientSide {
        let now = self.account().into_iter().zip(&self.accounts);
        ClientSide::Accounts(now.map(|(now, then)| now.since(*then)).collect())
    }

    fn stop(&mut self, _: &Poll) -> Option<BackgroundTask<()>> {
        let numbers: Vec<u32> = self.devices.iter().map(|device| device.number).collect();
        Some(Box::new(move || {
            let mut control = Control::open()?;
            for number in numbers {
                // One that was stopped by somebody else is as good.
                let _ = control.stop(number);
            }
            Ok(())
        }))
    }
}
