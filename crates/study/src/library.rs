//! What the binary carries with it: the shipped parts, hosts and studies, and the files they name.

include!(concat!(env!("OUT_DIR"), "/library.rs"));

/// Hash over the source text of everything that decides a result. It is part of every digest.
pub const CODE_VERSION: &str = env!("BLOCKLAB_CODE_VERSION");

/// (name, text) of every shipped part.
pub fn parts() -> &'static [(&'static str, &'static str)] {
    models::parts()
}

/// (name, text) of every shipped profile of a host.
pub fn hosts() -> &'static [(&'static str, &'static str)] {
    HOSTS
}

/// (name, text) of every shipped study.
pub fn studies() -> &'static [(&'static str, &'static str)] {
    STUDIES
}

/// A recording or a job that a shipped study names, by its path in the repository.
pub fn file(name: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|(entry, _)| *entry == name).map(|&(_, bytes)| bytes)
}

/// True when `name` is meant as a file of the user's rather than something shipped. Shipped parts
/// and studies of one subject share a folder, as in `wadpm/paper`.
pub(crate) fn is_path(name: &str) -> bool {
    let shipped = [parts(), STUDIES].iter().any(|list| find(list, name).is_some());
    name.ends_with(".toml") || name.contains('/') && !shipped
}

/// The text of the entry `name`.
pub(crate) fn find(list: &[(&'static str, &'static str)], name: &str) -> Option<&'static str> {
    list.iter().find(|(entry, _)| *entry == name).map(|&(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shipped_studies_name_is_shipped() {
        let named = |text: &'static str| {
            let lines = text.lines().filter_map(|line| line.split_once("file = \""));
            lines.filter_map(|(_, rest)| rest.split_once('"')).map(|(name, _)| name)
        };
        let names: Vec<&str> = studies().iter().flat_map(|(_, text)| named(text)).collect();
        assert!(names.len() > 15, "{names:?}");
        let missing: Vec<_> = names.iter().filter(|name| file(name).is_none()).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
