//! Clients that do what no client should.

use std::io::{Read, Write};
use std::path::PathBuf;

use crate::support::{Client, Folder, Session, until};

const MIB: u32 = 1 << 20;

fn served(folder: &Folder) -> (Session, PathBuf) {
    let args = ["part.toml", "--socket", "s.sock", "--compensate", "off"];
    (folder.serve(&args), folder.path("s.sock"))
}

#[test]
fn requests_of_64_mib_are_done_and_larger_ones_refused() {
    let folder = Folder::new();
    let (mut session, socket) = served(&folder);
    let mut client = Client::new(&socket);
    let data: Vec<u8> = (0..64 * MIB).map(|i| (i ^ (i >> 12)) as u8).collect();
    assert_eq!(client.write(4096, &data), 0);
    assert_eq!(client.read(4096, 64 * MIB).unwrap(), data);
    let eoverflow = 75;
    assert_eq!(client.read(0, 64 * MIB + 1), Err(eoverflow));
    assert_eq!(client.write(0, &vec![0; 65 * MIB as usize]), eoverflow);
    assert_eq!(client.read(512 << 20, 512), Err(22));
    assert_eq!(client.write((512 << 20) - 1, &[1, 2]), 28);
    assert_eq!(client.read(4096, 512).unwrap(), data[..512]);
    session.end();
}

/// `nbd-tester-client`, for one, asks for no limits and sends what it likes.
#[test]
fn a_client_that_ignores_the_announced_maximum_is_served() {
    let folder = Folder::new();
    let announced = ["--set", "block.request_max=128KiB"];
    let args = ["part.toml", "--socket", "s.sock", "--compensate", "off"];
    let mut session = folder.serve(&[&args[..], &announced].concat());
    let mut client = Client::new(&folder.path("s.sock"));
    let data: Vec<u8> = (0..47 * MIB).map(|i| (i ^ (i >> 11)) as u8).collect();
    assert_eq!(client.write(1024, &data), 0);
    assert!(client.read(1024, 47 * MIB).unwrap() == data);
    let peak = session.status("VmHWM") >> 10;
    assert!(peak < 350, "{peak} MiB");
    session.end();
}

/// The server must go on receiving while it cannot send, and the other way round.
#[test]
fn a_client_may_send_everything_before_it_reads() {
    let folder = Folder::new();
    let (mut session, socket) = served(&folder);
    let mut client = Client::new(&socket);
    let mut sending = Client { stream: client.stream.try_clone().unwrap() };
    let sender = std::thread::spawn(move || {
        for round in 0..16u8 {
            let offset = u64::from(round) << 20;
            sending.stream.write_all(&Client::request(0, offset, MIB)).unwrap();
            sending.stream.write_all(&Client::request(1, offset, MIB)).unwrap();
            sending.stream.write_all(&vec![round; MIB as usize]).unwrap();
        }
    });
    // Nothing is read before all is sent: 16 MiB of answers wait in the server.
    sender.join().unwrap();
    let mut got = vec![0; 16 * (MIB as usize + 32)];
    client.stream.read_exact(&mut got).unwrap();
    session.end();
}

#[test]
fn a_client_that_never_reads_costs_bounded_memory_and_stops_nobody() {
    let folder = Folder::new();
    let (mut session, socket) = served(&folder);
    let mut greedy = Vec::new();
    for _ in 0..8 {
        let client = Client::new(&socket);
        client.stream.set_nonblocking(true).unwrap();
        let requests = Client::request(0, 0, 32 * MIB).repeat(5000);
        // As much as the server takes; it stops taking soon.
        let mut sent = 0;
        while let Ok(more) = (&client.stream).write(&requests[sent..]) {
            sent += more;
            if sent == requests.len() {
                break;
            }
        }
        greedy.push(client);
    }
    let mut fair = Client::new(&socket);
    for round in 0..200u64 {
        assert_eq!(fair.write(round << 12, &[round as u8; 4096]), 0);
        assert_eq!(fair.read(round << 12, 4096).unwrap(), [round as u8; 4096]);
    }
    // What all clients share, buffers that are kept, and the program.
    let peak = session.status("VmHWM") >> 10;
    assert!(peak < 350, "{peak} MiB");
    let open = session.descriptors();
    drop(greedy);
    until("the greedy are gone", || session.descriptors() == open - 8);
    assert_eq!(fair.read(4096, 4096).unwrap(), [1; 4096]);
    session.end();
}

#[test]
fn clients_that_vanish_leave_nothing() {
    let folder = Folder::new();
    let (mut session, socket) = served(&folder);
    let mut witness = Client::new(&socket);
    assert_eq!(witness.write(0, &[1; 4096]), 0);
    let open = session.descriptors();
    let mut bytes = Client::request(1, 0, 4096);
    bytes.extend([2; 4096]);
    for length in [0, 5, 27, 28, 29, 28 + 2048, 28 + 4095, 28 + 4096] {
        assert_eq!(witness.read(0, 4096).unwrap(), [1; 4096], "no write had come whole");
        let mut client = Client::new(&socket);
        client.stream.write_all(&bytes[..length]).unwrap();
        drop(client);
        drop(Client::connect(&socket));
        let mut reader = Client::new(&socket);
        reader.stream.write_all(&Client::request(0, 0, 8 * MIB)).unwrap();
    }
    until("the vanished are forgotten", || session.descriptors() == open);
    assert_eq!(witness.read(0, 4096).unwrap(), [2; 4096], "the last write had come whole");
    // One that comes in many pieces, too.
    let mut client = Client::new(&socket);
    client.stream.write_all(&Client::request(1, 0, 2 * MIB)).unwrap();
    client.stream.write_all(&vec![3; 2 * MIB as usize - 1]).unwrap();
    drop(client);
    until("it is forgotten", || session.descriptors() == open);
    assert_eq!(witness.read(0, 4096).unwrap(), [2; 4096]);
    session.end();
    assert_eq!(folder.leftovers(), [""; 0]);
}

/// Whoever connects and says nothing has no place for long, and nobody else's.
#[test]
fn silent_clients_shut_nobody_out() {
    let folder = Folder::new();
    let (mut session, socket) = served(&folder);
    let mut old = Client::new(&socket);
    let resident = session.status("VmRSS");
    let silent: Vec<Client> = (0..900).map(|_| Client::connect(&socket)).collect();
    assert_eq!(Client::new(&socket).write(0, &[5; 512]), 0);
    assert_eq!(old.read(0, 512).unwrap(), [5; 512]);
    assert!(session.descriptors() < 200, "{}", session.descriptors());
    drop(silent);
    // Those who are idle once they are in cost little.
    let idle: Vec<Client> = (0..900).map(|_| Client::new(&socket)).collect();
    let grown = session.status("VmRSS").saturating_sub(resident);
    assert!(grown < 8 << 10, "{grown} KiB");
    assert_eq!(old.read(0, 512).unwrap(), [5; 512]);
    drop(idle);
    session.end();
}

#[test]
fn a_thousand_connects_leave_nothing() {
    let folder = Folder::new();
    let (mut session, socket) = served(&folder);
    let mut witness = Client::new(&socket);
    let (open, resident) = (session.descriptors(), session.status("VmRSS"));
    for _ in 0..2 {
        let mut all: Vec<Client> = (0..500).map(|_| Client::new(&socket)).collect();
        for client in &mut all {
            assert_eq!(client.write(0, &[3; 512]), 0);
        }
    }
    until("they are forgotten", || session.descriptors() == open);
    assert_eq!(witness.read(0, 512).unwrap(), [3; 512]);
    let grown = session.status("VmRSS").saturating_sub(resident) >> 10;
    assert!(grown < 100, "{grown} MiB");
    session.end();
}

#[test]
fn nonsense_ends_the_connection_and_nothing_else() {
    let folder = Folder::new();
    let (mut session, socket) = served(&folder);
    let mut noise = 1u64;
    for round in 0..200 {
        let mut client =
            if round % 2 == 0 { Client::connect(&socket) } else { Client::new(&socket) };
        let bytes: Vec<u8> = (0..1000)
            .map(|_| {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (noise >> 56) as u8
            })
            .collect();
        // It may be gone in the middle of it.
        let _ = client.stream.write_all(&bytes);
        let _ = client.stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(Client::new(&socket).write(0, &[1; 512]), 0);
    session.end();
}
