//! Entries of the Boot Loader Specification: one file each.

use std::cmp::{Ordering, Reverse};
use std::fs;
use std::path::Path;

use config::Failure;

use super::glob::fits;
use super::{Copy, MARK, OURS, TITLE, WORDS};
use crate::version;

struct File {
    name: String,
    text: String,
}

impl File {
    /// The name without the count of attempts, as in `name+3-1.conf`.
    fn id(&self) -> String {
        let stem = self.name.trim_end_matches(".conf");
        let counts = |tail: &str| tail.chars().all(|c| c.is_ascii_digit() || c == '-');
        match stem.rsplit_once('+') {
            Some((id, tail)) if !tail.is_empty() && counts(tail) => format!("{id}.conf"),
            _ => self.name.clone(),
        }
    }

    /// All attempts failed.
    fn is_bad(&self) -> bool {
        self.id() != self.name && self.name.rsplit('+').next().is_some_and(|n| n.starts_with('0'))
    }

    fn value(&self, key: &str) -> Option<&str> {
        let mut lines = self.text.lines().rev();
        let (_, value) = lines.find_map(|line| {
            line.trim().split_once(char::is_whitespace).filter(|(name, _)| *name == key)
        })?;
        Some(value.trim())
    }

    fn is_linux(&self) -> bool {
        self.value("linux").is_some()
    }
}

/// A copy of the usual entry in a folder, where there are entries. `saved` is what GRUB keeps as
/// the default, for where GRUB reads these files.
pub(super) fn copy(folder: &Path, saved: Option<&str>) -> Result<Option<Copy>, Failure> {
    let files = in_order(folder);
    let settings = folder.with_file_name("loader.conf");
    let default = default_of(&settings);
    let is_default = |file: &&File| {
        let (id, stem) = (file.id(), file.id().trim_end_matches(".conf").to_string());
        match &default {
            Some(pattern) => fits(pattern, &id) || fits(pattern, &stem),
            None => !settings.exists() && saved.is_some_and(|saved| saved == stem),
        }
    };
    if let Some(file) = files.iter().find(is_default) {
        if !file.is_linux() {
            let path = folder.join(&file.name);
            return Err(no_kernel(format!("{}: the usual entry, and", path.display())));
        }
        return Ok(Some(Copy { text: with_more_words(&file.text), note: None }));
    }
    let Some(first) = files.first() else { return Ok(None) };
    let usable = |file: &&File| file.is_linux() && !file.name.contains("rescue");
    let Some(newest) = files.iter().find(usable) else {
        return Err(no_kernel(format!("{}: no entry of a kernel:", folder.display())));
    };
    let why = match default {
        Some(pattern) => Some(format!("{}: default {pattern} names no file", settings.display())),
        None if first.name == newest.name => None,
        None => Some(format!("{} comes first and cannot be copied", first.name)),
    };
    let note = why.map(|why| {
        format!("{why}: which entry is the usual one is not known; {} was copied", newest.name)
    });
    Ok(Some(Copy { text: with_more_words(&newest.text), note }))
}

fn no_kernel(what: String) -> Failure {
    Failure::input(format!("{what} it has no `linux` line"))
        .expected("an entry with one; what `efi` starts may be another system")
        .help("`default` in loader.conf names the entry that is copied")
}

/// What loader.conf names, by a name or a pattern.
fn default_of(settings: &Path) -> Option<String> {
    let text = fs::read_to_string(settings).ok()?;
    let file = File { name: String::new(), text };
    file.value("default").map(|value| value.trim_matches('"').to_string())
}

/// The entries of others, in the order of systemd-boot's menu.
fn in_order(folder: &Path) -> Vec<File> {
    let mut files = Vec::new();
    for file in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        if name.ends_with(".conf") && !OURS.contains(&name.as_str()) {
            files.extend(fs::read_to_string(file.path()).map(|text| File { name, text }));
        }
    }
    files.sort_by(order);
    files
}

fn order(a: &File, b: &File) -> Ordering {
    let newest_first = |a: &str, b: &str| version::compare(b, a);
    let keys = |file: &File| file.value("sort-key").map(str::to_string);
    let by_key = match (keys(a), keys(b)) {
        (Some(x), Some(y)) => x
            .cmp(&y)
            .then_with(|| a.value("machine-id").cmp(&b.value("machine-id")))
            .then_with(|| {
                let version = |file: &File| file.value("version").unwrap_or_default().to_string();
                newest_first(&version(a), &version(b))
            }),
        // One with a key comes before one without.
        (x, y) => Reverse(x.is_some()).cmp(&Reverse(y.is_some())),
    };
    let by_id = || newest_first(&a.id(), &b.id()).then_with(|| b.name.cmp(&a.name));
    a.is_bad().cmp(&b.is_bad()).then(by_key).then_with(by_id)
}

/// The entry with another title and more options.
fn with_more_words(text: &str) -> String {
    let key = |line: &str| line.split_whitespace().next().unwrap_or_default().to_string();
    let kept =
        text.lines().filter(|line| !["title", "id", "sort-key"].contains(&key(line).as_str()));
    let mut out = format!("{MARK}\ntitle {TITLE}\n");
    for line in kept {
        out.push_str(line);
        out.push('\n');
    }
    // Options of several lines are put together.
    out.push_str(&format!("options {WORDS}\n"));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is copied of these files: the place of the kernel, and whether there is a note.
    fn copied(files: &[(&str, &str)], settings: Option<&str>) -> Result<(String, bool), String> {
        let folder = attach::PrivateFolder::new().unwrap();
        let entries = folder.path.join("entries");
        fs::create_dir(&entries).unwrap();
        for (name, text) in files {
            fs::write(entries.join(name), text).unwrap();
        }
        if let Some(text) = settings {
            fs::write(folder.path.join("loader.conf"), text).unwrap();
        }
        let copy = copy(&entries, Some("saved")).map_err(|why| why.message)?.unwrap();
        let file = File { name: String::new(), text: copy.text };
        Ok((file.value("linux").unwrap().to_string(), copy.note.is_some()))
    }

    fn is(kernel: &str, noted: bool) -> Result<(String, bool), String> {
        Ok((kernel.to_string(), noted))
    }

    #[test]
    fn an_entry_is_a_copy_with_more_words() {
        let text = "title Debian\nlinux /v\noptions root=x quiet\ninitrd /i\n";
        assert_eq!(
            with_more_words(text),
            format!(
                "{MARK}\ntitle {TITLE}\nlinux /v\noptions root=x quiet\ninitrd /i\n\
                 options {WORDS}\n"
            )
        );
    }

    #[test]
    fn the_newest_is_what_the_loader_shows_first() {
        let by_name = [("d-6.1.0-9.conf", "linux /9\n"), ("d-6.1.0-10.conf", "linux /10\n")];
        assert_eq!(copied(&by_name, None), is("/10", false));
        let by_key = [
            ("a.conf", "sort-key d\nversion 6.10\nlinux /key-10\n"),
            ("z.conf", "sort-key d\nversion 6.9\nlinux /key-9\n"),
            ("zz.conf", "linux /none\n"),
        ];
        assert_eq!(copied(&by_key, None), is("/key-10", false));
        let counted = [("d-2+0-3.conf", "linux /bad\n"), ("d-1+2-1.conf", "linux /good\n")];
        assert_eq!(copied(&counted, None), is("/good", false));
        let rescue = [("d-1.conf", "linux /1\n"), ("e-rescue.conf", "linux /r\n")];
        assert_eq!(copied(&rescue, None), is("/1", true));
        let saved = [("z.conf", "linux /z\n"), ("saved.conf", "linux /saved\n")];
        assert_eq!(copied(&saved, None), is("/saved", false));
        assert_eq!(copied(&saved, Some("timeout 3\n")), is("/z", false));
    }

    #[test]
    fn the_loaders_default_is_the_usual_one() {
        let files = [
            ("arch.conf", "title A\nlinux /arch\n"),
            ("other.conf", "linux /other\n"),
            ("windows.conf", "title W\nefi /EFI/Microsoft/x.efi\n"),
        ];
        assert_eq!(copied(&files, Some("default arch.conf\n")), is("/arch", false));
        assert_eq!(copied(&files, Some("#\n default\tAR*\n")), is("/arch", false));
        assert_eq!(copied(&files, Some("default @saved\n")), is("/other", true));
        assert_eq!(copied(&files, None), is("/other", true));
        let refused = copied(&files, Some("default windows.conf\n")).unwrap_err();
        assert!(refused.contains("windows.conf: the usual entry"), "{refused}");
        assert!(copied(&files[2..], None).unwrap_err().contains("no `linux` line"));
    }
}
