//! The shipped parts: real products and typical drives, as text.

include!(concat!(env!("OUT_DIR"), "/parts.rs"));

/// (name, text in TOML) of every shipped part, by name.
pub fn parts() -> &'static [(&'static str, &'static str)] {
    PARTS
}
