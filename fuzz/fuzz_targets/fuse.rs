//! Any bytes as a request of the kernel.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| blocklab_fuzz::serve_fuse(bytes));
