//! Any memory of a guest whose queue is kicked.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    blocklab_fuzz::vhost_user::kick(bytes);
});
