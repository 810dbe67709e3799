//! `xtask new KIND NAME`: a model that works, to change into the one you want.
//!
//! Writes the file, its line in the file of its slot, its docs page and a study.

mod edit;
#[cfg(test)]
mod followed;
mod kinds;

use std::path::Path;
use std::process::Command;

use crate::format::formatted;
use crate::tree::Tree;
use kinds::{KINDS, Kind};

/// Where every slot is listed.
pub(crate) const REGISTRY: &str = "crates/models/src/registry.rs";

/// One line per kind.
pub(crate) fn kinds_help() -> String {
    let lines = KINDS.iter().map(|kind| format!("  {:12} {}", kind.word, kind.about));
    format!("Kinds of models:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

/// Write everything, tidy it up, and say what to do next.
pub(crate) fn run(root: &Path, kind: &str, name: &str) -> Result<(), String> {
    let kind = find(kind)?;
    write(root, kind, name)?;
    cargo(root, &GENERATE).map_err(|why| {
        format!("{why}\nwhat was written stays: `cargo run -p xtask -- generate` goes on from here")
    })?;
    let Names { module, .. } = Names::new(name)?;
    println!(
        "\nnext:\n  1. change {}/{module}.rs into your model, its doc comment first\n  \
         2. cargo test -p {} {module}\n  \
         3. cargo run -p xtask -- generate     (the docs page follows the doc comment)\n  \
         4. cargo run --release -p blocklab -- run studies/try-{name}.toml",
        kind.folder, kind.package,
    );
    Ok(())
}

fn write(root: &Path, kind: &Kind, name: &str) -> Result<(), String> {
    let files = plan(&Tree::read(root)?, kind, name)?;
    for (path, text) in &files {
        let full = root.join(path);
        let folder = full.parent().expect("planned files lie in a folder");
        std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&full, text))
            .map_err(|e| format!("cannot write {path}: {e}"))?;
        println!("wrote {path}");
    }
    Ok(())
}

/// Writes the docs pages: in a new process, because the registry it reads is compiled in.
const GENERATE: [&str; 6] = ["run", "--quiet", "--package", "xtask", "--", "generate"];

fn cargo(root: &Path, arguments: &[&str]) -> Result<(), String> {
    match Command::new("cargo").args(arguments).current_dir(root).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cargo {} failed: {status}", arguments.join(" "))),
        Err(why) => Err(format!("cannot run cargo: {why}")),
    }
}

fn find(word: &str) -> Result<&'static Kind, String> {
    let kind = KINDS.iter().find(|kind| kind.word == word);
    kind.ok_or_else(|| format!("unknown kind `{word}`\n{}", kinds_help()))
}

/// The three spellings of a name.
struct Names {
    /// `my-policy`: in TOML, in paths of documents.
    kebab: String,
    /// `my_policy`: the module.
    module: String,
    /// `MyPolicy`: the type.
    variant: String,
}

impl Names {
    fn new(name: &str) -> Result<Names, String> {
        let words: Vec<&str> = name.split('-').collect();
        let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let good = words.iter().all(|word| !word.is_empty() && word.chars().all(letters))
            && name.starts_with(|c: char| c.is_ascii_lowercase());
        if !good {
            return Err(format!(
                "`{name}` cannot be a name: expected small letters, digits and single dashes, \
                 starting with a letter, such as my-policy"
            ));
        }
        let module = words.join("_");
        if KEYWORDS.contains(&module.as_str()) {
            return Err(format!("`{name}` is a word of Rust: choose another name"));
        }
        let capital = |word: &&str| word[..1].to_uppercase() + &word[1..];
        let variant = words.iter().map(capital).collect();
        Ok(Names { kebab: name.into(), module, variant })
    }

    fn fill(&self, template: &str) -> String {
        let text = template.replace("@name@", &self.kebab).replace("@module@", &self.module);
        text.replace("@Variant@", &self.variant)
    }
}

/// Names a module or a type cannot have.
const KEYWORDS: [&str; 51] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "self", "static", "struct", "super", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Every file to write, with its whole text; refuses what exists.
fn plan(tree: &Tree, kind: &Kind, name: &str) -> Result<Vec<(String, String)>, String> {
    let names = Names::new(name)?;
    let slot = format!("{}/{}", kind.folder, kind.slot);
    let entries = text(tree, &slot)?;
    if entries.contains(&format!("\"{name}\"")) {
        return Err(format!("`{name}` is in {slot} already: choose another name"));
    }
    let source = format!("{}/{}.rs", kind.folder, names.module);
    let study = format!("studies/try-{name}.toml");
    let trace = format!("traces/try-{name}.txt");
    let folder = format!("{}/{}", kind.folder, names.module);
    for path in [&source, &folder, &study, &trace] {
        if tree.has(path) {
            return Err(format!("{path} exists already: choose another name"));
        }
    }
    let entries = edit::add_entry(entries, kind, &names)?;
    // A longer name breaks lines elsewhere.
    let filled = formatted(&names.fill(kind.source))?;
    let mut files = vec![(source, filled), (slot, entries), (study, names.fill(kind.study))];
    files.extend(kind.trace.map(|text| (trace, names.fill(text))));
    Ok(files)
}

fn text<'a>(tree: &'a Tree, path: &str) -> Result<&'a str, String> {
    let file = tree.file(path).ok_or_else(|| format!("{path} is missing"))?;
    Ok(&file.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        let names = Names::new("my-policy2").unwrap();
        assert_eq!((&*names.module, &*names.variant), ("my_policy2", "MyPolicy2"));
        for bad in ["", "My", "a_b", "-a", "a-", "a--b", "2a", "mod", "virtual", "../x", "é"] {
            assert!(Names::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_kind_has_a_plan_in_this_repository() {
        let tree = Tree::read(&crate::root().unwrap()).unwrap();
        for kind in &KINDS {
            let files = plan(&tree, kind, "my-try").unwrap();
            let old: Vec<_> = files.iter().filter(|(path, _)| tree.has(path)).collect();
            let [(path, text)] = old[..] else { panic!("{} changes {old:?}", kind.word) };
            assert!(path.ends_with(kind.slot) && text.contains("MyTry = \"my-try\" => my_try,"));
            for (path, text) in &files {
                assert!(!text.contains("@"), "{path} has an unfilled place");
            }
        }
    }

    #[test]
    fn what_exists_is_refused() {
        let tree = Tree::read(&crate::root().unwrap()).unwrap();
        let refused = plan(&tree, find("device").unwrap(), "null").unwrap_err();
        assert!(refused.contains("already"), "{refused}");
        // What a module of this name shares with others is a folder.
        let refused = plan(&tree, find("ftl-mapping").unwrap(), "demand").unwrap_err();
        assert!(refused.contains("mapping/demand exists already"), "{refused}");
        assert!(find("gadget").err().unwrap().contains("unknown kind `gadget`\nKinds of models"));
    }
}
