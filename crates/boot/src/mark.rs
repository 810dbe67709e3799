//! How a guest of counted instructions says where its load begins and ends, and what its clock is.
//!
//! It writes letters to its serial line's scratch register, which does nothing, and QEMU's trace
//! has them in order with the requests to the disk. Whoever stands between the loader and the
//! firmware's driver of the disk (`load/rom.rs`, and the starter under UEFI) writes one with the
//! clock before and after each call: eight bytes, lowest first.

/// The scratch register of the first serial line. The starter knows it, too.
pub(crate) const PORT: u16 = 0x3ff;
/// Its address in QEMU's trace.
pub(crate) const REGISTER: &str = "0x07";
/// After the read that follows, the load begins.
pub(crate) const BEGIN: u8 = b'B';
/// Before the read that follows, it has ended.
pub(crate) const END: u8 = b'E';
/// The disk's driver is called. The clock follows.
pub(crate) const CALLED: u8 = b'S';
/// It has returned. The clock follows.
pub(crate) const RETURNED: u8 = b'D';
