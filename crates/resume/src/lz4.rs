//! LZ4's blocks.
//!
//! `doc/lz4_Block_format.md` of the LZ4 project.

use crate::lzo::Unpack;

/// Unpack `packed` into `out`; the number of bytes that it was, or `None` when it is damaged or
/// has no room.
pub fn unpack(packed: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut state = Unpack { packed, at: 0, out, end: 0 };
    loop {
        let token = usize::from(state.byte()?);
        let count = length(&mut state, token >> 4)?;
        state.literals(count)?;
        if state.at == packed.len() {
            return Some(state.end);
        }
        let distance = state.word()?;
        let bytes = 4 + length(&mut state, token & 15)?;
        if distance == 0 {
            return None;
        }
        state.repeat(bytes, distance)?;
    }
}

/// A length of 15 goes on in the bytes behind.
fn length(state: &mut Unpack, bits: usize) -> Option<usize> {
    let mut length = bits;
    let mut more = bits == 15;
    while more {
        let byte = state.byte()?;
        length += usize::from(byte);
        more = byte == 255;
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    extern crate std;
    use std::vec::Vec;

    #[test]
    fn blocks_are_unpacked_and_damage_is_refused() {
        let unpacked = |packed: &[u8]| {
            let mut out = [0; 1000];
            unpack(packed, &mut out).map(|bytes| out[..bytes].to_vec())
        };
        // "abc", 6 bytes from 3 before, "xyz"; 15 + 2 letters; 4 + 15 + 255 + 1 of one letter.
        let packed = [0x32, b'a', b'b', b'c', 3, 0, 0x30, b'x', b'y', b'z'];
        assert_eq!(unpacked(&packed).unwrap(), b"abcabcabcxyz");
        let letters: Vec<u8> = (0..17).collect();
        assert_eq!(unpacked(&[&[0xf0, 2][..], &letters].concat()).unwrap(), letters);
        let found = unpacked(&[0x1f, b'a', 1, 0, 255, 1, 0x10, b'b']).unwrap();
        assert_eq!((found.len(), found[275], found[276]), (277, b'a', b'b'));
        for end in [1, 2, 3, 4, 5, 6, 7, 8, 9] {
            let whole = end == 4;
            // Behind the first letters a block may end.
            assert_eq!(unpacked(&packed[..end]).is_some(), whole, "cut at {end}");
        }
        assert_eq!(unpacked(&[0x12, b'a', 0, 0, 0]), None);
        assert_eq!(unpacked(&[0x12, b'a', 2, 0, 0]), None);
    }
}
