//! The whole way in a copy of the repository: every kind is started, and every how-to that adds one
//! is followed as it is written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use serde_json::Value;

use super::kinds::KINDS;
use super::{GENERATE, find, write};
use crate::tree::{File, Tree};

/// What a how-to runs that this test does not: it is itself a part of the one, and the other
/// replays whole traces on seventeen large drives.
const NOT_RUN: [&str; 2] =
    ["make test", "cargo run --release -p blocklab -- run studies/mapping-shootout.toml"];

/// A copy of this repository, with everything that its builds need.
struct Copy {
    root: PathBuf,
    /// Its own: cargo gives a crate and its copy the same names, and would take one for the other.
    target: PathBuf,
    /// What every file held before, and since when.
    before: BTreeMap<PathBuf, (Vec<u8>, SystemTime)>,
}

impl Copy {
    /// At a place that stays, so that little is compiled the next time.
    fn make(target: &Path) -> (Copy, Tree) {
        let root = target.join("scaffold/repository");
        std::fs::create_dir_all(&root).unwrap();
        let mut copy =
            Copy { root, target: target.join("scaffold/target"), before: BTreeMap::new() };
        copy.git_init();
        for path in Tree::read(&copy.root).unwrap().paths {
            let path = copy.root.join(path);
            if path.is_symlink() {
                std::fs::remove_file(&path).unwrap();
                continue;
            }
            let time = std::fs::metadata(&path).unwrap().modified().unwrap();
            let content = std::fs::read(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            copy.before.insert(path, (content, time));
        }
        let from = crate::root().unwrap();
        let tree = Tree::read(&from).unwrap();
        for path in &tree.paths {
            let to = copy.root.join(path);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            if let Ok(target) = std::fs::read_link(from.join(path)) {
                std::os::unix::fs::symlink(target, to).unwrap();
                continue;
            }
            // A file that was deleted but not yet committed is still listed.
            let _ = std::fs::copy(from.join(path), to);
        }
        (copy, tree)
    }

    fn git_init(&self) {
        let mut git = Command::new("git");
        let made = git.args(["init", "--quiet"]).current_dir(&self.root).status();
        assert!(made.unwrap().success());
    }

    /// A file that holds what it held before has not changed since: cargo looks at its time.
    fn turn_back_times(&self) {
        for (path, (content, time)) in &self.before {
            if std::fs::read(path).ok().as_ref() == Some(content) {
                std::fs::File::open(path).unwrap().set_modified(*time).unwrap();
            }
        }
    }

    fn cargo(&self, arguments: &[&str]) {
        let mut cargo = Command::new("cargo");
        cargo.args(arguments).current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        let status = cargo.status().unwrap();
        assert!(status.success(), "cargo {}: {status}", arguments.join(" "));
    }

    /// Run a command of a how-to, unoptimised: that only makes it slower, and building shorter.
    fn follow(&self, command: &str) {
        if NOT_RUN.iter().any(|slow| command.starts_with(slow)) {
            return;
        }
        let words = command.split_whitespace().filter(|word| *word != "--release");
        let mut words: Vec<&str> = words.collect();
        // What the how-tos ask for are tests of the library; the others need not be built.
        if words.get(1) == Some(&"test") {
            words.insert(2, "--lib");
        }
        let ["cargo", arguments @ ..] = &words[..] else {
            panic!("`{command}` is no command that this test knows how to run");
        };
        self.cargo(arguments);
    }

    /// Run a started study. It makes all the requests that it asks for, or what it measures is
    /// another workload than it says.
    fn run_study(&self, name: &str) {
        self.follow(&format!("cargo run --quiet -p blocklab -- run studies/try-{name}.toml"));
        let read = |file: String| std::fs::read_to_string(self.root.join(file)).unwrap();
        let study: toml::Table = read(format!("studies/try-{name}.toml")).parse().unwrap();
        let asked = study.get("run").and_then(|run| run.get("requests")?.as_integer());
        let result: Value =
            serde_json::from_str(&read(format!("out/try-{name}/result.json"))).unwrap();
        let runs = result["runs"].as_array().unwrap();
        assert!(!runs.is_empty(), "{name}");
        for run in runs {
            let notes = run["notes"].to_string();
            assert!(!notes.contains("the workload ended after"), "{name}: {notes}");
            let made = run["metrics"]["host_requests"].as_f64();
            assert!(asked.is_none_or(|asked| made == Some(asked as f64)), "{name}: {made:?}");
        }
    }
}

/// The fenced blocks of a document that are in this language.
fn blocks<'a>(text: &'a str, language: &'a str) -> impl Iterator<Item = &'a str> {
    let fenced = text.split("```").skip(1).step_by(2);
    fenced.filter_map(move |block| block.strip_prefix(language)?.strip_prefix('\n'))
}

/// The commands of a document: blocks without a language, without what they say behind a `#`.
fn commands(text: &str) -> Vec<&str> {
    let lines = blocks(text, "").flat_map(str::lines);
    let bare = lines.map(|line| line.split_once(" #").map_or(line, |(bare, _)| bare).trim());
    bare.filter(|line| !line.is_empty()).collect()
}

/// What a document quotes in a line, outside of its blocks.
fn quotes(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|part| part.split('`').skip(1).step_by(2)).collect()
}

/// `name(a, b)` and what comes in its brackets, when the quote is a call.
fn call(quote: &str) -> Option<(&str, Vec<&str>)> {
    let is_name = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    let (name, rest) = quote.split_once('(')?;
    let (arguments, _) = rest.split_once(')')?;
    let arguments: Vec<&str> = arguments.split(", ").filter(|word| !word.is_empty()).collect();
    (is_name(name) && arguments.iter().all(|word| is_name(word))).then_some((name, arguments))
}

/// True when a function of these files is called so.
fn is_callable(sources: &[&File], (name, arguments): &(&str, Vec<&str>)) -> bool {
    sources.iter().any(|file| {
        file.text.split(&format!("fn {name}(")).skip(1).any(|rest| {
            let named = rest.split_once(')').map_or("", |(named, _)| named);
            arguments.iter().all(|word| named.contains(&format!("{word}: ")))
        })
    })
}

/// What a how-to says about the code holds.
fn check_claims(tree: &Tree, howto: &File) {
    let File { path, text } = howto;
    let models: Vec<&File> = tree.with_extension("rs").filter(|f| has_models(f)).collect();
    for code in blocks(text, "rust") {
        let found = models.iter().any(|file| file.text.contains(code.trim()));
        assert!(found, "{path}: no file has\n{code}");
    }
    let mut calls = 0;
    for quote in quotes(text) {
        if let Some(call) = call(quote) {
            assert!(is_callable(&models, &call), "{path}: nothing is called `{quote}`");
            calls += 1;
        }
        let place = quote.split(' ').next().unwrap_or_default();
        if ["crates/", "docs/", "studies/"].iter().any(|folder| place.starts_with(folder)) {
            assert!(tree.has(place), "{path}: there is no {place}");
        }
    }
    assert!(calls > 3, "{path}: the calls that it quotes are not found any more");
}

/// The files that are new or hold something else.
fn changed<'a>(before: &Tree, after: &'a Tree) -> Vec<&'a str> {
    let same = |file: &&File| before.file(&file.path).is_none_or(|old| old.text != file.text);
    after.files.iter().filter(same).map(|file| file.path.as_str()).collect()
}

/// A model is its own file and one line of its slot; what a study of it needs comes on top.
fn check_places(before: &Tree, after: &Tree, word: &str, name: &str) {
    let kind = find(word).unwrap();
    let module = name.replace('-', "_");
    let slot = format!("{}/{}", kind.folder, kind.slot);
    let mut expected = vec![format!("{}/{module}.rs", kind.folder), slot.clone()];
    expected.push(format!("studies/try-{name}.toml"));
    expected.extend(kind.trace.map(|_| format!("traces/try-{name}.txt")));
    expected.sort();
    assert_eq!(changed(before, after), expected, "{word}");
    let lines = |tree: &Tree| tree.file(&slot).unwrap().text.lines().count();
    assert_eq!(lines(after), lines(before) + 1, "{slot}");
}

fn has_models(file: &File) -> bool {
    ["crates/flash/src/ftl/", "crates/models/src/"].iter().any(|f| file.path.starts_with(f))
}

#[test]
#[ignore = "compiles everything again; make test-long runs it"]
fn every_kind_and_every_how_to_works_as_it_is_written() {
    // This program lies in target/debug/deps.
    let program = std::env::current_exe().unwrap();
    let target = program.ancestors().nth(3).unwrap();
    let (copy, tree) = Copy::make(target);
    let is_howto = |file: &&File| file.path.starts_with("docs/howto/add-");
    let howtos: Vec<&File> = tree.with_extension("md").filter(is_howto).collect();
    let mut all: Vec<&str> = howtos.iter().flat_map(|howto| commands(&howto.text)).collect();
    assert!(all.len() > howtos.len(), "{all:?}");
    // Models first, all at once, so that everything is compiled once.
    let mut started = Vec::new();
    all.retain(|command| {
        let new = command.strip_prefix("cargo run -p xtask -- new ");
        started.extend(new.and_then(|rest| rest.split_once(' ')));
        new.is_none()
    });
    let others = KINDS.iter().filter(|kind| started.iter().all(|(word, _)| *word != kind.word));
    let others: Vec<_> = others.map(|kind| (kind.word, format!("my-{}", kind.word))).collect();
    started.extend(others.iter().map(|(word, name)| (*word, &**name)));
    let mut before = tree.clone();
    for (word, name) in &started {
        write(&copy.root, find(word).unwrap(), name).unwrap();
        let after = Tree::read(&copy.root).unwrap();
        check_places(&before, &after, word, name);
        before = after;
    }
    copy.turn_back_times();
    copy.cargo(&GENERATE);
    let written = Tree::read(&copy.root).unwrap();
    let generated = changed(&before, &written);
    assert!(!generated.is_empty());
    for path in generated {
        assert!(["docs/models/", "docs/schema/"].iter().any(|f| path.starts_with(f)), "{path}");
    }
    howtos.iter().for_each(|howto| check_claims(&written, howto));
    let mut packages: Vec<&str> = KINDS.iter().map(|kind| kind.package).collect();
    packages.dedup();
    for package in packages {
        copy.follow(&format!("cargo test --quiet -p {package} my_"));
    }
    all.into_iter().for_each(|command| copy.follow(command));
    for (_, name) in &started {
        copy.run_study(name);
    }
    copy.follow("cargo run --quiet -p xtask -- tidy");
}
