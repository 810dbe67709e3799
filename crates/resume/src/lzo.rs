//! LZO1X, as a kernel compresses its own image.
//!
//! Linux, `Documentation/staging/lzo.rst`. Not the variant for runs of zeros, which it has for
//! swap in memory only.

/// Unpack `packed` into `out`; the number of bytes that it was, or `None` when it is damaged or
/// has no room.
pub fn unpack(packed: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut state = Unpack { packed, at: 0, out, end: 0 };
    // Literals that the instruction before copied: 0 to 3, and 4 for more.
    let mut literals = match *packed.first()? {
        // Says which variant it is.
        17 => return None,
        first @ 18.. => {
            state.at = 1;
            let count = usize::from(first) - 17;
            state.literals(count)?;
            count.min(4)
        }
        _ => 0,
    };
    loop {
        let code = usize::from(state.byte()?);
        let (bytes, distance, following) = match code {
            0..=15 if literals == 0 => {
                let count = 3 + state.length(code, 15)?;
                state.literals(count)?;
                literals = 4;
                continue;
            }
            0..=15 => {
                let near = (usize::from(state.byte()?) << 2) + (code >> 2);
                let (bytes, distance) =
                    if literals == 4 { (3, near + 2049) } else { (2, near + 1) };
                (bytes, distance, code)
            }
            16..=31 => {
                let bytes = 2 + state.length(code & 7, 7)?;
                let word = state.word()?;
                let distance = 16384 + ((code & 8) << 11) + (word >> 2);
                if distance == 16384 {
                    return (state.at == packed.len()).then_some(state.end);
                }
                (bytes, distance, word)
            }
            32..=63 => {
                let bytes = 2 + state.length(code & 31, 31)?;
                let word = state.word()?;
                (bytes, (word >> 2) + 1, word)
            }
            _ => {
                let distance = (usize::from(state.byte()?) << 3) + (code >> 2 & 7) + 1;
                ((code >> 5) + 1, distance, code)
            }
        };
        state.repeat(bytes, distance)?;
        literals = following & 3;
        state.literals(literals)?;
    }
}

/// Bytes that are copied at once.
pub(crate) const SHORT: usize = 16;

/// What is unpacked, and how far it is; shared with LZ4.
pub(crate) struct Unpack<'a> {
    pub(crate) packed: &'a [u8],
    pub(crate) at: usize,
    pub(crate) out: &'a mut [u8],
    pub(crate) end: usize,
}

impl Unpack<'_> {
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let byte = *self.packed.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    pub(crate) fn word(&mut self) -> Option<usize> {
        Some(usize::from(u16::from_le_bytes([self.byte()?, self.byte()?])))
    }

    /// A length that its bits have no room for is 0 there, and goes on in the bytes behind.
    fn length(&mut self, bits: usize, bits_max: usize) -> Option<usize> {
        if bits != 0 {
            return Some(bits);
        }
        let mut length = bits_max;
        loop {
            match self.byte()? {
                0 => length += 255,
                last => return Some(length + usize::from(last)),
            }
        }
    }

    /// Copy what was not packed.
    pub(crate) fn literals(&mut self, count: usize) -> Option<()> {
        // Most are short: a copy of a fixed length is quicker, where there is room for it. What it
        // writes too much is overwritten by what follows.
        if count <= SHORT
            && let Some(from) = self.packed.get(self.at..).and_then(<[u8]>::first_chunk::<SHORT>)
            && let Some(to) = self.out.get_mut(self.end..).and_then(<[u8]>::first_chunk_mut)
        {
            *to = *from;
        } else {
            let from = self.packed.get(self.at..self.at.checked_add(count)?)?;
            self.out.get_mut(self.end..self.end.checked_add(count)?)?.copy_from_slice(from);
        }
        (self.at, self.end) = (self.at + count, self.end + count);
        Some(())
    }

    /// Copy what was unpacked `distance` bytes ago; the two may overlap.
    pub(crate) fn repeat(&mut self, bytes: usize, distance: usize) -> Option<()> {
        let from = self.end.checked_sub(distance).filter(|from| *from < self.end)?;
        let end = self.end.checked_add(bytes).filter(|end| *end <= self.out.len())?;
        // What repeats after a few bytes does so after some times as many, which are copied at
        // once; what is too much is overwritten, as above.
        let wide = distance * SHORT.div_ceil(distance);
        let (mut at, near) = (self.end, end.min(from + wide));
        while at < near {
            self.out[at] = self.out[at - distance];
            at += 1;
        }
        while at < end {
            if at + SHORT <= self.out.len() {
                let some: [u8; SHORT] = *self.out[at - wide..].first_chunk()?;
                *self.out[at..].first_chunk_mut()? = some;
                at += SHORT;
            } else {
                self.out[at] = self.out[at - distance];
                at += 1;
            }
        }
        self.end = end;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern crate std;
    use std::vec::Vec;

    fn unpacked(packed: &[u8]) -> Option<Vec<u8>> {
        let mut out = [0; 70_000];
        let bytes = unpack(packed, &mut out)?;
        Some(out[..bytes].to_vec())
    }

    #[test]
    fn each_instruction_does_what_it_is_for() {
        const END: [u8; 3] = [17, 0, 0];
        let with = |head: &[u8]| unpacked(&[head, &END].concat());
        // Four letters, then 3 bytes from 4 before, and one letter.
        assert_eq!(with(&[21, b'a', b'b', b'c', b'd', 0x4d, 0, b'x']).unwrap(), b"abcdabcx");
        // Overlapping: one letter again and again, by the instruction for 5 to 8 bytes.
        assert_eq!(with(&[18, b'z', 0xe0, 0]).unwrap(), [b'z'; 9]);
        // 2 bytes from 2 before, behind one letter.
        assert_eq!(with(&[19, b'a', b'b', 0x04, 0]).unwrap(), b"abab");
        // A long run of letters, whose length goes on in two bytes: 3 + 15 + 255 + 1.
        let letters: Vec<u8> = (0..274).map(|at| at as u8).collect();
        assert_eq!(with(&[&[0, 0, 1][..], &letters].concat()).unwrap(), letters);
        // 3 bytes from 2,049 before.
        let many: Vec<u8> = (0..2100u32).map(|at| ((at * at) >> 3) as u8).collect();
        let length = 2100 - 18;
        let head = [&[0][..], &[0; 8], &[(length - 8 * 255) as u8]].concat();
        let found = with(&[&head[..], &many, &[0, 0]].concat()).unwrap();
        assert_eq!(found[2100..], many[2100 - 2049..2100 - 2046]);
        // 33 + 9 bytes from 20 before, and 2 + 7 + 3 from 16,384 + 4.
        let found = with(&[&head[..], &many, &[32, 9, 19 << 2, 0]].concat()).unwrap();
        assert_eq!(found[2100..2120], many[2080..]);
        assert_eq!(found.len(), 2142);
        let zeros = [&[18, 0, 32][..], &[0; 70], &[1, 0, 0]].concat();
        let found = with(&[&zeros[..], &[16, 3, 4 << 2, 0]].concat()).unwrap();
        assert_eq!(found.len(), 1 + 33 + 70 * 255 + 1 - 2 + 14);
    }

    #[test]
    fn what_is_damaged_is_refused() {
        let right = [21, b'a', b'b', b'c', b'd', 0x4c, 0, 17, 0, 0];
        assert!(unpacked(&right).is_some());
        for end in 0..right.len() {
            assert_eq!(unpacked(&right[..end]), None, "cut at {end}");
        }
        // From before the first byte; no room; more behind the end.
        assert_eq!(unpacked(&[21, b'a', b'b', b'c', b'd', 0x4c, 1, 17, 0, 0]), None);
        assert_eq!(unpack(&right, &mut [0; 6]), None);
        assert_eq!(unpacked(&[&right[..], &[0]].concat()), None);
        assert_eq!(unpacked(&[17, 0, 0]), None);
    }
}
