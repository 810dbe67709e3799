//! The program that runs in guests, as the build script made it.

/// A static ELF executable of `blocklab-guest`.
pub const GUEST_PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/blocklab-guest"));
