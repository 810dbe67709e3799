//! Any text read as a part, as each device that can have one.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| blocklab_fuzz::plan_part(bytes));
