//! A control socket: its clients, the lines they send, and the answers.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use study::Failure;

use crate::poll::{Event, Interest, Poll};
use crate::unix_socket;

/// Clients at a time, and the longest line of one.
const CLIENTS_MAX: usize = 16;
const LINE_MAX: usize = 4096;

/// Nobody waits longer for an answer: a server looks at its control socket all the time.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Who is asked, in a failure's words.
#[derive(Clone, Copy)]
pub(crate) struct Server {
    /// "no mirror is served with"
    pub(crate) listens: &'static str,
    pub(crate) start: &'static str,
    pub(crate) verb: &'static str,
}

/// Send a line to the control socket at `path`, and return the answer's.
///
/// # Errors
/// When nobody answers there, or not within `wait`.
pub(crate) fn ask(
    path: &Path,
    line: &str,
    wait: Option<Duration>,
    server: Server,
) -> Result<String, Failure> {
    let shown = path.display();
    let mut stream = UnixStream::connect(path).map_err(|why| {
        Failure::input(format!("{} {shown}: {why}", server.listens)).help(server.start)
    })?;
    let mut answer = String::new();
    stream
        .set_read_timeout(wait)
        .and_then(|()| stream.set_write_timeout(wait))
        .and_then(|()| stream.write_all(format!("{line}\n").as_bytes()))
        .and_then(|()| BufReader::new(stream).read_line(&mut answer))
        .map_err(|why| unanswered(path, wait, server, &why))?;
    if answer.is_empty() {
        let help = format!("is it being stopped? see what `{}` says", server.verb);
        return Err(Failure::machine(format!("{shown} was closed without an answer")).help(help));
    }
    Ok(answer)
}

fn unanswered(path: &Path, wait: Option<Duration>, server: Server, why: &io::Error) -> Failure {
    let shown = path.display();
    let Some(wait) = wait.filter(|_| why.kind() == io::ErrorKind::WouldBlock) else {
        return Failure::machine(format!("{shown} does not answer: {why}"));
    };
    Failure::machine(format!("{shown} has not answered in {} s", wait.as_secs_f64())).help(format!(
        "is `{}` still starting, or stopped (SIGSTOP)? What was asked is done when it goes on",
        server.verb
    ))
}

/// A listening socket and its clients.
pub(crate) struct ControlSocket {
    listener: unix_socket::Listener,
    token: u64,
    clients: Vec<Option<ControlClient>>,
}

struct ControlClient {
    stream: UnixStream,
    line: Vec<u8>,
    /// Lines that were not answered yet.
    unanswered: u32,
    /// It sends nothing more, but may still read.
    done: bool,
}

/// A client that sent a line: good for one answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientId(usize);

impl ControlSocket {
    pub(crate) fn new(path: &Path, poll: &Poll, token: u64) -> Result<ControlSocket, Failure> {
        let listener = unix_socket::bind(path)?;
        let quiet = listener.as_std().set_nonblocking(true);
        quiet
            .and_then(|()| poll.add(&listener, token, Interest::default()))
            .map_err(|why| Failure::machine(format!("cannot listen for commands: {why}")))?;
        Ok(ControlSocket { listener, token, clients: Vec::new() })
    }

    /// Let those in who have commands; until then they wait.
    pub(crate) fn open(&self, poll: &Poll) {
        // What cannot be watched answers nobody.
        let _ = poll.modify(&self.listener, self.token, Interest::READ);
    }

    fn accept(&mut self, poll: &Poll) {
        while let Ok(stream) = self.listener.accept() {
            let free = self.clients.iter().position(Option::is_none);
            let index = match free {
                Some(index) => index,
                None if self.clients.len() < CLIENTS_MAX => {
                    self.clients.push(None);
                    self.clients.len() - 1
                }
                // One too many: it sees the end of the connection.
                None => continue,
            };
            let token = self.token + 1 + index as u64;
            let watched = stream
                .set_nonblocking(true)
                .and_then(|()| poll.add(stream.as_fd(), token, Interest::READ));
            if watched.is_ok() {
                self.clients[index] =
                    Some(ControlClient { stream, line: Vec::new(), unanswered: 0, done: false });
            }
        }
    }

    /// Take an event of one of the descriptors: the lines that came. Each needs an answer.
    pub(crate) fn take(&mut self, event: Event, poll: &Poll) -> Vec<(ClientId, String)> {
        if event.token == self.token {
            self.accept(poll);
            return Vec::new();
        }
        let index = (event.token - self.token - 1) as usize;
        let Some(client) = self.clients.get_mut(index).and_then(Option::as_mut) else {
            return Vec::new();
        };
        let lines = client.lines();
        if client.done {
            // It would be ready for ever.
            poll.remove(&client.stream);
        }
        self.sweep(index);
        lines.into_iter().map(|line| (ClientId(index), line)).collect()
    }

    /// Answer a line.
    pub(crate) fn answer(&mut self, client: ClientId, answer: &str) {
        if let Some(client) = self.clients.get_mut(client.0).and_then(Option::as_mut) {
            // One that does not read its answer misses it.
            let _ = client.stream.write_all(format!("{answer}\n").as_bytes());
            client.unanswered -= 1;
        }
        self.sweep(client.0);
    }

    fn sweep(&mut self, index: usize) {
        if self.clients[index].as_ref().is_some_and(|client| client.done && client.unanswered == 0)
        {
            self.clients[index] = None;
        }
    }
}

impl ControlClient {
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
            self.unanswered += 1;
        }
        lines
    }
}
