//! Any text read as the output of each program that a study can run.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| blocklab_fuzz::read_programs(bytes));
