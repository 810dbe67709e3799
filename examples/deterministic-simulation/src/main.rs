//! A key-value log on a simulated host with a simulated drive. The power fails at a chosen moment,
//! and a client asks for all that it was promised. With `cargo run` a log that does not flush is
//! caught, one that does is not, and the stalls of a drive that collects garbage are seen.

mod disk;
mod log;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use models::{Drive, DriveBuilder, Nanos};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use turmoil::net::{TcpListener, TcpStream};
use turmoil::{Builder, Result};

use crate::disk::Disk;
use crate::log::{Log, Sync};

const PORT: u16 = 7000;
const PUT: u8 = 0;
const GET: u8 = 1;

/// What became of a run.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Story {
    /// Puts that the client was told are done.
    promised: u64,
    /// Of those, the ones that the store knew no more when it was back.
    gone: u64,
    /// Writes that the drive had acknowledged and lost.
    lost_writes: usize,
    took: Vec<Nanos>,
}

fn main() -> Result {
    for sync in [Sync::Never, Sync::Always] {
        let stories: Vec<Story> =
            (1..=10).map(|seed| run(&drive(), seed, sync)).collect::<Result<_>>()?;
        let caught = stories.iter().filter(|story| story.gone > 0).count();
        let (promised, gone) = stories
            .iter()
            .fold((0, 0), |(promised, gone), story| (promised + story.promised, gone + story.gone));
        println!(
            "sync {sync:?}: {caught} of 10 power failures caught it: \
             {gone} of {promised} promised puts gone"
        );
    }
    for (name, percent) in [("out of the box", 0), ("full and overwritten twice", 200)] {
        let mut took = writes(&aged(percent))?;
        took.sort_unstable();
        let (p50, p99, longest) =
            (took[took.len() / 2], took[took.len() * 99 / 100], took[took.len() - 1]);
        println!("writes, drive {name}: median {p50}, p99 {p99}, longest {longest}");
    }
    Ok(())
}

/// A small client drive: QLC flash behind a volatile cache.
fn drive() -> DriveBuilder {
    let part = Drive::part("qlc-3d-96").set("ssd.geometry.blocks_per_plane", "64");
    part.set("ssd.over_provisioning", "12%")
}

fn aged(overwritten_percent: u32) -> DriveBuilder {
    match overwritten_percent {
        0 => drive(),
        percent => drive().filled(100).overwritten(percent),
    }
}

/// Put for a while, cut the power at a moment that follows from the seed, look again.
fn run(drive: &DriveBuilder, seed: u64, sync: Sync) -> Result<Story> {
    let disk = Disk::new(&drive.clone().seed(seed))?;
    let story = Rc::new(RefCell::new(Story::default()));
    let mut sim = Builder::new()
        .rng_seed(seed)
        .simulation_duration(Duration::from_secs(60))
        .max_message_latency(Duration::from_millis(1))
        .build();
    let hosted = disk.clone();
    sim.host("store", move || serve(hosted.clone(), sync));
    let told = story.clone();
    sim.client("client", async move { ask(&told).await });

    let cut = Duration::from_millis(200 + 37 * seed);
    let mut dark = false;
    while !sim.step()? {
        if !dark && sim.elapsed() >= cut {
            dark = true;
            sim.crash("store");
            story.borrow_mut().lost_writes = disk.power_fail(sim.elapsed());
            sim.bounce("store");
        }
    }
    story.borrow_mut().took = disk.took();
    Ok(story.take())
}

async fn serve(disk: Disk, sync: Sync) -> Result {
    let mut log = Log::open(disk, sync).await;
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    loop {
        let (mut client, _) = listener.accept().await?;
        while let Ok(what) = client.read_u8().await {
            let key = client.read_u64().await?;
            let answer = if what == PUT {
                let value = client.read_u64().await?;
                log.put(key, value).await;
                value
            } else {
                log.get(key).unwrap_or(u64::MAX)
            };
            client.write_u64(answer).await?;
        }
    }
}

/// Put until the store breaks off, then ask the new one for each.
async fn ask(story: &RefCell<Story>) -> Result {
    let mut store = connect().await;
    for key in 0.. {
        match call(&mut store, PUT, key, Some(value(key))).await {
            Ok(_) => story.borrow_mut().promised += 1,
            Err(_) => break,
        }
    }
    let mut store = connect().await;
    let promised = story.borrow().promised;
    for key in 0..promised {
        if call(&mut store, GET, key, None).await? != value(key) {
            story.borrow_mut().gone += 1;
        }
    }
    Ok(())
}

/// It may be starting.
async fn connect() -> TcpStream {
    loop {
        match TcpStream::connect(("store", PORT)).await {
            Ok(store) => return store,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

async fn call(store: &mut TcpStream, what: u8, key: u64, put: Option<u64>) -> std::io::Result<u64> {
    store.write_u8(what).await?;
    store.write_u64(key).await?;
    if let Some(value) = put {
        store.write_u64(value).await?;
    }
    // The host may be gone without a word.
    let answer = tokio::time::timeout(Duration::from_secs(1), store.read_u64());
    answer.await.map_err(|_| std::io::ErrorKind::TimedOut)?
}

fn value(key: u64) -> u64 {
    key * key + 1
}

/// Eight writers on one host, 300 random writes of 16 KiB each: how long each write took. The
/// drive tells it to the nanosecond, whatever the simulation's clock.
fn writes(drive: &DriveBuilder) -> Result<Vec<Nanos>> {
    let disk = Disk::new(drive)?;
    let mut sim = Builder::new().simulation_duration(Duration::from_secs(600)).build();
    let clients = disk.clone();
    sim.client("client", async move {
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                let disk = clients.clone();
                tokio::task::spawn_local(async move {
                    for write in 0..300u64 {
                        let page = (writer * 300 + write).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                        disk.write(page % 200_000 * 32, &[0; 16 << 10]).await;
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await?;
        }
        Ok(())
    });
    sim.run()?;
    Ok(disk.took())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_does_not_flush_is_caught_and_one_that_does_is_not() {
        let runs = |sync| (1..=10).map(move |seed| run(&drive(), seed, sync).unwrap());
        let caught: Vec<Story> = runs(Sync::Never).filter(|story| story.gone > 0).collect();
        assert!(!caught.is_empty(), "10 power failures caught nothing");
        assert!(caught.iter().all(|story| story.lost_writes > 0));
        for story in runs(Sync::Always) {
            assert!(story.promised > 5 && story.gone == 0, "{story:?}");
        }
    }

    #[test]
    fn the_same_seed_tells_the_same_story() {
        let story = |seed| run(&drive(), seed, Sync::Never).unwrap();
        assert_eq!(story(3), story(3));
        assert_ne!(story(3), story(4));
    }

    #[test]
    fn a_drive_that_collects_stalls() {
        let longest = |percent| writes(&aged(percent)).unwrap().into_iter().max().unwrap();
        let (fresh, collecting) = (longest(0), longest(200));
        assert!(collecting.0 > 100 * fresh.0, "{collecting} after {fresh}");
    }

    #[test]
    fn a_drive_that_is_no_drive_is_refused() {
        let failure = Disk::new(&Drive::part("tlc-3d-69")).err().unwrap();
        assert!(failure.to_string().contains("did you mean `tlc-3d-96`?"));
    }
}
