//! vhost-user: a disk for a virtual machine in another process. The virtual machine's memory is
//! mapped here, so requests cost no system call but a kick and a call.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use study::Failure;

use super::{Address, BackgroundTask, Frontend, Started, shown};
use crate::clock::Wall;
use crate::order::{Order, Reply};
use crate::poll::{Event, Interest, Poll};
use crate::private_folder::PrivateFolder;
use crate::shared_state::{Export, SharedState};
use crate::target::Target;
use crate::unix_socket;
use crate::vhost_user::backend::{Answer, Backend, Passed};
use crate::vhost_user::inbox::{Filled, Inbox};
use crate::vhost_user::message::{Header, Malformed, Message, QUEUES_MAX};

/// Tokens of one disk: listener, connection, and a kick of each queue.
const PER_DISK: u64 = 2 + QUEUES_MAX as u64;
/// A queue that is being stopped waits no longer for what is inside: the virtual machine stands
/// still meanwhile. What is left then fails.
const STOP_NS_MAX: u64 = 30_000_000_000;

/// How it is to be reached.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The Unix socket; one in a private folder when `None`. Further devices add their number.
    pub socket: Option<PathBuf>,
    /// Queues of each disk; 0 stands for 1.
    pub queues: u16,
}

struct Disk {
    backend: Backend,
    listener: Option<unix_socket::Listener>,
    path: PathBuf,
    connection: Option<UnixStream>,
    inbox: Inbox,
    kicks: Vec<Option<File>>,
    calls: Vec<Option<File>>,
    /// Queues that have answers the driver does not know of.
    waiting: Vec<u32>,
    /// A message whose answer waits for requests inside; those behind it wait, too.
    held: Option<Held>,
}

/// A queue's end that is not answered yet.
struct Held {
    header: Header,
    message: Message,
    /// No longer than this.
    until: Wall,
}

struct VhostUser {
    disks: Vec<Disk>,
    /// Kept for its end.
    _folder: Option<PrivateFolder>,
}

/// Whether one could listen there.
pub(crate) fn check(options: &Options) -> Result<(), Failure> {
    options.socket.as_deref().map_or(Ok(()), unix_socket::check)
}

/// Make the frontend.
///
/// # Errors
/// When there are too many queues, or no folder for the sockets.
pub(crate) fn build<T: Target>(
    options: Options,
    exports: &[Export<T>],
) -> Result<Box<dyn Frontend<T>>, Failure> {
    let folder = match options.socket {
        Some(_) => None,
        None => Some(PrivateFolder::new()?),
    };
    let first = match (&options.socket, &folder) {
        (Some(path), _) => path.clone(),
        (None, Some(folder)) => folder.path.join("vhost-user.sock"),
        (None, None) => return Err(Failure::bug("no folder for the socket")),
    };
    let queues = options.queues.max(1);
    if u32::from(queues) > QUEUES_MAX {
        return Err(
            Failure::input(format!("{queues} queues")).expected(format!("1 to {QUEUES_MAX}"))
        );
    }
    let mut disks = Vec::new();
    for (index, export) in exports.iter().enumerate() {
        let mut path = first.clone().into_os_string();
        if index > 0 {
            path.push(format!(".{index}"));
        }
        let (limits, name) = (*export.engine.limits(), export.identity.serial.as_str());
        let backend = Backend::new(index as u32, name, limits, queues, export.read_only, false);
        let none = || (0..queues).map(|_| None).collect();
        disks.push(Disk {
            backend: backend
                .map_err(|why| Failure::bug(why.to_string()))?
                .presents(&export.identity),
            listener: None,
            path: path.into(),
            connection: None,
            inbox: Inbox::new(),
            kicks: none(),
            calls: none(),
            waiting: Vec::new(),
            held: None,
        });
    }
    Ok(Box::new(VhostUser { disks, _folder: folder }))
}

impl Disk {
    fn listen(&mut self, poll: &Poll, token: u64) -> Result<(), Failure> {
        let failed = |why: std::io::Error| {
            Failure::machine(format!("cannot listen on {}: {why}", self.path.display()))
        };
        let listener = unix_socket::bind(&self.path)?;
        listener.as_std().set_nonblocking(true).map_err(failed)?;
        poll.add(&listener, token, Interest::READ).map_err(failed)?;
        self.listener = Some(listener);
        Ok(())
    }

    /// Somebody comes; whoever comes while another is there is let go.
    fn accept(&mut self, poll: &Poll, token: u64) {
        let Some(Ok(stream)) = self.listener.as_mut().map(|listener| listener.accept()) else {
            return;
        };
        let watch = || {
            stream.set_nonblocking(true)?;
            poll.add(&stream, token, Interest::READ)
        };
        if self.connection.is_none() && watch().is_ok() {
            self.inbox = Inbox::new();
            self.connection = Some(stream);
        }
    }

    fn disconnect(&mut self, poll: &Poll) {
        if let Some(connection) = self.connection.take() {
            poll.remove(&connection);
        }
        self.kicks.iter_mut().filter_map(Option::take).for_each(|kick| poll.remove(&kick));
        self.calls.iter_mut().for_each(|call| *call = None);
        self.waiting.clear();
        self.held = None;
        self.backend.disconnected();
    }

    /// Take everything the driver's side says; false when the connection is to end.
    fn converse(
        &mut self,
        shared: &mut SharedState<impl Target>,
        poll: &Poll,
        base: u64,
    ) -> Result<bool, Malformed> {
        let Some(connection) = &self.connection else { return Ok(true) };
        match self.inbox.fill(connection)? {
            Filled::End => return Ok(false),
            Filled::Nothing => return Ok(true),
            Filled::More => {}
        }
        match self.held {
            Some(_) => Ok(true),
            None => self.take_messages(shared, poll, base),
        }
    }

    /// Take the messages that have come; false when the connection is to end.
    fn take_messages(
        &mut self,
        shared: &mut SharedState<impl Target>,
        poll: &Poll,
        base: u64,
    ) -> Result<bool, Malformed> {
        self.backend.memory_is_there()?;
        while let Some((header, message, files)) = self.inbox.next()? {
            if self.backend.must_wait(&message) {
                let until = shared.clock.now().plus(STOP_NS_MAX);
                self.held = Some(Held { header, message, until });
                self.watch(poll, base, Interest::default())?;
                return Ok(true);
            }
            if !self.answer(&header, message, files, shared, poll, base)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Answer a held message when nothing keeps it any more, and go on with those behind it; false
    /// when the connection is to end.
    fn go_on(
        &mut self,
        shared: &mut SharedState<impl Target>,
        poll: &Poll,
        base: u64,
    ) -> Result<bool, Malformed> {
        let Some(held) = &self.held else { return Ok(true) };
        if self.backend.must_wait(&held.message) {
            if shared.clock.now() < held.until {
                return Ok(true);
            }
            // A fault holds them back: it must not hold the virtual machine, too.
            self.backend.memory_is_there()?;
            if let Message::GetVringBase { index } = held.message {
                self.backend.abandon(index, &mut self.waiting)?;
            }
        }
        // Behind the answer the queue is called no more.
        self.call();
        let Some(Held { header, message, .. }) = self.held.take() else { return Ok(true) };
        self.watch(poll, base, Interest::READ)?;
        Ok(self.answer(&header, message, Vec::new(), shared, poll, base)?
            && self.take_messages(shared, poll, base)?)
    }

    fn watch(&self, poll: &Poll, base: u64, interest: Interest) -> Result<(), Malformed> {
        let Some(connection) = &self.connection else { return Ok(()) };
        let watched = poll.modify(connection, base + 1, interest);
        watched.map_err(|why| Malformed(format!("the connection: {why}")))
    }

    /// Take one message and answer it; false when the connection is to end.
    fn answer(
        &mut self,
        header: &Header,
        message: Message,
        files: Vec<File>,
        shared: &mut SharedState<impl Target>,
        poll: &Poll,
        base: u64,
    ) -> Result<bool, Malformed> {
        let (answer, passed) = self.backend.take(message, files)?;
        if let Some(passed) = passed {
            self.pass(passed, poll, base)?;
        }
        let payload = match answer {
            Answer::Payload(payload) => Some(payload),
            Answer::Kicked(ring) => {
                self.backend.kicked(ring, shared.clock.now(), shared)?;
                self.backend.finish_immediate(&mut self.waiting)?;
                None
            }
            Answer::Done => None,
        };
        let reply = self.backend.reply_to(header, payload);
        if let (Some(reply), Some(connection)) = (reply, &mut self.connection) {
            match connection.write_all(&reply) {
                Ok(()) => {}
                // Hundreds of answers wait there: nobody else may wait for that.
                Err(why) if why.kind() == ErrorKind::WouldBlock => {
                    return Err(Malformed("the driver's side does not read answers".into()));
                }
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Call the queues that have answers.
    fn call(&mut self) {
        for ring in self.waiting.drain(..) {
            if let Some(call) = &mut self.calls[ring as usize] {
                // A full count has been seen by nobody yet: it is as good as one more.
                let _ = call.write(&1u64.to_ne_bytes());
            }
        }
    }

    /// What came of an event.
    fn settle(&mut self, goes_on: Result<bool, Malformed>, poll: &Poll) {
        match goes_on {
            Ok(true) => {}
            Ok(false) => self.disconnect(poll),
            Err(why) => {
                config::warn(format!("{}: {why}; the connection is closed", shown(&self.path)));
                self.disconnect(poll);
            }
        }
    }

    fn pass(&mut self, passed: Passed, poll: &Poll, base: u64) -> Result<(), Malformed> {
        match passed {
            Passed::Kick(ring, None) => {
                return Err(Malformed(format!("queue {ring} wants to be polled")));
            }
            Passed::Kick(ring, Some(file)) => {
                if let Some(old) = self.kicks[ring as usize].take() {
                    poll.remove(&old);
                }
                let token = base + 2 + u64::from(ring);
                let watched =
                    never_block(&file).and_then(|()| poll.add(&file, token, Interest::READ));
                watched.map_err(|why| Malformed(format!("the kick of queue {ring}: {why}")))?;
                self.kicks[ring as usize] = Some(file);
            }
            Passed::Call(ring, file) => {
                if let Some(file) = &file {
                    never_block(file)
                        .map_err(|why| Malformed(format!("the call of queue {ring}: {why}")))?;
                }
                self.calls[ring as usize] = file;
            }
            Passed::Stopped(ring) => {
                if let Some(kick) = self.kicks[ring as usize].take() {
                    poll.remove(&kick);
                }
            }
            // It is for what we do not offer here.
            Passed::Channel(_) => {}
        }
        Ok(())
    }

    fn kicked(
        &mut self,
        ring: u32,
        shared: &mut SharedState<impl Target>,
    ) -> Result<(), Malformed> {
        let Some(kick) = &mut self.kicks[ring as usize] else { return Ok(()) };
        // An eventfd's count: how often does not matter.
        match kick.read(&mut [0; 8]) {
            Err(why) if !matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Err(Malformed(format!("the kick of queue {ring}: {why}")));
            }
            Ok(0) => return Err(Malformed(format!("the kick of queue {ring} has ended"))),
            _ => {}
        }
        self.backend.memory_is_there()?;
        let now = shared.clock.now();
        self.backend.kicked(ring, now, shared)?;
        self.backend.finish_immediate(&mut self.waiting)
    }
}

fn never_block(file: &File) -> std::io::Result<()> {
    Ok(fcntl_setfl(file, fcntl_getfl(file)? | OFlags::NONBLOCK)?)
}

impl<T: Target> Frontend<T> for VhostUser {
    fn start(
        &mut self,
        _lab: &mut SharedState<T>,
        poll: &Poll,
    ) -> Result<BackgroundTask<Started>, Failure> {
        let mut disks = self.disks.iter_mut().enumerate();
        let listen = disks.try_for_each(|(index, disk)| disk.listen(poll, index as u64 * PER_DISK));
        if let Err(why) = listen {
            // The sockets of those before it go.
            Frontend::<T>::stop(self, poll);
            return Err(why);
        }
        let paths: Vec<String> = self.disks.iter().map(|disk| shown(&disk.path)).collect();
        let address = Address {
            variables: vec![("socket", paths[0].clone()), ("sockets", paths.join(" "))],
            lines: paths.iter().map(|path| format!("vhost-user: {path}")).collect(),
            private_mounts: false,
        };
        Ok(Box::new(move || Ok(Started { address, ..Started::default() })))
    }

    fn ready(&mut self, event: Event, shared: &mut SharedState<T>, poll: &Poll) {
        let (index, what) = ((event.token / PER_DISK) as usize, event.token % PER_DISK);
        let base = index as u64 * PER_DISK;
        let Some(disk) = self.disks.get_mut(index) else { return };
        let goes_on = match what {
            0 => {
                disk.accept(poll, base + 1);
                Ok(true)
            }
            1 => disk.converse(shared, poll, base),
            ring => disk.kicked((ring - 2) as u32, shared).map(|()| true),
        };
        disk.settle(goes_on, poll);
    }

    fn reply(&mut self, export: usize, reply: Reply, shared: &mut SharedState<T>) {
        let Some(disk) = self.disks.get_mut(export) else { return };
        let (pool, budget) = (&mut shared.pool, &mut shared.budget);
        let there = disk.backend.memory_is_there();
        if there.is_err() {
            // Nothing is answered into what is gone.
            disk.backend.disconnected();
        }
        let replied = disk.backend.reply(reply, pool, budget, &mut disk.waiting);
        if let Err(why) = there.and(replied) {
            config::warn(format!("{}: {why}; the connection is closed", shown(&disk.path)));
            disk.backend.disconnected();
            if let Some(connection) = &disk.connection {
                // Whoever polls it sees its end.
                let _ = connection.shutdown(Shutdown::Both);
            }
        }
    }

    fn due(&self) -> Wall {
        let held = self.disks.iter().filter_map(|disk| disk.held.as_ref());
        held.map(|held| held.until).min().unwrap_or(Wall::NEVER)
    }

    fn flush(&mut self, shared: &mut SharedState<T>, poll: &Poll) {
        for (index, disk) in self.disks.iter_mut().enumerate() {
            disk.call();
            let goes_on = disk.go_on(shared, poll, index as u64 * PER_DISK);
            disk.settle(goes_on, poll);
        }
    }

    fn power_cut(
        &mut self,
        export: usize,
        forgotten: &[Order],
        shared: &mut SharedState<T>,
        poll: &Poll,
    ) {
        if let Some(disk) = self.disks.get_mut(export) {
            disk.backend.power_cut(forgotten, &mut shared.budget);
            disk.disconnect(poll);
        }
    }

    fn stop(&mut self, poll: &Poll) -> Option<BackgroundTask<()>> {
        for disk in &mut self.disks {
            disk.disconnect(poll);
            if let Some(listener) = disk.listener.take() {
                poll.remove(&listener);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
