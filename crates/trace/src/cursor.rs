//! Reading the fields of one line, byte by byte and without allocation.

use sim::{Op, SECTOR_BYTES};

use crate::error::Fault;

/// Sector addresses stay below this, so that their byte offset and the end of any request fit.
const SECTOR_END: u64 = 1 << 54;

type Field<T> = Result<T, Fault>;

/// A place in a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(line: &'a [u8]) -> Cursor<'a> {
        Cursor { line, at: 0 }
    }

    /// The next byte, or 0 at the end.
    #[inline]
    pub(crate) fn peek(&self) -> u8 {
        self.line.get(self.at).copied().unwrap_or(0)
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.line[self.at..]
    }

    pub(crate) fn skip(&mut self, bytes: usize) {
        self.at = (self.at + bytes).min(self.line.len());
    }

    #[inline]
    pub(crate) fn skip_blanks(&mut self) {
        while matches!(self.peek(), b' ' | b'\t') {
            self.at += 1;
        }
    }

    /// Back over what was just read.
    #[cold]
    pub(crate) fn skip_back(&mut self, bytes: usize) {
        self.at = self.at.saturating_sub(bytes);
    }

    /// To the next `byte`, or to the end.
    pub(crate) fn skip_to(&mut self, byte: u8) {
        while !self.is_at_end() && self.line[self.at] != byte {
            self.at += 1;
        }
    }

    /// True for a line of nothing but blanks.
    #[inline]
    pub(crate) fn is_blank(&self) -> bool {
        match self.peek() {
            b'0'..=b'9' => false,
            _ => self.rest().iter().all(|b| matches!(b, b' ' | b'\t')),
        }
    }

    #[inline]
    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.line.len()
    }

    /// A fault at the field that starts at `at`.
    #[cold]
    pub(crate) fn fault<T>(&self, at: usize, expected: &'static str) -> Field<T> {
        Err(Fault { at: at as u32, expected })
    }

    /// A fault here.
    #[cold]
    pub(crate) fn fault_here<T>(&self, expected: &'static str) -> Field<T> {
        self.fault(self.at, expected)
    }

    /// The byte `wanted` comes next.
    #[inline]
    pub(crate) fn byte(&mut self, wanted: u8, expected: &'static str) -> Field<()> {
        if self.at < self.line.len() && self.line[self.at] == wanted {
            self.at += 1;
            return Ok(());
        }
        self.fault_here(expected)
    }

    /// Nothing but blanks is left.
    #[inline]
    pub(crate) fn end(&mut self) -> Field<()> {
        self.skip_blanks();
        if self.is_at_end() { Ok(()) } else { self.fault_here("the end of the line") }
    }

    /// Everything up to the next blank, after leading blanks.
    #[inline]
    pub(crate) fn word(&mut self, expected: &'static str) -> Field<&'a [u8]> {
        self.skip_blanks();
        self.until(expected, |b| b == b' ' || b == b'\t')
    }

    /// Everything up to the next comma, which is consumed.
    #[inline]
    pub(crate) fn cell(&mut self, expected: &'static str) -> Field<&'a [u8]> {
        let cell = self.until(expected, |b| b == b',')?;
        self.at = (self.at + 1).min(self.line.len());
        Ok(cell)
    }

    #[inline]
    fn until(&mut self, expected: &'static str, stop: impl Fn(u8) -> bool) -> Field<&'a [u8]> {
        let start = self.at;
        while self.at < self.line.len() && !stop(self.line[self.at]) {
            self.at += 1;
        }
        if self.at == start {
            return self.fault(start, expected);
        }
        Ok(&self.line[start..self.at])
    }

    /// Digits: 19 of them always fit into 64 bits.
    #[inline]
    fn digits(&mut self, expected: &'static str) -> Field<u64> {
        let start = self.at;
        let mut value = 0u64;
        while let Some(digit) = self.line.get(self.at).map(|b| b.wrapping_sub(b'0'))
            && digit < 10
        {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            self.at += 1;
        }
        match self.at - start {
            1..=19 => Ok(value),
            _ => self.fault(start, expected),
        }
    }

    /// A whole number up to the next blank or the end of the line, after leading blanks.
    #[inline]
    pub(crate) fn number(&mut self, expected: &'static str) -> Field<u64> {
        self.skip_blanks();
        let start = self.at;
        let value = self.digits(expected)?;
        if self.at >= self.line.len() || matches!(self.line[self.at], b' ' | b'\t') {
            Ok(value)
        } else {
            self.fault(start, expected)
        }
    }

    /// A whole number up to the byte `stop`, which is consumed.
    #[inline]
    pub(crate) fn number_to(&mut self, stop: u8, expected: &'static str) -> Field<u64> {
        let start = self.at;
        let value = self.digits(expected)?;
        match self.byte(stop, expected) {
            Ok(()) => Ok(value),
            Err(_) => self.fault(start, expected),
        }
    }

    /// [`Cursor::number`] that fits 32 bits.
    #[inline]
    pub(crate) fn number_u32(&mut self, expected: &'static str) -> Field<u32> {
        self.skip_blanks();
        let start = self.at;
        let value = self.number(expected)?;
        u32::try_from(value).or_else(|_| self.fault(start, expected))
    }

    /// [`Cursor::number_to`] that fits 32 bits.
    #[inline]
    pub(crate) fn number_u32_to(&mut self, stop: u8, expected: &'static str) -> Field<u32> {
        let start = self.at;
        let value = self.number_to(stop, expected)?;
        u32::try_from(value).or_else(|_| self.fault(start, expected))
    }

    /// A whole number times `factor`, up to the next blank.
    #[inline]
    pub(crate) fn scaled(&mut self, factor: u64, expected: &'static str) -> Field<u64> {
        self.skip_blanks();
        let start = self.at;
        let value = self.number(expected)?;
        value.checked_mul(factor).map_or_else(|| self.fault(start, expected), Ok)
    }

    /// A whole number times `factor`, up to the byte `stop`, which is consumed.
    #[inline]
    pub(crate) fn ticks_to(&mut self, stop: u8, factor: u64, expected: &'static str) -> Field<u64> {
        let start = self.at;
        let value = self.number_to(stop, expected)?;
        value.checked_mul(factor).map_or_else(|| self.fault(start, expected), Ok)
    }

    /// A whole number times `factor` as the last field of the line.
    #[inline]
    pub(crate) fn ticks_at_end(&mut self, factor: u64, expected: &'static str) -> Field<u64> {
        let value = self.scaled(factor, expected)?;
        self.end().map(|()| value)
    }

    /// `R` or `W` in either case, up to the byte `stop`, which is consumed.
    #[inline]
    pub(crate) fn letter_to(&mut self, stop: u8) -> Field<Op> {
        let op = match self.peek() {
            b'R' | b'r' => Op::Read,
            b'W' | b'w' => Op::Write,
            _ => return self.fault_here("R or W"),
        };
        let start = self.at;
        self.at += 1;
        self.byte(stop, "R or W").or_else(|_| self.fault(start, "R or W")).map(|()| op)
    }

    /// A byte offset, `,`, a length in bytes and `stop`: the sectors they touch.
    #[inline]
    pub(crate) fn bytes_to(&mut self, stop: u8) -> Field<(u64, u32)> {
        let at = self.at;
        let offset = self.number_to(b',', OFFSET)?;
        let length_at = self.at;
        let length = self.number_to(stop, LENGTH)?;
        self.extent(offset, at, length, length_at)
    }

    /// [`Cursor::bytes_to`] the end of the line.
    #[inline]
    pub(crate) fn bytes_at_end(&mut self) -> Field<(u64, u32)> {
        let at = self.at;
        let offset = self.number_to(b',', OFFSET)?;
        let length_at = self.at;
        let length = self.number(LENGTH)?;
        self.end()?;
        self.extent(offset, at, length, length_at)
    }

    #[inline]
    fn extent(&self, offset: u64, at: usize, length: u64, length_at: usize) -> Field<(u64, u32)> {
        sectors_of(offset, length).or_else(|why| match why {
            LENGTH => self.fault(length_at, why),
            _ => self.fault(at, why),
        })
    }

    /// A sector address, `,`, a number of sectors and `stop`.
    #[inline]
    pub(crate) fn sectors_to(&mut self, stop: u8) -> Field<(u64, u32)> {
        let at = self.at;
        let sector = self.number_to(b',', SECTOR)?;
        if sector >= SECTOR_END {
            return self.fault(at, SECTOR);
        }
        let at = self.at;
        let count = self.number_to(stop, SECTORS)?;
        u32::try_from(count).map_or_else(|_| self.fault(at, SECTORS), |count| Ok((sector, count)))
    }

    /// A sector address, up to the next blank.
    #[inline]
    pub(crate) fn sector(&mut self) -> Field<u64> {
        self.skip_blanks();
        let start = self.at;
        let sector = self.number(SECTOR)?;
        if sector < SECTOR_END { Ok(sector) } else { self.fault(start, SECTOR) }
    }

    /// A number of sectors, up to the next blank.
    #[inline]
    pub(crate) fn sectors(&mut self) -> Field<u32> {
        self.number_u32(SECTORS)
    }

    /// A decimal number as an integer scaled by 10^`places`; further digits are cut off. It ends
    /// at a blank, a comma or the end of the line, which is not consumed.
    #[inline]
    pub(crate) fn decimal(&mut self, places: u32, expected: &'static str) -> Field<u64> {
        self.skip_blanks();
        let start = self.at;
        let whole = self.digits(expected)?;
        let mut value = whole.checked_mul(POWERS[places as usize]);
        if self.peek() == b'.' {
            self.at += 1;
            let mut left = places;
            let mut part = 0u64;
            while let Some(digit) = self.line.get(self.at).map(|b| b.wrapping_sub(b'0'))
                && digit < 10
            {
                if left > 0 {
                    part = part * 10 + u64::from(digit);
                    left -= 1;
                }
                self.at += 1;
            }
            part *= POWERS[left as usize];
            value = value.and_then(|v| v.checked_add(part));
        }
        if matches!(self.peek(), b'e' | b'E') {
            return self.scientific(start, places, expected);
        }
        let ends = self.is_at_end() || matches!(self.peek(), b' ' | b'\t' | b',');
        match value {
            Some(value) if ends => Ok(value),
            _ => self.fault(start, expected),
        }
    }

    /// Tools written in Python print small times as `7.3902e-05`.
    #[cold]
    fn scientific(&mut self, start: usize, places: u32, expected: &'static str) -> Field<u64> {
        while !self.is_at_end() && !matches!(self.peek(), b' ' | b'\t' | b',') {
            self.at += 1;
        }
        let text = std::str::from_utf8(&self.line[start..self.at]).unwrap_or("");
        let scaled = text.parse::<f64>().map(|v| v * POWERS[places as usize] as f64);
        match scaled {
            Ok(value) if value >= 0.0 && value < u64::MAX as f64 => Ok(value.round() as u64),
            _ => self.fault(start, expected),
        }
    }
}

/// What an error says about a sector address.
pub(crate) const SECTOR: &str = "a sector number below 2^54";
/// What an error says about a length in sectors.
pub(crate) const SECTORS: &str = "a number of sectors below 2^32";
/// What an error says about a byte offset.
pub(crate) const OFFSET: &str = "a byte offset below 2^63";
/// What an error says about a length in bytes.
pub(crate) const LENGTH: &str = "a length in bytes below 2^41";

const POWERS: [u64; 10] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// The whole sectors that `bytes` bytes at byte `offset` touch: (first, count).
///
/// # Errors
/// Which of the two is out of range.
#[inline]
pub(crate) fn sectors_of(offset: u64, bytes: u64) -> Result<(u64, u32), &'static str> {
    if offset >= SECTOR_END * SECTOR_BYTES {
        return Err(OFFSET);
    }
    if bytes >= 1 << 41 {
        return Err(LENGTH);
    }
    if bytes == 0 {
        return Ok((offset / SECTOR_BYTES, 0));
    }
    let first = offset / SECTOR_BYTES;
    let last = (offset + bytes - 1) / SECTOR_BYTES;
    u32::try_from(last - first + 1).map(|count| (first, count)).map_err(|_| LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_keep_the_digits_they_can() {
        let read = |text: &str, places| Cursor::new(text.as_bytes()).decimal(places, "x");
        assert_eq!(read("7961.833", 6), Ok(7_961_833_000));
        assert_eq!(read("0.0000000019", 9), Ok(1));
        assert_eq!(read("12", 9), Ok(12_000_000_000));
        assert_eq!(read("7.3902e-05", 9), Ok(73_902));
        assert!(read("-1", 9).is_err());
        assert!(read("99999999999", 9).is_err());
        assert!(read("1.5x", 9).is_err());
        assert!(read("1e999", 9).is_err());
    }

    #[test]
    fn numbers_never_wrap() {
        let read = |text: &str| Cursor::new(text.as_bytes()).number("x");
        assert_eq!(read("9999999999999999999"), Ok(9_999_999_999_999_999_999));
        assert!(read("18446744073709551616").is_err());
        assert!(read("").is_err());
        assert!(read("-5").is_err());
        assert!(read("5\0").is_err());
    }

    #[test]
    fn byte_ranges_cover_every_sector_they_touch() {
        assert_eq!(sectors_of(512, 512), Ok((1, 1)));
        assert_eq!(sectors_of(511, 2), Ok((0, 2)));
        assert_eq!(sectors_of(1024, 0), Ok((2, 0)));
        assert_eq!(sectors_of(u64::MAX, 1), Err(OFFSET));
        assert_eq!(sectors_of(0, u64::MAX), Err(LENGTH));
    }
}
