//! What the kernel's own interfaces share: Linux's error numbers, and numbers in the byte order of
//! this machine.

use crate::order::Refusal;

/// Errors as Linux numbers them.
pub(crate) mod errno {
    pub(crate) const NOENT: i32 = 2;
    pub(crate) const IO: i32 = 5;
    pub(crate) const INVAL: i32 = 22;
    pub(crate) const NOSPC: i32 = 28;
    pub(crate) const ROFS: i32 = 30;
    pub(crate) const NOSYS: i32 = 38;
    pub(crate) const OPNOTSUPP: i32 = 95;
}

/// A refusal of the engine, as Linux numbers it.
pub(super) fn number(why: Refusal) -> i32 {
    match why {
        Refusal::Io => errno::IO,
        Refusal::BeyondEnd => errno::INVAL,
        Refusal::NoSpace => errno::NOSPC,
    }
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
