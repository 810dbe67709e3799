//! Writing down every request, so that `blocklab run` can replay it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use sim::{Nanos, Request, Rng};
use study::Failure;
use trace::{Context, Record, TraceFormat, Writer};

/// Records handed to the writing thread at a time.
const BATCH: usize = 1024;
/// Batches that may wait for a slow disk before the event loop waits with them.
const WAITING: usize = 64;

/// Sends requests to a thread that writes them as `blkparse` text: the only format of ours that
/// carries nanoseconds, flushes, discards and FUA.
#[derive(Debug)]
pub struct Recorder {
    batch: Vec<Record>,
    device: u32,
    to: Option<SyncSender<Vec<Record>>>,
    writer: Option<JoinHandle<std::io::Result<()>>>,
    path: PathBuf,
}

impl Recorder {
    /// A recorder to a new file at `path`.
    ///
    /// # Errors
    /// When the file cannot be made, or there is one with content.
    pub fn new(path: &Path) -> Result<Recorder, Failure> {
        study::check_overwrite(path, || false)?;
        let file = File::create(path).map_err(|why| unwritable(path, &why))?;
        let (to, from) = sync_channel::<Vec<Record>>(WAITING);
        let writing = std::thread::Builder::new().name("record".into()).spawn(move || {
            let mut writer = blkparse();
            let mut file = BufWriter::with_capacity(1 << 18, file);
            let mut text = Vec::new();
            writer.begin(&mut text);
            for batch in from {
                batch.iter().for_each(|record| writer.record(record, None, &mut text));
                file.write_all(&text)?;
                text.clear();
            }
            writer.end(&mut text);
            file.write_all(&text)?;
            file.flush()
        });
        let writing = writing.map_err(|why| Failure::machine(format!("no thread: {why}")))?;
        Ok(Recorder {
            batch: Vec::with_capacity(BATCH),
            device: 8 << 20,
            to: Some(to),
            writer: Some(writing),
            path: path.to_path_buf(),
        })
    }

    /// Write down a request that the device was given at `time`.
    #[inline]
    pub fn add(&mut self, time: Nanos, request: Request) {
        let record = Record {
            time: Some(time),
            request,
            device: self.device,
            response: None,
            plugged: Nanos::ZERO,
            place: 0,
        };
        self.batch.push(record);
        if self.batch.len() == BATCH {
            self.send();
        }
    }

    fn send(&mut self) {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        if let Some(to) = &self.to {
            // A writer that failed has gone; its error is reported at the end.
            let _ = to.send(batch);
        }
    }

    /// Write what is left and close the file.
    ///
    /// # Errors
    /// The first error of the writing thread: the trace is not whole then.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.send();
        self.to = None;
        let Some(writer) = self.writer.take() else { return Ok(()) };
        match writer.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(why)) => {
                let path = self.path.display();
                Err(Failure::machine(format!("the trace {path} is cut off: {why}"))
                    .help("make room there, and record again"))
            }
            Err(_) => Err(Failure::bug("the recording thread panicked")),
        }
    }
}

fn blkparse() -> Box<dyn Writer> {
    let format = TraceFormat::from_name("blkparse").expect("the registry has blkparse");
    let format = format.build(&Context { rng: Rng::new(1, "record"), responses: false });
    format.writer().expect("blkparse can be written")
}

pub(crate) fn unwritable(path: &Path, why: &std::io::Error) -> Failure {
    Failure::input(format!("cannot write the trace {}: {why}", path.display()))
        .help("name a file in a folder that exists and has room")
}
