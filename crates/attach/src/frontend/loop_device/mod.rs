//! The loop frontend: a real block device of this machine. The device is a file of a FUSE file
//! system that is mounted nowhere, and the kernel's loop driver makes a block device of it.
//!
//! Nothing of it can stay behind, even when we are killed: the file system has no mount point,
//! and the loop device frees itself when its last user goes.

mod answers;
mod conduit;
mod device;
mod mount;
pub mod wire;

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use study::Failure;

use crate::client_side::{Account, ClientSide};
use crate::frontend::{
    Address, BackgroundTask, BlockDeviceOptions, Frontend, Started, linux, probe, shown,
};
use crate::order::{Command, Order, Reply, Ticket};
use crate::poll::{Event, Interest, Poll};
use crate::realtime;
use crate::shared_state::{Export, SharedState};
use crate::target::Target;

use answers::Answers;
use device::LoopDevice;
use wire::{Ask, FileInfo};

/// Whether the kernel would serve it.
pub(crate) fn check(_: &BlockDeviceOptions) -> Result<(), Failure> {
    mount::connect().map(drop)
}

/// Make the frontend.
pub(crate) fn build<T: Target>(
    options: BlockDeviceOptions,
    exports: &[Export<T>],
) -> Result<Box<dyn Frontend<T>>, Failure> {
    Ok(Box::new(Loop {
        options,
        files: exports.iter().enumerate().map(file_of).collect(),
        connection: None,
        devices: Arc::default(),
        buffer: vec![0; wire::REQUEST_BYTES_MAX],
        answers: Answers::new(),
        accounts: Vec::new(),
        over: false,
    }))
}

fn file_of((index, export): (usize, &Export<impl Target>)) -> FileInfo {
    let (limits, identity) = (export.engine.limits(), &export.identity);
    FileInfo {
        name: if export.name.is_empty() { format!("disk{index}") } else { export.name.clone() },
        bytes: limits.capacity.0,
        block_bytes: identity.discard_granularity_bytes,
        discard: limits.discard,
        read_only: export.read_only,
    }
}

/// One request of the block layer is at most one of FUSE.
const REQUEST_KIB_MAX: u32 = wire::DATA_MAX >> 10;
/// Requests taken before due replies have their turn.
const TURNS: usize = 64;
/// How long a device may be in use after the end of the session, and until that is worth a word.
const PATIENCE: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_millis(300);

struct Loop {
    options: BlockDeviceOptions,
    files: Vec<FileInfo>,
    /// The kernel's requests come from here.
    connection: Option<File>,
    devices: Arc<Mutex<Vec<LoopDevice>>>,
    buffer: Vec<u8>,
    answers: Answers,
    /// The kernel's, when clients were let in.
    accounts: Vec<Account>,
    over: bool,
}

/// What the block layer is to be told about one device.
struct Queue {
    name: String,
    block_bytes: u32,
    read_only: bool,
    settings: Vec<(&'static str, String)>,
}

impl Loop {
    /// The kernel's account of each device.
    fn account(&self) -> Vec<Account> {
        let devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        devices.iter().map(|device| device.queue.account().unwrap_or_default()).collect()
    }

    fn queues<T: Target>(&self, shared: &SharedState<T>) -> Vec<Queue> {
        let queue = |(file, export): (&FileInfo, &Export<T>)| {
            let (limits, identity) = (export.engine.limits(), &export.identity);
            let request_kib = identity.request_bytes_max.map_or(REQUEST_KIB_MAX, |most| most >> 10);
            let cache = if limits.write_cache { "write back" } else { "write through" };
            // A limit of no discards is not among them: the kernel would never take it back.
            let settings = vec![
                ("scheduler", self.options.scheduler.clone()),
                ("rotational", u8::from(identity.rotational).to_string()),
                ("max_sectors_kb", request_kib.min(REQUEST_KIB_MAX).to_string()),
                ("write_cache", cache.to_string()),
                // Last: the kernel works it out anew whenever a limit changes.
                ("read_ahead_kb", self.options.read_ahead_kib.to_string()),
            ];
            let (name, read_only) = (file.name.clone(), file.read_only);
            Queue { name, block_bytes: identity.logical_block_bytes, read_only, settings }
        };
        self.files.iter().zip(&shared.exports).map(queue).collect()
    }

    /// Hand a request to the device, or answer it.
    fn take(&mut self, got: usize, shared: &mut SharedState<impl Target>) {
        let arrived = shared.clock.now();
        match wire::understand(&self.buffer[..got], &self.files) {
            Ask::Nothing => {}
            Ask::Over => self.over = true,
            Ask::Reply(reply) => self.answers.head(reply),
            Ask::Device { unique, file, command, offset, bytes, data } => {
                let ticket = Ticket { tag: unique, ..Ticket::default() };
                let order = Order::new(ticket, command, offset, bytes);
                let engine = &mut shared.exports[file].engine;
                let sink = match command {
                    Command::Write { .. } => match engine.begin_write(offset, bytes) {
                        Ok(mut sink) => {
                            engine.write(&mut sink, data, &mut shared.pool);
                            Some(sink)
                        }
                        // The engine says so again, in its own time.
                        Err(_) => None,
                    },
                    _ => None,
                };
                engine.submit(arrived, order, sink, &mut shared.pool);
            }
        }
    }
}

fn used_by(device: &LoopDevice) -> String {
    match crate::holders::of(&device.path) {
        found if found.is_empty() => "by whom cannot be seen".into(),
        found => found.join("; "),
    }
}

impl<T: Target> Frontend<T> for Loop {
    fn start(
        &mut self,
        shared: &mut SharedState<T>,
        poll: &Poll,
    ) -> Result<BackgroundTask<Started>, Failure> {
        let connection = mount::connect()?;
        let folder = mount::mount(connection.as_fd())?;
        poll.add(&connection, 0, Interest::READ)
            .map_err(|why| Failure::machine(format!("cannot wait for the kernel: {why}")))?;
        self.connection = Some(connection);
        realtime::set_io_flusher(true);
        if let Some(lengths) = self.answers.lengths_in_place() {
            shared.exports.iter_mut().for_each(|export| export.engine.leave_reads(lengths.clone()));
        }
        let queues = self.queues(shared);
        let (devices, calibrate) = (Arc::clone(&self.devices), self.options.calibrate);
        Ok(Box::new(move || {
            let mut paths = Vec::new();
            for queue in queues {
                let file = mount::open(&folder, &queue.name, queue.read_only)?;
                let shown = format!("blocklab:{}", queue.name);
                let mut device =
                    LoopDevice::bind(&file, &shown, queue.block_bytes, queue.read_only)?;
                device.queue.set_all(&queue.settings)?;
                paths.push(device.path.clone());
                devices.lock().unwrap_or_else(PoisonError::into_inner).push(device);
            }
            let trips = match paths.first() {
                Some(path) if calibrate => Some(probe::direct_reads(path)?),
                _ => None,
            };
            let names: Vec<String> = paths.iter().map(|path| shown(path)).collect();
            let address = Address::devices(names);
            Ok(Started { address, ..Started::default() }.judge(trips.as_deref()))
        }))
    }

    fn ready(&mut self, _: Event, shared: &mut SharedState<T>, _: &Poll) {
        for _ in 0..TURNS {
            let Some(mut connection) = self.connection.as_ref() else { return };
            match connection.read(&mut self.buffer) {
                Ok(got) => self.take(got, shared),
                Err(why) => match Errno::from_io_error(&why) {
                    Some(Errno::AGAIN) => return,
                    // A request that was taken back before we had it.
                    Some(Errno::NOENT | Errno::INTR) => {}
                    _ => {
                        self.over = true;
                        return;
                    }
                },
            }
        }
    }

    fn reply(&mut self, export: usize, reply: Reply, _: &mut SharedState<T>) {
        let Order { command, bytes, ticket, .. } = reply.order;
        let unique = ticket.tag;
        match (reply.result, command) {
            (Err(why), _) => self.answers.head(wire::header(unique, 0, linux::number(why))),
            (Ok(data), Command::Read) => self.answers.found(export, reply.order, data),
            (Ok(_), Command::Write { .. }) => self.answers.head(wire::written(unique, bytes)),
            (Ok(_), _) => self.answers.head(wire::header(unique, 0, 0)),
        }
    }

    fn flush(&mut self, shared: &mut SharedState<T>, poll: &Poll) {
        if let Some(connection) = &self.connection {
            self.over |= !self.answers.send(connection, shared);
        }
        if self.over
            && let Some(connection) = self.connection.take()
        {
            // It would be ready for ever.
            poll.remove(&connection);
        }
    }

    /// What was inside fails; a host that lost its disk for a moment sees the same.
    fn power_cut(&mut self, _: usize, forgotten: &[Order], _: &mut SharedState<T>, _: &Poll) {
        for order in forgotten {
            self.answers.head(wire::header(order.ticket.tag, 0, linux::errno::IO));
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
        let devices = Arc::clone(&self.devices);
        Some(Box::new(move || {
            let mut devices = devices.lock().unwrap_or_else(PoisonError::into_inner);
            devices.iter_mut().for_each(LoopDevice::release);
            for device in &*devices {
                if device.wait_until_free(SILENCE) {
                    continue;
                }
                let (path, s) = (device.path.display(), PATIENCE.as_secs());
                let used = format!("{path} is in use: {}", used_by(device));
                config::warn(format!("{used}\nwaiting {s} s for it; Ctrl-C ends at once"));
                if !device.wait_until_free(PATIENCE) {
                    return Err(Failure::machine(format!(
                        "{path} is still in use: {}; from now on everything it is asked fails",
                        used_by(device)
                    ))
                    .help("end what uses it (umount, swapoff) before you end the session"));
                }
            }
            Ok(())
        }))
    }
}

#[cfg(test)]
mod tests;
