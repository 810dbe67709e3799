//! What a session writes into its folder, which is best in memory: the program's output on its way
//! out of the guest, and what is kept until the end.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};
use study::Failure;

use super::guest::Guest;
use super::plan;

/// All of it takes so much of this machine's memory at most. Guests write hundreds of MB/s.
const KEPT_MAX: u64 = 256 << 20;
/// Bytes that are copied at a time. A guest that is further ahead than that is stopped meanwhile:
/// who reads may be slow.
const PIECE: u64 = 1 << 20;

/// The files of a session.
pub(super) struct Output {
    /// The program's output and what it said on stderr, and how much of each was copied.
    said: [(PathBuf, u64); 2],
    /// All that grows, and what it is.
    grows: Vec<(PathBuf, &'static str)>,
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
        Output { said, grows }
    }

    /// Copy what is new to this process's own output, and give its memory back. Whoever closed
    /// that early, as `head` does, has seen enough.
    pub(super) fn copy(&mut self, guest: &Guest) {
        let mut out = std::io::stdout().lock();
        let mut err = std::io::stderr().lock();
        self.copy_to([&mut out, &mut err], || guest.stopped());
    }

    fn copy_to<T>(&mut self, sinks: [&mut dyn Write; 2], stopped: impl Fn() -> T) {
        for ((path, done), sink) in self.said.iter_mut().zip(sinks) {
            let Ok(mut file) = OpenOptions::new().read(true).write(true).open(&*path) else {
                continue;
            };
            let new = |file: &File, done| file.metadata().map_or(0, |meta| meta.len()) - done;
            let _stopped = (new(&file, *done) > PIECE).then(&stopped);
            while new(&file, *done) > 0 {
                let mut text = Vec::new();
                let from = file.seek(SeekFrom::Start(*done));
                if from.and_then(|_| (&file).take(PIECE).read_to_end(&mut text)).is_err() {
                    break;
                }
                // Where the file system cannot, it is as if it were kept.
                let length = text.len() as u64;
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                let _ = fallocate(&file, hole, *done, length);
                *done += length;
                let _ = sink.write_all(&text).and_then(|()| sink.flush());
            }
        }
    }

    /// What grows for ever ends the session, and not the machine.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let taken =
            |path: &Path| path.metadata().as_ref().map_or(0, |meta| Metadata::blocks(meta) * 512);
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
    use super::*;
    use crate::private_folder::PrivateFolder;

    #[test]
    fn what_was_copied_takes_no_memory_and_what_grows_for_ever_is_an_error() {
        let folder = PrivateFolder::new().unwrap();
        let (path, log) = (folder.path.join(plan::OUTPUT), folder.path.join("kernel.log"));
        let text: Vec<u8> = (0..3 * PIECE + 7).map(|i| (i % 251) as u8).collect();
        let mut output = Output::new(&folder.path, &log);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        for part in [&text[..5], &text[5..]] {
            let mut file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
            file.write_all(part).unwrap();
            output.copy_to([&mut out, &mut err], || ());
        }
        assert!(out == text && err.is_empty());
        // A page at its end, and one that was not whole at first.
        assert!(path.metadata().unwrap().blocks() * 512 <= 16 << 10);
        output.check().unwrap();
        let file = File::create(&log).unwrap();
        fallocate(&file, FallocateFlags::empty(), 0, KEPT_MAX + 4096).unwrap();
        let failure = output.check().unwrap_err();
        assert!(failure.message.starts_with("what the guest's kernel said is 256 MiB"));
    }
}
