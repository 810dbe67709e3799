//! Lines of 100 columns, functions of 70 lines, files of 600 lines: Rust and Python.

use super::Finding;
use crate::rust::{Code, Function};
use crate::tree::{File, Tree};

const COLUMNS_MAX: usize = 100;
const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 600;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let rust = tree.with_extension("rs").flat_map(|file| {
        let functions = Code::scan(&file.text).functions();
        check_file(file, &functions)
    });
    let python = tree.with_extension("py").flat_map(|file| {
        let functions = python_functions(&file.text);
        check_file(file, &functions)
    });
    rust.chain(python).collect()
}

fn check_file(file: &File, functions: &[Function]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        let columns = line.chars().count();
        // An address cannot be broken.
        if columns > COLUMNS_MAX && !line.contains("://") {
            let what = format!("{columns} columns, at most {COLUMNS_MAX}");
            findings.push(Finding::new(&file.path, number, what, "break the line"));
        }
    }
    for function in functions.iter().filter(|f| f.lines > FUNCTION_LINES_MAX) {
        let Function { name, line, lines } = function;
        let what = format!("`{name}` has {lines} lines, at most {FUNCTION_LINES_MAX}");
        let fix = "give a step of it a name and a function of its own";
        findings.push(Finding::new(&file.path, *line, what, fix));
    }
    let lines = file.text.lines().count();
    if lines > FILE_LINES_MAX {
        let what = format!("{lines} lines, at most {FILE_LINES_MAX}");
        let fix = "move one concept to a file of its own";
        findings.push(Finding::new(&file.path, FILE_LINES_MAX + 1, what, fix));
    }
    findings
}

/// Functions of a Python file by indentation; a continuation line inside brackets is no end.
fn python_functions(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut functions = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let word = line.trim_start();
        let word = word.strip_prefix("async ").unwrap_or(word);
        let Some(rest) = word.strip_prefix("def ") else { continue };
        let mut last = index;
        let mut depth = 0i64;
        for (offset, line) in lines[index..].iter().enumerate() {
            let outside = depth == 0;
            depth += nesting(line);
            if line.trim().is_empty() {
                continue;
            }
            if offset > 0 && outside && indent(line) <= indent(lines[index]) {
                break;
            }
            last = index + offset;
        }
        let name = rest.split(['(', '[']).next().unwrap_or(rest).to_owned();
        functions.push(Function { name, line: index + 1, lines: last - index + 1 });
    }
    functions
}

/// How much deeper a line leaves the brackets; those in its strings do not count.
fn nesting(line: &str) -> i64 {
    let (mut depth, mut quote, mut escaped) = (0, None, false);
    for c in line.chars() {
        match (quote, c) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth -= 1,
            (None, _) => {}
        }
    }
    depth
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_tight() {
        let line = "x".repeat(100);
        let body = |n| format!("fn f() {{\n{}}}\n", "    g();\n".repeat(n));
        let file = |n| "//\n".repeat(n);
        let ok = [("a.rs", line.clone()), ("b.rs", body(68)), ("c.rs", file(600))];
        let bad = [("a.rs", line + "x"), ("b.rs", body(69)), ("c.rs", file(601))];
        let findings = |files: &[(&str, String); 3]| {
            let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
            check(&Tree::planted(&files))
        };
        assert!(findings(&ok).is_empty());
        let places: Vec<_> = findings(&bad).into_iter().map(|f| (f.file, f.line)).collect();
        assert_eq!(places, [("a.rs".into(), 1), ("b.rs".into(), 1), ("c.rs".into(), 601)]);
    }

    #[test]
    fn brackets_in_strings_are_text() {
        assert_eq!(nesting(r#"f(r"\(([^)]*", '[', "\"(")"#), 0);
        assert_eq!(nesting("f({"), 2);
    }

    #[test]
    fn an_address_may_be_long() {
        let text = format!("// https://example.org/{}", "x".repeat(100));
        assert!(check(&Tree::planted(&[("a.rs", &text)])).is_empty());
    }

    #[test]
    fn python_functions_end_where_the_indentation_does() {
        let text = "\
def a(
    x,
) -> int:
    return [
1]

class B:
    async def b(self):
        pass


x = 1
";
        let functions = python_functions(text);
        let extents: Vec<_> = functions.iter().map(|f| (&*f.name, f.line, f.lines)).collect();
        assert_eq!(extents, [("a", 1, 5), ("b", 8, 2)]);
    }
}
