//! What runs in guests, as the build script made it.

/// A static ELF executable of `blocklab-guest`.
pub const GUEST_PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/blocklab-guest"));

/// The loader that resumes an image, with a PVH entry.
pub const LOADER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/blocklab-loader"));

/// The same as GRUB starts it on a BIOS, by multiboot.
pub const LOADER_MULTIBOOT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/blocklab-multiboot"));

/// The same loader as a program for UEFI.
pub const LOADER_EFI: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/blocklab.efi"));

/// What a UEFI firmware starts first on a boot image.
pub(crate) const STARTER_EFI: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/starter.efi"));

/// What unpacks a kernel that GRUB cannot unpack, and enters it.
pub(crate) const UNPACKER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/blocklab-unpacker"));
