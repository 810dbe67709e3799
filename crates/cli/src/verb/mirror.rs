//! `blocklab mirror`: the hetero-mirror.

mod create;
mod destroy;
mod replace;
mod resync;
mod scrub;
mod serve;
mod set_mode;
mod status;
mod torture;
mod wait;

use std::path::{Path, PathBuf};

use attach::mirror::{Answer, NAMES, Paths, Request, Start, ask};
use mirror::DEVICES;
use serde::Serialize;
use serde_json::Value;
use study::Failure;

use crate::say;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: MirrorVerb,
}

#[derive(clap::Subcommand)]
enum MirrorVerb {
    /// Make a mirror of two files or block devices
    Create(create::Args),
    /// Start a mirror and serve it until a signal, or until CMD ends
    Serve(Box<serve::Args>),
    /// Tell what a mirror is: from its devices, or from the process that serves it
    Status(status::Args),
    /// Compare both legs of a mirror that is served, and repair what is wrong
    Scrub(scrub::Args),
    /// Take a device back that was left out: what it lacks is copied
    Resync(resync::Args),
    /// Use another device instead of a leg or the witness: everything is copied
    Replace(Box<replace::Args>),
    /// Change when writes and flushes are acknowledged
    SetMode(set_mode::Args),
    /// End a mirror: its devices are no longer any mirror's
    Destroy(destroy::Args),
    /// Try to break the mirror's protocol on simulated devices, one run per seed
    Torture(torture::Args),
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        match self.verb {
            MirrorVerb::Create(args) => args.run(),
            MirrorVerb::Serve(args) => args.run(),
            MirrorVerb::Status(args) => args.run(),
            MirrorVerb::Scrub(args) => args.run(),
            MirrorVerb::Resync(args) => args.run(),
            MirrorVerb::Replace(args) => args.run(),
            MirrorVerb::SetMode(args) => args.run(),
            MirrorVerb::Destroy(args) => args.run(),
            MirrorVerb::Torture(args) => args.run(),
        }
    }
}

/// The devices of a mirror.
#[derive(clap::Args)]
struct Devices {
    /// The leg that reads prefer, usually the SSD: a file or a block device
    #[arg(long, value_name = "PATH")]
    fast: PathBuf,
    /// The other leg, usually the disk
    #[arg(long, value_name = "PATH")]
    slow: PathBuf,
    /// A small log on a third device
    #[arg(long, value_name = "PATH")]
    witness: Option<PathBuf>,
}

impl Devices {
    fn paths(self) -> Paths {
        let Devices { fast, slow, witness } = self;
        Paths { fast, slow, witness }
    }
}

/// A mirror, served or not.
#[derive(clap::Args)]
struct Mirror {
    /// Ask the process that was started with `mirror serve --control PATH`
    #[arg(long, value_name = "PATH", conflicts_with_all = ["fast", "slow", "witness", "without"])]
    control: Option<PathBuf>,
    /// The fast leg of a mirror that is not served
    #[arg(long, value_name = "PATH", required_unless_present = "control")]
    fast: Option<PathBuf>,
    /// The slow leg
    #[arg(long, value_name = "PATH", required_unless_present = "control")]
    slow: Option<PathBuf>,
    /// The witness
    #[arg(long, value_name = "PATH")]
    witness: Option<PathBuf>,
    /// Do not look at this device: it is gone. With a leg, that is your word that it did not go on
    /// alone; may be repeated
    #[arg(long, value_name = "NAME",
          value_parser = clap::builder::PossibleValuesParser::new(NAMES))]
    without: Vec<String>,
}

/// Where to find it.
enum Found {
    Served(PathBuf),
    AtRest(Paths, [bool; DEVICES]),
}

impl Mirror {
    /// Where it is. `served_only` is an option that was given and is nothing to a mirror at rest;
    /// clap does not see that when the legs are given instead of `--control`.
    fn found(self, served_only: Option<&str>) -> Result<Found, Failure> {
        let Mirror { control, fast, slow, witness, without } = self;
        if let (None, Some(option)) = (&control, served_only) {
            return Err(Failure::input(format!("{option} is nothing to a mirror at rest"))
                .expected("--control PATH of one that is served"));
        }
        match (control, fast, slow) {
            (Some(control), ..) => Ok(Found::Served(control)),
            (None, Some(fast), Some(slow)) => {
                Ok(Found::AtRest(Paths { fast, slow, witness }, slots(&without)))
            }
            _ => Err(Failure::bug("the legs are required arguments")),
        }
    }
}

fn start(paths: Paths, without: [bool; DEVICES], accept_loss: bool) -> Start {
    Start { paths, without, accept_loss }
}

/// Ask a running mirror for something; what it says, and the number of a scrub.
fn tell(control: &Path, request: &Request) -> Result<(String, u64), Failure> {
    match ask(control, request)? {
        Answer::Done { text, number } => Ok((text, number)),
        _ => Err(Failure::bug("no status was asked for")),
    }
}

fn json(what: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(what).map_err(|why| Failure::bug(why.to_string()))
}

/// What a change comes to: told to people step by step, to programs as one object at its end.
struct Told {
    json: bool,
    steps: Vec<String>,
}

impl Told {
    fn new(json: bool) -> Told {
        Told { json, steps: Vec::new() }
    }

    fn step(&mut self, text: String) {
        if !self.json {
            say(&text);
        }
        self.steps.push(text);
    }

    /// The object is `about` what was changed, and the steps.
    fn end(self, mut about: Value) {
        if self.json {
            about["steps"] = self.steps.into();
            say(about);
        }
    }
}

/// Which devices are named by `--without`.
fn slots(names: &[String]) -> [bool; DEVICES] {
    NAMES.map(|name| names.iter().any(|named| named == name))
}

/// The slot of a device's name.
fn slot(name: &str) -> usize {
    NAMES.iter().position(|known| *known == name).unwrap_or(0)
}
