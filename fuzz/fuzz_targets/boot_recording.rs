//! Any text read as a boot recording; what is read is written as it was.
#![no_main]

use workload::boot_recording::Recording;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(recording) = Recording::parse(text) {
        assert_eq!(Recording::parse(&recording.to_string()), Ok(recording));
    }
});
