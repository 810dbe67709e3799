//! The nearest valid name.

/// The candidate that looks most like `name`, when one is close enough to be meant, or the only one
/// that begins with it.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let distance = |candidate: &str| strsim::damerau_levenshtein(&lower, &candidate.to_lowercase());
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let scored = candidates.iter().map(|&candidate| (distance(candidate), candidate));
    let (distance, candidate) = scored.min_by_key(|&(distance, _)| distance)?;
    // A third of the letters may be wrong; beyond that a guess is noise.
    if distance <= name.chars().count().max(3) / 3 {
        return Some(candidate);
    }
    let mut longer =
        candidates.into_iter().filter(|c| lower.len() >= 3 && c.to_lowercase().starts_with(&lower));
    longer.next().filter(|_| longer.next().is_none())
}

/// "one of a, b, c; did you mean `b`?"
pub(crate) fn expected<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let list = match candidates.as_slice() {
        [] => "nothing here".to_string(),
        [only] => (*only).to_string(),
        several => format!("one of {}", several.join(", ")),
    };
    match nearest(name, candidates) {
        Some(near) => format!("{list}; did you mean `{near}`?"),
        None => list,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_found_and_noise_is_not() {
        assert_eq!(nearest("chanels", ["channels", "dies"]), Some("channels"));
        assert_eq!(nearest("WAF", ["waf", "iops"]), Some("waf"));
        assert_eq!(nearest("banana", ["waf", "iops"]), None);
        assert_eq!(nearest("slc2010", ["slc2008-msr", "slc2010-paper"]), Some("slc2010-paper"));
        assert_eq!(nearest("slc20", ["slc2008-msr", "slc2010-paper"]), None);
        assert_eq!(expected("x", []), "nothing here");
    }
}
