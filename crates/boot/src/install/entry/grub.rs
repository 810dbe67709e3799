//! Entries of GRUB's menu: blocks of one script.

use std::path::Path;

use config::Failure;

use super::script::{end_of_command, joined, words};
use super::{Copy, MARK, TITLE, Usual, WORDS};
use crate::install::place;

/// A `menuentry` or a `submenu`.
struct Item {
    title: String,
    id: Option<String>,
    /// What follows its first line, to its closing brace.
    body: Vec<String>,
    inside: Vec<Item>,
}

impl Item {
    fn is_called(&self, name: &str) -> bool {
        self.title == name || self.id.as_deref() == Some(name)
    }

    /// What GRUB starts of it unless it is told otherwise.
    fn first(&self) -> &Item {
        self.inside.first().map_or(self, Item::first)
    }

    /// The first in it that starts Linux.
    fn first_of_linux(&self) -> Option<&Item> {
        let inside = || self.inside.iter().find_map(Item::first_of_linux);
        if self.starts_linux() { Some(self) } else { inside() }
    }

    /// A test of the memory is loaded as a kernel is, but has no initramfs and no init.
    fn starts_linux(&self) -> bool {
        let lines: Vec<Vec<String>> = self.body.iter().map(|line| words(line)).collect();
        let first = |line: &[String]| line.first().cloned().unwrap_or_default();
        let has_initrd = lines.iter().any(|line| first(line).starts_with("initrd"));
        lines.iter().any(|line| {
            let is_test = line.get(1).is_some_and(|file| file.contains("memtest"));
            is_kernel(&first(line)) && !is_test && (first(line) != "linux16" || has_initrd)
        })
    }
}

fn is_kernel(word: &str) -> bool {
    ["linux", "linuxefi", "linux16"].contains(&word)
}

/// A copy of the usual entry of the menu in `folder` of `root`.
pub(super) fn copy(root: &Path, folder: &Path, text: &str) -> Result<Copy, Failure> {
    let menu = folder.join("grub.cfg");
    let lines = joined(text);
    let items = items(&mut lines.iter().map(String::as_str));
    let first = || {
        let first = items.iter().find_map(Item::first_of_linux);
        first.ok_or_else(|| Failure::input(format!("{}: no entry with a kernel", menu.display())))
    };
    let default = match default_of(&lines).as_deref() {
        Some("${saved_entry}" | "$saved_entry") => saved(root, folder)?,
        other => other.map(str::to_string),
    };
    // GRUB, too, takes the first where none is named.
    let Some(default) = default.filter(|value| !value.is_empty()) else {
        return with_more_words(&menu, first()?, None);
    };
    let Some(usual) = named(&items, &default) else {
        let item = first()?;
        let note = format!(
            "{}: default {default} names no entry: which is the usual one is not known; `{}` \
             was copied",
            menu.display(),
            item.title
        );
        return with_more_words(&menu, item, Some(note));
    };
    if !usual.starts_linux() {
        let what = format!("{}: the usual entry, `{}`,", menu.display(), usual.title);
        return Err(Failure::input(format!("{what} starts no Linux"))
            .expected("an entry with a line `linux` and a kernel")
            .help("set GRUB_DEFAULT in /etc/default/grub to one, then update-grub"));
    }
    with_more_words(&menu, usual, None)
}

/// The items up to the end of the menu that they are in.
fn items<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Vec<Item> {
    let mut out = Vec::new();
    while let Some(line) = lines.next() {
        let words = words(line);
        let first = words.first().map_or("", String::as_str);
        let opens = words.last().is_some_and(|word| word == "{");
        if first == "}" {
            break;
        }
        if !opens {
            continue;
        }
        let after = |options: &[&str]| {
            let at = words.iter().position(|word| options.contains(&word.as_str()))?;
            words.get(at + 1).cloned()
        };
        let id = after(&["--id", "$menuentry_id_option", "${menuentry_id_option}"]);
        let title = words.get(1).cloned().unwrap_or_default();
        match first {
            "submenu" => out.push(Item { title, id, body: Vec::new(), inside: items(lines) }),
            "menuentry" => {
                out.extend(block(lines).map(|body| Item { title, id, body, inside: Vec::new() }))
            }
            // A function.
            _ => drop(block(lines)),
        }
    }
    out
}

/// The lines to the brace that closes what was opened; `None` where the file ends before.
fn block<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Option<Vec<String>> {
    let (mut depth, mut out) = (1usize, Vec::new());
    for line in lines {
        // `${name}` opens and closes; a block's brace stands alone.
        let words = words(line);
        depth += words.iter().filter(|word| *word == "{").count();
        depth -= words.iter().filter(|word| *word == "}").count().min(depth);
        out.push(line.trim_end().to_string());
        if depth == 0 {
            return Some(out);
        }
    }
    None
}

/// Whether a script is one menu entry, and nothing but comments before it.
pub(super) fn is_one_entry(text: &str) -> bool {
    let lines = joined(text);
    let mut lines = lines.iter().map(String::as_str);
    let first = lines.by_ref().map(words).find(|words| !words.is_empty()).unwrap_or_default();
    let opens = first.first().is_some_and(|word| word == "menuentry")
        && first.last().is_some_and(|word| word == "{");
    opens && block(&mut lines).is_some() && lines.all(|line| line.trim().is_empty())
}

/// What the script sets as the default, at last, but for the one time that `next_entry` is for.
fn default_of(lines: &[String]) -> Option<String> {
    let values = lines.iter().rev().filter_map(|line| {
        let words = words(line);
        let word = words.iter().find(|word| *word != "set")?;
        word.trim_end_matches(';').strip_prefix("default=").map(str::to_string)
    });
    let once = ["${next_entry}", "$next_entry"];
    values.into_iter().find(|value| !once.contains(&value.as_str()))
}

/// What was chosen last, or by grub-set-default.
pub(super) fn saved(root: &Path, folder: &Path) -> Result<Option<String>, Failure> {
    let text = place::read(root, &folder.join("grubenv"))?.unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix("saved_entry="));
    Ok(value.filter(|value| !value.is_empty()).map(str::to_string))
}

/// The entry of a path such as `1>2`, `Advanced>Debian` or an id.
fn named<'a>(items: &'a [Item], path: &str) -> Option<&'a Item> {
    // A `>` of a title is written twice.
    let whole = path.replace(">>", "\0");
    let (name, rest) = whole.split_once('>').unwrap_or((whole.as_str(), ""));
    let name = name.replace('\0', ">");
    let item = match name.parse::<usize>() {
        Ok(number) => items.get(number),
        Err(_) => items.iter().find(|item| item.is_called(&name)),
    }?;
    match rest {
        "" => Some(item.first()),
        rest => named(&item.inside, &rest.replace('\0', ">>")),
    }
}

/// The entry of a menu with another title and more words for the kernel.
fn with_more_words(menu: &Path, item: &Item, note: Option<String>) -> Result<Copy, Failure> {
    let mut out = format!("{MARK}\nmenuentry '{TITLE}' --id blocklab {{\n");
    let mut usual = Usual::default();
    for line in &item.body {
        let words = words(line);
        match words.first().map_or("", |word| word.trim_end_matches(';')) {
            // Started once, the copy would become the usual entry.
            "savedefault" => continue,
            word if is_kernel(word) => {
                let command = &line[..end_of_command(line)];
                let for_init = usual.read(words.iter().map(String::as_str));
                let end = command.find(" -- ").filter(|_| for_init).unwrap_or(command.len());
                let (command, rest) = (line[..end].trim_end(), line[end..].trim_start());
                let space = if rest.is_empty() { "" } else { " " };
                out.push_str(&format!("{command} {WORDS}{space}{rest}"));
            }
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    Copy::new(menu, out, usual, note)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn copied(menu: &str) -> Result<Copy, Failure> {
        copy(Path::new("/nowhere"), Path::new("/nowhere"), menu)
    }

    const MENU: &str = "menuentry 'A>B' --id a {\n\tlinux /a\n}\n\
                        menuentry \"Debian\" $menuentry_id_option 'b' {\n\tsavedefault\n\
                        \tlinux /b root=1 \\\n\t  quiet\n}\n\
                        submenu 'More' {\n\tmenuentry 'C' {\n\t\tlinux /c\n\t}\n\
                        \tmenuentry 'D' --id d {\n\t\tlinux /d # why\n\t}\n}\n\
                        menuentry 'Memory test' {\n\tlinux16 /m.bin\n}\n\
                        menuentry 'By EFI' {\n\tlinux /boot/memtest86+x64.efi\n}\n";

    #[test]
    fn grubs_first_entry_with_a_kernel_is_taken() {
        let menu = "menuentry 'Firmware' {\n\tfwsetup\n}\nsubmenu 'More' {\n\
                    \tmenuentry 'Linux' --class x {\n\t\tif [ x$a = y ]; then\n\t\t\tb ${c}\n\
                    \t\tfi\n\t\tlinux\t/vmlinuz root=x\n\t}\n}\n";
        let told = copied(menu).unwrap().text;
        assert!(told.starts_with(&format!("{MARK}\nmenuentry '{TITLE}' --id blocklab {{\n")));
        assert!(told.contains("\t\tb ${c}\n\t\tfi\n\t\tlinux\t/vmlinuz root=x delayacct init="));
        assert!(told.ends_with("\t}\n") && !told.contains("fwsetup"), "{told}");
        for none in ["menuentry 'cut' {\n\tlinux /v\n", "", "menuentry 'm' {\nlinux16 /m\n}\n"] {
            assert!(copied(none).unwrap_err().message.ends_with("no entry with a kernel"));
        }
    }

    #[test]
    fn the_menus_default_is_the_usual_entry() {
        for (default, kernel) in [
            ("set default=\"0\"", "/a"),
            ("default=1", "/b"),
            ("set default='Debian';", "/b"),
            ("set default=b", "/b"),
            ("set default=\"A>>B\"", "/a"),
            ("set default=2", "/c"),
            ("set default=\"2>1\"", "/d"),
            ("set default=\"More>d\"", "/d"),
            ("if a; then\n set default=\"${next_entry}\"\nelse\n set default=\"1\"\nfi", "/b"),
            ("function f {\n\tx\n}\nset default=1", "/b"),
            ("set default=\"${saved_entry}\"", "/a"),
        ] {
            let copy = copied(&format!("{default}\n{MENU}")).unwrap();
            assert!(copy.text.contains(&format!("linux {kernel}")), "{default}: {}", copy.text);
            assert_eq!(copy.note, None, "{default}");
        }
        for unknown in ["set default=9", "set default=\"${mine}\"", "set default=\"0>3\""] {
            let copy = copied(&format!("{unknown}\n{MENU}")).unwrap();
            assert!(copy.text.contains("linux /a") && copy.note.is_some(), "{unknown}");
        }
        for (number, title) in [(3, "Memory test"), (4, "By EFI")] {
            let refused = copied(&format!("set default={number}\n{MENU}")).unwrap_err().message;
            assert!(refused.contains(&format!("`{title}`, starts no Linux")), "{refused}");
        }
    }

    #[test]
    fn the_init_of_the_usual_entry_is_known() {
        let init = |words: &str| copied(&format!("menuentry 'a' {{\n\tlinux /v {words}\n}}\n"));
        assert_eq!(init("quiet").unwrap().init, None);
        let usual = init("init=/bin/a x init=/nix/store/i -- init=no").unwrap().init;
        assert_eq!(usual.as_deref(), Some("/nix/store/i"));
        for wrong in ["init=$mine", "init=systemd"] {
            assert!(init(wrong).unwrap_err().message.ends_with(wrong), "{wrong}");
        }
    }

    #[test]
    fn what_grub_saved_is_the_usual_entry() {
        let folder = attach::PrivateFolder::new().unwrap();
        let menu = format!("set default=\"${{saved_entry}}\"\n{MENU}");
        fs::write(folder.path.join("grubenv"), "# GRUB\nsaved_entry=More>d\n####").unwrap();
        assert!(copy(&folder.path, &folder.path, &menu).unwrap().text.contains("linux /d"));
    }

    #[test]
    fn words_stand_at_the_end_of_the_kernels_command_and_nothing_is_saved() {
        let told = copied(&format!("set default=1\n{MENU}")).unwrap().text;
        assert!(told.contains(&format!("\tlinux /b root=1 \t  quiet {WORDS}\n}}\n")), "{told}");
        assert!(!told.contains("savedefault"), "{told}");
        let told = copied(&format!("set default=2>1\n{MENU}")).unwrap().text;
        assert!(told.contains(&format!("linux /d {WORDS} # why\n")), "{told}");
        // What follows `--` is for the init.
        let told = copied("menuentry 'a' {\n\tlinux /v a -- single\n}\n").unwrap().text;
        assert!(told.contains(&format!("\tlinux /v a {WORDS} -- single\n")), "{told}");
    }
}
