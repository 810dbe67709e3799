//! How long a request takes that takes no time: the transport's own round trip.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use study::Failure;

use super::wire::{self, option};

/// Round trips that are measured, after some that are not.
const PROBES: usize = 2000;
const WARM_UP: usize = 300;
/// Nobody waits longer than this for a loaded machine.
const TIME_MAX: Duration = Duration::from_secs(2);
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
    measured.map_err(|why| {
        Failure::machine(format!("cannot measure the transport's round trip: {why}"))
            .help("--compensate off, or a time such as --compensate 15us")
    })
}

fn measure(mut stream: impl Read + Write) -> io::Result<u64> {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting)?;
    let flags = u32::from(wire::FIXED_NEWSTYLE | wire::NO_ZEROES);
    let mut hello = flags.to_be_bytes().to_vec();
    hello.extend(wire::IHAVEOPT.to_be_bytes());
    hello.extend(option::EXPORT_NAME.to_be_bytes());
    hello.extend(0u32.to_be_bytes());
    stream.write_all(&hello)?;
    stream.read_exact(&mut [0; 10])?;

    let mut times = Vec::with_capacity(PROBES);
    let mut answer = [0; 16 + READ_BYTES as usize];
    let began = Instant::now();
    for probe in 0..WARM_UP + PROBES {
        let mut request = wire::REQUEST_MAGIC.to_be_bytes().to_vec();
        request.extend([0; 4]);
        request.extend((probe as u64).to_be_bytes());
        request.extend(0u64.to_be_bytes());
        request.extend(READ_BYTES.to_be_bytes());
        let sent = Instant::now();
        stream.write_all(&request)?;
        stream.read_exact(&mut answer)?;
        if probe >= WARM_UP {
            times.push(sent.elapsed().as_nanos() as u64);
        }
        if began.elapsed() > TIME_MAX && !times.is_empty() {
            break;
        }
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}
