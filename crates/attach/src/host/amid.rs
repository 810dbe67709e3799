//! What a program does with files, amid others: kinds of call in turn, each on another file than
//! the one before, so that every call finds the caches as a program's do. Each is timed alone.

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rustix::time::ClockId;
use sim::Rng;

use super::{LARGE, LARGE_CALLS, PAGE, timed};

/// Files that are there at a time: more than the nearest caches hold, less than the farthest.
pub(super) const FILES: usize = 10_000;
/// What a file has.
pub(super) const PAGES_OF_FILE: usize = 3;
/// Rounds, each of which does all that a program does with a file.
const ROUNDS: usize = 10_000;
/// Readings of the clock, of which the shortest is what a reading takes.
const READINGS: usize = 10_000;

/// Nanoseconds of each.
pub(super) struct Amid {
    pub(super) open: u64,
    /// An open that makes a file.
    pub(super) make: u64,
    pub(super) close: u64,
    pub(super) stat: u64,
    pub(super) fstat: u64,
    pub(super) rename: u64,
    pub(super) remove: u64,
    /// A read of a page that is there, and of [`LARGE`].
    pub(super) read: [u64; 2],
    /// A write of a new page, and of [`LARGE`].
    pub(super) write: [u64; 2],
}

/// Times of one kind of call.
#[derive(Default)]
struct Times(Vec<u64>);

/// What a reading of the clock takes.
struct Clock {
    reading_ns: u64,
}

/// The wall's: reading a task's own time is a system call, which would be in what it times.
const WALL: ClockId = ClockId::Monotonic;

impl Clock {
    fn new() -> io::Result<Clock> {
        let mut reading_ns = u64::MAX;
        for _ in 0..READINGS {
            reading_ns = reading_ns.min(timed(WALL, || Ok(()))?.1);
        }
        Ok(Clock { reading_ns })
    }

    fn timed<T>(&self, into: &mut Times, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let (done, took) = timed(WALL, call)?;
        into.0.push(took.saturating_sub(self.reading_ns));
        Ok(done)
    }
}

impl Times {
    /// Their mean without the longest twentieth, into which other work of the machine fell.
    fn usual(mut self) -> u64 {
        self.0.sort_unstable();
        let usual = &self.0[..self.0.len() - self.0.len() / 20];
        usual.iter().sum::<u64>() / (usual.len() as u64).max(1)
    }
}

/// The files that are there.
struct Files<'a> {
    folder: &'a Path,
    /// How often each was made or renamed: part of its name.
    generations: Vec<u32>,
    rng: Rng,
}

impl Files<'_> {
    fn path(&self, index: usize) -> PathBuf {
        self.folder.join(format!("{index}.{}", self.generations[index]))
    }

    fn next_path(&mut self, index: usize) -> PathBuf {
        self.generations[index] += 1;
        self.path(index)
    }

    /// Any of them.
    fn any(&mut self) -> usize {
        self.rng.below(FILES as u64) as usize
    }

    fn any_path(&mut self) -> PathBuf {
        let any = self.any();
        self.path(any)
    }
}

/// What it takes to make a file, to write its pages, and to close a file.
#[derive(Default)]
struct Filling {
    make: Times,
    write: Times,
    close: Times,
}

impl Filling {
    fn fill(&mut self, clock: &Clock, path: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let mut file = clock.timed(&mut self.make, || options.open(path))?;
        for _ in 0..PAGES_OF_FILE {
            clock.timed(&mut self.write, || file.write_all(&[1; PAGE]))?;
        }
        self.close(clock, file)
    }

    fn close(&mut self, clock: &Clock, file: File) -> io::Result<()> {
        let close = || {
            drop(file);
            Ok(())
        };
        clock.timed(&mut self.close, close)
    }
}

impl Amid {
    pub(super) fn measure(folder: &Path) -> io::Result<Amid> {
        let clock = Clock::new()?;
        let folder = folder.join("amid");
        std::fs::create_dir(&folder)?;
        let rng = Rng::new(0, "host");
        let mut files = Files { folder: &folder, generations: vec![0; FILES], rng };
        (0..FILES).try_for_each(|index| Filling::default().fill(&clock, &files.path(index)))?;
        let mut filling = Filling::default();
        let [mut open, mut stat, mut fstat, mut read, mut rename, mut remove] =
            [const { Times(Vec::new()) }; 6];
        let mut into = [0; PAGE];
        for _ in 0..ROUNDS {
            let path = files.any_path();
            clock.timed(&mut stat, || std::fs::metadata(&path).map(black_box))?;
            let path = files.any_path();
            let mut file = clock.timed(&mut open, || File::open(&path))?;
            clock.timed(&mut fstat, || Ok(rustix::fs::fstat(&file)?))?;
            for _ in 0..PAGES_OF_FILE {
                clock.timed(&mut read, || file.read_exact(&mut into))?;
            }
            filling.close(&clock, file)?;
            let any = files.any();
            let (from, to) = (files.path(any), files.next_path(any));
            clock.timed(&mut rename, || std::fs::rename(&from, &to))?;
            let any = files.any();
            let path = files.path(any);
            clock.timed(&mut remove, || std::fs::remove_file(&path))?;
            filling.fill(&clock, &files.next_path(any))?;
        }
        let Filling { make, write, close } = filling;
        let [large_read, large_write] = large(&clock, &folder)?;
        Ok(Amid {
            open: open.usual(),
            make: make.usual(),
            close: close.usual(),
            stat: stat.usual(),
            fstat: fstat.usual(),
            rename: rename.usual(),
            remove: remove.usual(),
            read: [read.usual(), large_read],
            write: [write.usual(), large_write],
        })
    }
}

/// Nanoseconds of a large read and of a large write, each of new pages.
fn large(clock: &Clock, folder: &Path) -> io::Result<[u64; 2]> {
    let mut bytes = vec![1; LARGE as usize];
    let path = folder.join("large");
    let [mut reads, mut writes] = [const { Times(Vec::new()) }; 2];
    for _ in 0..super::LONG_BATCHES {
        let mut file = File::create(&path)?;
        for _ in 0..LARGE_CALLS {
            clock.timed(&mut writes, || file.write_all(&bytes))?;
        }
        let mut file = File::open(&path)?;
        for _ in 0..LARGE_CALLS {
            clock.timed(&mut reads, || file.read_exact(&mut bytes))?;
        }
    }
    Ok([reads.usual(), writes.usual()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_work_added_to_one_in_twenty_is_left_out() {
        let times = (0..40).map(|n| if n % 20 == 7 { 1_000_000 } else { 10 }).collect();
        assert_eq!(Times(times).usual(), 10);
    }
}
