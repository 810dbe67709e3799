//! The NBD frontend: fixed newstyle over a Unix socket and loopback TCP.

mod calibrate;
mod connection;
mod handshake;
mod machine;
mod out;
mod wire;

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use study::Failure;

use crate::engine::{Order, Reply};
use crate::frontend::{Address, Errand, Frontend, PrivateFolder, Started, shown};
use crate::lab::{Export, Lab};
use crate::poll::{Event, Interest, Poll};
use crate::target::Target;

use connection::{Connection, Fate};
pub use handshake::{Agreement, ExportInfo};
pub use machine::{Ask, Machine, Request, Step};

/// Clients at a time; more wait in the listener's queue.
const CONNECTIONS_MAX: usize = 1024;

/// Where to listen.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// A Unix socket; without it and without `tcp`, one in a private folder.
    pub socket: Option<PathBuf>,
    /// A loopback address; port 0 takes any.
    pub tcp: Option<SocketAddr>,
    /// Measure the transport's own round trip before clients may come.
    pub calibrate: bool,
}

impl Options {
    pub(crate) fn build<T: Target>(
        self,
        exports: &[Export<T>],
    ) -> Result<Box<dyn Frontend<T>>, Failure> {
        if let Some(address) = self.tcp.filter(|address| !is_loopback(address)) {
            return Err(Failure::input(format!("{address} can be reached from elsewhere"))
                .expected("a loopback address such as 127.0.0.1:10809: nothing is encrypted")
                .help("forward the port with ssh -L when a client is on another machine"));
        }
        let infos = exports.iter().map(info).collect();
        Ok(Box::new(Nbd::<T::Sink> {
            options: self,
            exports: infos,
            listeners: Vec::new(),
            socket: None,
            folder: None,
            clients: Vec::new(),
            generation: 0,
            alive: 0,
            listening: true,
        }))
    }
}

fn is_loopback(address: &SocketAddr) -> bool {
    match address.ip() {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback(),
    }
}

/// What clients are told about an export.
fn info(export: &Export<impl Target>) -> ExportInfo {
    let (limits, identity) = (export.engine.limits(), &export.identity);
    ExportInfo {
        name: export.name.clone(),
        description: format!("{}, serial {}", identity.model, identity.serial),
        bytes: limits.capacity.0,
        minimum: identity.logical_block_bytes,
        preferred: identity.physical_block_bytes,
        maximum: identity.request_bytes_max.unwrap_or(wire::PAYLOAD_MAX),
        discard: limits.discard,
        rotational: identity.rotational,
        read_only: export.read_only,
    }
}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }

    fn accept(&self) -> std::io::Result<OwnedFd> {
        match self {
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(stream.into())
            }
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                Ok(stream.into())
            }
        }
    }
}

/// The server.
struct Nbd<S> {
    options: Options,
    exports: Vec<ExportInfo>,
    listeners: Vec<Listener>,
    /// Our socket's name, to be removed in the end.
    socket: Option<PathBuf>,
    folder: Option<PrivateFolder>,
    clients: Vec<Option<Connection<S>>>,
    generation: u32,
    alive: usize,
    /// The listeners are being watched.
    listening: bool,
}

/// Tokens below this are listeners.
const FIRST_CLIENT: u64 = 16;

impl<S> Nbd<S> {
    /// Let a client in.
    fn admit(&mut self, socket: OwnedFd, lab: &mut Lab<impl Target<Sink = S>>, poll: &Poll) {
        let free = self.clients.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() - 1
        });
        self.generation = self.generation.wrapping_add(1);
        let token = FIRST_CLIENT + number as u64;
        let made = Connection::new(socket, token, number as u32, self.generation, lab, poll);
        // A client that cannot be watched is let go again.
        if let Ok(connection) = made {
            self.clients[number] = Some(connection);
            self.alive += 1;
        }
    }

    fn accept(&mut self, index: usize, lab: &mut Lab<impl Target<Sink = S>>, poll: &Poll) {
        while self.alive < CONNECTIONS_MAX {
            let Some(listener) = self.listeners.get(index) else { return };
            match listener.accept() {
                Ok(socket) => self.admit(socket, lab, poll),
                Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(why) if why.kind() == std::io::ErrorKind::ConnectionAborted => {}
                // Out of descriptors, most likely: wait until a client goes.
                Err(_) => break,
            }
        }
        self.listen(false, poll);
    }

    fn listen(&mut self, on: bool, poll: &Poll) {
        if on == self.listening {
            return;
        }
        self.listening = on;
        for (index, listener) in self.listeners.iter().enumerate() {
            let interest = if on { Interest::READ } else { Interest::default() };
            // A listener that cannot be watched lets nobody in; those who are in stay.
            let _ = poll.modify(listener.fd(), index as u64, interest);
        }
    }

    fn end(&mut self, number: usize, lab: &mut Lab<impl Target<Sink = S>>, poll: &Poll) {
        if let Some(connection) = self.clients[number].take() {
            connection.close(lab, poll);
            self.alive -= 1;
            self.listen(true, poll);
        }
    }

    fn flush_one(&mut self, number: usize, lab: &mut Lab<impl Target<Sink = S>>, poll: &Poll) {
        let Some(connection) = &mut self.clients[number] else { return };
        if connection.flush(&self.exports, lab, poll) == Fate::Ends {
            self.end(number, lab, poll);
        }
    }

    fn address(&self) -> Address {
        let mut address = Address::default();
        let name = self.exports.first().map_or("", |export| export.name.as_str());
        let mut uris = Vec::new();
        for listener in &self.listeners {
            match listener {
                Listener::Unix(_) => {
                    let path = self.socket.as_deref().map(shown).unwrap_or_default();
                    uris.push(format!("nbd+unix:///{name}?socket={}", escaped(&path)));
                    address.variables.push(("socket", path));
                }
                Listener::Tcp(listener) => {
                    let Ok(local) = listener.local_addr() else { continue };
                    uris.push(format!("nbd://{local}/{name}"));
                    address.variables.push(("port", local.port().to_string()));
                }
            }
        }
        if let Some(uri) = uris.first() {
            address.variables.push(("uri", uri.clone()));
        }
        address.variables.push(("export", name.to_string()));
        address.lines = uris;
        address
    }
}

/// As a part of a URI's query.
fn escaped(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte);
    path.bytes()
        .map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

impl<T: Target> Frontend<T> for Nbd<T::Sink> {
    fn start(&mut self, _lab: &mut Lab<T>, poll: &Poll) -> Result<Errand<Started>, Failure> {
        let chosen = self.options.socket.clone();
        let socket = match (chosen, self.options.tcp) {
            (Some(path), _) => Some(path),
            (None, Some(_)) => None,
            (None, None) => Some(self.folder.insert(PrivateFolder::new()?).0.join("nbd.sock")),
        };
        if let Some(path) = socket {
            self.listeners.push(Listener::Unix(bind(&path)?));
            self.socket = Some(path);
        }
        if let Some(address) = self.options.tcp {
            let listener = TcpListener::bind(address).map_err(|why| {
                Failure::machine(format!("cannot listen on {address}: {why}"))
                    .help("choose another port, or port 0 for any free one")
            })?;
            self.listeners.push(Listener::Tcp(listener));
        }
        for (index, listener) in self.listeners.iter().enumerate() {
            let quiet = match listener {
                Listener::Unix(listener) => listener.set_nonblocking(true),
                Listener::Tcp(listener) => listener.set_nonblocking(true),
            };
            quiet
                .and_then(|()| poll.add(listener.fd(), index as u64, Interest::READ))
                .map_err(|why| Failure::machine(format!("cannot listen: {why}")))?;
        }
        let started = Started { address: self.address(), ..Started::default() };
        let probe = match (self.options.calibrate, self.listeners.first()) {
            (true, Some(Listener::Tcp(listener))) => {
                listener.local_addr().ok().map(calibrate::Peer::Tcp)
            }
            (true, Some(Listener::Unix(_))) => self.socket.clone().map(calibrate::Peer::Unix),
            _ => None,
        };
        Ok(Box::new(move || {
            let round_trip_ns = probe.map(|peer| calibrate::round_trip(&peer)).transpose()?;
            Ok(Started { round_trip_ns, ..started })
        }))
    }

    fn ready(&mut self, event: Event, lab: &mut Lab<T>, poll: &Poll) {
        if event.token < FIRST_CLIENT {
            return self.accept(event.token as usize, lab, poll);
        }
        let number = (event.token - FIRST_CLIENT) as usize;
        let Some(Some(connection)) = self.clients.get_mut(number) else { return };
        connection.dirty |= event.write;
        let mut fate = Fate::Lives;
        if event.hang_up && connection.is_paused() {
            // Whoever hung up reads no answers, so there will never be room for more.
            fate = Fate::Ends;
        } else if event.read || event.hang_up {
            fate = connection.receive(&self.exports, lab);
        }
        if fate == Fate::Ends {
            self.end(number, lab, poll);
        }
    }

    fn reply(&mut self, _export: usize, reply: Reply, lab: &mut Lab<T>) {
        let ticket = reply.order.ticket;
        let client = self.clients.get_mut(ticket.connection as usize);
        match client.and_then(Option::as_mut).filter(|c| c.generation == ticket.generation) {
            Some(connection) => connection.reply(reply, lab),
            // It went away in the meantime.
            None => {
                if let Ok(data) = reply.result {
                    lab.pool.put(data);
                }
            }
        }
    }

    fn flush(&mut self, lab: &mut Lab<T>, poll: &Poll) {
        let mut somebody_waits = false;
        for number in 0..self.clients.len() {
            let Some(connection) = &self.clients[number] else { continue };
            if connection.dirty {
                self.flush_one(number, lab, poll);
            }
            let waits = self.clients[number].as_ref().is_some_and(Connection::is_waiting);
            somebody_waits |= waits;
        }
        if !somebody_waits {
            return;
        }
        // What the others sent may have made room.
        for number in 0..self.clients.len() {
            if self.clients[number].as_ref().is_some_and(Connection::is_waiting) {
                self.flush_one(number, lab, poll);
            }
        }
    }

    /// A cable that is pulled: clients of the export lose their connection.
    fn power_cut(&mut self, export: usize, _: &[Order], lab: &mut Lab<T>, poll: &Poll) {
        for number in 0..self.clients.len() {
            if self.clients[number].as_ref().is_some_and(|client| client.uses(export)) {
                self.end(number, lab, poll);
            }
        }
    }

    fn stop(&mut self, poll: &Poll) -> Option<Errand<()>> {
        self.listeners.drain(..).for_each(|listener| poll.remove(listener.fd()));
        None
    }
}

impl<S> Drop for Nbd<S> {
    fn drop(&mut self) {
        if let Some(path) = &self.socket {
            // Ours since `bind`; when it is gone already, all the better.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A listening socket at `path`, in the place of one that nobody listens to any more.
pub(crate) fn bind(path: &Path) -> Result<UnixListener, Failure> {
    let bound = UnixListener::bind(path).or_else(|why| {
        let abandoned = why.kind() == std::io::ErrorKind::AddrInUse
            && UnixStream::connect(path)
                .is_err_and(|why| why.kind() == std::io::ErrorKind::ConnectionRefused);
        match abandoned {
            true => std::fs::remove_file(path).and_then(|()| UnixListener::bind(path)),
            false => Err(why),
        }
    });
    bound.map_err(|why| {
        Failure::input(format!("cannot listen on {}: {why}", path.display()))
            .expected("a name that is free, in a folder you may write to, of at most 107 bytes")
    })
}

#[cfg(test)]
mod tests;
