//! Reading and writing the integers of a page's body, little-endian.

use super::page::{BODY_BYTES, Damage, HEADER_BYTES};

/// Appends integers to a body.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }
    pub(super) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }
    pub(super) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }
    pub(super) fn u128(&mut self, value: u128) {
        self.0.extend(value.to_le_bytes());
    }
}

/// Takes integers off a body.
pub(super) struct Reader<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(body: &'a [u8]) -> Reader<'a> {
        Reader { body, at: 0 }
    }

    /// Where the next field starts, in bytes from the start of the page.
    pub(super) fn offset(&self) -> usize {
        HEADER_BYTES + self.at
    }

    fn take<const N: usize>(&mut self, name: &'static str) -> Result<[u8; N], Damage> {
        let bytes = self.body.get(self.at..self.at + N).ok_or(Damage::Field {
            name,
            offset: self.offset(),
            value: N as u64,
            expected: "to end within the page",
        })?;
        self.at += N;
        Ok(std::array::from_fn(|i| bytes[i]))
    }

    pub(super) fn u8(&mut self, name: &'static str) -> Result<u8, Damage> {
        Ok(self.take::<1>(name)?[0])
    }
    pub(super) fn u32(&mut self, name: &'static str) -> Result<u32, Damage> {
        Ok(u32::from_le_bytes(self.take(name)?))
    }
    pub(super) fn u64(&mut self, name: &'static str) -> Result<u64, Damage> {
        Ok(u64::from_le_bytes(self.take(name)?))
    }
    pub(super) fn u128(&mut self, name: &'static str) -> Result<u128, Damage> {
        Ok(u128::from_le_bytes(self.take(name)?))
    }

    /// A small integer that must be below `bound`.
    pub(super) fn below(
        &mut self,
        bound: u8,
        name: &'static str,
        expected: &'static str,
    ) -> Result<u8, Damage> {
        let offset = self.offset();
        let value = self.u8(name)?;
        match value < bound {
            true => Ok(value),
            false => Err(Damage::Field { name, offset, value: value.into(), expected }),
        }
    }

    /// A count of items of `bytes_each` that fit into what is left of the page.
    pub(super) fn count(&mut self, name: &'static str, bytes_each: usize) -> Result<usize, Damage> {
        let offset = self.offset();
        let value = self.u32(name)?;
        let room = (BODY_BYTES - self.at) / bytes_each;
        match value as usize <= room {
            true => Ok(value as usize),
            false => Err(Damage::Field {
                name,
                offset,
                value: value.into(),
                expected: "no more than fit into the page",
            }),
        }
    }
}
