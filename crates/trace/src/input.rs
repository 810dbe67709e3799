//! Bytes in: decompression by magic bytes and one big buffer.

use std::io::{Cursor, ErrorKind, Read};

use config::bounded::BYTE_ORDER_MARK;

use crate::error::{TraceError, TracePlace};
use crate::gzip::Gzip;

/// Bytes kept in memory, whatever the length of the trace.
const BUFFER_BYTES: usize = 256 << 10;
/// Longest line or record.
pub(crate) const RECORD_BYTES_MAX: usize = 64 << 10;

/// A buffered, decompressed trace.
pub struct Input {
    name: String,
    read: Box<dyn Read + Send>,
    compression: Option<&'static str>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    ended: bool,
    /// Offset of `buffer[start]` in the decompressed trace.
    offset: u64,
}

impl Input {
    /// Look at the first bytes and decompress when they say so. `name` is for errors.
    ///
    /// # Errors
    /// When nothing can be read.
    pub fn open(name: &str, mut read: Box<dyn Read + Send>) -> Result<Input, TraceError> {
        let fail = |e: std::io::Error| TraceError::file(name, format!("cannot be read: {e}"));
        let mut magic = Vec::with_capacity(4);
        read.by_ref().take(4).read_to_end(&mut magic).map_err(fail)?;
        let compression = match magic.as_slice() {
            [0x1f, 0x8b, ..] => Some("gzip"),
            [0x28, 0xb5, 0x2f, 0xfd] => Some("zstd"),
            [0xfd, b'7', b'z', b'X'] => Some("xz"),
            [b'B', b'Z', b'h', b'1'..=b'9'] => Some("bzip2"),
            [0x04, 0x22, 0x4d, 0x18] => Some("lz4"),
            [b'P', b'K', 3, 4] => Some("zip"),
            _ => None,
        };
        let whole = Cursor::new(magic).chain(read);
        let read: Box<dyn Read + Send> = match compression {
            Some("gzip") => Box::new(Gzip::new(Box::new(whole))),
            Some("zstd") => Box::new(zstd::stream::read::Decoder::new(whole).map_err(fail)?),
            Some(by) => {
                let why =
                    format!("the file is compressed by {by}; gzip and zstd are read, others not");
                return Err(TraceError::file(name, why));
            }
            None => Box::new(whole),
        };
        let mut input = Input {
            name: name.into(),
            read,
            compression,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            ended: false,
            offset: 0,
        };
        while input.pending().len() < RECORD_BYTES_MAX && input.more()? {}
        if input.pending().starts_with(BYTE_ORDER_MARK) {
            input.consume(BYTE_ORDER_MARK.len());
        }
        Ok(input)
    }

    /// The file as the user named it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How the file is compressed.
    pub fn compression(&self) -> Option<&'static str> {
        self.compression
    }

    /// What was read and not yet consumed.
    #[inline]
    pub(crate) fn pending(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// True when nothing follows what is pending.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// Offset of the first pending byte.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.end - self.start);
        self.start += bytes;
        self.offset += bytes as u64;
    }

    /// Read more behind what is pending; false at the end or when the buffer is full.
    pub(crate) fn more(&mut self) -> Result<bool, TraceError> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        while !self.ended && self.end < self.buffer.len() {
            match self.read.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(n) => {
                    self.end += n;
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(&error)),
            }
        }
        Ok(false)
    }

    #[cold]
    fn broken(&self, error: &std::io::Error) -> TraceError {
        let bytes = self.offset + self.pending().len() as u64;
        let (message, expected) = match (self.compression, error.kind()) {
            (Some(by), ErrorKind::UnexpectedEof) => (
                format!("the {by} stream is cut off after {bytes} decompressed bytes"),
                "a complete file; copy or download it again".to_string(),
            ),
            (Some(by), _) => (
                format!("the {by} stream is damaged after {bytes} decompressed bytes: {error}"),
                "an undamaged file; copy or download it again".to_string(),
            ),
            (None, _) => (format!("cannot be read on: {error}"), String::new()),
        };
        TraceError {
            file: self.name.clone(),
            format: "",
            place: TracePlace::Byte(bytes),
            message,
            expected,
        }
    }
}
