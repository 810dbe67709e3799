//! Reading something whole that may never end: a pipe, a device, a file given by mistake.

use std::io::{self, ErrorKind, Read};

/// What people write and programs report is never longer.
pub const TEXT_BYTES_MAX: u64 = 64 << 20;

/// All that `from` gives.
///
/// # Errors
/// When it cannot be read, or is longer than `most` bytes.
pub fn bytes(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    from.take(most + 1).read_to_end(&mut all)?;
    if all.len() as u64 > most {
        let why = format!("it has more than {} MiB", most >> 20);
        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(all)
}

/// The same as text.
///
/// # Errors
/// The same, and when it is not UTF-8.
pub fn text(from: impl Read, most: u64) -> io::Result<String> {
    String::from_utf8(bytes(from, most)?).map_err(|error| {
        let byte = error.utf8_error().valid_up_to();
        let why = format!("it is not UTF-8 text: byte {byte} is none");
        io::Error::new(ErrorKind::InvalidData, why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_an_error() {
        assert_eq!(bytes(&[7; 1 << 20][..], 1 << 20).unwrap().len(), 1 << 20);
        let endless = bytes(io::repeat(7), 1 << 20).unwrap_err();
        assert_eq!(endless.to_string(), "it has more than 1 MiB");
    }

    #[test]
    fn text_says_where_it_is_none() {
        assert_eq!(text("é".as_bytes(), 9).unwrap(), "é");
        let why = text(&b"ab\xff"[..], 9).unwrap_err().to_string();
        assert_eq!(why, "it is not UTF-8 text: byte 2 is none");
    }
}
