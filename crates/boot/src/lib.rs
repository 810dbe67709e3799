//! The boot lab: boot images of a kernel stored in several ways, and what the loader computes and
//! reads until the kernel's init runs, counted in QEMU.
//!
//! `image` makes the disk, `load` boots it and writes a [`workload::boot_recording::Recording`],
//! which the workload `boot` replays on any device in virtual time; `compose` does so for a table.
//! `install` puts the recorder into a system of the user's.
//! `timeline` is what comes after: who waits for what until a unit of the distribution is reached.

mod accelerator;
pub mod compose;
mod guest_process;
mod guest_program;
pub mod image;
pub mod install;
pub mod load;
pub mod machine;
mod mark;
mod modules;
#[cfg(test)]
#[path = "../../../tests/skip.rs"]
mod skip;
pub mod snapshot;
pub mod timeline;
mod tool;
pub mod version;

pub use accelerator::Accelerator;
pub use guest_program::{GUEST_PROGRAM, LOADER, LOADER_EFI, LOADER_MULTIBOOT};
pub use tool::{missing_packages, missing_uefi_packages};
