//! A trace as a Parquet file: one row per request.

use std::io::{self, Write};

use sim::Nanos;
use trace::{Record, Trace};

use crate::parquet::{Column, RowGroup, Schema, Writer};

const ROWS_PER_GROUP: usize = 1 << 18;

/// Writes requests as rows: `time_ns` since the first (null where the trace has no times), `op`,
/// `sector` and `sectors` (of 512 bytes), `fua`, the device's name, the number of the process, and
/// `response_ns` (null where the trace does not say).
pub struct TraceTable<W: Write + Send> {
    to: Writer<W>,
    schema: Schema,
    rows: Vec<Record>,
}

const NAMES: [&str; 8] =
    ["time_ns", "op", "sector", "sectors", "fua", "device", "process", "response_ns"];

impl<W: Write + Send> TraceTable<W> {
    /// An empty table.
    ///
    /// # Errors
    /// Those of `to`, also for the others.
    pub fn new(to: W) -> io::Result<TraceTable<W>> {
        let schema = Schema::new(NAMES.into_iter().zip(columns(&[], |_| String::new())));
        Ok(TraceTable { to: Writer::new(to, &schema)?, schema, rows: Vec::new() })
    }

    /// Add a request of `trace`.
    ///
    /// # Errors
    /// See [`TraceTable::new`].
    pub fn add(&mut self, record: &Record, trace: &Trace) -> io::Result<()> {
        self.rows.push(*record);
        if self.rows.len() == ROWS_PER_GROUP { self.write(trace) } else { Ok(()) }
    }

    fn write(&mut self, trace: &Trace) -> io::Result<()> {
        let columns = columns(&self.rows, |device| trace.device_name(device));
        self.rows.clear();
        self.to.group(&RowGroup::encode(&self.schema, &columns))
    }

    /// The rest, and what was written to.
    ///
    /// # Errors
    /// See [`TraceTable::new`].
    pub fn finish(mut self, trace: &Trace) -> io::Result<W> {
        self.write(trace)?;
        self.to.into_inner()
    }
}

fn columns(rows: &[Record], device: impl Fn(u32) -> String) -> [Column; NAMES.len()] {
    let nanos = |time: Option<Nanos>| time.map(|time| time.0 as i64);
    let requests = || rows.iter().map(|row| row.request);
    [
        Column::MaybeI64(rows.iter().map(|row| nanos(row.time)).collect()),
        Column::words(requests().map(|request| request.op.name())),
        Column::I64(requests().map(|request| request.lba.0 as i64).collect()),
        Column::U32(requests().map(|request| request.sectors).collect()),
        Column::Bool(requests().map(|request| request.fua).collect()),
        Column::Text(rows.iter().map(|row| device(row.device).into()).collect()),
        Column::U32(requests().map(|request| request.process).collect()),
        Column::MaybeI64(rows.iter().map(|row| nanos(row.response)).collect()),
    ]
}
