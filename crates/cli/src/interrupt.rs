//! Ctrl-C and its like: nothing half-written stays behind, then the process ends as usual.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::SIGXFSZ;
use signal_hook::iterator::{Handle, Signals};
use signal_hook::low_level::emulate_default_handler;

/// A write beyond the limit of file sizes (`ulimit -f`) is an error as any other, and does not end
/// the process without a word. Programs that it starts do not inherit that.
pub(crate) fn outlive_file_limits() {
    // Where nobody can listen, the process ends as before.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
}

/// Do `work`; on the first signal to end meanwhile, call `on_signal` with it.
pub(crate) fn during<T>(on_signal: impl FnOnce(c_int) + Send, work: impl FnOnce() -> T) -> T {
    let Ok(mut signals) = Signals::new(study::ending_signals()) else {
        return work(); // without descriptors for it a signal ends the process at once
    };
    let handle = signals.handle();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if let Some(signal) = signals.forever().next() {
                on_signal(signal);
            }
        });
        let _close = Close(handle); // also when the work panics
        work()
    })
}

/// Do `work`; a signal to end meanwhile removes what is unfinished and ends the process.
#[cfg(feature = "linux")]
pub(crate) fn tidily<T>(work: impl FnOnce() -> T) -> T {
    let tidy = |signal| {
        attach::remove_unfinished();
        end_by(signal);
    };
    during(tidy, work)
}

struct Close(Handle);

impl Drop for Close {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// End the process as if nobody had listened for `signal`.
pub(crate) fn end_by(signal: c_int) {
    // Only unknown signals are refused.
    let _ = emulate_default_handler(signal);
}
