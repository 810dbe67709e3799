//! Any messages of a guest to its calendar.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    blocklab_fuzz::vhost_user::keep_time(bytes);
});
