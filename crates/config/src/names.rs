//! The nearest valid name.

/// The only candidate that begins with `name`, or the one that looks most like it, when that is
/// close enough to be meant: of those that begin with it first.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let distance = |candidate: &str| strsim::damerau_levenshtein(&lower, &candidate.to_lowercase());
    let begins = |c: &&str| lower.len() >= 3 && c.to_lowercase().starts_with(&lower);
    let all: Vec<&str> = candidates.into_iter().collect();
    let longer: Vec<&str> = all.iter().copied().filter(begins).collect();
    if let [only] = longer[..] {
        return Some(only);
    }
    // A third of the letters may be wrong; beyond that a guess is noise.
    let most = name.chars().count().max(3) / 3;
    let close = |of: Vec<&'a str>| {
        let scored = of.into_iter().map(|candidate| (distance(candidate), candidate));
        scored.min_by_key(|&(distance, _)| distance).filter(|&(distance, _)| distance <= most)
    };
    close(longer).or_else(|| close(all)).map(|(_, candidate)| candidate)
}

/// The candidate, of (name, meaning), that has most words of `name`: in its own name, or else in
/// its meaning. Of equals the shortest name.
pub fn related<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Option<&'a str> {
    let words = |text: &str| -> Vec<String> {
        let lower = text.to_lowercase();
        let words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() >= 3);
        words.map(String::from).collect()
    };
    let wanted = words(name);
    let scored = candidates.into_iter().map(|(candidate, meaning)| {
        let (own, told) = (words(candidate), words(meaning));
        let points = |word| match (own.contains(word), told.contains(word)) {
            (true, _) => 3,
            (false, told) => 2 * usize::from(told),
        };
        (wanted.iter().map(points).sum::<usize>(), candidate)
    });
    let (score, best) = scored.min_by_key(|&(score, name)| (usize::MAX - score, name.len()))?;
    (score > 0).then_some(best)
}

/// So many names are listed; of more, those that have something of the wanted one.
const LISTED_MAX: usize = 50;
/// So many of these.
const ALIKE_MAX: usize = 8;

/// "one of a, b, c; did you mean `b`?"
pub fn expected<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let list = match candidates.as_slice() {
        [] => "nothing here".to_string(),
        [only] => (*only).to_string(),
        few if few.len() <= LISTED_MAX => format!("one of {}", few.join(", ")),
        many => format!("one of {} names, such as {}", many.len(), alike(name, many).join(", ")),
    };
    match nearest(name, candidates) {
        Some(near) => format!("{list}; did you mean `{near}`?"),
        None => list,
    }
}

/// Those that have most of the words of `name`; without any, the first.
fn alike<'a>(name: &str, candidates: &[&'a str]) -> Vec<&'a str> {
    let lower = name.to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() >= 2).collect();
    let shared = |candidate: &str| {
        let candidate = candidate.to_lowercase();
        words.iter().filter(|word| candidate.contains(*word)).count()
    };
    let mut sorted = candidates.to_vec();
    sorted.sort_by_key(|candidate| usize::MAX - shared(candidate));
    sorted.truncate(ALIKE_MAX);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_names_those_alike_are_told() {
        let names: Vec<String> = (0..100).map(|number| format!("disk-{number}")).collect();
        let names = || names.iter().map(String::as_str).chain(["samsung-980-pro"]);
        let told = expected("Samsung 990", names());
        assert!(told.starts_with("one of 101 names, such as samsung-980-pro, disk-0, "), "{told}");
        assert!(told.ends_with("disk-6"), "{told}");
        assert_eq!(
            expected("disc-99", names()).split("; ").nth(1),
            Some("did you mean `disk-99`?")
        );
        assert_eq!(expected("d", names().take(50)).matches("disk").count(), 50);
    }

    #[test]
    fn a_typo_is_found_and_noise_is_not() {
        assert_eq!(nearest("chanels", ["channels", "dies"]), Some("channels"));
        assert_eq!(nearest("WAF", ["waf", "iops"]), Some("waf"));
        assert_eq!(nearest("banana", ["waf", "iops"]), None);
        assert_eq!(nearest("slc2010", ["slc2008-msr", "slc2010-paper"]), Some("slc2010-paper"));
        assert_eq!(nearest("slc20", ["slc2008-msr", "slc2010-paper"]), None);
        assert_eq!(expected("x", []), "nothing here");
    }

    #[test]
    fn what_was_begun_is_meant_before_what_is_alike() {
        let names = ["samsung-860-evo", "samsung-980-pro-1tb"];
        assert_eq!(nearest("samsung-980-pro", names), Some("samsung-980-pro-1tb"));
        let two = ["samsung-860-evo", "samsung-980-pro-1tb", "samsung-980-pro-2tb"];
        assert_eq!(nearest("samsung-980-pro", two), Some("samsung-980-pro-1tb"));
        assert_eq!(nearest("WAF", ["waf_gc", "waf"]), Some("waf"));
    }
}
