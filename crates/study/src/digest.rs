//! Digests of configurations, files and results.

use std::fmt::Write;
use std::io::{self, Read};

use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// The digest of a value: SHA-256 over its JSON with sorted keys, in hexadecimal.
///
/// # Panics
/// When the value cannot be JSON; configuration and results always can.
pub(crate) fn of<T: Serialize>(value: &T) -> String {
    let value = serde_json::to_value(value).expect("configuration and results are JSON");
    let mut text = String::new();
    canonical(&value, &mut text);
    hex(&Sha256::digest(text.as_bytes()))
}

/// The digest of everything a reader gives.
///
/// # Errors
/// Those of the reader.
pub fn of_reader(mut from: impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            n => hash.update(&buffer[..n]),
        }
    }
}

/// Whether `text` may be a digest.
pub(crate) fn is_one(text: &str) -> bool {
    let digits = 2 * Sha256::output_size();
    text.len() == digits && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes all");
        text
    })
}

/// JSON with sorted keys, whatever order the map type keeps in this build.
fn canonical(value: &serde_json::Value, out: &mut String) {
    match value {
        serde_json::Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            out.push('{');
            for (key, value) in entries {
                write!(out, "{key:?}:").expect("a String takes all");
                canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
        serde_json::Value::Array(list) => {
            out.push('[');
            for value in list {
                canonical(value, out);
                out.push(',');
            }
            out.push(']');
        }
        plain => write!(out, "{plain}").expect("a String takes all"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_different_structure_differ() {
        let digest = |text: &str| of(&serde_json::from_str::<serde_json::Value>(text).unwrap());
        assert_eq!(digest(r#"{"a":1,"b":2}"#), digest(r#"{"b":2,"a":1}"#));
        assert_ne!(digest(r#"{"a":[1,2]}"#), digest(r#"{"a":[12]}"#));
        assert_ne!(digest(r#"{"a":1}"#), digest(r#"{"a":"1"}"#));
        assert!(is_one(&digest("1")) && !is_one("0123") && !is_one(&"g".repeat(64)));
    }

    #[test]
    fn a_reader_gives_its_bytes() {
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of_reader(&b"abc"[..]).unwrap(), known); // FIPS 180-2, appendix B.1
    }
}
