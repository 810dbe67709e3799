//! Studies that travel: each point of the grid is a session of a real Linux guest in virtual time.

mod check;
mod crashed;
mod disk;
mod installed;
mod session;
mod words;

use std::fs::File;
use std::path::PathBuf;
use std::sync::OnceLock;

use serde_json::{Value, json};
use study::{Block, Failure, Job, RunResult, Runner, Setup, Simulated};

use crate::travel::kernel;

use disk::Disks;
use installed::Installed;

/// Of the code around a guest: what it gives is of this, too.
const TRAVEL_VERSION: &str = env!("BLOCKLAB_TRAVEL_VERSION");

/// Runs what travels in a guest, and the rest as any study is run.
pub struct Travelling {
    /// Finds the guest's first process.
    program: fn() -> Result<PathBuf, Failure>,
    host: OnceLock<Result<GuestBinaries, Failure>>,
    disks: Disks,
    installed: Installed,
}

/// What a guest is made of.
#[derive(Clone, Debug)]
struct GuestBinaries {
    kernel: PathBuf,
    program: PathBuf,
    /// Digest of the kernel's file.
    kernel_digest: String,
}

impl std::fmt::Debug for Travelling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Travelling").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Travelling {
    /// With the kernel that `blocklab kernel build` made; `program` finds a program that calls
    /// [`crate::travel::init`] with what follows `travel-guest`.
    pub fn new(program: fn() -> Result<PathBuf, Failure>) -> Travelling {
        let (disks, installed) = (Disks::default(), Installed::default());
        Travelling { program, host: OnceLock::new(), disks, installed }
    }

    fn host(&self) -> Result<&GuestBinaries, Failure> {
        let found = || {
            let kernel = kernel::find(None)?;
            let unreadable = |why: std::io::Error| {
                Failure::machine(format!("cannot read the kernel {}: {why}", kernel.display()))
            };
            let kernel_digest = File::open(&kernel).and_then(study::digest_of_reader);
            let kernel_digest = kernel_digest.map_err(unreadable)?;
            Ok(GuestBinaries { kernel, program: (self.program)()?, kernel_digest })
        };
        self.host.get_or_init(found).as_ref().map_err(Failure::clone)
    }
}

impl Runner for Travelling {
    fn plan(&self, setup: &Setup) -> Result<Option<Value>, Failure> {
        let Some(travel) = &setup.point.travel else { return Simulated.plan(setup) };
        check::travel(setup, travel)?;
        if let Some(crash) = &setup.point.crash {
            crashed::check(setup, travel, crash)?;
        }
        let charged = setup.host().map_err(|failure| match failure.place {
            // What is wrong inside a profile has its place there.
            Some(_) => failure,
            None => setup.at(&["travel", "host"], failure),
        })?;
        let host = self.host()?;
        self.disks.expect(setup, travel);
        // Its path is on the kernel's command line, with which its random numbers begin.
        let mut depends = json!({
            "kernel": host.kernel_digest, "program": host.program, "code": TRAVEL_VERSION,
            "files": self.installed.named(setup, travel),
        });
        if let Some(charged) = charged {
            depends["host"] = json!(charged.costs);
        }
        if *setup.block != Block::default() {
            depends["block"] = json!(setup.block);
        }
        Ok(Some(depends))
    }

    fn run(&self, job: Job) -> Result<RunResult, Failure> {
        let Some(travel) = job.setup.point.travel.clone() else { return Simulated.run(job) };
        let host = self.host()?;
        let (progress, crashes) = (job.progress, job.setup.point.crash.is_some());
        match session::run(host, &self.disks, job, &travel) {
            Ok(result) => Ok(result),
            Err(failure) => {
                // Ended from outside it is not the point's fault.
                progress.check()?;
                Ok(RunResult::failed(travel.program, crashes, words::in_words(&failure)))
            }
        }
    }
}
