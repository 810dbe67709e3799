//! What a guest says on its serial line, with the moment of each piece.

use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Most text that is kept: a guest may talk for ever.
const BYTES_MAX: usize = 16 << 20;
/// What agetty asks for, and no line ends behind it.
const LOGIN: &str = "login: ";
/// How what the guest's program says begins.
const OURS: &str = "blocklab-guest: ";

/// Something that matters to a boot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Said {
    /// By the guest's program: what is behind its name.
    Ours(String),
    /// Somebody may log in.
    Login,
}

/// The line.
pub(super) struct Serial {
    pieces: Receiver<(Instant, Vec<u8>)>,
    text: String,
    /// Where the line begins that has no end yet.
    line: usize,
    login: bool,
}

/// What one look at the line gave.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Heard {
    /// Something, perhaps nothing that matters, and when it came.
    Some(Vec<(Instant, Said)>),
    /// Nothing came in time.
    Nothing,
    /// Nothing comes any more.
    End,
}

impl Serial {
    /// Listen to `line`, until it ends.
    pub(super) fn of(line: impl Read + Send + 'static) -> Serial {
        let (send, pieces) = channel();
        std::thread::spawn(move || pass_on(line, &send));
        Serial { pieces, text: String::new(), line: 0, login: false }
    }

    /// Wait for the next piece.
    pub(super) fn listen(&mut self, patience: Duration) -> Heard {
        match self.pieces.recv_timeout(patience) {
            Ok((at, piece)) => Heard::Some(self.take(at, &piece)),
            Err(RecvTimeoutError::Timeout) => Heard::Nothing,
            Err(RecvTimeoutError::Disconnected) => Heard::End,
        }
    }

    fn take(&mut self, at: Instant, piece: &[u8]) -> Vec<(Instant, Said)> {
        let mut all = Vec::new();
        if self.text.len() > BYTES_MAX {
            return all;
        }
        self.text.push_str(&String::from_utf8_lossy(piece));
        while let Some(length) = self.text[self.line..].find('\n') {
            let line = &self.text[self.line..][..length];
            if let Some((_, said)) = line.split_once(OURS) {
                all.push((at, Said::Ours(said.trim().to_string())));
            }
            self.line += length + 1;
        }
        if !self.login && self.text[self.line..].ends_with(LOGIN) {
            self.login = true;
            all.push((at, Said::Login));
        }
        all
    }

    /// All lines so far.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.text.lines().map(str::trim)
    }
}

fn pass_on(mut line: impl Read, pieces: &Sender<(Instant, Vec<u8>)>) {
    let mut buffer = [0; 4096];
    while let Ok(bytes @ 1..) = line.read(&mut buffer) {
        if pieces.send((Instant::now(), buffer[..bytes].to_vec())).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serial() -> Serial {
        Serial::of(std::io::empty())
    }

    #[test]
    fn lines_of_ours_and_the_login_prompt_are_heard_however_they_come() {
        let mut serial = serial();
        let at = Instant::now();
        let mut all = Vec::new();
        let text = "[ 1.0] blocklab-guest: initramfs at 7\r\nlogin: later\ndebian login: x";
        for byte in text.bytes() {
            all.extend(serial.take(at, &[byte]).into_iter().map(|(_, said)| said));
        }
        // A line that goes on was a prompt, too, as far as anybody could tell then.
        assert_eq!(all, [Said::Ours("initramfs at 7".into()), Said::Login]);
        assert_eq!(serial.lines().last(), Some("debian login: x"));
    }

    #[test]
    fn the_end_is_the_end() {
        let mut serial = serial();
        let end = std::iter::repeat_with(|| serial.listen(Duration::from_secs(60)));
        assert_eq!(end.take(1).collect::<Vec<_>>(), [Heard::End]);
    }
}
