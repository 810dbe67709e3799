//! Any text read as DiskSim's description of a disk, and a trace replayed on it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| blocklab_fuzz::read_disk(bytes));
