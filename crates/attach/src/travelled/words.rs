//! What a person is told of a session.

use study::Failure;

/// So much of what a program said on stderr is told.
const TOLD_MAX: usize = 300;

/// What stands between two lines.
const SEPARATOR: &str = " / ";

/// What a person is told of a session that failed, in one line.
pub(super) fn in_words(failure: &Failure) -> String {
    let expected = failure.expected.as_ref().map(|text| format!("; expected {text}"));
    let message = failure.message.lines().collect::<Vec<_>>().join(SEPARATOR);
    format!("{message}{}", expected.unwrap_or_default())
}

/// The last words, in one line.
pub(super) fn end_of(text: &str) -> String {
    let mut end: Vec<&str> = Vec::new();
    for line in text.lines().rev().map(str::trim).filter(|line| !line.is_empty()) {
        let length: usize = end.iter().map(|line| line.len() + SEPARATOR.len()).sum();
        if length + line.len() > TOLD_MAX && !end.is_empty() {
            break;
        }
        end.insert(0, line);
    }
    let words: String = end.join(SEPARATOR).chars().take(TOLD_MAX).collect();
    if words.is_empty() { "it said nothing".into() } else { words }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_are_one_line() {
        assert_eq!(end_of("no space\n\n 3 records out\n"), "no space / 3 records out");
        assert_eq!(end_of(" \n"), "it said nothing");
        assert_eq!(end_of(&"x".repeat(1000)).len(), TOLD_MAX);
        let many = end_of(&"a line\n".repeat(1000));
        assert!(many.ends_with("a line / a line") && many.len() <= TOLD_MAX);
    }
}
