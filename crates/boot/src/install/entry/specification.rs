//! Entries of the Boot Loader Specification: one file each.

use std::cmp::{Ordering, Reverse};
use std::fs;
use std::path::Path;

use config::Failure;

use super::glob::fits;
use super::{Copy, MARK, OURS, TITLE, Usual, WORDS, by_hand};
use crate::install::place;
use crate::version;

/// What loader.conf names where the loader keeps in a variable what was started last.
const SAVED: &str = "@saved";

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

/// A copy of the usual entry in a folder of `root`, where there are entries. `saved` is what GRUB
/// keeps as the default, for where GRUB reads these files, which it does if it is `by_grub`.
pub(super) fn copy(
    root: &Path,
    folder: &Path,
    saved: Option<&str>,
    by_grub: bool,
) -> Result<Option<Copy>, Failure> {
    let files = in_order(root, folder)?;
    let settings = folder.with_file_name("loader.conf");
    let default = default_of(place::read(root, &settings)?);
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
        return with_more_words(&folder.join(&file.name), &file.text, by_grub, None).map(Some);
    }
    let Some(first) = files.first() else { return Ok(None) };
    let usable = |file: &&File| file.is_linux() && !file.name.contains("rescue");
    let Some(newest) = files.iter().find(usable) else {
        return Err(no_kernel(format!("{}: no entry of a kernel:", folder.display())));
    };
    let why = match default {
        Some(pattern) if pattern == SAVED => Some(format!(
            "{}: default {SAVED}: the loader keeps what was started last, so the recorded entry \
             becomes the usual one, unless it is started by `bootctl set-oneshot -- {}`",
            settings.display(),
            OURS[0]
        )),
        Some(pattern) => Some(format!("{}: default {pattern} names no file", settings.display())),
        None if first.name == newest.name => None,
        None => Some(format!("{} comes first and cannot be copied", first.name)),
    };
    let note = why.map(|why| {
        format!("{why}: which entry is the usual one is not known; {} was copied", newest.name)
    });
    with_more_words(&folder.join(&newest.name), &newest.text, by_grub, note).map(Some)
}

fn no_kernel(what: String) -> Failure {
    Failure::input(format!("{what} it has no `linux` line"))
        .expected("an entry with one; what `efi` starts may be another system")
        .help("`default` in loader.conf names the entry that is copied")
}

/// What loader.conf names, by a name or a pattern.
fn default_of(settings: Option<String>) -> Option<String> {
    let file = File { name: String::new(), text: settings? };
    file.value("default").map(|value| value.trim_matches('"').to_string())
}

/// The entries of others, in the order of systemd-boot's menu.
fn in_order(root: &Path, folder: &Path) -> Result<Vec<File>, Failure> {
    let mut files = Vec::new();
    for file in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        if name.ends_with(".conf") && !OURS.contains(&name.as_str()) {
            files.extend(place::read(root, &file.path())?.map(|text| File { name, text }));
        }
    }
    files.sort_by(order);
    Ok(files)
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

/// The entry in `file` with another title and more options.
fn with_more_words(
    file: &Path,
    text: &str,
    by_grub: bool,
    note: Option<String>,
) -> Result<Copy, Failure> {
    let (mut out, mut usual) = (format!("{MARK}\ntitle {TITLE}\n"), Usual::default());
    let mut options = Vec::new();
    for line in text.lines() {
        match line.split_whitespace().next() {
            Some("title" | "id" | "sort-key") => {}
            // Some loaders put those of several lines together, and GRUB takes the first of them.
            Some("options") => options.push(line.trim()["options".len()..].trim()),
            _ => out.push_str(&format!("{line}\n")),
        }
    }
    if options.is_empty() && by_grub {
        return Err(Failure::input(format!("{}: it has no `options` line", file.display()))
            .expected("one: GRUB takes its own words for the kernel where there is none")
            .help(by_hand()));
    }
    let options = options.join(" ");
    usual.read(options.split_whitespace());
    let (kernels, inits) = options.split_at(end_of_kernels(&options));
    let all = [kernels.trim_end(), WORDS, inits].join(" ");
    out.push_str(&format!("options {}\n", all.trim()));
    Copy::new(file, out, usual, note)
}

/// Where the words for the kernel end: before `--`, behind which are those for the init.
fn end_of_kernels(options: &str) -> usize {
    let is_blank = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_whitespace);
    let bytes = options.as_bytes();
    let stands_alone = |at: &usize| {
        is_blank(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && is_blank(bytes.get(at + 2))
    };
    let mut found = options.match_indices("--").map(|(at, _)| at);
    found.find(stands_alone).unwrap_or(options.len())
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
        let found = copy(&folder.path, &entries, Some("saved"), false);
        let copy = found.map_err(|why| why.message)?.unwrap();
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
            with_more_words(Path::new("a.conf"), text, true, None).unwrap().text,
            format!("{MARK}\ntitle {TITLE}\nlinux /v\ninitrd /i\noptions root=x quiet {WORDS}\n")
        );
    }

    /// GRUB reads one line of options, and has words of its own where there is none.
    #[test]
    fn there_is_one_line_of_options() {
        let copied = |text: &str, by_grub: bool| {
            let copy = with_more_words(Path::new("a.conf"), text, by_grub, None);
            copy.map(|copy| copy.text.lines().skip(2).collect::<Vec<_>>().join("|"))
                .map_err(|why| why.message)
        };
        let told = |options: &str| Ok(format!("linux /v|options {options}"));
        let two = "linux /v\n options\troot=x  quiet \noptions ro\n";
        assert_eq!(copied(two, true), told(&format!("root=x  quiet ro {WORDS}")));
        assert_eq!(copied("linux /v\n", false), told(WORDS));
        let refused = copied("linux /v\n", true).unwrap_err();
        assert_eq!(refused, "a.conf: it has no `options` line");
        // Only what stands alone ends the kernel's words.
        let long = "linux /v\noptions a--b --c d--\n";
        assert_eq!(copied(long, true), told(&format!("a--b --c d-- {WORDS}")));
        for (options, with) in [("a --", "a WORDS --"), ("-- s", "WORDS -- s")] {
            let with = with.replace("WORDS", WORDS);
            assert_eq!(copied(&format!("linux /v\noptions {options}\n"), true), told(&with));
        }
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
        let note = of_bytes(b"linux /v\n", b"default @saved\n").unwrap().note.unwrap();
        assert!(note.contains("becomes the usual one, unless it is started by `bootctl"), "{note}");
        assert!(note.ends_with("is not known; b.conf was copied"), "{note}");
        assert_eq!(copied(&files, None), is("/other", true));
        let refused = copied(&files, Some("default windows.conf\n")).unwrap_err();
        assert!(refused.contains("windows.conf: the usual entry"), "{refused}");
        assert!(copied(&files[2..], None).unwrap_err().contains("no `linux` line"));
    }

    /// What is copied of an entry, or why it is not.
    fn of_bytes(entry: &[u8], settings: &[u8]) -> Result<Copy, String> {
        let folder = attach::PrivateFolder::new().unwrap();
        let entries = folder.path.join("entries");
        fs::create_dir(&entries).unwrap();
        fs::write(entries.join("a.conf"), entry).unwrap();
        fs::write(entries.join("b.conf"), "linux /newer\n").unwrap();
        fs::write(folder.path.join("loader.conf"), settings).unwrap();
        let found = copy(&folder.path, &entries, None, false).map_err(|why| why.message);
        found.map(Option::unwrap)
    }

    #[test]
    fn text_of_an_older_time_is_read_and_not_broken() {
        // A comment in Latin 1 says nothing, and a title is not copied.
        let copy = of_bytes(b"title caf\xe9\nlinux /v\n", b"# caf\xe9\ndefault a\n").unwrap();
        assert!(copy.text.contains("linux /v") && copy.note.is_none(), "{copy:?}");
        let refused = of_bytes(b"linux /v\noptions root=LABEL=caf\xe9\n", b"default a\n");
        assert!(refused.unwrap_err().ends_with("a.conf: the usual entry is not UTF-8"));
    }

    #[test]
    fn words_for_the_init_stay_behind_those_for_the_kernel() {
        let text = b"linux /v\noptions a init=/bin/i -- single\noptions b\n";
        let copy = of_bytes(text, b"default a\n").unwrap();
        let options = format!("options a init=/bin/i {WORDS} -- single b\n");
        assert!(copy.text.ends_with(&options), "{}", copy.text);
        assert_eq!(copy.init.as_deref(), Some("/bin/i"));
    }

    #[test]
    fn settings_that_cannot_be_read_and_links_out_of_the_root_are_told() {
        let folder = attach::PrivateFolder::new().unwrap();
        let (root, outside) = (folder.path.join("r"), folder.path.join("outside.conf"));
        let entries = root.join("entries");
        fs::create_dir_all(&entries).unwrap();
        fs::write(&outside, "linux /v\n").unwrap();
        std::os::unix::fs::symlink(&outside, entries.join("a.conf")).unwrap();
        let told = copy(&root, &entries, None, false).unwrap_err().message;
        assert!(told.contains("a.conf: a link to") && told.contains("is not in"), "{told}");
        fs::remove_file(entries.join("a.conf")).unwrap();
        fs::create_dir(root.join("loader.conf")).unwrap();
        let told = copy(&root, &entries, None, false).unwrap_err().message;
        assert!(told.starts_with("cannot read ") && told.contains("loader.conf"), "{told}");
    }
}
