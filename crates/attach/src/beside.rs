//! Work beside an event loop, in a thread whose end is an event.

use std::os::unix::net::UnixStream;
use std::thread::{Builder, JoinHandle};

use study::Failure;

use crate::poll::{Interest, Poll};

/// Work that was begun. Dropped, it goes on, and nobody hears of its end.
pub(crate) struct Beside<R> {
    /// Readable when it is done.
    closed: UnixStream,
    helper: JoinHandle<Result<R, Failure>>,
}

impl<R: Send + 'static> Beside<R> {
    /// Begin `work`, the end of which is the event `token`, in a thread called `name`.
    pub(crate) fn begin(
        (poll, token): (&Poll, u64),
        name: &str,
        work: impl FnOnce() -> Result<R, Failure> + Send + 'static,
    ) -> Result<Beside<R>, Failure> {
        let impossible = |why: std::io::Error| Failure::machine(format!("no helper: {why}"));
        let (held, closed) = UnixStream::pair().map_err(impossible)?;
        poll.add(&closed, token, Interest::READ).map_err(impossible)?;
        let helper = Builder::new().name(name.into()).spawn(move || {
            // Dropped at the end, even of a panic: its closing is the event.
            let _held = held;
            work()
        });
        Ok(Beside { closed, helper: helper.map_err(impossible)? })
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.helper.is_finished()
    }

    /// It is done: what came of it. `who` is the one that panicked, if it did.
    pub(crate) fn end(self, poll: &Poll, who: &str) -> Result<R, Failure> {
        poll.remove(&self.closed);
        self.helper.join().unwrap_or_else(|_| Err(Failure::bug(format!("{who} panicked"))))
    }
}
