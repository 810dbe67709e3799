//! Looking for numbers in text made for people.

/// The number that `word` is, when it is one that can be counted with.
pub(super) fn number(word: &str) -> Option<f64> {
    word.parse::<f64>().ok().filter(|value| value.is_finite())
}

/// The number before `words` in the first line that has them.
pub(super) fn before(text: &str, words: &str) -> Option<f64> {
    let found = |line: &str| {
        let (before, _) = line.split_once(words)?;
        number(before.split_whitespace().next_back()?.trim_start_matches('('))
    };
    text.lines().find_map(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_before_words_is_the_last_one() {
        let text = "nothing read\n\t149 created (14.5 per second)\n";
        assert_eq!(before(text, " created"), Some(149.0));
        assert_eq!(before(text, " per second"), Some(14.5));
        assert_eq!(before(text, " read"), None);
        assert_eq!(number("nan"), None);
    }
}
