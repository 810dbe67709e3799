//! Tables as Parquet files.
//!
//! A row group is encoded on its own, so runs encode theirs in parallel and the file is put
//! together in their order.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::column::writer::{
    ColumnCloseResult, ColumnWriter, ColumnWriterImpl, get_column_writer,
};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{SchemaDescriptor, Type};
use serde::{Deserialize, Serialize};

/// The values of one column of a row group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Column {
    Bool(Vec<bool>),
    U32(Vec<u32>),
    I64(Vec<i64>),
    F64(Vec<f64>),
    /// Nullable, as the next one.
    MaybeF64(Vec<Option<f64>>),
    MaybeI64(Vec<Option<i64>>),
    Text(Vec<Cow<'static, str>>),
}

impl Column {
    /// A word for each row, few of which differ.
    pub(crate) fn words(words: impl IntoIterator<Item = &'static str>) -> Column {
        Column::Text(words.into_iter().map(Cow::Borrowed).collect())
    }

    pub(crate) fn rows(&self) -> usize {
        match self {
            Column::Bool(v) => v.len(),
            Column::U32(v) => v.len(),
            Column::I64(v) => v.len(),
            Column::F64(v) => v.len(),
            Column::MaybeF64(v) => v.len(),
            Column::MaybeI64(v) => v.len(),
            Column::Text(v) => v.len(),
        }
    }

    fn field(&self, name: &str) -> Type {
        let (physical, converted) = match self {
            Column::Bool(_) => (Physical::BOOLEAN, ConvertedType::NONE),
            Column::U32(_) => (Physical::INT32, ConvertedType::UINT_32),
            Column::I64(_) | Column::MaybeI64(_) => (Physical::INT64, ConvertedType::NONE),
            Column::F64(_) | Column::MaybeF64(_) => (Physical::DOUBLE, ConvertedType::NONE),
            Column::Text(_) => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
        };
        let repetition = match self {
            Column::MaybeF64(_) | Column::MaybeI64(_) => Repetition::OPTIONAL,
            _ => Repetition::REQUIRED,
        };
        let builder = Type::primitive_type_builder(name, physical).with_repetition(repetition);
        builder.with_converted_type(converted).build().expect("the kinds fit each other")
    }

    fn write(&self, to: &mut ColumnWriter) -> parquet::errors::Result<()> {
        match (self, to) {
            (Column::Bool(v), ColumnWriter::BoolColumnWriter(to)) => put(to, v, None),
            (Column::U32(v), ColumnWriter::Int32ColumnWriter(to)) => {
                put(to, &v.iter().map(|&x| x.cast_signed()).collect::<Vec<_>>(), None)
            }
            (Column::I64(v), ColumnWriter::Int64ColumnWriter(to)) => put(to, v, None),
            (Column::F64(v), ColumnWriter::DoubleColumnWriter(to)) => put(to, v, None),
            (Column::MaybeF64(v), ColumnWriter::DoubleColumnWriter(to)) => {
                let levels: Vec<i16> = v.iter().map(|x| i16::from(x.is_some())).collect();
                put(to, &v.iter().flatten().copied().collect::<Vec<_>>(), Some(&levels))
            }
            (Column::MaybeI64(v), ColumnWriter::Int64ColumnWriter(to)) => {
                let levels: Vec<i16> = v.iter().map(|x| i16::from(x.is_some())).collect();
                put(to, &v.iter().flatten().copied().collect::<Vec<_>>(), Some(&levels))
            }
            (Column::Text(v), ColumnWriter::ByteArrayColumnWriter(to)) => {
                put(to, &v.iter().map(|x| ByteArray::from(&**x)).collect::<Vec<_>>(), None)
            }
            _ => unreachable!("the schema was made from columns of the same kinds"),
        }
    }
}

fn put<T: DataType>(
    to: &mut ColumnWriterImpl<'_, T>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> parquet::errors::Result<()> {
    to.write_batch(values, levels, None).map(|_| ())
}

/// Names and kinds of a table's columns.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    root: Arc<Type>,
    columns: SchemaDescriptor,
}

impl Schema {
    /// From an example of each column; its values are not used.
    pub(crate) fn new<N: Into<String>>(columns: impl IntoIterator<Item = (N, Column)>) -> Schema {
        let fields = columns.into_iter().map(|(name, column)| column.field(&name.into()).into());
        let root = Type::group_type_builder("schema").with_fields(fields.collect()).build();
        let root = Arc::new(root.expect("a list of columns is a schema"));
        Schema { columns: SchemaDescriptor::new(Arc::clone(&root)), root }
    }

    /// Whether columns are of its kinds and equally long, where `first` is put before them.
    pub(crate) fn fits_behind(&self, first: &Column, columns: &[Column]) -> bool {
        let fields = self.root.get_fields();
        let fits = |(column, field): (&Column, &Arc<Type>)| column.field(field.name()) == **field;
        fields.len() == columns.len() + 1
            && [first].into_iter().chain(columns).zip(fields).all(fits)
            && columns.windows(2).all(|pair| pair[0].rows() == pair[1].rows())
    }
}

fn properties() -> WriterPropertiesPtr {
    let builder = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_created_by(concat!("blocklab ", env!("CARGO_PKG_VERSION")).into());
    Arc::new(builder.build())
}

/// An encoded row group, ready to be put anywhere in a file.
#[derive(Debug)]
pub(crate) struct RowGroup {
    rows: usize,
    chunks: Vec<(Bytes, ColumnCloseResult)>,
}

impl RowGroup {
    /// Encode columns of equal length, of the kinds of the schema.
    pub(crate) fn encode(schema: &Schema, columns: &[Column]) -> RowGroup {
        let rows = columns.first().map_or(0, Column::rows);
        assert_eq!(columns.len(), schema.columns.num_columns(), "one column per name");
        let chunks = columns.iter().enumerate().map(|(index, column)| {
            assert_eq!(column.rows(), rows, "the columns of a table are equally long");
            let mut bytes = TrackedWrite::new(Vec::new());
            let pages = Box::new(SerializedPageWriter::new(&mut bytes));
            let mut writer = get_column_writer(schema.columns.column(index), properties(), pages);
            let closed = column.write(&mut writer).and_then(|()| writer.close());
            let closed = closed.expect("writing to memory does not fail");
            (bytes.into_inner().expect("writing to memory does not fail").into(), closed)
        });
        RowGroup { rows, chunks: chunks.collect() }
    }
}

/// Write a whole file.
pub(crate) fn write_file<'a, W: Write + Send>(
    to: W,
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
pub(crate) struct Writer<W: Write + Send>(SerializedFileWriter<W>);

impl<W: Write + Send> Writer<W> {
    pub(crate) fn new(to: W, schema: &Schema) -> io::Result<Writer<W>> {
        let writer = SerializedFileWriter::new(to, Arc::clone(&schema.root), properties());
        writer.map(Writer).map_err(cause)
    }

    pub(crate) fn group(&mut self, group: &RowGroup) -> io::Result<()> {
        if group.rows == 0 {
            return Ok(());
        }
        let mut to = self.0.next_row_group().map_err(cause)?;
        for (bytes, closed) in &group.chunks {
            to.append_column(bytes, closed.clone()).map_err(cause)?;
        }
        to.close().map(|_| ()).map_err(cause)
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        self.into_inner()?.flush()
    }

    /// What was written to, with the end of the file.
    pub(crate) fn into_inner(self) -> io::Result<W> {
        self.0.into_inner().map_err(cause)
    }
}

/// What the system said, such as that the disk is full, without the library's words around it.
fn cause(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    #[test]
    fn what_is_written_is_read_back() {
        let columns = |first: u32| {
            [
                Column::U32(vec![first, u32::MAX]),
                Column::I64(vec![-1, i64::MAX]),
                Column::F64(vec![0.5, f64::NEG_INFINITY]),
                Column::MaybeF64(vec![None, Some(2.5)]),
                Column::MaybeI64(vec![None, Some(-7)]),
                Column::Text(vec!["µs".into(), "".into()]),
                Column::words(["read", "read"]),
            ]
        };
        let schema = Schema::new(["a", "b", "c", "d", "i", "e", "f"].into_iter().zip(columns(0)));
        let groups = [columns(7), columns(8)].map(|columns| RowGroup::encode(&schema, &columns));
        let mut file = Vec::new();
        write_file(&mut file, &schema, &groups).unwrap();
        let reader = SerializedFileReader::new(Bytes::from(file)).unwrap();
        assert_eq!(reader.num_row_groups(), 2);
        let rows: Vec<Vec<Field>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().get_column_iter().map(|(_, field)| field.clone()).collect())
            .collect();
        let read = || Field::Str("read".into());
        let text = |text: &str| Field::Str(text.into());
        let first = [Field::UInt(7), Field::Long(-1), Field::Double(0.5), Field::Null, Field::Null];
        assert_eq!(rows[0], [&first[..], &[text("µs"), read()]].concat());
        let last = [Field::UInt(u32::MAX), Field::Long(i64::MAX)];
        let end = [Field::Double(f64::NEG_INFINITY), Field::Double(2.5), Field::Long(-7)];
        let last = [&last[..], &end].concat();
        assert_eq!(rows[3], [&last[..], &[text(""), read()]].concat());
    }
}
