//! Engines of fio.

/// Those that have one request under way whatever the depth.
pub(crate) const SYNCHRONOUS: [&str; 10] = [
    "sync",
    "psync",
    "vsync",
    "pvsync",
    "pvsync2",
    "mmap",
    "splice",
    "falloc",
    "ftruncate",
    "null",
];
/// What fio takes on Linux where none is named.
pub(super) const USUAL: &str = "psync";
