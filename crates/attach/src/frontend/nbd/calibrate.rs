//! A client of our own: it measures the round trip at the start, and watches it during the run.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use sim::Histogram;

use super::wire::{self, option};
use crate::frontend::probe;

const READ_BYTES: u32 = 4096;

/// Round trips are watched so often, some at a time. The first of them only wakes everybody up.
const WATCH_EVERY: Duration = Duration::from_millis(50);
const TRIPS: usize = 4;

/// Whom to ask.
#[derive(Clone)]
pub(super) enum Peer {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

pub(super) trait Stream: Read + Write + AsFd + Send {}
impl<T: Read + Write + AsFd + Send> Stream for T {}

impl Peer {
    /// As a client that comes like all others, once they may.
    fn connect(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Peer::Unix(path) => Box::new(UnixStream::connect(path)?),
            Peer::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        })
    }

    /// The two ends of a connection of the same kind that takes no place in the queue of those who
    /// want to be let in: ours and the server's.
    pub(super) fn pair(&self) -> io::Result<(Box<dyn Stream>, OwnedFd)> {
        match self {
            Peer::Unix(_) => {
                let (ours, server) = UnixStream::pair()?;
                server.set_nonblocking(true)?;
                Ok((Box::new(ours), server.into()))
            }
            Peer::Tcp(address) => {
                let listener = TcpListener::bind((address.ip(), 0))?;
                let ours = TcpStream::connect(listener.local_addr()?)?;
                let server = loop {
                    let (server, from) = listener.accept()?;
                    if from == ours.local_addr()? {
                        break server;
                    }
                };
                for stream in [&ours, &server] {
                    stream.set_nodelay(true)?;
                }
                server.set_nonblocking(true)?;
                Ok((Box::new(ours), server.into()))
            }
        }
    }
}

/// A client that was let in.
pub(super) struct Client(Box<dyn Stream>);

impl Client {
    pub(super) fn new(mut stream: Box<dyn Stream>) -> io::Result<Client> {
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        let flags = u32::from(wire::FIXED_NEWSTYLE | wire::NO_ZEROES);
        let mut hello = flags.to_be_bytes().to_vec();
        hello.extend(wire::IHAVEOPT.to_be_bytes());
        hello.extend(option::EXPORT_NAME.to_be_bytes());
        hello.extend(0u32.to_be_bytes());
        stream.write_all(&hello)?;
        stream.read_exact(&mut [0; 10])?;
        Ok(Client(stream))
    }

    /// Ask for a read of `data` and wait until it is answered.
    fn read(&mut self, cookie: u64, data: &mut [u8]) -> io::Result<()> {
        let mut request = wire::REQUEST_MAGIC.to_be_bytes().to_vec();
        request.extend([0; 4]);
        request.extend(cookie.to_be_bytes());
        request.extend(0u64.to_be_bytes());
        request.extend((data.len() as u32).to_be_bytes());
        self.0.write_all(&request)?;
        // As real clients do it: wait for the socket, look at the header, take the data.
        poll(&mut [PollFd::new(&self.0, PollFlags::IN)], None)?;
        self.0.read_exact(&mut [0; 16])?;
        self.0.read_exact(data)
    }

    /// Round trips of reads of 4 KiB at queue depth 1.
    pub(super) fn round_trips(&mut self) -> io::Result<Vec<u64>> {
        let mut data = [0; READ_BYTES as usize];
        probe::round_trips(|probe| self.read(probe, &mut data))
    }
}

/// What is seen of the path during the run.
#[derive(Default)]
pub(super) struct Watch {
    trips: Arc<Mutex<Histogram>>,
    over: Arc<AtomicBool>,
}

impl Watch {
    /// Watch until the end: with this client and, when it loses its connection, with another.
    pub(super) fn start(&self, peer: Peer, client: Client) {
        let (trips, over) = (Arc::clone(&self.trips), Arc::clone(&self.over));
        let watching = move || {
            let mut client = Some(client);
            while !over.load(Relaxed) {
                let found = client.as_mut().map(|client| some_trips(client, &trips, &over));
                if !matches!(found, Some(Ok(()))) {
                    client = peer.connect().and_then(Client::new).ok();
                }
                std::thread::sleep(WATCH_EVERY);
            }
        };
        // Without a thread nothing is seen, and the report says so.
        let _ = std::thread::Builder::new().name("watch".into()).spawn(watching);
    }

    /// All there is to see has been seen.
    pub(super) fn end(&self) -> Histogram {
        self.over.store(true, Relaxed);
        self.trips.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
    }
}

fn some_trips(client: &mut Client, trips: &Mutex<Histogram>, over: &AtomicBool) -> io::Result<()> {
    for trip in 0..=TRIPS {
        let sent = Instant::now();
        // To read nothing is refused at once: the device never sees it.
        client.read(trip as u64, &mut [])?;
        let took = sent.elapsed().as_nanos() as u64;
        if trip > 0 && !over.load(Relaxed) {
            trips.lock().unwrap_or_else(PoisonError::into_inner).record(took);
        }
    }
    Ok(())
}
