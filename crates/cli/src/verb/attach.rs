//! `blocklab attach`: a modelled device for real programs.

mod ctl;

use std::net::SocketAddr;
use std::path::PathBuf;

use attach::frontend::{Address, BlockDeviceOptions};
use attach::{Compensation, DeviceOptions, Options};
use config::Duration;
use study::Failure;

use super::frontend::{FrontendOptions, announce, check_options};
use super::results::{Results, check_data};

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    ctl: Option<Sub>,
    #[command(flatten)]
    attach: Box<Attach>,
}

#[derive(clap::Subcommand)]
enum Sub {
    /// Tell a running session something: inject, lift, faults, status, save, power-cut, quit
    Ctl(ctl::Args),
}

#[derive(clap::Args)]
struct Attach {
    /// A part file, or the name of a shipped part (`blocklab list parts`); several devices are
    /// named: a=PART b=PART
    #[arg(value_name = "[NAME=]PART", required = true)]
    parts: Vec<String>,
    /// Change a key of the part, such as ssd.gc=greedy; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// How programs reach it
    #[arg(long = "as", value_name = "FRONTEND", default_value = "nbd",
          value_parser = clap::builder::PossibleValuesParser::new(attach::frontend::NAMES))]
    frontend: String,
    /// Keep the data in this sparse file, and the device's state in FILE.state; once for each part,
    /// in their order, and none for the last ones: their data goes with the session
    /// [default: memory]
    #[arg(long, value_name = "FILE")]
    data: Vec<PathBuf>,
    /// nbd, vhost-user: the Unix socket [default: one in a private folder]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// nbd: listen on a loopback address; port 0 takes any
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1,
          default_missing_value = "127.0.0.1:10809")]
    tcp: Option<SocketAddr>,
    /// vhost-user: queues of each disk [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    queues: Option<u16>,
    /// loop, ublk: the I/O scheduler, such as mq-deadline, bfq or kyber [default: none]
    #[arg(long, value_name = "NAME")]
    scheduler: Option<String>,
    /// loop, ublk: read-ahead of the page cache [default: 128]
    #[arg(long, value_name = "KIB")]
    read_ahead: Option<u32>,
    /// Run CMD by the shell with $uri (or $dev) set, and end with it
    #[arg(long, value_name = "CMD")]
    run: Option<String>,
    /// Make N seconds of wall time out of each modelled second
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    dilate: u64,
    /// Date requests back by the transport's own time: auto measures it, off, or a time
    #[arg(long, value_name = "auto|off|TIME", default_value = "auto")]
    compensate: String,
    /// The run is not faithful when the p99 of lateness passes this share of the median modelled
    /// time (and 20 us)
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    late_max: f64,
    /// Write every request of the first device to a trace that `blocklab run` can replay
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Listen for `blocklab attach ctl PATH ...`
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Keep what writes replace, so that `power-cut` loses what was not flushed
    #[arg(long)]
    power_cuts: bool,
    /// Begin with a drive of which every sector was written once: reads of what was never written
    /// take an SSD no time
    #[arg(long)]
    fill: bool,
    /// Refuse writes
    #[arg(long)]
    read_only: bool,
    /// Root of the device's random streams
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Do not ask for a real-time priority
    #[arg(long)]
    no_realtime: bool,
    /// Show what is going on even while CMD runs
    #[arg(long)]
    live: bool,
    /// Where the measurements go
    #[arg(long, value_name = "DIR", default_value = "out/attach")]
    out: PathBuf,
    /// One JSON object on stdout at the end
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        match self.ctl {
            Some(Sub::Ctl(args)) => args.run(),
            None => self.attach.run(),
        }
    }
}

impl Attach {
    fn run(self) -> Result<u8, Failure> {
        let others = [("--record", self.record.as_slice()), ("--data", &self.data)];
        let results = Results::prepare(&self.out, "attach.json", self.json, &others)?;
        let captive = self.run.is_some();
        let options = self.options()?;
        let ready = |address: &Address| announce(address, captive);
        let outcome = attach::attach(options, ready, |note| crate::warn(note))?;
        let written = results.write(&outcome.report, &outcome.report.lines());
        // A state that was not saved is worse than a report.
        outcome.stopped.and(written).map(|()| outcome.code.unwrap_or(0))
    }

    fn options(self) -> Result<Options, Failure> {
        check_data(&self.data, &self.parts)?;
        if self.late_max.is_nan() || self.late_max <= 0.0 {
            return Err(Failure::input(format!("--late-max {}", self.late_max))
                .expected("a percentage above 0"));
        }
        let options: &[(&str, bool, &[&str])] = &[
            ("--socket", self.socket.is_some(), &["nbd", "vhost-user"]),
            ("--queues", self.queues.is_some(), &["vhost-user"]),
            ("--tcp", self.tcp.is_some(), &["nbd"]),
            ("--scheduler", self.scheduler.is_some(), &["loop", "ublk"]),
            ("--read-ahead", self.read_ahead.is_some(), &["loop", "ublk"]),
        ];
        check_options(&self.frontend, options)?;
        let is_unnamed =
            |text: &&String| text.split_once('=').is_none_or(|(name, _)| name.is_empty());
        if self.parts.len() > 1
            && let Some(part) = self.parts.iter().find(is_unnamed)
        {
            return Err(Failure::input(format!("`{part}` has no name, and there are several"))
                .expected("a name for each device")
                .help("name them: a=PART b=PART"));
        }
        let mut devices = Vec::new();
        let mut data = self.data.into_iter();
        for text in &self.parts {
            let (name, part) = match text.split_once('=') {
                Some((name, part)) => (name, part),
                None => ("", text.as_str()),
            };
            let part = study::build_part(part, &self.sets, self.seed)?;
            let (name, data) = (name.into(), data.next());
            devices.push(DeviceOptions { name, part, data, start: None });
        }
        let compensation = compensation(&self.compensate)?;
        let frontend = FrontendOptions {
            socket: self.socket,
            tcp: self.tcp,
            queues: self.queues.unwrap_or(1),
            watch: true,
            block: BlockDeviceOptions {
                scheduler: self.scheduler.unwrap_or_else(|| "none".into()),
                read_ahead_kib: self.read_ahead.unwrap_or(128),
                calibrate: compensation == Compensation::Measured,
            },
        }
        .choice(&self.frontend);
        let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        Ok(Options {
            devices,
            frontend,
            dilation: self.dilate,
            compensation,
            late_share: self.late_max / 100.0,
            live: self.live || (terminal && self.run.is_none()),
            run: self.run,
            record: self.record,
            control: self.control,
            power_cuts: self.power_cuts,
            read_only: self.read_only,
            fill: self.fill,
            realtime: !self.no_realtime,
        })
    }
}

fn compensation(text: &str) -> Result<Compensation, Failure> {
    match text {
        "auto" => Ok(Compensation::Measured),
        "off" => Ok(Compensation::Off),
        time => match Duration::parse(time) {
            Ok(duration) => Ok(Compensation::Fixed(duration.0.0)),
            Err(why) => Err(Failure::input(format!("--compensate {time}: {why}"))
                .expected("auto, off, or a time such as 15us")),
        },
    }
}
