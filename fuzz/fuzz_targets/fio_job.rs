//! Any text read as a fio job file, planned on a device and asked for its first requests.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| blocklab_fuzz::run_job_file(bytes));
