//! Lines of GRUB's script, whose quotes are those of a shell.

/// The lines of a script; one that a backslash ends goes on in the next.
pub(super) fn joined(text: &str) -> Vec<String> {
    let (mut out, mut begun) = (Vec::new(), String::new());
    for line in text.lines() {
        begun.push_str(line);
        let backslashes = begun.len() - begun.trim_end_matches('\\').len();
        let is_comment = begun.trim_start().starts_with('#');
        if backslashes % 2 == 1 && !is_comment {
            begun.pop();
        } else {
            out.push(std::mem::take(&mut begun));
        }
    }
    out.extend(Some(begun).filter(|line| !line.is_empty()));
    out
}

/// The words of a line, without their quotes and without a comment.
pub(super) fn words(line: &str) -> Vec<String> {
    let (mut out, mut word): (Vec<String>, Option<String>) = (Vec::new(), None);
    for (_, c, read) in read(line) {
        match read {
            Read::Comment => break,
            Read::Space => out.extend(word.take()),
            // An empty pair of quotes is a word, too.
            Read::Quote => {
                word.get_or_insert_default();
            }
            Read::Plain | Read::Quoted => word.get_or_insert_default().push(c),
        }
    }
    out.extend(word);
    out
}

/// Where the first command of a line ends.
pub(super) fn end_of_command(line: &str) -> usize {
    let ends = |c: char| [';', '&', '|'].contains(&c);
    let mut before = Read::Space;
    for (at, c, read) in read(line) {
        let closes = c == '}' && before == Read::Space && line[at + 1..].trim().is_empty();
        if read == Read::Comment || read == Read::Plain && (ends(c) || closes) {
            return at;
        }
        before = read;
    }
    line.len()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    Plain,
    Quoted,
    /// A character that quotes others.
    Quote,
    Space,
    Comment,
}

/// Each character with its place and what it is.
fn read(line: &str) -> impl Iterator<Item = (usize, char, Read)> {
    let (mut quote, mut escaped, mut before) = (None, false, Read::Space);
    line.char_indices().map(move |(at, c)| {
        let read = match (quote, c) {
            _ if before == Read::Comment => Read::Comment,
            _ if std::mem::take(&mut escaped) => Read::Quoted,
            (Some(open), _) if c == open => {
                quote = None;
                Read::Quote
            }
            (None | Some('"'), '\\') => {
                escaped = true;
                Read::Quote
            }
            (Some(_), _) => Read::Quoted,
            (None, '\'' | '"') => {
                quote = Some(c);
                Read::Quote
            }
            (None, '#') if before == Read::Space => Read::Comment,
            (None, _) if c.is_whitespace() => Read::Space,
            (None, _) => Read::Plain,
        };
        before = read;
        (at, c, read)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_go_on_are_one() {
        assert_eq!(joined("a \\\nb\nc\\\\\n# d\\\ne\\"), ["a b", "c\\\\", "# d\\", "e"]);
    }

    #[test]
    fn words_are_those_of_a_shell() {
        let told = words("menuentry 'it'\\''s' \"a \\\" b\" '' x=#1 { # why");
        assert_eq!(told, ["menuentry", "it's", "a \" b", "", "x=#1", "{"]);
    }

    #[test]
    fn a_command_ends_before_the_next() {
        for (line, command) in [
            ("linux /v a=';' ", "linux /v a=';' "),
            ("linux /v; initrd /i", "linux /v"),
            ("linux /v # why", "linux /v "),
            ("linux /v ${a} }", "linux /v ${a} "),
        ] {
            assert_eq!(&line[..end_of_command(line)], command);
        }
    }
}
