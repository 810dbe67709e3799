//! What a session writes into its folder, which is best in memory: the program's output on its way
//! out of the guest, and what is kept until the end.

use std::fs::{Metadata, OpenOptions};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use study::Failure;

use crate::signals::Signals;

use super::guest::Guest;
use super::plan;

/// All of it takes so much of this machine's memory at most. Guests write hundreds of MB/s.
const KEPT_MAX: u64 = 256 << 20;
/// The record of the queues by itself: a line of some 80 bytes for each event.
const QUEUE_MAX: u64 = 1 << 30;
/// Bytes that are copied at a time: a pipe with room takes them without waiting.
const PIECE: usize = 4096;

/// The files of a session.
pub(super) struct Output {
    /// The program's output and what it said on stderr, and how much of each was copied.
    said: [(PathBuf, u64); 2],
    /// Bytes that nobody was there to read.
    unread: u64,
    /// All that grows, and what it is.
    grows: Vec<(PathBuf, &'static str)>,
    /// The kernel's record of the queues, if there is one, and what it may take.
    queue: (PathBuf, u64),
}

impl Output {
    /// Those in the folder with the plan, and what the kernel says.
    pub(super) fn new(control: &Path, log: &Path) -> Output {
        let named = [
            (plan::OUTPUT, "what the command wrote"),
            (plan::COMPLAINTS, "what the command said on stderr"),
            (plan::ACKS, "what the command was promised"),
            (plan::CALLS, "the record of its system calls"),
        ];
        let mut grows = named.map(|(name, what)| (control.join(name), what)).to_vec();
        grows.push((log.to_path_buf(), "what the guest's kernel said"));
        let said = [plan::OUTPUT, plan::COMPLAINTS].map(|name| (control.join(name), 0));
        Output { said, unread: 0, grows, queue: (control.join(plan::QUEUE), QUEUE_MAX) }
    }

    /// Copy what is new to this process's own output, and give its memory back. Who reads may be
    /// slow, so the guest is stopped meanwhile: it would write on. Whoever closed that early, as
    /// `head` does, has seen enough. False when a signal to end has come, and not all could be
    /// copied.
    pub(super) fn copy(&mut self, guest: &Guest, signals: &Signals) -> bool {
        let (out, err) = (std::io::stdout(), std::io::stderr());
        self.copy_to([out.as_fd(), err.as_fd()], || guest.stopped(), |sink| signals.room(sink))
    }

    fn copy_to<T>(
        &mut self,
        sinks: [BorrowedFd<'_>; 2],
        stopped: impl Fn() -> T,
        room: impl Fn(BorrowedFd<'_>) -> bool,
    ) -> bool {
        let mut all = true;
        for ((path, done), sink) in self.said.iter_mut().zip(sinks) {
            let Ok(file) = OpenOptions::new().read(true).write(true).open(&*path) else {
                continue;
            };
            let (mut text, mut held) = ([0; PIECE], None);
            while let Ok(length @ 1..) = file.read_at(&mut text, *done) {
                held.get_or_insert_with(&stopped);
                if !room(sink) {
                    all = false;
                    break;
                }
                let written = match rustix::io::write(sink, &text[..length]) {
                    Ok(written) => written,
                    Err(Errno::INTR | Errno::AGAIN) => 0,
                    Err(_) => {
                        self.unread += length as u64;
                        length
                    }
                };
                *done += written as u64;
            }
            if held.is_some() {
                // Where the file system cannot, it is as if it were kept.
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let _ = fallocate(&file, hole, 0, *done);
            }
        }
        all
    }

    /// What grows for ever ends the session, and not the machine.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.unread > KEPT_MAX {
            let unread = self.unread >> 20;
            let what = format!("nobody reads what the command writes: {unread} MiB so far");
            return Err(Failure::machine(what)
                .expected(format!("at most {} MiB after its reader has gone", KEPT_MAX >> 20))
                .help("`> /dev/null` lets it go on"));
        }
        let taken =
            |path: &Path| path.metadata().as_ref().map_or(0, |meta| Metadata::blocks(meta) * 512);
        let (queue, most) = &self.queue;
        if taken(queue) > *most {
            let what = format!("the record of the queue is {} MiB", taken(queue) >> 20);
            return Err(Failure::machine(format!("{what}, which are kept in memory"))
                .expected(format!("at most {} MiB", most >> 20))
                .help("let the command do less; --record keeps what the device is asked on disk"));
        }
        let all = self.grows.iter().map(|(path, what)| (taken(path), *what));
        let (most, what) = all.clone().max().unwrap_or_default();
        if all.map(|(bytes, _)| bytes).sum::<u64>() <= KEPT_MAX {
            return Ok(());
        }
        Err(Failure::machine(format!("{what} is {} MiB, which are kept in memory", most >> 20))
            .expected(format!("at most {} MiB beside what is read at once", KEPT_MAX >> 20))
            .help("send it elsewhere: `> /dev/null`, or into a file on the drive"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;

    use super::*;
    use crate::private_folder::PrivateFolder;

    #[test]
    fn what_was_copied_takes_no_memory_and_what_grows_for_ever_is_an_error() {
        let folder = PrivateFolder::new().unwrap();
        let (path, log) = (folder.path.join(plan::OUTPUT), folder.path.join("kernel.log"));
        let text: Vec<u8> = (0..3_000_007).map(|i| (i % 251) as u8).collect();
        let mut output = Output::new(&folder.path, &log);
        let [out, err] = ["read", "errors"].map(|name| folder.path.join(name));
        let [to, to_errors] = [&out, &err].map(|path| File::create(path).unwrap());
        for part in [&text[..5], &text[5..]] {
            let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
            file.write_all(part).unwrap();
            assert!(output.copy_to([to.as_fd(), to_errors.as_fd()], || (), |_| true));
        }
        assert!(std::fs::read(out).unwrap() == text && std::fs::read(err).unwrap().is_empty());
        // The last page, which is not whole.
        assert!(path.metadata().unwrap().blocks() * 512 <= 4096);
        output.check().unwrap();
        let file = File::create(&log).unwrap();
        fallocate(&file, FallocateFlags::empty(), 0, KEPT_MAX + 4096).unwrap();
        let failure = output.check().unwrap_err();
        assert!(failure.message.starts_with("what the guest's kernel said is 256 MiB"));
        std::fs::write(folder.path.join(plan::QUEUE), vec![7; 3 << 20]).unwrap();
        output.queue.1 = 2 << 20;
        let failure = output.check().unwrap_err();
        assert!(failure.message.starts_with("the record of the queue is 3 MiB"), "{failure}");
    }

    #[test]
    fn the_guest_is_stopped_while_a_reader_is_slow_and_who_left_has_seen_enough() {
        let folder = PrivateFolder::new().unwrap();
        let path = folder.path.join(plan::OUTPUT);
        let mut output = Output::new(&folder.path, &folder.path.join("kernel.log"));
        std::fs::write(&path, [7; PIECE + 1]).unwrap();
        let stops = std::cell::Cell::new(0);
        let stopped = || stops.set(stops.get() + 1);
        let (from, to) = std::io::pipe().unwrap();
        let errors = File::create(folder.path.join("errors")).unwrap();
        let sinks = [to.as_fd(), errors.as_fd()];
        // It takes one piece and then no more.
        let asked = std::cell::Cell::new(0);
        let room = |_: BorrowedFd<'_>| asked.replace(asked.get() + 1) == 0;
        assert!(!output.copy_to(sinks, stopped, room));
        assert_eq!((asked.get(), stops.get(), output.said[0].1), (2, 1, PIECE as u64));
        drop(from);
        assert!(output.copy_to(sinks, stopped, |_| true));
        assert_eq!((stops.get(), output.said[0].1), (2, PIECE as u64 + 1));
        assert!(output.copy_to(sinks, stopped, |_| unreachable!("there is nothing new")));
        assert_eq!((stops.get(), output.unread), (2, 1));
        output.check().unwrap();
        output.unread = KEPT_MAX + 1;
        assert!(output.check().unwrap_err().message.starts_with("nobody reads"));
    }
}
