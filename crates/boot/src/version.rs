//! Names with versions in them, in the order of the versions.

use std::cmp::Ordering;

/// Which of two names has the higher version, as the Boot Loader Specification has it: runs of
/// digits are numbers, so 6.1.0-10 is newer than 6.1.0-9, and `~` is older than nothing at all.
pub fn compare(a: &str, b: &str) -> Ordering {
    pieces(a).cmp(pieces(b))
}

/// A kind of piece, of how many characters it is where that counts, and what it is.
type Piece<'a> = (u8, usize, &'a str);

const END: u8 = 1;

fn pieces(mut rest: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut ended = false;
    std::iter::from_fn(move || {
        let Some(first) = rest.chars().next() else {
            return (!std::mem::replace(&mut ended, true)).then_some((END, 0, ""));
        };
        let kind = kind_of(first);
        let end = match kind {
            LETTER | DIGIT => rest.find(|c| kind_of(c) != kind).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (piece, after) = rest.split_at(end);
        rest = after;
        let number = piece.trim_start_matches('0');
        Some(if kind == DIGIT { (kind, number.len(), number) } else { (kind, 0, piece) })
    })
}

const LETTER: u8 = 5;
const DIGIT: u8 = 6;

fn kind_of(c: char) -> u8 {
    match c {
        '~' => 0,
        '-' => 2,
        '^' => 3,
        '.' => 4,
        '0'..='9' => DIGIT,
        _ => LETTER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_as_numbers() {
        let rising = [
            "~a", "", "6.1~rc1", "6.1", "6.1-9", "6.1-10", "6.1.0-9", "6.1.0-10", "6.2", "6.10",
            "10.1",
        ];
        for (i, a) in rising.iter().enumerate() {
            for (j, b) in rising.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} {b}");
            }
        }
        assert_eq!(compare("6.01", "6.1"), Ordering::Equal);
        assert_eq!(compare("a99999999999999999999", "a100000000000000000000"), Ordering::Less);
        assert_eq!(compare("debian-6.1.0-9.conf", "debian-6.1.0-10.conf"), Ordering::Less);
        assert_eq!(compare("-blocklab.conf", "Arch.conf"), Ordering::Less);
        assert_eq!(compare("-blocklab.conf", "0a.conf"), Ordering::Less);
    }
}
