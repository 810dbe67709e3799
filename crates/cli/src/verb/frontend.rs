//! What `attach` and `mirror serve` share: options that belong to some frontends only, and where
//! clients find what is served.

use std::net::SocketAddr;
use std::path::PathBuf;

use attach::frontend::{Address, BlockDeviceOptions, Choice, nbd, vhost_user};
use study::Failure;

/// The options of all frontends.
pub(super) struct FrontendOptions {
    /// A Unix socket, of those that have one.
    pub(super) socket: Option<PathBuf>,
    /// A loopback address.
    pub(super) tcp: Option<SocketAddr>,
    /// Queues of each disk.
    pub(super) queues: u16,
    /// Watch the round trip while clients are there.
    pub(super) watch: bool,
    /// Those of block devices of this machine.
    pub(super) block: BlockDeviceOptions,
}

impl FrontendOptions {
    /// The frontend called `name`, with those that it has.
    pub(super) fn choice(self, name: &str) -> Choice {
        let FrontendOptions { socket, tcp, queues, watch, block } = self;
        match name {
            "loop" => Choice::Loop(block),
            "ublk" => Choice::Ublk(block),
            "vhost-user" => Choice::VhostUser(vhost_user::Options { socket, queues }),
            _ => {
                let calibrate = block.calibrate;
                Choice::Nbd(nbd::Options { socket, tcp, calibrate, watch })
            }
        }
    }
}

/// Refuse what was given and is nothing to the frontend that was chosen: an option, whether it was
/// given, and the frontends it belongs to.
pub(super) fn check_options(
    chosen: &str,
    options: &[(&str, bool, &[&str])],
) -> Result<(), Failure> {
    let foreign = options.iter().find(|(_, given, of)| *given && !of.contains(&chosen));
    match foreign {
        None => Ok(()),
        Some((option, _, of)) => {
            Err(Failure::input(format!("{option} is nothing to --as {chosen}"))
                .expected(format!("--as {}", of.join(" or --as "))))
        }
    }
}

/// Tell whoever started a server where it is, unless a program runs beside it that knows.
pub(super) fn announce(address: &Address, captive: bool) {
    if !captive {
        address.lines.iter().for_each(crate::warn);
        crate::warn("end with Ctrl-C");
    }
}
