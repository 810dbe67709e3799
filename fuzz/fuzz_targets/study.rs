//! Any text read as a study, every point of its grid checked.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| blocklab_fuzz::plan_study(bytes));
