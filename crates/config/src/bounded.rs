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

/// The same as text, without the mark that Windows' programs begin one of UTF-8 with.
///
/// # Errors
/// The same, and when it is not UTF-8.
pub fn text(from: impl Read, most: u64) -> io::Result<String> {
    let mut all = bytes(from, most)?;
    if all.starts_with(BYTE_ORDER_MARK) {
        all.drain(..BYTE_ORDER_MARK.len());
    }
    String::from_utf8(all).map_err(|error| {
        let byte = error.utf8_error().valid_up_to();
        let why = if is_utf_16(error.as_bytes()) {
            "it is text of UTF-16, not of UTF-8, as Windows' programs write it: iconv -f UTF-16 \
             -t UTF-8 makes one of the other"
                .into()
        } else {
            format!("it is not UTF-8 text: byte {byte} is no character of it")
        };
        io::Error::new(ErrorKind::InvalidData, why)
    })
}

/// What Windows' programs begin a text of UTF-8 with.
pub const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The same mark of UTF-16, in either order.
pub fn is_utf_16(head: &[u8]) -> bool {
    head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff])
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
        assert_eq!(why, "it is not UTF-8 text: byte 2 is no character of it");
    }

    #[test]
    fn text_of_windows_programs() {
        assert_eq!(text("\u{feff}{}".as_bytes(), 9).unwrap(), "{}");
        let wide: Vec<u8> = "\u{feff}{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let why = text(&wide[..], 9).unwrap_err().to_string();
        assert!(why.contains("UTF-16") && why.contains("iconv"), "{why}");
    }
}
