//! The device, served to QEMU by a session of this process.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use attach::frontend::{Choice, vhost_user};
use attach::{Compensation, DeviceOptions, Options, Outcome, PrivateFolder, Report, Start};
use config::Failure;
use study::BuiltPart;

/// What a verdict may let late, as for `blocklab attach`.
const LATE_SHARE: f64 = 0.05;

/// A session that runs.
pub(super) struct Served {
    folder: PrivateFolder,
    session: JoinHandle<Result<Outcome, Failure>>,
}

impl Served {
    /// Serve `part`, which comes with `start` and takes `dilation` times its time.
    pub(super) fn start(part: BuiltPart, start: Start, dilation: u64) -> Result<Served, Failure> {
        let folder = PrivateFolder::new()?;
        let place = |name: &str| folder.path.join(name);
        let vhost_user = vhost_user::Options { socket: Some(place("disk")), queues: 1 };
        let options = Options {
            devices: vec![DeviceOptions {
                name: "root".into(),
                part,
                data: None,
                start: Some(start),
            }],
            frontend: Choice::VhostUser(vhost_user),
            dilation,
            compensation: Compensation::Measured,
            late_share: LATE_SHARE,
            run: None,
            record: None,
            control: Some(place("control")),
            power_cuts: false,
            read_only: false,
            fill: false,
            realtime: true,
            live: false,
        };
        let (ready, is_ready) = channel();
        let serve = move || attach::attach(options, |_| ready.send(()).unwrap_or_default(), |_| {});
        let session = std::thread::Builder::new().name("device".into()).spawn(serve);
        let session =
            session.map_err(|why| Failure::machine(format!("no thread for the device: {why}")))?;
        let served = Served { folder, session };
        match is_ready.recv() {
            Ok(()) => Ok(served),
            // It has ended, and says why.
            Err(_) => Err(served.end().err().unwrap_or_else(|| Failure::bug("no session"))),
        }
    }

    /// For sockets.
    pub(super) fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// Where the disk is.
    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path.join("disk")
    }

    /// Somebody has asked for the end.
    pub(super) fn has_ended(&self) -> bool {
        self.session.is_finished()
    }

    /// End it; what was measured, or nothing when somebody else had ended it.
    pub(super) fn end(self) -> Result<Option<Report>, Failure> {
        let told = UnixStream::connect(self.folder.path.join("control")).and_then(|mut control| {
            control.write_all(b"quit\n")?;
            let mut answer = String::new();
            BufReader::new(control).read_line(&mut answer).map(|_| answer)
        });
        let obeyed = told.is_ok_and(|answer| answer.starts_with("ok"));
        let ended = self.session.join().map_err(|_| Failure::bug("a session panicked"))?;
        let report = ended.and_then(|outcome| outcome.stopped.map(|()| outcome.report))?;
        Ok(obeyed.then_some(report))
    }
}
