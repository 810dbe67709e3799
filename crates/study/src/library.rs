//! What the binary carries with it: the shipped parts, hosts and studies.

include!(concat!(env!("OUT_DIR"), "/library.rs"));

/// Hash over the source text of everything that decides a result. It is part of every digest.
pub const CODE_VERSION: &str = env!("BLOCKLAB_CODE_VERSION");

/// (name, text) of every shipped part.
pub fn parts() -> &'static [(&'static str, &'static str)] {
    PARTS
}

/// (name, text) of every shipped profile of a host.
pub fn hosts() -> &'static [(&'static str, &'static str)] {
    HOSTS
}

/// (name, text) of every shipped study.
pub fn studies() -> &'static [(&'static str, &'static str)] {
    STUDIES
}

/// True when `name` is meant as a file of the user's rather than something shipped. Shipped parts
/// and studies of one subject share a folder, as in `wadpm/paper`.
pub(crate) fn is_path(name: &str) -> bool {
    let shipped = [PARTS, STUDIES].iter().any(|list| find(list, name).is_some());
    name.ends_with(".toml") || name.contains('/') && !shipped
}

/// The text of the entry `name`.
pub(crate) fn find(list: &[(&'static str, &'static str)], name: &str) -> Option<&'static str> {
    list.iter().find(|(entry, _)| *entry == name).map(|&(_, text)| text)
}
