//! Any bytes of a client that has negotiated all there is.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    blocklab_fuzz::serve_nbd(bytes, &blocklab_fuzz::nbd_agreement());
});
