//! `blocklab mirror serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use attach::frontend::{Address, BlockDeviceOptions};
use attach::mirror::{NAMES, Options, serve};
use config::Duration;
use mirror::policy::lag::LagRules;
use mirror::policy::slow::SlowRules;
use sim::Nanos;
use study::Failure;

use super::Devices;
use crate::say;
use crate::verb::frontend::{FrontendOptions, announce, check_options};

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    devices: Devices,
    /// How programs reach it
    #[arg(long = "as", value_name = "FRONTEND", default_value = "nbd",
          value_parser = clap::builder::PossibleValuesParser::new(attach::frontend::NAMES))]
    frontend: String,
    /// nbd, vhost-user: the Unix socket [default: one in a private folder]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// nbd: listen on a loopback address; port 0 takes any
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1,
          default_missing_value = "127.0.0.1:10809")]
    tcp: Option<SocketAddr>,
    /// Run CMD by the shell with $uri (or $dev) set, and end with it
    #[arg(long, value_name = "CMD")]
    run: Option<String>,
    /// Answer `blocklab mirror status|scrub|resync|replace|set-mode --control PATH`
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Start without this device: it is gone, or must not be used. With a leg, that is your word
    /// that it did not go on alone; may be repeated
    #[arg(long, value_name = "NAME",
          value_parser = clap::builder::PossibleValuesParser::new(NAMES))]
    without: Vec<String>,
    /// Leave a leg out that alone holds back a flush for so long; `off` to wait
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time_or_off)]
    flush_deadline: TimeOrOff,
    /// A leg is slow while a request to it is older than this; `off` to keep slow legs
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time_or_off)]
    slow_over: TimeOrOff,
    /// Leave a leg out that was slow, while the other was not, for so many percent of the window
    #[arg(long, value_name = "PERCENT", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    slow_share: u32,
    /// The window: the time of which slow shares are taken
    #[arg(long, value_name = "TIME", default_value = "1min", value_parser = window)]
    slow_window: Nanos,
    /// Start although acknowledged flushes may be missing from what is there
    #[arg(long)]
    accept_loss: bool,
    /// One JSON object on stdout at the end: the mirror as `status --control PATH --json` has it
    #[arg(long)]
    json: bool,
}

/// A time, unless it is switched off.
#[derive(Clone, Copy)]
struct TimeOrOff(Option<Nanos>);

fn time_or_off(text: &str) -> Result<TimeOrOff, String> {
    if text == "off" {
        return Ok(TimeOrOff(None));
    }
    match Duration::parse(text) {
        Ok(Duration(Nanos::ZERO)) => Err("expected more than 0, or `off`".into()),
        Ok(Duration(time)) => Ok(TimeOrOff(Some(time))),
        Err(why) => Err(format!("{why}, or `off`")),
    }
}

fn window(text: &str) -> Result<Nanos, String> {
    match Duration::parse(text) {
        Ok(Duration(time)) if time >= Nanos::from_secs(1) => Ok(time),
        Ok(_) => Err("expected at least 1s".into()),
        Err(why) => Err(why.to_string()),
    }
}

impl Args {
    pub(super) fn run(self) -> Result<u8, Failure> {
        let chosen = self.frontend.as_str();
        let options: &[(&str, bool, &[&str])] = &[
            ("--socket", self.socket.is_some(), &["nbd", "vhost-user"]),
            ("--tcp", self.tcp.is_some(), &["nbd"]),
        ];
        check_options(chosen, options)?;
        let frontend = FrontendOptions {
            socket: self.socket,
            tcp: self.tcp,
            queues: 1,
            watch: false,
            block: BlockDeviceOptions {
                scheduler: "none".into(),
                read_ahead_kib: 128,
                calibrate: false,
            },
        }
        .choice(chosen);
        let captive = self.run.is_some();
        let start =
            super::start(self.devices.paths(), super::slots(&self.without), self.accept_loss);
        let slow = self.slow_over.0.map(|over| SlowRules {
            over,
            share_percent: self.slow_share,
            window: self.slow_window,
        });
        let flush_deadline = self.flush_deadline.0;
        let lag = LagRules { flush_deadline, slow, ..LagRules::default() };
        let options = Options { start, frontend, run: self.run, control: self.control, lag };
        let ready = |address: &Address| announce(address, captive);
        let served = serve(options, ready, &mut |note| crate::warn(note))?;
        if self.json {
            say(super::json(&served.mirror)?);
        }
        Ok(served.code)
    }
}
