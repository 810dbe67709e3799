//! Unix sockets that others connect to.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use study::Failure;

/// A listening socket at `path`, in the place of one that nobody listens to any more.
pub(crate) fn bind(path: &Path) -> Result<UnixListener, Failure> {
    let bound = UnixListener::bind(path).or_else(|why| {
        let abandoned = why.kind() == std::io::ErrorKind::AddrInUse
            && UnixStream::connect(path)
                .is_err_and(|why| why.kind() == std::io::ErrorKind::ConnectionRefused);
        if abandoned {
            std::fs::remove_file(path).and_then(|()| UnixListener::bind(path))
        } else {
            Err(why)
        }
    });
    bound.map_err(|why| {
        Failure::input(format!("cannot listen on {}: {why}", path.display()))
            .expected("a name that is free, in a folder you may write to, of at most 107 bytes")
    })
}
