//! Gzip files: one stream or several in a row, and nothing behind them.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result};

use flate2::bufread::GzDecoder;

type Source = BufReader<Box<dyn Read + Send>>;

/// Decompresses all streams of a file. Zeroes behind the last one are padding, as `gzip` takes it.
pub(crate) struct Gzip {
    /// `None` once the end was seen, or an error.
    stream: Option<GzDecoder<Source>>,
}

impl Gzip {
    pub(crate) fn new(read: Box<dyn Read + Send>) -> Gzip {
        let source = BufReader::with_capacity(64 << 10, read);
        Gzip { stream: Some(GzDecoder::new(source)) }
    }

    /// A stream has ended: is there another one?
    fn next_stream(&mut self) -> Result<bool> {
        let Some(ended) = self.stream.take() else { return Ok(false) };
        let mut source = ended.into_inner();
        loop {
            let bytes = source.fill_buf()?;
            match bytes.first() {
                None => return Ok(false),
                Some(0) => {
                    let zeroes = bytes.iter().take_while(|&&byte| byte == 0).count();
                    source.consume(zeroes);
                }
                Some(0x1f) => {
                    self.stream = Some(GzDecoder::new(source));
                    return Ok(true);
                }
                Some(_) => {
                    let what = "what follows its end is no gzip stream";
                    return Err(Error::new(ErrorKind::InvalidData, what));
                }
            }
        }
    }
}

impl Read for Gzip {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        while let Some(stream) = &mut self.stream {
            let bytes = stream.read(buffer)?;
            if bytes > 0 || buffer.is_empty() {
                return Ok(bytes);
            }
            self.next_stream()?;
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use super::*;

    fn packed(text: &str) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn read(file: Vec<u8>) -> std::result::Result<String, String> {
        let mut text = String::new();
        let read = Gzip::new(Box::new(Cursor::new(file))).read_to_string(&mut text);
        read.map(|_| text).map_err(|error| error.to_string())
    }

    #[test]
    fn streams_follow_each_other_and_nothing_else_does() {
        let two = [packed("one "), packed("two")].concat();
        assert_eq!(read(two.clone()).unwrap(), "one two");
        assert_eq!(read([&two[..], &[0; 1000]].concat()).unwrap(), "one two");
        for garbage in [&b"garbage"[..], b"\0\0\0g", b"\n"] {
            let error = read([&two, garbage].concat()).unwrap_err();
            assert_eq!(error, "what follows its end is no gzip stream");
        }
        assert!(read(two[..two.len() - 1].to_vec()).is_err());
    }
}
