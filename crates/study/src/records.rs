//! Every request of every run, on demand: spooled while running, one Parquet file at the end.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use sim::{Completion, Nanos, Op, Probe, Request};

use crate::parquet::{Column, RowGroup, Schema, Writer};

/// id, lba, issued, completed, sectors, process, op.
const ROW: usize = 4 * 8 + 2 * 4 + 1;
const ROWS_PER_GROUP: usize = 1 << 18;

/// Spools the requests of one run.
pub(crate) struct Records {
    to: BufWriter<File>,
    start: Nanos,
    error: Option<io::Error>,
}

impl Records {
    /// Times count from `start`.
    pub(crate) fn begin(path: &Path, start: Nanos) -> io::Result<Records> {
        Ok(Records { to: BufWriter::new(File::create(path)?), start, error: None })
    }

    /// Everything is on its way to the disk, or the first error.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        match self.error {
            Some(error) => Err(error),
            None => self.to.flush(),
        }
    }
}

impl Probe for Records {
    fn on_complete(&mut self, request: &Request, issued: Nanos, completion: Completion) {
        let times = [issued, completion.at].map(|time| time.since(self.start).0);
        let mut row = [0; ROW];
        let words = [request.id.0, request.lba.0, times[0], times[1]];
        for (slot, word) in row.chunks_exact_mut(8).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        row[32..36].copy_from_slice(&request.sectors.to_le_bytes());
        row[36..40].copy_from_slice(&request.process.to_le_bytes());
        row[40] = request.op as u8;
        if self.error.is_none()
            && let Err(error) = self.to.write_all(&row)
        {
            self.error = Some(error);
        }
    }
}

/// Put the spools of all runs, in their order, into one Parquet file.
pub(crate) fn collect(spools: &[PathBuf], to: &Path) -> io::Result<()> {
    let empty = columns(0, &[]);
    let names = ["run", "id", "op", "lba", "sectors", "issued_ns", "completed_ns", "process"];
    let schema = Schema::new(names.into_iter().zip(empty));
    let mut writer = Writer::new(BufWriter::new(File::create(to)?), &schema)?;
    for (run, path) in spools.iter().enumerate() {
        let mut spool = BufReader::new(File::open(path)?);
        loop {
            let mut rows = Vec::new();
            let limit = (ROWS_PER_GROUP * ROW) as u64;
            spool.by_ref().take(limit).read_to_end(&mut rows)?;
            if rows.is_empty() {
                break;
            }
            writer.group(&RowGroup::encode(&schema, &columns(run as u32, &rows)))?;
        }
        std::fs::remove_file(path)?;
    }
    writer.finish()
}

fn columns(run: u32, rows: &[u8]) -> Vec<Column> {
    let rows = || rows.chunks_exact(ROW);
    let long = |at: usize| {
        let word = move |row: &[u8]| i64::from_le_bytes(row[at..at + 8].try_into().expect("8"));
        Column::I64(rows().map(word).collect())
    };
    let short = |at: usize| {
        let word = move |row: &[u8]| u32::from_le_bytes(row[at..at + 4].try_into().expect("4"));
        Column::U32(rows().map(word).collect())
    };
    let ops = rows().map(|row| Op::ALL[usize::from(row[40])].name());
    vec![
        Column::U32(vec![run; rows().count()]),
        long(0),
        Column::words(ops),
        long(8),
        short(32),
        long(16),
        long(24),
        short(36),
    ]
}
