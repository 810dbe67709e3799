//! Modules of a room do not name each other in circles.
//!
//! A module and those inside it may: they are one thing. So a circle is taken apart at the module
//! that holds all others of it, and what still goes round is refused.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::modules::{module_of, resolve};
use crate::rust::Code;
use crate::tree::{File, Tree};

/// A circle that stays: its modules, in the order of their names, and why.
struct Known {
    room: &'static str,
    modules: &'static [&'static str],
    why: &'static str,
}

const KNOWN: [Known; 2] = [
    Known {
        room: "mirror",
        modules: &["core::lost", "core::member"],
        why: "a member keeps doubts, which say in which state it is",
    },
    Known {
        room: "mirror",
        modules: &["torture::host", "torture::older", "torture::restart", "torture::world"],
        why: "a world is one thing in four files",
    },
];

/// A source of a room, as its module.
struct Source<'a> {
    file: &'a File,
    module: Vec<&'a str>,
    code: Code,
}

/// Each module of a room and those that it names.
type Names = BTreeMap<String, BTreeSet<String>>;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    check_except(tree, &KNOWN)
}

fn check_except(tree: &Tree, known: &[Known]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (room, sources) in rooms(tree) {
        let names = names(&sources);
        let mut found = Vec::new();
        circles(&names, &names.keys().collect(), &mut found);
        let known: Vec<&Known> = known.iter().filter(|known| known.room == room).collect();
        for circle in &found {
            if known.iter().all(|known| circle != known.modules) {
                let first = sources.iter().find(|source| source.module.join("::") == circle[0]);
                let path = first.map_or("", |source| &source.file.path);
                findings.push(Finding::new(path, 1, describe(room, &names, circle), FIX));
            }
        }
        for gone in known.iter().filter(|known| found.iter().all(|circle| circle != known.modules))
        {
            let what = format!("`{room}` has no circle of {} any more", gone.modules.join(", "));
            let fix = format!("take it out of KNOWN, where it says: {}", gone.why);
            findings.push(Finding::new("xtask/src/tidy/circles.rs", 1, what, fix));
        }
    }
    findings
}

const FIX: &str = "move what two of them need into a module that names neither";

fn describe(room: &str, names: &Names, circle: &[String]) -> String {
    let arrows = circle.iter().map(|module| {
        let inside: Vec<&str> =
            names[module].iter().filter(|name| circle.contains(name)).map(String::as_str).collect();
        format!("{module} names {}", inside.join(" and "))
    });
    let arrows = arrows.collect::<Vec<_>>().join("; ");
    format!("modules of `{room}` name each other in a circle: {arrows}")
}

/// The sources of each room, without tests.
fn rooms(tree: &Tree) -> BTreeMap<&str, Vec<Source<'_>>> {
    let mut rooms: BTreeMap<&str, Vec<Source>> = BTreeMap::new();
    for file in tree.with_extension("rs") {
        if let Some((room, module)) = module_of(&file.path) {
            let code = Code::scan(&file.text);
            rooms.entry(room).or_default().push(Source { file, module, code });
        }
    }
    for sources in rooms.values_mut() {
        let tests: Vec<Vec<String>> = sources.iter().flat_map(tests).collect();
        sources.retain(|source| !tests.iter().any(|test| is_below(&source.module, test)));
    }
    rooms
}

/// The modules that a source declares for tests only, in files of their own.
fn tests(source: &Source) -> Vec<Vec<String>> {
    let declared = source.code.text.split("#[cfg(test)]").skip(1).filter_map(|rest| {
        let (item, _) = rest.split_once(';')?;
        let name = item.trim().rsplit_once("mod ")?.1;
        let module = source.module.iter().map(ToString::to_string).chain([name.to_owned()]);
        (!item.contains('{')).then(|| module.collect())
    });
    declared.collect()
}

fn is_below<A: AsRef<str>, B: AsRef<str>>(module: &[A], above: &[B]) -> bool {
    module.len() >= above.len() && module.iter().zip(above).all(|(a, b)| a.as_ref() == b.as_ref())
}

fn names(sources: &[Source]) -> Names {
    let all: BTreeSet<String> = sources.iter().map(|source| source.module.join("::")).collect();
    sources.iter().map(|source| (source.module.join("::"), named(source, &all))).collect()
}

/// The modules that a source names.
fn named(source: &Source, all: &BTreeSet<String>) -> BTreeSet<String> {
    let own = source.module.join("::");
    let tests = source.code.test_lines();
    let mut named = BTreeSet::new();
    for (at, path) in source.code.paths() {
        let line = source.code.line_of(at);
        if tests.iter().any(|&(from, to)| (from..=to).contains(&line)) {
            continue;
        }
        // `self::a` and `a` lead further inside, if there is such a module.
        let inside = source.module.iter().chain(path.iter().skip_while(|name| **name == "self"));
        let path = resolve(&source.module, &path).unwrap_or_else(|| inside.copied().collect());
        let prefixes = (0..=path.len()).rev().map(|length| path[..length].join("::"));
        let module = prefixes.into_iter().find(|module| all.contains(module));
        named.extend(module.filter(|module| *module != own));
    }
    named
}

/// The circles among `modules`, each taken apart at the module that holds its others.
fn circles(names: &Names, modules: &BTreeSet<&String>, found: &mut Vec<Vec<String>>) {
    let mut left = modules.clone();
    while let Some(first) = left.pop_first() {
        let circle: BTreeSet<&String> = {
            let after = reached(names, first, modules);
            let both = |module: &&String| reached(names, module, modules).contains(first);
            after.into_iter().filter(both).collect()
        };
        left.retain(|module| !circle.contains(module));
        if circle.len() < 2 {
            continue;
        }
        let holds = |holder: &&&String| circle.iter().all(|module| is_inside(module, holder));
        match circle.iter().find(holds).copied() {
            Some(holder) => {
                let inside = circle.iter().filter(|module| **module != holder).copied().collect();
                circles(names, &inside, found);
            }
            None => found.push(circle.into_iter().cloned().collect()),
        }
    }
}

fn is_inside(module: &str, holder: &str) -> bool {
    let rest = module.strip_prefix(holder);
    holder.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// What a module leads to by names, over `modules` alone.
fn reached<'a>(
    names: &'a Names,
    from: &String,
    modules: &BTreeSet<&'a String>,
) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(module) = next.pop() {
        for name in names[module].iter().filter(|name| modules.contains(name)) {
            if reached.insert(name) {
                next.push(name);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)], known: &[Known]) -> Vec<String> {
        let files: Vec<_> =
            files.iter().map(|(name, text)| (format!("crates/a/src/{name}.rs"), *text)).collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let findings = check_except(&Tree::planted(&files), known);
        findings.iter().map(|finding| finding.what.clone()).collect()
    }

    #[test]
    fn a_circle_is_found_however_it_is_written() {
        let x = ("x", "use crate::y::A;");
        for (name, text) in [
            ("y", "use super::x;"),
            ("y", "use super::{x::B, z};"),
            ("y", "fn f() { crate::x::g() }"),
            ("y/mod", "use super::x::B;"),
            ("y/deeper", "use crate::x::B;\n// and its holder\nuse super::C;"),
        ] {
            let mut files = vec![("lib", "mod x;\nmod y;\n"), x, (name, text)];
            if name == "y/deeper" {
                files.push(("y", "use deeper::D;"));
            }
            let found = findings(&files, &[]);
            assert_eq!(found.len(), 1, "{name}: {text}");
            assert!(found[0].contains("circle: x names y"), "{found:?}");
        }
    }

    #[test]
    fn a_module_and_what_is_in_it_are_one_thing() {
        let files = [
            ("lib", "use x::A; pub use y::B;"),
            ("x", "use crate::B; use inner::C;"),
            ("x/inner", "use super::A;"),
            ("y", "fn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::x::A;\n}\n"),
        ];
        assert_eq!(findings(&files, &[]), [""; 0]);
        let tests = [
            ("x", "use crate::y::A;"),
            ("y", "#[cfg(test)]\nmod tests;"),
            ("y/tests", "use crate::x;"),
        ];
        assert_eq!(findings(&tests, &[]), [""; 0]);
        let inner = [("x/mod", ""), ("x/a", "use super::b::B;"), ("x/b", "use super::a::A;")];
        assert_eq!(findings(&inner, &[]).len(), 1);
    }

    #[test]
    fn a_known_circle_is_let_be_until_it_is_gone() {
        let known = || [Known { room: "a", modules: &["x", "y"], why: "they are twins" }];
        let circle = [("x", "use crate::y::A;"), ("y", "use crate::x::B;"), ("z", "")];
        assert_eq!(findings(&circle, &known()), [""; 0]);
        let larger = [circle[0], ("y", "use crate::z::B;"), ("z", "use crate::x::B;")];
        assert_eq!(findings(&larger, &known()).len(), 2);
        assert!(findings(&circle[..1], &known())[0].contains("no circle of x, y any more"));
    }
}
