//! The verbs: one file and one line each.

pub use self::trace::trace_table;

mod frontend;
mod measured;
mod results;

/// Declare the verbs. Each module offers `pub struct Args` (clap) with
/// `fn run(self) -> Result<u8, Failure>`.
macro_rules! verbs {
    ($( $(#[$meta:meta])* $variant:ident => $module:ident ),+ $(,)?) => {
        $( mod $module; )+

        #[derive(clap::Subcommand)]
        // There is one in a process.
        #[allow(clippy::large_enum_variant)]
        pub(crate) enum Verb {
            $( $(#[$meta])* $variant($module::Args), )+
        }

        impl Verb {
            pub(crate) fn run(self) -> Result<u8, study::Failure> {
                match self {
                    $( Verb::$variant(args) => args.run(), )+
                }
            }
        }
    };
}

verbs! {
    /// Answer the question of a study
    Run => run,
    /// Give a modelled device to real programs: NBD, or a block device of this machine
    Attach => attach,
    /// Run a program on a real Linux kernel in virtual time, on modelled devices
    Travel => travel,
    /// Cut the power under a real kernel at many moments, and look at what is left
    Crash => crash,
    /// The kernel that `travel` boots: build, status
    Kernel => kernel,
    /// What code costs on a host, which `travel --host` charges: measure
    Host => host,
    /// The first process of a guest of `travel`
    #[command(hide = true)]
    TravelGuest => travel_guest,
    /// What a program in a guest of `crash` was promised
    #[command(hide = true)]
    TravelAck => travel_ack,
    /// How far a drive that was measured is from parts
    Compare => compare,
    /// A part of what was measured on a drive
    Calibrate => calibrate,
    /// List what there is: studies, parts, models, metrics
    List => list,
    /// Explain a model, a part, a study or a metric
    Explain => explain,
    /// Print the JSON Schema of a study or a part
    Schema => schema,
    /// Describe, convert and measure recorded traces
    Trace => trace,
    /// Boot images, and where the time of loading a kernel goes
    Boot => boot,
    /// A machine back from its image, straight from the boot loader
    Snapshot => snapshot,
    /// Mirror an SSD and a disk: make, serve, look at, and try to break it
    Mirror => mirror,
    /// Show what this machine can do, and the command that unlocks the rest
    Doctor => doctor,
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
