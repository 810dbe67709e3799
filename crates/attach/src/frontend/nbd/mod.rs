//! The NBD frontend: fixed newstyle over a Unix socket and loopback TCP.

mod calibrate;
mod connection;
mod handshake;
mod machine;
mod out;
mod wire;

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use study::Failure;

use crate::client_side::ClientSide;
use crate::clock::Wall;
use crate::frontend::{Address, BackgroundTask, Frontend, Started, probe, shown};
use crate::order::{Order, Reply};
use crate::poll::{Event, Interest, Poll};
use crate::private_folder::PrivateFolder;
use crate::shared_state::{Export, SharedState};
use crate::target::Target;
use crate::unix_socket;

use calibrate::{Client, Peer, Watch};
use connection::{Connection, Fate, kept_for};
pub use handshake::{Agreement, ExportInfo};
pub use machine::{Ask, Machine, Parsed, Request};

/// Clients that use an export at a time; one more is told so.
const CONNECTIONS_MAX: usize = 1024;
/// Clients that negotiate at a time; one more takes the place of the one who came first.
const NEGOTIATING_MAX: usize = 64;
/// Negotiating takes longer only for somebody who will never come to an end.
const NEGOTIATION_NS_MAX: u64 = 30_000_000_000;
/// What else needs descriptors: the devices, the loop, the program's sockets.
const DESCRIPTORS_BESIDES: u64 = 256;

/// Where to listen.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// A Unix socket; without it and without `tcp`, one in a private folder.
    pub socket: Option<PathBuf>,
    /// A loopback address; port 0 takes any.
    pub tcp: Option<SocketAddr>,
    /// Measure the transport's own round trip before clients may come.
    pub calibrate: bool,
    /// Watch that round trip while clients are there.
    pub watch: bool,
}

/// Whether one could listen there.
pub(crate) fn check(options: &Options) -> Result<(), Failure> {
    options.socket.as_deref().map_or(Ok(()), unix_socket::check)?;
    options.tcp.map_or(Ok(()), |address| listen(address).map(drop))
}

/// Make the frontend.
pub(crate) fn build<T: Target>(
    options: Options,
    exports: &[Export<T>],
) -> Result<Box<dyn Frontend<T>>, Failure> {
    options.tcp.map_or(Ok(()), refuse_others)?;
    Ok(Box::new(Nbd::<T::Sink>::new(options, exports.iter().map(info).collect())))
}

fn refuse_others(address: SocketAddr) -> Result<(), Failure> {
    let is_loopback = match address.ip() {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback(),
    };
    if is_loopback {
        return Ok(());
    }
    Err(Failure::input(format!("{address} can be reached from elsewhere"))
        .expected("a loopback address such as 127.0.0.1:10809: nothing is encrypted")
        .help("forward the port with ssh -L when a client is on another machine"))
}

fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    refuse_others(address)?;
    TcpListener::bind(address).map_err(|why| {
        Failure::machine(format!("cannot listen on {address}: {why}"))
            .help("choose another port, or port 0 for any free one")
    })
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
    Unix(unix_socket::Listener),
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
                let (stream, _) = listener.as_std().accept()?;
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
    /// Our socket's name.
    socket: Option<PathBuf>,
    folder: Option<PrivateFolder>,
    clients: Vec<Option<Connection<S>>>,
    generation: u32,
    /// When the first of those who negotiate has done so for too long, or earlier.
    due: Wall,
    /// A client of our own, before it watches.
    ours: Arc<Mutex<Option<(Peer, Client)>>>,
    watch: Watch,
    /// Clients may come.
    open: bool,
    /// The listeners are being watched.
    listening: bool,
}

/// Tokens below this are listeners.
const FIRST_CLIENT: u64 = 16;

impl<S> Nbd<S> {
    fn new(options: Options, exports: Vec<ExportInfo>) -> Nbd<S> {
        Nbd {
            options,
            exports,
            listeners: Vec::new(),
            socket: None,
            folder: None,
            clients: Vec::new(),
            generation: 0,
            due: Wall::NEVER,
            ours: Arc::default(),
            watch: Watch::default(),
            open: false,
            listening: false,
        }
    }

    /// Let a client in.
    fn admit(
        &mut self,
        socket: OwnedFd,
        shared: &mut SharedState<impl Target<Sink = S>>,
        poll: &Poll,
    ) {
        if self.negotiating().count() >= NEGOTIATING_MAX {
            self.end_oldest(shared, poll);
        }
        let free = self.clients.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() - 1
        });
        self.generation = self.generation.wrapping_add(1);
        let token = FIRST_CLIENT + number as u64;
        let made = Connection::new(socket, token, number as u32, self.generation, shared, poll);
        // A client that cannot be watched is let go again.
        if let Ok(connection) = made {
            self.due = self.due.min(connection.began.plus(NEGOTIATION_NS_MAX));
            self.clients[number] = Some(connection);
        }
    }

    fn accept(
        &mut self,
        index: usize,
        shared: &mut SharedState<impl Target<Sink = S>>,
        poll: &Poll,
    ) {
        loop {
            let Some(listener) = self.listeners.get(index) else { return };
            match listener.accept() {
                Ok(socket) => self.admit(socket, shared, poll),
                Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(why) if why.kind() == std::io::ErrorKind::ConnectionAborted => {}
                // Out of descriptors, most likely: wait until a client goes.
                Err(_) if !self.end_oldest(shared, poll) => return self.listen(false, poll),
                Err(_) => {}
            }
        }
    }

    /// Clients that have not agreed on an export yet: when they came, and their number.
    fn negotiating(&self) -> impl Iterator<Item = (Wall, usize)> {
        let all = self.clients.iter().enumerate();
        all.filter_map(|(number, client)| {
            client.as_ref().filter(|client| !client.agreed()).map(|client| (client.began, number))
        })
    }

    /// Of those who do not come to an agreement, the one who came first makes room.
    fn end_oldest(&mut self, shared: &mut SharedState<impl Target<Sink = S>>, poll: &Poll) -> bool {
        let oldest = self.negotiating().min();
        oldest.into_iter().for_each(|(_, number)| self.end(number, shared, poll));
        oldest.is_some()
    }

    /// Whoever has not come to an agreement in all that time, at `now`, will not.
    fn expire(&mut self, now: Wall, shared: &mut SharedState<impl Target<Sink = S>>, poll: &Poll) {
        self.due = Wall::NEVER;
        let waiting: Vec<(Wall, usize)> = self.negotiating().collect();
        for (began, number) in waiting {
            match began.plus(NEGOTIATION_NS_MAX) {
                end if end <= now => self.end(number, shared, poll),
                end => self.due = self.due.min(end),
            }
        }
    }

    /// Whether client `number`, when it is about to agree on an export, finds a place.
    fn tell_if_full(&mut self, number: usize) {
        if self.clients[number].as_ref().is_none_or(Connection::agreed) {
            return;
        }
        let agreed = self.clients.iter().flatten().filter(|client| client.agreed()).count();
        if let Some(client) = &mut self.clients[number] {
            client.set_full(agreed >= CONNECTIONS_MAX);
        }
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

    fn end(&mut self, number: usize, shared: &mut SharedState<impl Target<Sink = S>>, poll: &Poll) {
        if let Some(connection) = self.clients[number].take() {
            connection.close(shared, poll);
            self.listen(self.open, poll);
        }
    }

    fn flush_one(
        &mut self,
        number: usize,
        shared: &mut SharedState<impl Target<Sink = S>>,
        poll: &Poll,
    ) {
        let Some(connection) = &mut self.clients[number] else { return };
        if connection.flush(&self.exports, shared, poll) == Fate::Ends {
            self.end(number, shared, poll);
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
    fn start(
        &mut self,
        shared: &mut SharedState<T>,
        poll: &Poll,
    ) -> Result<BackgroundTask<Started>, Failure> {
        let chosen = self.options.socket.clone();
        let socket = match (chosen, self.options.tcp) {
            (Some(path), _) => Some(path),
            (None, Some(_)) => None,
            (None, None) => Some(self.folder.insert(PrivateFolder::new()?).path.join("nbd.sock")),
        };
        if let Some(path) = socket {
            self.listeners.push(Listener::Unix(unix_socket::bind(&path)?));
            self.socket = Some(path);
        }
        want_descriptors((CONNECTIONS_MAX + NEGOTIATING_MAX) as u64 + DESCRIPTORS_BESIDES);
        if let Some(address) = self.options.tcp {
            self.listeners.push(Listener::Tcp(listen(address)?));
        }
        for (index, listener) in self.listeners.iter().enumerate() {
            let quiet = match listener {
                Listener::Unix(listener) => listener.as_std().set_nonblocking(true),
                Listener::Tcp(listener) => listener.set_nonblocking(true),
            };
            quiet
                .and_then(|()| poll.add(listener.fd(), index as u64, Interest::default()))
                .map_err(|why| Failure::machine(format!("cannot listen: {why}")))?;
        }
        let started = Started { address: self.address(), ..Started::default() };
        let (calibrate, watch) = (self.options.calibrate, self.options.watch);
        let peer = match self.listeners.first() {
            _ if !calibrate && !watch => None,
            Some(Listener::Tcp(listener)) => listener.local_addr().ok().map(Peer::Tcp),
            Some(Listener::Unix(_)) => self.socket.clone().map(Peer::Unix),
            None => None,
        };
        let Some(peer) = peer else { return Ok(Box::new(|| Ok(started))) };
        let (stream, socket) = peer.pair().map_err(probe::unmeasured)?;
        self.admit(socket, shared, poll);
        let ours = Arc::clone(&self.ours);
        Ok(Box::new(move || {
            let measure = || -> std::io::Result<(Client, Option<Vec<u64>>)> {
                let mut client = Client::new(stream)?;
                let trips = calibrate.then(|| client.round_trips()).transpose()?;
                Ok((client, trips))
            };
            let (client, trips) = measure().map_err(probe::unmeasured)?;
            if watch {
                *ours.lock().unwrap_or_else(PoisonError::into_inner) = Some((peer, client));
            }
            Ok(started.judge(trips.as_deref()))
        }))
    }

    fn ready(&mut self, event: Event, shared: &mut SharedState<T>, poll: &Poll) {
        if event.token < FIRST_CLIENT {
            return self.accept(event.token as usize, shared, poll);
        }
        let number = (event.token - FIRST_CLIENT) as usize;
        if number >= self.clients.len() {
            return;
        }
        self.tell_if_full(number);
        let Some(Some(connection)) = self.clients.get_mut(number) else { return };
        connection.dirty |= event.write;
        let mut fate = Fate::Lives;
        if event.hang_up && connection.is_paused(&shared.budget) {
            // Whoever hung up reads no answers, so there will never be room for more.
            fate = Fate::Ends;
        } else if event.read || event.hang_up {
            fate = connection.receive(&self.exports, shared);
        }
        if fate == Fate::Ends {
            self.end(number, shared, poll);
        }
    }

    fn reply(&mut self, export: usize, reply: Reply, shared: &mut SharedState<T>) {
        let ticket = reply.order.ticket;
        let client = self.clients.get_mut(ticket.connection as usize);
        match client.and_then(Option::as_mut).filter(|c| c.generation == ticket.generation) {
            Some(connection) => connection.reply(reply, shared),
            // It went away in the meantime.
            None => {
                let kept = kept_for(&reply.order, &shared.exports[export].engine);
                shared.budget.release(kept);
                if let Ok(data) = reply.result {
                    shared.pool.put(data);
                }
            }
        }
    }

    fn due(&self) -> Wall {
        self.due
    }

    fn flush(&mut self, shared: &mut SharedState<T>, poll: &Poll) {
        if self.due != Wall::NEVER {
            let now = shared.clock.now();
            if self.due <= now {
                self.expire(now, shared, poll);
            }
        }
        let mut somebody_waits = false;
        for number in 0..self.clients.len() {
            let Some(connection) = &self.clients[number] else { continue };
            if connection.dirty {
                self.flush_one(number, shared, poll);
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
                self.flush_one(number, shared, poll);
            }
        }
    }

    /// A cable that is pulled: clients of the export lose their connection.
    fn power_cut(
        &mut self,
        export: usize,
        forgotten: &[Order],
        shared: &mut SharedState<T>,
        poll: &Poll,
    ) {
        let engine = &shared.exports[export].engine;
        let kept = forgotten.iter().map(|order| kept_for(order, engine)).sum();
        shared.budget.release(kept);
        for number in 0..self.clients.len() {
            if self.clients[number].as_ref().is_some_and(|client| client.uses(export)) {
                self.end(number, shared, poll);
            }
        }
    }

    fn open(&mut self, poll: &Poll) {
        self.open = true;
        self.listen(true, poll);
        let ours = self.ours.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((peer, client)) = ours {
            self.watch.start(peer, client);
        }
    }

    fn seen(&mut self) -> ClientSide {
        if self.options.watch { ClientSide::Probes(self.watch.end()) } else { ClientSide::Unknown }
    }

    fn stop(&mut self, poll: &Poll) -> Option<BackgroundTask<()>> {
        self.listeners.drain(..).for_each(|listener| poll.remove(listener.fd()));
        None
    }
}

/// Have so many descriptors, where that is permitted: often a process begins with a thousand.
fn want_descriptors(count: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(count, |maximum| maximum.min(count));
    if current.is_some_and(|current| current < wanted) {
        // With fewer, fewer clients are let in at a time.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}

#[cfg(test)]
mod tests;
