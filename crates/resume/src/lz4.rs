//! LZ4's blocks.
//!
//! `doc/lz4_Block_format.md` of the LZ4 project.

use crate::bytes::{u32_at, u64_at};
use crate::lzo::{SHORT, Unpack};

/// Bytes that repeat at least.
const LEAST: usize = 4;
/// How far back they may be.
const DISTANCE_MAX: usize = 65_535;
/// A block ends with so many letters.
const LAST: usize = 5;
/// And nothing repeats from later than this before its end.
const QUIET: usize = 12;
/// Bits of what is remembered of where bytes were.
const PLACE_BITS: u32 = 13;

/// Where bytes were before, while a block is packed.
pub struct Places([u32; 1 << PLACE_BITS]);

impl Places {
    /// With nothing in it.
    pub const fn new() -> Places {
        Places([0; 1 << PLACE_BITS])
    }
}

impl Default for Places {
    fn default() -> Places {
        Places::new()
    }
}

/// Pack `plain` into `packed`; the number of bytes that it became, or `None` when there is no room.
pub fn pack(plain: &[u8], packed: &mut [u8], places: &mut Places) -> Option<usize> {
    places.0.fill(0);
    let mut out = Packed { bytes: packed, end: 0 };
    let (mut at, mut told, mut misses) = (0, 0, 0);
    while at + QUIET < plain.len() {
        let word = u32_at(plain, at);
        let place = &mut places.0[(word.wrapping_mul(2_654_435_761) >> (32 - PLACE_BITS)) as usize];
        let before = core::mem::replace(place, at as u32) as usize;
        let distance = at - before;
        if distance == 0 || distance > DISTANCE_MAX || u32_at(plain, before) != word {
            // What does not repeat is looked at in longer and longer steps.
            misses += 1;
            at += 1 + (misses >> 6);
            continue;
        }
        let end = same_until(plain, distance, at + LEAST, plain.len() - LAST);
        out.sequence(&plain[told..at], Some((distance, end - at)))?;
        (at, told, misses) = (end, end, 0);
    }
    out.sequence(&plain[told..], None)?;
    Some(out.end)
}

/// How far what is at `at` is as it was `distance` bytes ago, at most until `end`.
fn same_until(plain: &[u8], distance: usize, mut at: usize, end: usize) -> usize {
    while at + 8 <= end {
        let other = u64_at(plain, at) ^ u64_at(plain, at - distance);
        if other != 0 {
            return at + other.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < end && plain[at] == plain[at - distance] {
        at += 1;
    }
    at
}

/// A block that grows.
struct Packed<'a> {
    bytes: &'a mut [u8],
    end: usize,
}

impl Packed<'_> {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.bytes.get_mut(self.end..self.end + bytes.len())?.copy_from_slice(bytes);
        self.end += bytes.len();
        Some(())
    }

    /// What of a length its four bits have no room for.
    fn length(&mut self, length: usize) -> Option<()> {
        let Some(mut rest) = length.checked_sub(15) else { return Some(()) };
        while rest >= 255 {
            self.put(&[255])?;
            rest -= 255;
        }
        self.put(&[rest as u8])
    }

    /// Letters, and what repeats behind them: from how far back, and how much.
    fn sequence(&mut self, letters: &[u8], repeats: Option<(usize, usize)>) -> Option<()> {
        let more = repeats.map_or(0, |(_, bytes)| bytes - LEAST);
        self.put(&[(letters.len().min(15) << 4 | more.min(15)) as u8])?;
        self.length(letters.len())?;
        self.put(letters)?;
        let Some((distance, _)) = repeats else { return Some(()) };
        self.put(&(distance as u16).to_le_bytes())?;
        self.length(more)
    }
}

/// Unpack `packed` into `out`; the number of bytes that it was, or `None` when it is damaged or
/// has no room.
pub fn unpack(packed: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut state = Unpack { packed, at: 0, out, end: 0 };
    loop {
        while quick(&mut state).is_some() {}
        let token = usize::from(state.byte()?);
        let count = length(&mut state, token >> 4)?;
        state.literals(count)?;
        if state.at == packed.len() {
            return Some(state.end);
        }
        let distance = state.word()?;
        let bytes = LEAST + length(&mut state, token & 15)?;
        state.repeat(bytes, distance)?;
    }
}

/// Unpack few letters and a short repeat from not too near, as almost all are, if there is room for
/// copies of a fixed length: what they write too much is overwritten by what follows. A block never
/// ends so: fewer bytes would be left.
fn quick(state: &mut Unpack) -> Option<()> {
    let input: &[u8; 19] = state.packed.get(state.at..)?.first_chunk()?;
    let (letters, repeats) = (usize::from(input[0] >> 4), usize::from(input[0] & 15));
    let distance = usize::from(u16::from_le_bytes([input[1 + letters], input[2 + letters]]));
    let from = (state.end + letters).checked_sub(distance)?;
    if letters == 15 || repeats == 15 || distance < SHORT {
        return None;
    }
    // What is unpacked, from where it repeats on to where it ends at most.
    let out: &mut [u8] = state.out.get_mut(from..state.end + letters + 2 * SHORT)?;
    let to = out.len() - 2 * SHORT;
    let put = |out: &mut [u8], at: usize, bytes: [u8; SHORT]| {
        out[at..].first_chunk_mut().map(|place| *place = bytes)
    };
    put(out, to.checked_sub(letters)?, *input[1..].first_chunk()?)?;
    put(out, to, *out.first_chunk()?)?;
    put(out, to + SHORT, *out[SHORT..].first_chunk()?)?;
    state.at += 3 + letters;
    state.end += letters + repeats + LEAST;
    Some(())
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
    use std::vec;
    use std::vec::Vec;

    /// Bytes of a few letters, or any, with repeats from near and far.
    fn plain(rng: &mut sim::Rng) -> Vec<u8> {
        let mut plain = Vec::new();
        let letters = [1, 2, 4, 256][rng.below(4) as usize];
        let bytes = [0, 1, 13, 100, 5_000, 200_000][rng.below(6) as usize];
        while plain.len() < bytes {
            if rng.below(3) == 0 && !plain.is_empty() {
                let from = rng.below(plain.len() as u64) as usize;
                let end = (from + rng.below(700) as usize).min(plain.len());
                plain.extend_from_within(from..end);
            } else {
                let count = rng.below(300) as usize;
                plain.extend((0..count).map(|_| rng.below(letters) as u8));
            }
        }
        plain
    }

    #[test]
    fn what_is_packed_is_unpacked_as_it_was() {
        let mut rng = sim::Rng::new(1, "lz4");
        let mut places = Places::new();
        for _ in 0..400 {
            let plain = plain(&mut rng);
            // The format's own bound.
            let mut packed = vec![0; plain.len() + plain.len() / 255 + 16];
            let bytes = pack(&plain, &mut packed, &mut places).unwrap();
            let mut out = vec![0; plain.len()];
            assert_eq!(unpack(&packed[..bytes], &mut out), Some(plain.len()));
            assert!(out == plain);
            // Neither has more room than it is given.
            assert_eq!(pack(&plain, &mut packed[..bytes - 1], &mut places), None);
            let bytes = pack(&plain, &mut packed, &mut places).unwrap();
            if let Some(short) = plain.len().checked_sub(1) {
                assert_eq!(unpack(&packed[..bytes], &mut out[..short]), None);
            }
        }
    }

    #[test]
    fn pages_that_repeat_become_short() {
        let page: Vec<u8> = (0..4096u32).map(|at| (at / 16 * 7) as u8).collect();
        let mut packed = vec![0; 10_000];
        let bytes = pack(&page, &mut packed, &mut Places::new()).unwrap();
        assert!(bytes < 4096 * 6 / 10, "{bytes}");
        let bytes = pack(&[0; 8192], &mut packed, &mut Places::new()).unwrap();
        assert!(bytes < 60, "{bytes}");
    }

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
