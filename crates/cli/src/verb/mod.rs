//! The verbs: one file and one line each.

pub use self::trace::trace_table;

#[cfg(feature = "linux")]
mod frontend;
mod in_toml;
#[cfg(feature = "linux")]
mod measured;
#[cfg(feature = "linux")]
mod results;

/// Declare the verbs. Each module offers `pub struct Args` (clap) with
/// `fn run(self) -> Result<u8, Failure>`. What follows `if` is the feature that a verb needs.
macro_rules! verbs {
    ($( $(#[$meta:meta])* $variant:ident => $module:ident $(if $feature:literal)? ),+ $(,)?) => {
        $( $(#[cfg(feature = $feature)])? mod $module; )+

        #[derive(clap::Subcommand)]
        // There is one in a process.
        #[allow(clippy::large_enum_variant)]
        pub(crate) enum Verb {
            $( $(#[cfg(feature = $feature)])? $(#[$meta])* $variant($module::Args), )+
        }

        impl Verb {
            pub(crate) fn run(self) -> Result<u8, study::Failure> {
                match self {
                    $( $(#[cfg(feature = $feature)])? Verb::$variant(args) => args.run(), )+
                }
            }
        }
    };
}

verbs! {
    /// Answer the question of a study
    Run => run,
    /// Give a modelled device to real programs: NBD, or a block device of this machine
    Attach => attach if "linux",
    /// Run a program on a real Linux kernel in virtual time, on modelled devices
    Travel => travel if "linux",
    /// Cut the power under a real kernel at many moments, and look at what is left
    Crash => crash if "linux",
    /// The kernel that `travel` boots: build, status
    Kernel => kernel if "linux",
    /// What code costs on a host, which `travel --host` charges: measure
    Host => host if "linux",
    /// The first process of a guest of `travel`
    #[command(hide = true)]
    TravelGuest => travel_guest if "linux",
    /// What a program in a guest of `crash` was promised
    #[command(hide = true)]
    TravelAck => travel_ack if "linux",
    /// How far a drive that was measured is from parts
    Compare => compare if "linux",
    /// A part of what was measured on a drive
    Calibrate => calibrate if "linux",
    /// List what there is: studies, parts, models, metrics
    List => list,
    /// Explain a model, a part, a study or a metric
    Explain => explain,
    /// Print the JSON Schema of a study or a part
    Schema => schema,
    /// Describe, convert and measure recorded traces
    Trace => trace,
    /// Boot images, and where the time of loading a kernel goes
    Boot => boot if "linux",
    /// A machine back from its image, straight from the boot loader
    Snapshot => snapshot if "linux",
    /// This machine into an image, straight back from the boot loader
    Suspend => suspend if "linux",
    /// Mirror an SSD and a disk: make, serve, look at, and try to break it
    Mirror => mirror if "linux",
    /// Show what this machine can do, and the command that unlocks the rest
    Doctor => doctor if "linux",
    /// Show, or empty, the cache of preconditioned drives
    Cache => cache,
    /// Start a study or a part from a commented template
    New => new,
    /// Write the report of a run
    Report => report,
    /// What a shell needs to complete command lines: `blocklab completions bash`
    Completions => completions,
    /// Write manual pages into a folder
    Man => man,
}
