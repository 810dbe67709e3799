//! Unix sockets that others connect to.

use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use study::Failure;

/// Whether one could listen at `path`.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    let listener = bind(path)?;
    // Nobody was told of it, so it is ours to take away.
    let _ = std::fs::remove_file(path);
    drop(listener);
    Ok(())
}

/// A listening socket at `path`, in the place of one that nobody listens to any more.
pub(crate) fn bind(path: &Path) -> Result<UnixListener, Failure> {
    let bound = UnixListener::bind(path).or_else(|why| {
        // To connect to what is no socket is refused, too.
        let is_socket = || std::fs::symlink_metadata(path).map(|it| it.file_type().is_socket());
        let abandoned = why.kind() == std::io::ErrorKind::AddrInUse
            && is_socket().unwrap_or(false)
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
