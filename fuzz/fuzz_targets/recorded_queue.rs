//! Any text read as a recording of a queue, and given to an elevator.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| blocklab_fuzz::compare_queue(bytes));
