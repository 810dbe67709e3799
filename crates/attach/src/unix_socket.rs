//! Unix sockets that others connect to.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

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

/// A listening socket; its name goes with it.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: UnixListener,
    path: PathBuf,
    /// File system and number of the name. Nothing else has them while the socket is there.
    name: Option<(u64, u64)>,
    /// Given up for a moment when there are no more descriptors.
    spare: Option<OwnedFd>,
}

impl Listener {
    pub(crate) fn as_std(&self) -> &UnixListener {
        &self.socket
    }

    /// Whoever comes next. When there are no descriptors left, they are let go: they would be
    /// there, and wake us, until there are some.
    pub(crate) fn accept(&mut self) -> io::Result<UnixStream> {
        use rustix::io::Errno;
        let why = match self.socket.accept() {
            Ok((stream, _)) => return Ok(stream),
            Err(why) => why,
        };
        if ![Some(Errno::MFILE), Some(Errno::NFILE)].contains(&Errno::from_io_error(&why)) {
            return Err(why);
        }
        self.spare = None;
        // Closed at once, so that there is a descriptor for the spare one.
        let let_go = self.socket.accept().map(drop);
        self.spare = spare();
        let_go.and(Err(why))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Another session may have put its own in the place of ours.
        if self.name.is_some() && name_of(&self.path) == self.name {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn name_of(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

fn spare() -> Option<OwnedFd> {
    std::fs::File::open("/dev/null").ok().map(OwnedFd::from)
}

/// A listening socket at `path`, in the place of one that nobody listens to any more.
pub(crate) fn bind(path: &Path) -> Result<Listener, Failure> {
    let bound = UnixListener::bind(path).or_else(|why| {
        if why.kind() == io::ErrorKind::AddrInUse && is_abandoned(path) {
            std::fs::remove_file(path).and_then(|()| UnixListener::bind(path))
        } else {
            Err(why)
        }
    });
    let socket = bound.map_err(|why| cannot_listen(path, &why))?;
    // The process may go to another folder.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
    let name = name_of(&path);
    Ok(Listener { socket, path, name, spare: spare() })
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
        // A process that was killed leaves its name.
        drop(listener);
        assert!(!path.exists());
        drop(UnixListener::bind(&path).unwrap());
        check(&path).unwrap();
        drop(bind(&path).unwrap());
        std::fs::write(folder.join("notes"), "mine").unwrap();
        said(&folder.join("notes"));
        said(&folder.join("no/such"));
        said(&folder.join("x".repeat(120)));
        said(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_name_that_another_session_has_taken_stays() {
        let folder = crate::PrivateFolder::new().unwrap();
        let path = folder.path.join("a.sock");
        let first = bind(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let second = bind(&path).unwrap();
        drop(first);
        assert!(UnixStream::connect(&path).is_ok());
        drop(second);
        assert!(!path.exists());
    }

    /// In a process of its own: no other test is to run out of descriptors.
    #[test]
    fn without_descriptors_whoever_comes_is_let_go() {
        use rustix::process::{Resource, Rlimit, setrlimit};
        const ALONE: &str = "BLOCKLAB_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let name = "unix_socket::tests::without_descriptors_whoever_comes_is_let_go";
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            let ended = child.args(["--exact", name]).env(ALONE, "1").output().unwrap();
            let told = String::from_utf8_lossy(&ended.stdout).into_owned();
            assert!(ended.status.success() && told.contains("1 passed"), "{told}");
            return;
        }
        let folder = crate::PrivateFolder::new().unwrap();
        let path = folder.path.join("a.sock");
        let mut listener = bind(&path).unwrap();
        listener.as_std().set_nonblocking(true).unwrap();
        let mut client = UnixStream::connect(&path).unwrap();
        let few = Rlimit { current: Some(64), maximum: Some(64) };
        setrlimit(Resource::Nofile, few).unwrap();
        let mut all = Vec::new();
        while let Ok(one) = std::fs::File::open("/dev/null") {
            all.push(one);
        }
        assert!(listener.accept().is_err());
        let nobody = listener.accept().unwrap_err();
        assert_eq!(nobody.kind(), io::ErrorKind::WouldBlock, "nothing wakes us again");
        assert_eq!(io::Read::read(&mut client, &mut [0]).unwrap(), 0);
        drop(all);
        let _client = UnixStream::connect(&path).unwrap();
        listener.accept().unwrap();
    }
}
