//! Unix sockets that others connect to.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;

use rustix::fs::Access;
use study::Failure;

/// Whether one could listen at `path`. Nothing appears there meanwhile: who waits for the socket
/// would connect to one that goes away again.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    could_bind(path).map_err(|why| cannot_listen(path, &why))
}

fn could_bind(path: &Path) -> io::Result<()> {
    SocketAddr::from_pathname(path)?; // of at most 107 bytes
    match std::fs::symlink_metadata(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => {}
        Err(why) => return Err(why),
        Ok(_) if is_abandoned(path) => {}
        Ok(_) => return Err(rustix::io::Errno::ADDRINUSE.into()),
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    Ok(rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// A socket that nobody listens to any more. To connect to what is no socket is refused, too.
fn is_abandoned(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket())
        && UnixStream::connect(path)
            .is_err_and(|why| why.kind() == io::ErrorKind::ConnectionRefused)
}

/// A listening socket at `path`, in the place of one that nobody listens to any more.
pub(crate) fn bind(path: &Path) -> Result<UnixListener, Failure> {
    let bound = UnixListener::bind(path).or_else(|why| {
        if why.kind() == io::ErrorKind::AddrInUse && is_abandoned(path) {
            std::fs::remove_file(path).and_then(|()| UnixListener::bind(path))
        } else {
            Err(why)
        }
    });
    bound.map_err(|why| cannot_listen(path, &why))
}

fn cannot_listen(path: &Path, why: &io::Error) -> Failure {
    Failure::input(format!("cannot listen on {}: {why}", path.display()))
        .expected("a name that is free, in a folder you may write to, of at most 107 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_listened_at_is_known_without_a_trace() {
        let folder = std::env::temp_dir().join(format!("unix-socket-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("a.sock");
        check(&path).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        let listener = bind(&path).unwrap();
        let said = |path: &Path| {
            let told = [check(path).unwrap_err(), bind(path).unwrap_err()].map(|it| it.to_string());
            assert_eq!(told[0], told[1]);
        };
        said(&path);
        drop(listener);
        check(&path).unwrap();
        drop(bind(&path).unwrap());
        std::fs::write(folder.join("notes"), "mine").unwrap();
        said(&folder.join("notes"));
        said(&folder.join("no/such"));
        said(&folder.join("x".repeat(120)));
        said(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
