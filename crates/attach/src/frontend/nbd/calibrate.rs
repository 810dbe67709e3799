//! Measuring the round trip as a client of our own.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, poll};
use study::Failure;

use super::wire::{self, option};
use crate::frontend::probe;

const READ_BYTES: u32 = 4096;

/// Whom to ask.
pub(super) enum Peer {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// Median time of a read of 4 KiB at queue depth 1, in nanoseconds.
pub(super) fn round_trip(peer: &Peer) -> Result<u64, Failure> {
    let measured = match peer {
        Peer::Unix(path) => UnixStream::connect(path).and_then(measure),
        Peer::Tcp(address) => TcpStream::connect(address).and_then(|stream| {
            stream.set_nodelay(true)?;
            measure(stream)
        }),
    };
    measured.map_err(probe::unmeasured)
}

fn measure(mut stream: impl Read + Write + AsFd) -> io::Result<u64> {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting)?;
    let flags = u32::from(wire::FIXED_NEWSTYLE | wire::NO_ZEROES);
    let mut hello = flags.to_be_bytes().to_vec();
    hello.extend(wire::IHAVEOPT.to_be_bytes());
    hello.extend(option::EXPORT_NAME.to_be_bytes());
    hello.extend(0u32.to_be_bytes());
    stream.write_all(&hello)?;
    stream.read_exact(&mut [0; 10])?;

    let (mut header, mut data) = ([0; 16], [0; READ_BYTES as usize]);
    probe::median_ns(|probe| {
        let mut request = wire::REQUEST_MAGIC.to_be_bytes().to_vec();
        request.extend([0; 4]);
        request.extend(probe.to_be_bytes());
        request.extend(0u64.to_be_bytes());
        request.extend(READ_BYTES.to_be_bytes());
        stream.write_all(&request)?;
        // As real clients do it: wait for the socket, look at the header, take the data.
        poll(&mut [PollFd::new(&stream, PollFlags::IN)], None)?;
        stream.read_exact(&mut header)?;
        stream.read_exact(&mut data)
    })
}
