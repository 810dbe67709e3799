//! A Parquet writer for plain tables.
//!
//! The `parquet` crate takes minutes to build on a small machine; this is the small part of the
//! format that tables of numbers and strings need: one PLAIN, snappy-compressed page per column
//! and row group. A row group is encoded on its own, so runs encode theirs in parallel and the
//! file is put together in their order.
//!
//! Format: <https://parquet.apache.org/docs/file-format/> and its `parquet.thrift`.

use std::io::{self, Write};

const MAGIC: &[u8; 4] = b"PAR1";

/// The values of one column of a row group.
#[derive(Clone, Debug)]
pub(crate) enum Column {
    U32(Vec<u32>),
    I64(Vec<i64>),
    F64(Vec<f64>),
    /// Nullable.
    MaybeF64(Vec<Option<f64>>),
    Text(Vec<String>),
    Static(Vec<&'static str>),
}

/// Codes of `parquet.thrift`.
mod code {
    pub(super) const INT32: i64 = 1;
    pub(super) const INT64: i64 = 2;
    pub(super) const DOUBLE: i64 = 5;
    pub(super) const BYTE_ARRAY: i64 = 6;
    pub(super) const UTF8: i64 = 0;
    pub(super) const UINT_32: i64 = 13;
    pub(super) const REQUIRED: i64 = 0;
    pub(super) const OPTIONAL: i64 = 1;
    pub(super) const PLAIN: i64 = 0;
    pub(super) const RLE: i64 = 3;
    pub(super) const SNAPPY: i64 = 1;
    pub(super) const DATA_PAGE: i64 = 0;
}

impl Column {
    fn rows(&self) -> usize {
        match self {
            Column::U32(v) => v.len(),
            Column::I64(v) => v.len(),
            Column::F64(v) => v.len(),
            Column::MaybeF64(v) => v.len(),
            Column::Text(v) => v.len(),
            Column::Static(v) => v.len(),
        }
    }

    fn physical(&self) -> i64 {
        match self {
            Column::U32(_) => code::INT32,
            Column::I64(_) => code::INT64,
            Column::F64(_) | Column::MaybeF64(_) => code::DOUBLE,
            Column::Text(_) | Column::Static(_) => code::BYTE_ARRAY,
        }
    }

    fn converted(&self) -> Option<i64> {
        match self {
            Column::U32(_) => Some(code::UINT_32),
            Column::Text(_) | Column::Static(_) => Some(code::UTF8),
            _ => None,
        }
    }

    fn nullable(&self) -> bool {
        matches!(self, Column::MaybeF64(_))
    }

    /// Definition levels, where there are any, and the values.
    fn page(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let text = |out: &mut Vec<u8>, text: &str| {
            out.extend((text.len() as u32).to_le_bytes());
            out.extend(text.as_bytes());
        };
        match self {
            Column::U32(v) => v.iter().for_each(|x| out.extend(x.to_le_bytes())),
            Column::I64(v) => v.iter().for_each(|x| out.extend(x.to_le_bytes())),
            Column::F64(v) => v.iter().for_each(|x| out.extend(x.to_le_bytes())),
            Column::Text(v) => v.iter().for_each(|x| text(&mut out, x)),
            Column::Static(v) => v.iter().for_each(|x| text(&mut out, x)),
            Column::MaybeF64(v) => {
                let levels = levels(v);
                out.extend((levels.len() as u32).to_le_bytes());
                out.extend(levels);
                v.iter().flatten().for_each(|x| out.extend(x.to_le_bytes()));
            }
        }
        out
    }
}

/// Definition levels of width 1, as one bit-packed run.
fn levels(values: &[Option<f64>]) -> Vec<u8> {
    let groups = values.len().div_ceil(8);
    let mut out = Vec::new();
    varint(&mut out, (groups as u64) << 1 | 1);
    for group in values.chunks(8) {
        let bit = |(i, v): (usize, &Option<f64>)| u8::from(v.is_some()) << i;
        out.push(group.iter().enumerate().map(bit).sum());
    }
    out
}

/// Names and kinds of a table's columns.
#[derive(Clone, Debug)]
pub(crate) struct Schema(Vec<(String, Column)>);

impl Schema {
    /// From an example of each column; its values are not used.
    pub(crate) fn new<N: Into<String>>(columns: impl IntoIterator<Item = (N, Column)>) -> Schema {
        Schema(columns.into_iter().map(|(name, column)| (name.into(), column)).collect())
    }
}

/// An encoded row group, ready to be put anywhere in a file.
#[derive(Debug)]
pub(crate) struct RowGroup {
    bytes: Vec<u8>,
    rows: usize,
    chunks: Vec<Chunk>,
}

#[derive(Debug)]
struct Chunk {
    offset: usize,
    compressed: usize,
    uncompressed: usize,
}

impl RowGroup {
    /// Encode columns of equal length.
    pub(crate) fn encode(columns: &[Column]) -> RowGroup {
        let rows = columns.first().map_or(0, Column::rows);
        let (mut bytes, mut chunks) = (Vec::new(), Vec::new());
        for column in columns {
            assert_eq!(column.rows(), rows, "the columns of a table are equally long");
            let page = column.page();
            let packed = snap::raw::Encoder::new()
                .compress_vec(&page)
                .expect("a page is far below the limit of 4 GiB");
            let mut header = Thrift::default();
            header.int(1, code::DATA_PAGE);
            header.int(2, page.len() as i64);
            header.int(3, packed.len() as i64);
            header.begin(5);
            header.int(1, rows as i64);
            header.int(2, code::PLAIN);
            header.int(3, code::RLE);
            header.int(4, code::RLE);
            header.end();
            header.end();
            let offset = bytes.len();
            bytes.extend(&header.out);
            bytes.extend(&packed);
            chunks.push(Chunk {
                offset,
                compressed: header.out.len() + packed.len(),
                uncompressed: header.out.len() + page.len(),
            });
        }
        RowGroup { bytes, rows, chunks }
    }
}

/// Write a whole file.
pub(crate) fn write_file<'a>(
    to: impl Write,
    schema: &Schema,
    groups: impl IntoIterator<Item = &'a RowGroup>,
) -> io::Result<()> {
    let mut writer = Writer::new(to, schema)?;
    for group in groups {
        writer.group(group)?;
    }
    writer.finish()
}

/// Writes a file group by group.
pub(crate) struct Writer<'a, W: Write> {
    to: W,
    schema: &'a Schema,
    at: usize,
    rows: usize,
    groups: usize,
    metadata: Thrift,
}

impl<'a, W: Write> Writer<'a, W> {
    pub(crate) fn new(mut to: W, schema: &'a Schema) -> io::Result<Writer<'a, W>> {
        to.write_all(MAGIC)?;
        let metadata = Thrift::default();
        Ok(Writer { to, schema, at: MAGIC.len(), rows: 0, groups: 0, metadata })
    }

    pub(crate) fn group(&mut self, group: &RowGroup) -> io::Result<()> {
        if group.rows == 0 {
            return Ok(());
        }
        self.to.write_all(&group.bytes)?;
        let meta = &mut self.metadata;
        meta.fields.push(0);
        meta.list(1, thrift::STRUCT, group.chunks.len());
        for ((name, column), chunk) in self.schema.0.iter().zip(&group.chunks) {
            let offset = (self.at + chunk.offset) as i64;
            meta.fields.push(0);
            meta.long(2, offset);
            meta.begin(3);
            meta.int(1, column.physical());
            meta.list(2, thrift::I32, 2);
            meta.zigzag(code::PLAIN);
            meta.zigzag(code::RLE);
            meta.list(3, thrift::BINARY, 1);
            meta.bytes(name.as_bytes());
            meta.int(4, code::SNAPPY);
            meta.long(5, group.rows as i64);
            meta.long(6, chunk.uncompressed as i64);
            meta.long(7, chunk.compressed as i64);
            meta.long(9, offset);
            meta.end();
            meta.end();
        }
        meta.long(2, group.chunks.iter().map(|chunk| chunk.uncompressed as i64).sum());
        meta.long(3, group.rows as i64);
        meta.end();
        self.at += group.bytes.len();
        self.rows += group.rows;
        self.groups += 1;
        Ok(())
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        let mut footer = Thrift::default();
        footer.int(1, 1);
        footer.list(2, thrift::STRUCT, self.schema.0.len() + 1);
        footer.fields.push(0);
        footer.text(4, "schema");
        footer.int(5, self.schema.0.len() as i64);
        footer.end();
        for (name, column) in &self.schema.0 {
            footer.fields.push(0);
            footer.int(1, column.physical());
            footer.int(3, if column.nullable() { code::OPTIONAL } else { code::REQUIRED });
            footer.text(4, name);
            if let Some(converted) = column.converted() {
                footer.int(6, converted);
            }
            footer.end();
        }
        footer.long(3, self.rows as i64);
        footer.list(4, thrift::STRUCT, self.groups);
        footer.out.extend(&self.metadata.out);
        footer.text(6, concat!("blocklab ", env!("CARGO_PKG_VERSION")));
        footer.end();
        self.to.write_all(&footer.out)?;
        self.to.write_all(&(footer.out.len() as u32).to_le_bytes())?;
        self.to.write_all(MAGIC)?;
        self.to.flush()
    }
}

/// Type codes of Thrift's compact protocol.
mod thrift {
    pub(super) const I32: u8 = 5;
    pub(super) const I64: u8 = 6;
    pub(super) const BINARY: u8 = 8;
    pub(super) const LIST: u8 = 9;
    pub(super) const STRUCT: u8 = 12;
}

/// A writer of Thrift's compact protocol. The outermost struct is open from the start; `fields`
/// holds the last field number of each open struct.
struct Thrift {
    out: Vec<u8>,
    fields: Vec<i16>,
}

impl Default for Thrift {
    fn default() -> Thrift {
        Thrift { out: Vec::new(), fields: vec![0] }
    }
}

impl Thrift {
    fn field(&mut self, number: i16, kind: u8) {
        let last = self.fields.last_mut().expect("a struct is open");
        let delta = (number - *last) as u8; // fields are written in rising order, below 16
        *last = number;
        self.out.push(delta << 4 | kind);
    }

    fn begin(&mut self, number: i16) {
        self.field(number, thrift::STRUCT);
        self.fields.push(0);
    }

    fn end(&mut self) {
        self.fields.pop();
        self.out.push(0);
    }

    fn int(&mut self, number: i16, value: i64) {
        self.field(number, thrift::I32);
        self.zigzag(value);
    }

    fn long(&mut self, number: i16, value: i64) {
        self.field(number, thrift::I64);
        self.zigzag(value);
    }

    fn text(&mut self, number: i16, value: &str) {
        self.field(number, thrift::BINARY);
        self.bytes(value.as_bytes());
    }

    fn list(&mut self, number: i16, kind: u8, length: usize) {
        self.field(number, thrift::LIST);
        match length {
            0..=14 => self.out.push((length as u8) << 4 | kind),
            _ => {
                self.out.push(0xf0 | kind);
                varint(&mut self.out, length as u64);
            }
        }
    }

    fn zigzag(&mut self, value: i64) {
        varint(&mut self.out, ((value << 1) ^ (value >> 63)) as u64);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        varint(&mut self.out, bytes.len() as u64);
        self.out.extend(bytes);
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_and_zigzag_follow_the_protocol() {
        let mut thrift = Thrift::default();
        [0, -1, 1, 150].iter().for_each(|&value| thrift.zigzag(value));
        assert_eq!(thrift.out, [0, 1, 2, 0xac, 0x02]);
    }

    #[test]
    fn nulls_take_a_level_and_no_value() {
        let page = Column::MaybeF64(vec![Some(1.0), None, Some(2.0)]).page();
        assert_eq!(page[..6], [2, 0, 0, 0, 0b11, 0b101]);
        assert_eq!(page.len(), 6 + 16);
    }

    #[test]
    fn a_file_ends_with_the_length_of_its_footer() {
        let columns = [Column::U32(vec![1, 2]), Column::Static(vec!["a", "b"])];
        let schema = Schema::new(["run", "op"].into_iter().zip(columns.clone()));
        let mut file = Vec::new();
        write_file(&mut file, &schema, [&RowGroup::encode(&columns)]).unwrap();
        let length = u32::from_le_bytes(file[file.len() - 8..][..4].try_into().unwrap()) as usize;
        let footer = &file[file.len() - 8 - length..file.len() - 8];
        assert_eq!((&file[..4], &file[file.len() - 4..]), (&MAGIC[..], &MAGIC[..]));
        assert_eq!(footer[..2], [0x15, 0x02]); // field 1, i32, version 1
        assert_eq!(footer[footer.len() - 1], 0);
    }
}
