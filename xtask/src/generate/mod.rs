//! The generated parts of the documents: a head per model page and the index of models.
//!
//! A page keeps what people write below its generated head.

mod page;
mod parameters;

use std::path::Path;

use crate::tree::Tree;

/// Ends the generated head of a page; what follows is written by people.
const END: &str = "<!-- end generated -->";
const FOLDER: &str = "docs/models/";

/// How a generated file compares with the committed one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Current,
    Missing,
    Stale {
        /// The first line that differs, from 1.
        line: usize,
    },
    /// A page without a registry line.
    Orphan,
}

/// One generated file.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) outcome: Outcome,
}

/// Write what is missing or stale.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    for output in outputs(&Tree::read(root)?) {
        match output.outcome {
            Outcome::Current => continue,
            Outcome::Orphan => {
                println!("{}: no registry line stands behind this page", output.path);
                continue;
            }
            Outcome::Missing | Outcome::Stale { .. } => {}
        }
        let path = root.join(&output.path);
        let folder = path.parent().expect("generated files lie in a folder");
        let written =
            std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, &output.text));
        written.map_err(|e| format!("cannot write {}: {e}", output.path))?;
        println!("wrote {}", output.path);
    }
    Ok(())
}

/// Every generated file, compared with `tree`.
pub(crate) fn outputs(tree: &Tree) -> Vec<Output> {
    let slots = models::registry::SLOTS;
    let mut outputs = Vec::new();
    for slot in slots {
        for (name, source) in slot.entries {
            let from = registered_source(tree, source).unwrap_or("the model's source");
            let rows = parameters::rows((slot.schema)().as_value(), name);
            let head = page::head(from, slot.slot, name, source, &rows);
            outputs.push(compare(tree, format!("{FOLDER}{}-{name}.md", slot.slot), head));
        }
    }
    outputs.push(compare(tree, format!("{FOLDER}README.md"), page::index(&slots)));
    let known: Vec<String> = outputs.iter().map(|output| output.path.clone()).collect();
    let pages = tree.paths.iter().filter(|path| path.starts_with(FOLDER) && path.ends_with(".md"));
    outputs.extend(pages.filter(|path| !known.contains(path)).map(|path| Output {
        path: path.clone(),
        text: String::new(),
        outcome: Outcome::Orphan,
    }));
    outputs
}

/// The file that holds the source of a registered model.
pub(crate) fn registered_source<'a>(tree: &'a Tree, source: &str) -> Option<&'a str> {
    tree.with_extension("rs").find(|file| file.text == source).map(|file| file.path.as_str())
}

fn compare(tree: &Tree, path: String, head: String) -> Output {
    let old = tree.file(&path).map(|file| file.text.as_str());
    let below = old.map(|text| text.split_once(END).map_or(text, |(_, below)| below));
    let text = format!("{head}{END}{}", below.unwrap_or("\n"));
    let outcome = match old {
        None => Outcome::Missing,
        Some(old) if old == text => Outcome::Current,
        Some(old) => {
            let same = old.lines().zip(text.lines()).take_while(|(a, b)| a == b).count();
            Outcome::Stale { line: same + 1 }
        }
    };
    Output { path, text, outcome }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_wrote_is_kept() {
        let old = format!("old head\n{END}\n\n## By hand\n");
        let tree = Tree::planted(&[("docs/models/x.md", &old)]);
        let output = compare(&tree, "docs/models/x.md".into(), "new head\n".into());
        assert_eq!(output.text, format!("new head\n{END}\n\n## By hand\n"));
        assert_eq!(output.outcome, Outcome::Stale { line: 1 });
        let tree = Tree::planted(&[("docs/models/x.md", &output.text)]);
        let again = compare(&tree, "docs/models/x.md".into(), "new head\n".into());
        assert_eq!(again.outcome, Outcome::Current);
    }
}
