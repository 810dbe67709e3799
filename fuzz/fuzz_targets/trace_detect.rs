//! Any bytes, decompressed and recognised by content.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| blocklab_fuzz::recognise(bytes));
