//! What people are told while and after something is done.
//!
//! A terminal, a pipe or a journal may be gone before the program is: what it serves is not to end
//! for that, as `println!` and `eprintln!` would end it.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::sync::OnceLock;

static UNWRITTEN: OnceLock<String> = OnceLock::new();

/// Print a line on standard output. Whoever closed it early, as `head` does, has seen enough; what
/// could not be written for another reason is told by [`unwritten`].
pub fn say(line: impl Display) {
    let written = writeln!(std::io::stdout(), "{}", printable(&line.to_string()));
    if let Err(why) = written
        && why.kind() != ErrorKind::BrokenPipe
    {
        UNWRITTEN.get_or_init(|| why.to_string());
    }
}

/// Why a line that was to be said was not written, if one was not: a full disk behind it.
pub fn unwritten() -> Option<&'static str> {
    UNWRITTEN.get().map(String::as_str)
}

/// Print a line on standard error, if somebody reads it.
pub fn warn(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{}", printable(&line.to_string()));
}

/// Text for a terminal. What is quoted of a file or of a recorded process may tell it to do
/// something: a character that nobody can read is shown as such.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| c.is_control() && c != '\n' && c != '\t';
    if text.contains(hidden) { text.replace(hidden, "\u{fffd}").into() } else { text.into() }
}

/// A word of a command line as a shell reads it back.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_a_word_back() {
        assert_eq!(quoted("--at=5ns"), "--at=5ns");
        assert_eq!(quoted("test -s 'a b'"), "'test -s '\\''a b'\\'''");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("device.ssd.gc=greedy"), "device.ssd.gc=greedy");
        assert_eq!(quoted("a={ d = 1 }"), "'a={ d = 1 }'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn nothing_quoted_tells_a_terminal_what_to_do() {
        let quoted = "not \u{1b}[2J a\tb\r\u{7}\u{9b}\n";
        assert_eq!(printable(quoted), "not \u{fffd}[2J a\tb\u{fffd}\u{fffd}\u{fffd}\n");
        assert!(matches!(printable("größer"), Cow::Borrowed(_)));
    }
}
