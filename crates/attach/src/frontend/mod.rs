//! Ways to reach the device: one file and one line each. A frontend is a codec and its sockets;
//! what it is asked goes to the engine, what the engine answers goes back.

mod block_queue;
mod linux;
pub mod loop_device;
pub mod nbd;
pub(crate) mod probe;
pub mod ublk;
pub mod vhost_user;

use study::Failure;

pub use block_queue::BlockDeviceOptions;

use crate::client_side::ClientSide;
use crate::clock::Wall;
use crate::engine::Engine;
use crate::order::{Order, Reply};
use crate::poll::{Event, Poll};
use crate::shared_state::SharedState;
use crate::target::Target;

/// What clients need to find the device.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Address {
    /// Name of each variable for `--run`, and its value.
    pub variables: Vec<(&'static str, String)>,
    /// What to tell a person, one line each.
    pub lines: Vec<String>,
    /// What `--run` mounts is mounted for it alone, so that it goes with it.
    pub private_mounts: bool,
}

impl Address {
    /// The address of block devices of this machine.
    fn devices(paths: Vec<String>) -> Address {
        Address {
            variables: vec![
                ("dev", paths.first().cloned().unwrap_or_default()),
                ("devs", paths.join(" ")),
            ],
            lines: paths,
            private_mounts: true,
        }
    }
}

/// What starting found out.
#[derive(Debug, Default)]
pub struct Started {
    /// Where clients find the device.
    pub address: Address,
    /// Round trip of a request besides its time in the device, in nanoseconds, where it is known.
    pub round_trip_ns: Option<u64>,
    /// Something the user must know.
    pub notes: Vec<String>,
}

impl Started {
    /// What was found out about the path.
    fn judge(mut self, round_trips: Option<&[u64]>) -> Started {
        match round_trips.map(probe::judge) {
            None => {}
            Some(Ok(ns)) => self.round_trip_ns = Some(ns),
            Some(Err(why)) => self.notes.push(why),
        }
        self
    }
}

/// Work that needs the frontend to be served while it is done, so it has a thread of its own.
pub type BackgroundTask<T> = Box<dyn FnOnce() -> Result<T, Failure> + Send>;

/// A way to reach the device.
pub trait Frontend<T: Target = Engine> {
    /// Begin to serve. The task runs beside the event loop while reads bypass the model; when
    /// it is done, clients may come.
    ///
    /// # Errors
    /// When the machine lacks something, or a name is taken.
    fn start(
        &mut self,
        shared: &mut SharedState<T>,
        poll: &Poll,
    ) -> Result<BackgroundTask<Started>, Failure>;

    /// Something happened to the descriptor that the frontend added as `event.token`.
    fn ready(&mut self, event: Event, shared: &mut SharedState<T>, poll: &Poll);

    /// An answer of `export` is due. It need not leave before [`Frontend::flush`].
    fn reply(&mut self, export: usize, reply: Reply, shared: &mut SharedState<T>);

    /// When [`Frontend::flush`] has something to do by itself.
    fn due(&self) -> Wall {
        Wall::NEVER
    }

    /// Send what is waiting, and do what is due.
    fn flush(&mut self, shared: &mut SharedState<T>, poll: &Poll);

    /// The device lost power; these requests will have no answer.
    fn power_cut(
        &mut self,
        export: usize,
        forgotten: &[Order],
        shared: &mut SharedState<T>,
        poll: &Poll,
    );

    /// The other side is gone and cannot come back.
    fn is_over(&self) -> bool {
        false
    }

    /// Clients may come: from now on let them in, and watch what they see besides the device's
    /// time.
    fn open(&mut self, _poll: &Poll) {}

    /// What was seen.
    fn seen(&mut self) -> ClientSide {
        ClientSide::Unknown
    }

    /// Accept no new clients. The task, if any, needs to be served until it is done.
    fn stop(&mut self, poll: &Poll) -> Option<BackgroundTask<()>>;
}

/// Declare the frontends: a module and the type of its options. Each module offers
/// `fn check(&options) -> Result<(), Failure>` and
/// `fn build<T: Target>(options, exports: &[Export<T>]) -> Result<Box<dyn Frontend<T>>, Failure>`.
macro_rules! frontends {
    ($(
        $(#[$meta:meta])* $variant:ident($options:ty) = $name:literal => $module:ident
    ),+ $(,)?) => {
        /// A way to reach the device, with its options.
        pub enum Choice {
            $( $(#[$meta])* $variant($options), )+
        }

        /// The frontends' names.
        pub const NAMES: &[&str] = &[ $( $name, )+ ];

        impl Choice {
            /// Its name.
            pub fn name(&self) -> &'static str {
                match self {
                    $( Choice::$variant(_) => $name, )+
                }
            }

            /// Whether it could be reached so: to be asked before anything is changed.
            ///
            /// # Errors
            /// When a name is taken, or the machine lacks something.
            pub(crate) fn check(&self) -> Result<(), Failure> {
                match self {
                    $( Choice::$variant(options) => $module::check(options), )+
                }
            }

            /// Make the frontend.
            ///
            /// # Errors
            /// When its options do not fit.
            pub fn build<T: Target>(
                self,
                exports: &[crate::shared_state::Export<T>],
            ) -> Result<Box<dyn Frontend<T>>, Failure> {
                match self {
                    $( Choice::$variant(options) => $module::build(options, exports), )+
                }
            }
        }
    };
}

frontends! {
    /// Network block device, over a Unix socket or loopback TCP.
    Nbd(nbd::Options) = "nbd" => nbd,
    /// A block device of this machine: FUSE below the loop driver; needs root.
    Loop(BlockDeviceOptions) = "loop" => loop_device,
    /// A block device of this machine by the kernel's own driver; needs root and Linux 6.5.
    Ublk(BlockDeviceOptions) = "ublk" => ublk,
    /// A disk of a virtual machine: QEMU's vhost-user-blk.
    VhostUser(vhost_user::Options) = "vhost-user" => vhost_user,
}

/// Where a path is needed in a message or a variable.
pub(crate) fn shown(path: &std::path::Path) -> String {
    path.display().to_string()
}
