//! An entry of the boot loader, beside the usual one: GRUB's, or a file of the Boot Loader
//! Specification, which systemd-boot and Fedora's GRUB read.

use std::fs;
use std::path::{Path, PathBuf};

use config::Failure;

/// What the kernel is told beside what it is told usually. Its own threads are counted, too.
pub const WORDS: &str = "delayacct init=/usr/local/lib/blocklab/init";
const TITLE: &str = "This system, recorded by blocklab";
const GRUB: [&str; 2] = ["boot/grub", "boot/grub2"];
const ENTRIES: [&str; 3] = ["boot/loader/entries", "efi/loader/entries", "boot/efi/loader/entries"];
const NAME: &str = "blocklab.conf";
/// The file of a user's own that GRUB's menu takes in.
const CUSTOM: &str = "custom.cfg";
/// The first line of ours.
const MARK: &str = "# Written by blocklab boot install";

/// A file to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// The entry for the loader that starts the system; `None` for none that is known.
pub(super) fn make(root: &Path) -> Result<Option<Entry>, Failure> {
    for folder in ENTRIES.map(|name| root.join(name)) {
        if let Some(text) = newest(&folder).and_then(|text| of_specification(&text)) {
            return Ok(Some(Entry { path: folder.join(NAME), text }));
        }
    }
    for folder in GRUB.map(|name| root.join(name)) {
        let menu = folder.join("grub.cfg");
        let Ok(text) = fs::read_to_string(&menu) else { continue };
        let path = folder.join(CUSTOM);
        if path.exists() && !is_ours(&path) {
            return Err(Failure::input(format!("{}: it is in use", path.display()))
                .expected("none: the new entry would go there")
                .help(format!("boot once with `{WORDS}` added to the kernel's command line")));
        }
        if !text.contains(CUSTOM) {
            return Err(Failure::input(format!("{}: it takes in no {CUSTOM}", menu.display()))
                .help("update-grub writes one that does, with /etc/grub.d/41_custom"));
        }
        let text = of_grub(&text)
            .ok_or_else(|| Failure::input(format!("{}: no entry with a kernel", menu.display())))?;
        return Ok(Some(Entry { path, text }));
    }
    Ok(None)
}

/// Files of ours that are there.
pub(super) fn ours(root: &Path) -> Vec<PathBuf> {
    let grub = GRUB.map(|name| root.join(name).join(CUSTOM));
    let entries = ENTRIES.map(|name| root.join(name).join(NAME));
    grub.into_iter().chain(entries).filter(|path| is_ours(path)).collect()
}

fn is_ours(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.starts_with(MARK))
}

/// The entry with the last name, which has the newest kernel.
fn newest(folder: &Path) -> Option<String> {
    let files = fs::read_dir(folder).ok()?.flatten().map(|file| file.path());
    let is_usual = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.ends_with(".conf") && name != NAME && !name.contains("rescue")
    };
    let mut files: Vec<PathBuf> = files.filter(is_usual).collect();
    files.sort();
    fs::read_to_string(files.last()?).ok()
}

/// The entry with another title and more options.
fn of_specification(text: &str) -> Option<String> {
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
    text.lines().any(|line| ["linux", "efi"].contains(&key(line).as_str())).then_some(out)
}

/// The first entry with a kernel, with another title and more words for it.
fn of_grub(menu: &str) -> Option<String> {
    let mut out = format!("{MARK}\n");
    let (mut depth, mut kernel) = (0usize, false);
    for line in menu.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if depth == 0 && words.first() == Some(&"menuentry") && words.last() == Some(&"{") {
            (depth, kernel) = (1, false);
            out = format!("{MARK}\nmenuentry '{TITLE}' --id blocklab {{\n");
            continue;
        }
        if depth == 0 {
            continue;
        }
        // `${name}` opens and closes; a block's brace stands alone.
        depth += words.iter().filter(|word| **word == "{").count();
        depth -= words.iter().filter(|word| **word == "}").count().min(depth);
        out.push_str(line.trim_end());
        if words.first().is_some_and(|word| ["linux", "linuxefi", "linux16"].contains(word)) {
            kernel = true;
            out.push_str(&format!(" {WORDS}"));
        }
        out.push('\n');
        if depth == 0 && kernel {
            return Some(out);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_copy_with_more_words() {
        let text = "title Debian\nlinux /v\noptions root=x quiet\ninitrd /i\n";
        let told = of_specification(text).unwrap();
        assert_eq!(
            told,
            format!(
                "{MARK}\ntitle {TITLE}\nlinux /v\noptions root=x quiet\ninitrd /i\n\
                 options {WORDS}\n"
            )
        );
        assert_eq!(of_specification("title x\n"), None);
    }

    #[test]
    fn grubs_first_entry_with_a_kernel_is_taken() {
        let menu = "menuentry 'Firmware' {\n\tfwsetup\n}\nsubmenu 'More' {\n\
                    \tmenuentry 'Linux' --class x {\n\t\tif [ x$a = y ]; then\n\t\t\tb ${c}\n\
                    \t\tfi\n\t\tlinux\t/vmlinuz root=x\n\t}\n}\n";
        let told = of_grub(menu).unwrap();
        assert!(told.starts_with(&format!("{MARK}\nmenuentry '{TITLE}' --id blocklab {{\n")));
        assert!(told.contains("\t\tb ${c}\n\t\tfi\n\t\tlinux\t/vmlinuz root=x delayacct init="));
        assert!(told.ends_with("\t}\n") && !told.contains("fwsetup"), "{told}");
        assert_eq!(of_grub("menuentry 'cut' {\n\tlinux /v\n"), None);
        assert_eq!(of_grub(""), None);
    }

    #[test]
    fn a_loaders_file_in_use_is_left_alone() {
        let folder = attach::PrivateFolder::new().unwrap();
        let grub = folder.path.join("boot/grub");
        fs::create_dir_all(&grub).unwrap();
        assert_eq!(make(&folder.path), Ok(None));
        fs::write(grub.join("grub.cfg"), "menuentry 'a' {\nlinux /v\n}\n").unwrap();
        assert!(make(&folder.path).unwrap_err().message.contains("takes in no custom.cfg"));
        fs::write(grub.join("custom.cfg"), "theirs").unwrap();
        assert!(make(&folder.path).unwrap_err().message.ends_with("it is in use"));
        assert_eq!(ours(&folder.path), Vec::<PathBuf>::new());
    }
}
