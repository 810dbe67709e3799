//! Patterns of file names, as `default` in loader.conf has them.

/// Whether all of a name fits a pattern of `*`, `?` and `[a-z]`, in capitals or not.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_lowercase(), name.to_lowercase());
    let pattern: Vec<One> = parse(&pattern.chars().collect::<Vec<char>>());
    let name: Vec<char> = name.chars().collect();
    // What of the name is left after each place of the pattern that was reached so far: a table
    // instead of trying all ways, which may be without end.
    let mut reached = vec![false; name.len() + 1];
    reached[0] = true;
    for one in &pattern {
        let before = std::mem::replace(&mut reached, vec![false; name.len() + 1]);
        for at in 0..=name.len() {
            reached[at] = match one {
                One::Any => before[..=at].contains(&true),
                One::Of(ranges, is_in) => {
                    let fits = |c| ranges.iter().any(|(low, high)| (*low..=*high).contains(&c));
                    at > 0 && before[at - 1] && fits(name[at - 1]) == *is_in
                }
            };
        }
    }
    reached[name.len()]
}

enum One {
    Any,
    /// One character of these ranges, or of none of them.
    Of(Vec<(char, char)>, bool),
}

fn parse(mut pattern: &[char]) -> Vec<One> {
    let mut out = Vec::new();
    while let Some((first, rest)) = pattern.split_first() {
        pattern = rest;
        // The first of a set may be a closing bracket.
        let close = rest.iter().skip(1).position(|c| *c == ']').map(|at| at + 1);
        out.push(match (first, close) {
            ('*', _) => One::Any,
            ('?', _) => One::Of(Vec::new(), false),
            ('[', Some(close)) => {
                pattern = &rest[close + 1..];
                set(&rest[..close])
            }
            _ => One::Of(vec![(*first, *first)], true),
        });
    }
    out
}

fn set(inside: &[char]) -> One {
    let (inside, is_in) = match inside {
        ['!' | '^', rest @ ..] => (rest, false),
        _ => (inside, true),
    };
    let (mut ranges, mut left) = (Vec::new(), inside);
    while let [first, rest @ ..] = left {
        (ranges, left) = match rest {
            ['-', last, rest @ ..] => ([ranges, vec![(*first, *last)]].concat(), rest),
            _ => ([ranges, vec![(*first, *first)]].concat(), rest),
        };
    }
    One::Of(ranges, is_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_of_the_whole_name() {
        for (pattern, name) in [
            ("arch.conf", "Arch.conf"),
            ("arch-*", "arch-6.conf"),
            ("*", ""),
            ("a?c*[0-9].conf", "abc-6.1.conf"),
            ("[!b]x", "ax"),
            ("[b", "[b"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        let long = "a".repeat(60);
        for (pattern, name) in [
            ("arch", "arch.conf"),
            ("?", ""),
            ("[!b]x", "bx"),
            ("[a-c]", "d"),
            (&*"*a".repeat(40), "b"),
            (&*format!("{}b", "*a".repeat(30)), &*long),
        ] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }
}
