//! What was meant by a name that nobody has.

/// The candidate with the smallest edit distance, in which swapping two neighbours is one step, if
/// it is small enough to be a slip.
pub(super) fn nearest<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let name: String = name.chars().take(64).collect::<String>().to_ascii_lowercase();
    let scored = candidates.map(|candidate| (strsim::osa_distance(&name, candidate), candidate));
    let (score, best) = scored.min_by_key(|&(score, _)| score)?;
    (score <= 1 + name.chars().count() / 3).then_some(best)
}
