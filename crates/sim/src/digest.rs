//! A 64-bit digest of what a device did, to compare runs.

use crate::rng::mix64;

/// Order-sensitive digest of a stream of integers. Not cryptographic: it compares runs of one
/// program, it does not defend against anybody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest(pub u64);

impl Default for Digest {
    fn default() -> Digest {
        Digest(0x626c_6f63_6b6c_6162) // "blocklab"
    }
}

impl Digest {
    /// Add one integer.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.0 = mix64(self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_matters() {
        let of = |values: &[u64]| {
            let mut digest = Digest::default();
            values.iter().for_each(|&v| digest.add(v));
            digest
        };
        assert_eq!(of(&[1, 2]), of(&[1, 2]));
        assert_ne!(of(&[1, 2]), of(&[2, 1]));
        assert_ne!(of(&[0]), of(&[0, 0]));
    }
}
