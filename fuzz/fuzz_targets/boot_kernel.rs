//! Any bytes read as the ELF file in a kernel.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = boot::image::plain(bytes);
});
