//! Any bytes read as the tencent format.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| blocklab_fuzz::read_as("tencent", bytes));
