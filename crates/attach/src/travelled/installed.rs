//! Files of this machine that a command line names: what a run gives is of their content, too.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use study::{Setup, Travel};

use crate::travel::PROGRAMS;

/// The content of what is larger is not read: its size and its last change stand for it.
const READ_MAX: u64 = 256 << 20;

/// Digests of files, each read once in a plan.
#[derive(Default)]
pub(super) struct Installed(Mutex<BTreeMap<PathBuf, Option<String>>>);

impl Installed {
    /// Each file that the command lines of a point name, or the values of their variables, and what
    /// stands for its content.
    pub(super) fn named(&self, setup: &Setup, travel: &Travel) -> BTreeMap<String, String> {
        let check = setup.point.crash.as_ref().map_or("", |crash| &crash.check);
        let lines = [&travel.command, &travel.setup, check].map(String::from);
        let arguments = travel.arguments.values().map(|value| value.label());
        // What is mounted for the program is where it runs, and none of this machine's folders.
        let here = match travel.file_system {
            Some(_) => None,
            None => std::env::current_dir().ok(),
        };
        let lines: Vec<String> = lines.into_iter().chain(arguments).collect();
        self.named_in(&lines, here.as_deref())
    }

    fn named_in(&self, lines: &[String], here: Option<&Path>) -> BTreeMap<String, String> {
        let words = lines.iter().flat_map(|line| words(line));
        let paths = words.filter_map(|word| located(word, here));
        let known = paths.filter_map(|path| Some((path.display().to_string(), self.of(path)?)));
        known.collect()
    }

    fn of(&self, path: PathBuf) -> Option<String> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(path).or_insert_with_key(|path| content(path)).clone()
    }
}

/// What may be a path: a shell's words, and what stands before and after `=`, `:` and `,` in one.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let ends = |c: char| c.is_whitespace() || "|&;()<>\"'`$={}:,".contains(c);
    line.split(ends).filter(|word| !word.is_empty())
}

/// The file that a word names where the program runs, or on its search path.
fn located(word: &str, here: Option<&Path>) -> Option<PathBuf> {
    let is_file = |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| meta.is_file());
    let path = Path::new(word);
    if path.is_absolute() {
        return Some(path.to_path_buf()).filter(is_file);
    }
    let beside = here.map(|here| here.join(path)).filter(is_file);
    let searched = || PROGRAMS.split(':').map(|folder| Path::new(folder).join(word)).find(is_file);
    beside.or_else(|| if word.contains('/') { None } else { searched() })
}

/// What stands for a file's content; nothing of what cannot be read.
fn content(path: &Path) -> Option<String> {
    let file = File::open(path).ok()?;
    let meta = file.metadata().ok()?;
    if meta.len() > READ_MAX {
        return Some(format!("{} bytes of {}.{:09}", meta.len(), meta.mtime(), meta.mtime_nsec()));
    }
    study::digest_of_reader(file).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_content_is_another_file() {
        let folder = std::env::temp_dir().join(format!("blocklab-content-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let lines = ["./p.sh | wc -l".to_string()];
        let named = |text: &str| {
            fs::write(folder.join("p.sh"), text).unwrap();
            Installed::default().named_in(&lines, Some(&folder))
        };
        let first = named("true");
        assert!(first.len() == 2 && first.keys().any(|path| path.ends_with("/wc")), "{first:?}");
        assert_eq!(named("true"), first);
        assert_ne!(named("false"), first);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_command_line_names_files_in_many_ways() {
        let folder = std::env::temp_dir().join(format!("blocklab-named-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("p.sh");
        fs::write(&file, "true").unwrap();
        let path = file.display();
        for line in [
            format!("{path}"),
            format!("sh '{path}' | wc -l"),
            format!("X={path};$X"),
            format!("fio --debug=x:{path}"),
        ] {
            assert!(words(&line).any(|word| located(word, None).as_ref() == Some(&file)), "{line}");
        }
        assert_eq!(located("./p.sh", Some(&folder)), Some(folder.join("./p.sh")));
        assert_eq!((located("./p.sh", None), located("p.sh", None)), (None, None));
        assert!(located("sh", None).is_some_and(|path| path.ends_with("sh")));
        assert_eq!(located(&folder.display().to_string(), None), None, "a folder");
        fs::remove_dir_all(&folder).unwrap();
    }
}
