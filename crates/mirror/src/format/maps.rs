//! The three maps of a leg: hot extents, regions out of sync, checksums.

use super::field::{Reader, Writer};
use super::page::{BODY_BYTES, Damage, PAGE_BYTES, PageAddress, PageKind, open_own, seal};

/// Hot extents that fit into a page.
pub const HOT_MAX: usize = (BODY_BYTES - 12) / 4;
/// Bits of the out-of-sync bitmap in a page.
pub const BITS_PER_PAGE: u64 = ((BODY_BYTES as u64 - 16) / 8) * 64;
/// Entries of the checksum table in a page.
pub const SUMS_PER_PAGE: u64 = (BODY_BYTES as u64 - 16) / 8;
/// The entry of a block whose content could be read from no leg: no write has the number 0.
pub const LOST: (u32, u32) = (u32::MAX, 0);

/// All hot extents at once: one page, so a transaction is one write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Activity {
    /// Counts transactions: the greatest valid one counts.
    pub version: u64,
    /// Numbers of the extents that may differ between the legs, rising.
    pub hot: Vec<u32>,
}

impl Activity {
    /// The page for `place`.
    pub fn encode(&self, array: u128, place: PageAddress) -> Box<[u8; PAGE_BYTES]> {
        let mut w = Writer::default();
        w.u64(self.version);
        w.u32(self.hot.len() as u32);
        self.hot.iter().for_each(|&extent| w.u32(extent));
        seal(PageKind::Activity, array, place, &w.0)
    }

    /// Read the page at `place`.
    ///
    /// # Errors
    /// The first thing wrong with the page.
    pub fn decode(array: u128, place: PageAddress, page: &[u8]) -> Result<Activity, Damage> {
        let mut r = Reader::new(open_own(PageKind::Activity, array, place, page)?);
        let version = r.u64("version")?;
        let count = r.count("extents", 4)?;
        let hot = (0..count).map(|_| r.u32("extent")).collect::<Result<Vec<_>, _>>()?;
        match hot.windows(2).find(|pair| pair[0] >= pair[1]) {
            None => Ok(Activity { version, hot }),
            Some(pair) => Err(Damage::Field {
                name: "extent",
                offset: 0,
                value: pair[1].into(),
                expected: "rising numbers",
            }),
        }
    }
}

/// A page of the bitmap. Two slots alternate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bitmap {
    /// The slot with the greater version counts.
    pub version: u64,
    /// Which page of the bitmap.
    pub index: u64,
    /// 64 regions each, the lowest bit first; set means out of sync.
    pub words: Vec<u64>,
}

/// A page of the checksum table. Two slots alternate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TablePage {
    /// The slot with the greater version counts.
    pub version: u64,
    /// Which page of the table.
    pub index: u64,
    /// Checksum and the low half of the write's number per block; 0 as number: not known, or
    /// [`LOST`].
    pub sums: Vec<(u32, u32)>,
}

/// The shape that bitmap and table share: a version, an index, 8-byte words.
fn encode_words(
    kind: PageKind,
    array: u128,
    place: PageAddress,
    (version, index): (u64, u64),
    words: impl Iterator<Item = u64>,
) -> Box<[u8; PAGE_BYTES]> {
    let mut w = Writer::default();
    w.u64(version);
    w.u64(index);
    words.for_each(|word| w.u64(word));
    seal(kind, array, place, &w.0)
}

fn decode_words(
    kind: PageKind,
    array: u128,
    place: PageAddress,
    page: &[u8],
    count: u64,
) -> Result<(u64, u64, Vec<u64>), Damage> {
    let mut r = Reader::new(open_own(kind, array, place, page)?);
    let (version, index) = (r.u64("version")?, r.u64("index")?);
    Ok((version, index, (0..count).map(|_| r.u64("word")).collect::<Result<_, _>>()?))
}

impl Bitmap {
    /// The page for `place`.
    pub fn encode(&self, array: u128, place: PageAddress) -> Box<[u8; PAGE_BYTES]> {
        let head = (self.version, self.index);
        encode_words(PageKind::Bitmap, array, place, head, self.words.iter().copied())
    }

    /// Read the page at `place`.
    ///
    /// # Errors
    /// The first thing wrong with the page.
    pub fn decode(array: u128, place: PageAddress, page: &[u8]) -> Result<Bitmap, Damage> {
        let count = BITS_PER_PAGE / 64;
        let (version, index, words) = decode_words(PageKind::Bitmap, array, place, page, count)?;
        Ok(Bitmap { version, index, words })
    }
}

impl TablePage {
    /// The page for `place`.
    pub fn encode(&self, array: u128, place: PageAddress) -> Box<[u8; PAGE_BYTES]> {
        let words = self.sums.iter().map(|&(sum, tag)| u64::from(sum) | u64::from(tag) << 32);
        encode_words(PageKind::Table, array, place, (self.version, self.index), words)
    }

    /// Read the page at `place`.
    ///
    /// # Errors
    /// The first thing wrong with the page.
    pub fn decode(array: u128, place: PageAddress, page: &[u8]) -> Result<TablePage, Damage> {
        let (version, index, words) =
            decode_words(PageKind::Table, array, place, page, SUMS_PER_PAGE)?;
        let sums = words.into_iter().map(|word| (word as u32, (word >> 32) as u32)).collect();
        Ok(TablePage { version, index, sums })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: PageAddress = PageAddress { device: 0, page: 4 };

    #[test]
    fn what_is_written_is_read() {
        let hot = Activity { version: 8, hot: (0..HOT_MAX as u32).collect() };
        assert_eq!(Activity::decode(7, HERE, &hot.encode(7, HERE)[..]).unwrap(), hot);
        let words = (0..BITS_PER_PAGE / 64).collect();
        let bitmap = Bitmap { version: 8, index: 2, words };
        assert_eq!(Bitmap::decode(7, HERE, &bitmap.encode(7, HERE)[..]).unwrap(), bitmap);
        let sums = (0..SUMS_PER_PAGE as u32).map(|n| (n, !n)).collect();
        let table = TablePage { version: 8, index: 2, sums };
        assert_eq!(TablePage::decode(7, HERE, &table.encode(7, HERE)[..]).unwrap(), table);
    }

    #[test]
    fn extents_out_of_order_are_refused() {
        let twice = Activity { version: 8, hot: vec![3, 3] };
        let refused = Activity::decode(7, HERE, &twice.encode(7, HERE)[..]).unwrap_err();
        assert!(refused.to_string().contains("extent is 3, expected rising"), "{refused}");
    }
}
