//! Any messages of a virtual machine's side, whole and cut, to a disk.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    blocklab_fuzz::vhost_user::converse(bytes);
});
