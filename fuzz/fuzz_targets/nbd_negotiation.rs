//! Any bytes of a client from its first on.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| blocklab_fuzz::serve_nbd(bytes, &[]));
