//! Any bytes read as what a program under the crash lab leaves.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = attach::crash::read_evidence(bytes);
});
