//! Just enough Rust to check sizes and names: a scanner, not a parser.

/// A source file with its comments and literals blanked out.
pub(crate) struct Code {
    /// Same length and same lines as the source; comments and the insides of literals are spaces.
    pub(crate) text: String,
}

/// A function and its extent in lines, from 1.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) lines: usize,
}

impl Code {
    /// Blank out the comments and literals of `source`.
    pub(crate) fn scan(source: &str) -> Code {
        let bytes = source.as_bytes();
        let mut out = bytes.to_vec();
        let mut at = 0;
        while at < bytes.len() {
            let end = skip(bytes, at);
            if end > at {
                let blank = |byte: &mut u8| {
                    if *byte != b'\n' {
                        *byte = b' ';
                    }
                };
                out[at..end].iter_mut().for_each(blank);
                at = end;
            } else if is_word(bytes[at]) {
                // A whole word at once: the `r` of `for"` starts no raw string.
                at += bytes[at..].iter().take_while(|&&b| is_word(b)).count();
            } else {
                at += 1;
            }
        }
        Code { text: String::from_utf8(out).expect("blanks replace whole characters") }
    }

    /// Lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// Every function with a body.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let starts = self.text.match_indices("fn ").filter(|&(at, _)| starts_word(&self.text, at));
        starts.filter_map(|(at, _)| self.function(at)).collect()
    }

    fn function(&self, at: usize) -> Option<Function> {
        let rest = self.text[at + 3..].trim_start();
        let name: String = rest.bytes().take_while(|&b| is_word(b)).map(char::from).collect();
        if name.is_empty() {
            return None;
        }
        let end = self.block_end(at)?;
        let line = self.line_of(at);
        Some(Function { name, line, lines: self.line_of(end) - line + 1 })
    }

    /// The lines of `#[cfg(test)]` items, as inclusive ranges.
    pub(crate) fn test_lines(&self) -> Vec<(usize, usize)> {
        let found = self.text.match_indices("#[cfg(test)]");
        found
            .filter_map(|(at, marker)| {
                let end = self.block_end(at + marker.len())?;
                Some((self.line_of(at), self.line_of(end)))
            })
            .collect()
    }

    /// Where the next brace block after `at` ends; `None` when a `;` comes first.
    fn block_end(&self, at: usize) -> Option<usize> {
        let (mut round, mut curly) = (0i64, 0i64);
        for (offset, byte) in self.text.as_bytes()[at..].iter().enumerate() {
            match byte {
                b'(' | b'[' => round += 1,
                b')' | b']' => round -= 1,
                b'{' => curly += 1,
                b'}' => {
                    curly -= 1;
                    if curly == 0 {
                        return Some(at + offset);
                    }
                }
                b';' if round == 0 && curly == 0 => return None,
                _ => {}
            }
        }
        None
    }

    /// Every path of two names or more with the place where it ends, groups taken apart:
    /// `a::{b, c}` is `a::b` and `a::c`.
    pub(crate) fn paths(&self) -> Vec<(usize, Vec<&str>)> {
        let (mut found, mut at) = (Vec::new(), 0);
        while at < self.text.len() {
            at = if is_word(self.text.as_bytes()[at]) {
                self.path(at, Vec::new(), &mut found)
            } else {
                at + 1
            };
        }
        found
    }

    /// Read the path that goes on at `at` after the names `path`. Returns where it ends.
    fn path<'a>(
        &'a self,
        mut at: usize,
        mut path: Vec<&'a str>,
        found: &mut Vec<(usize, Vec<&'a str>)>,
    ) -> usize {
        let bytes = self.text.as_bytes();
        let blanks = |at: usize| {
            let rest = bytes.get(at..).unwrap_or_default();
            at + rest.iter().take_while(|b| b.is_ascii_whitespace()).count()
        };
        loop {
            let name = bytes[at..].iter().take_while(|&&b| is_word(b)).count();
            path.push(&self.text[at..at + name]);
            at += name;
            let colons = blanks(at);
            let next = blanks(colons + 2);
            match (bytes[colons..].starts_with(b"::"), bytes.get(next)) {
                (true, Some(&byte)) if is_word(byte) => at = next,
                (true, Some(b'{')) => {
                    at = next + 1;
                    while at < bytes.len() && bytes[at] != b'}' {
                        at = match bytes[at] {
                            byte if is_word(byte) => self.path(at, path.clone(), found),
                            _ => at + 1,
                        };
                    }
                    return at + 1;
                }
                _ => break,
            }
        }
        if path.len() > 1 {
            found.push((at, path));
        }
        at
    }

    /// The line of a place in the text, from 1.
    pub(crate) fn line_of(&self, at: usize) -> usize {
        1 + self.text.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count()
    }
}

/// Where `word` stands alone in `line`.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let after = line.as_bytes().get(at + word.len());
        starts_word(line, at) && after.is_none_or(|&b| !is_word(b))
    })
}

fn starts_word(text: &str, at: usize) -> bool {
    at == 0 || !is_word(text.as_bytes()[at - 1])
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The end of the comment or literal that starts at `at`, or `at` when none does.
fn skip(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let length = match rest {
        [b'/', b'/', ..] => rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => block_comment(rest),
        [b'"', ..] => quoted(rest),
        [b'b' | b'c', b'"', ..] => 1 + quoted(&rest[1..]),
        [b'r', b'"' | b'#', ..] => raw(rest, 1),
        [b'b' | b'c', b'r', b'"' | b'#', ..] => raw(rest, 2),
        [b'b', b'\'', ..] => 1 + character(&rest[1..]),
        [b'\'', ..] => character(rest),
        _ => 0,
    };
    at + length.min(rest.len())
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// A raw string with `prefix` letters before its hashes; 0 for a raw identifier.
fn raw(rest: &[u8], prefix: usize) -> usize {
    let hashes = rest[prefix..].iter().take_while(|&&b| b == b'#').count();
    let open = prefix + hashes;
    if rest.get(open) != Some(&b'"') {
        return 0;
    }
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let inside = rest[open + 1..].windows(close.len()).position(|w| w == close);
    inside.map_or(rest.len(), |n| open + 1 + n + close.len())
}

/// A character literal; 0 for a lifetime.
fn character(rest: &[u8]) -> usize {
    match rest {
        [_, b'\\', ..] => rest[3.min(rest.len())..]
            .iter()
            .position(|&b| b == b'\'')
            .map_or(rest.len(), |n| 3 + n + 1),
        _ => {
            let text = &rest[1..rest.len().min(6)];
            let width = match text.first() {
                Some(0xf0..) => 4,
                Some(0xe0..) => 3,
                Some(0xc0..) => 2,
                _ => 1,
            };
            if text.get(width) == Some(&b'\'') { width + 2 } else { 0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_become_blanks() {
        let source = r##"let a = "x\"{"; // unsafe {
let b = r#"un"safe"#; /* a /* b */ fn f() {} */ let c = '{'; let d: &'a str = b"}";
let e = '\''; let f = 'é'; let r#fn = for"x";"##;
        let code = Code::scan(source).text;
        assert_eq!(code.len(), source.len());
        assert_eq!(code.lines().count(), 3);
        for gone in ["unsafe", "{", "}", "fn f", "un", "é"] {
            assert!(!code.contains(gone), "{gone} is still in {code}");
        }
        assert!(code.contains("&'a str"), "{code}");
        assert!(code.contains("r#fn = for"), "{code}");
    }

    #[test]
    fn functions_have_an_extent() {
        let source = "\
fn short() {}
trait T { fn declared(&self, x: [u8; 3]) -> u8; }
type F = fn (u8) -> u8;
fn long<T>(
    x: T,
) where T: Copy {
    if true { \"}\" } else { '}' };
}
";
        let functions = Code::scan(source).functions();
        let short = Function { name: "short".into(), line: 1, lines: 1 };
        let long = Function { name: "long".into(), line: 4, lines: 5 };
        assert_eq!(functions, [short, long]);
    }

    #[test]
    fn test_modules_are_found() {
        let source = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        assert_eq!(Code::scan(source).test_lines(), [(2, 5)]);
    }

    #[test]
    fn groups_of_paths_are_taken_apart() {
        let source =
            "use std::{fs, io::{self, Read}, net::*};\nlet a = b;\nx(crate ::y::z::<u8>());\n";
        let code = Code::scan(source);
        let paths = code.paths().into_iter();
        let paths: Vec<_> = paths.map(|(at, p)| (code.line_of(at), p.join("::"))).collect();
        let expected =
            ["std::fs", "std::io::self", "std::io::Read", "std::net"].map(|p| (1, p.to_owned()));
        assert_eq!(paths[..4], expected);
        assert_eq!(paths[4..], [(3, "crate::y::z".to_owned())]);
    }

    #[test]
    fn words_stand_alone() {
        assert!(has_word("use std::HashMap;", "HashMap"));
        assert!(!has_word("use MyHashMaps;", "HashMap"));
    }
}
