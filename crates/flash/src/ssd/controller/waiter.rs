//! Who waits for a flash operation, and how the NAND model keeps it in 32 bits without knowing.

use crate::ssd::nand::Target;

/// Who is told when an operation ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waiter {
    /// The request in this slot.
    Request(u32),
    /// The job with this index.
    Job(u32),
    /// The step of the collector in this pool.
    Pool(u32),
    /// The write buffer.
    Buffer,
}

const INDEX: u32 = (1 << 30) - 1;

impl Waiter {
    #[inline]
    pub(super) fn pack(self) -> Target {
        match self {
            Waiter::Request(slot) => slot,
            Waiter::Job(job) => 1 << 30 | job,
            Waiter::Pool(pool) => 2 << 30 | pool,
            Waiter::Buffer => 3 << 30,
        }
    }

    #[inline]
    pub(super) fn unpack(target: Target) -> Waiter {
        let index = target & INDEX;
        match target >> 30 {
            0 => Waiter::Request(index),
            1 => Waiter::Job(index),
            2 => Waiter::Pool(index),
            _ => Waiter::Buffer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_waiter_survives() {
        for index in [0, 1, INDEX] {
            for waiter in [Waiter::Request(index), Waiter::Job(index), Waiter::Pool(index)] {
                assert_eq!(Waiter::unpack(waiter.pack()), waiter);
            }
        }
        assert_eq!(Waiter::unpack(Waiter::Buffer.pack()), Waiter::Buffer);
    }
}
