//! A control socket: who is connected, the lines they send, and the answers.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use study::Failure;

use crate::poll::{Event, Interest, Poll};
use crate::unix_socket;

/// Askers at a time, and the longest line of one.
const ASKERS_MAX: usize = 16;
const LINE_MAX: usize = 4096;

/// The socket and who is connected to it.
pub(crate) struct Askers {
    path: PathBuf,
    listener: UnixListener,
    token: u64,
    askers: Vec<Option<Asker>>,
}

struct Asker {
    stream: UnixStream,
    line: Vec<u8>,
    /// Lines that were not answered yet.
    owed: u32,
    /// It says nothing more, but may still listen.
    done: bool,
}

/// Who asked: good for one answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who(usize);

impl Askers {
    pub(crate) fn new(path: &Path, poll: &Poll, token: u64) -> Result<Askers, Failure> {
        let listener = unix_socket::bind(path)?;
        let quiet = listener.set_nonblocking(true);
        quiet
            .and_then(|()| poll.add(&listener, token, Interest::READ))
            .map_err(|why| Failure::machine(format!("cannot listen for commands: {why}")))?;
        Ok(Askers { path: path.to_path_buf(), listener, token, askers: Vec::new() })
    }

    fn accept(&mut self, poll: &Poll) {
        while let Ok((stream, _)) = self.listener.accept() {
            let free = self.askers.iter().position(Option::is_none);
            let index = match free {
                Some(index) => index,
                None if self.askers.len() < ASKERS_MAX => {
                    self.askers.push(None);
                    self.askers.len() - 1
                }
                // One too many: it sees the end of the connection.
                None => continue,
            };
            let token = self.token + 1 + index as u64;
            let watched = stream
                .set_nonblocking(true)
                .and_then(|()| poll.add(stream.as_fd(), token, Interest::READ));
            if watched.is_ok() {
                self.askers[index] = Some(Asker { stream, line: Vec::new(), owed: 0, done: false });
            }
        }
    }

    /// Something happened to one of the descriptors: what is asked, each of which is owed an
    /// answer.
    pub(crate) fn take(&mut self, event: Event, poll: &Poll) -> Vec<(Who, String)> {
        if event.token == self.token {
            self.accept(poll);
            return Vec::new();
        }
        let index = (event.token - self.token - 1) as usize;
        let Some(asker) = self.askers.get_mut(index).and_then(Option::as_mut) else {
            return Vec::new();
        };
        let lines = asker.lines();
        if asker.done {
            // It would be ready for ever.
            poll.remove(&asker.stream);
        }
        self.sweep(index);
        lines.into_iter().map(|line| (Who(index), line)).collect()
    }

    /// Answer what was asked.
    pub(crate) fn say(&mut self, who: Who, answer: &str) {
        if let Some(asker) = self.askers.get_mut(who.0).and_then(Option::as_mut) {
            // Whoever does not listen to its answer misses it.
            let _ = asker.stream.write_all(format!("{answer}\n").as_bytes());
            asker.owed -= 1;
        }
        self.sweep(who.0);
    }

    fn sweep(&mut self, index: usize) {
        if self.askers[index].as_ref().is_some_and(|asker| asker.done && asker.owed == 0) {
            self.askers[index] = None;
        }
    }
}

impl Asker {
    /// Complete lines.
    fn lines(&mut self) -> Vec<String> {
        let mut buffer = [0; 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.done = true,
                Ok(got) => {
                    self.line.extend(&buffer[..got]);
                    if self.line.len() <= LINE_MAX {
                        continue;
                    }
                    self.done = true;
                }
                Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => self.done = true,
            }
            break;
        }
        let mut lines = Vec::new();
        while let Some(end) = self.line.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            lines.push(String::from_utf8_lossy(&line).trim().to_string());
            self.owed += 1;
        }
        lines
    }
}

impl Drop for Askers {
    fn drop(&mut self) {
        // Ours since `bind`; when it is gone already, all the better.
        let _ = std::fs::remove_file(&self.path);
    }
}
