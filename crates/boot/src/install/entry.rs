//! An entry of the boot loader, beside the usual one: GRUB's, or a file of the Boot Loader
//! Specification, which systemd-boot and Fedora's GRUB read.

mod glob;
mod grub;
mod own;
mod script;
mod specification;

use std::path::{Path, PathBuf};

use config::Failure;

use super::place;

/// What the kernel is told beside what it is told usually. Its own threads are counted, too.
pub const WORDS: &str = "delayacct init=/usr/local/lib/blocklab/init";
const TITLE: &str = "This system, recorded by blocklab";
const GRUB: [&str; 2] = ["boot/grub", "boot/grub2"];
const ENTRIES: [&str; 3] = ["boot/loader/entries", "efi/loader/entries", "boot/efi/loader/entries"];
/// Names of ours. A loader that is told of no default starts what is first in its menu: by `-`
/// the new one is last, and bootctl takes it, which `~` is not for. The second is that of older
/// versions.
const OURS: [&str; 2] = ["-blocklab.conf", "blocklab.conf"];
/// The file of a user's own that GRUB's menu takes in.
const CUSTOM: &str = "custom.cfg";
/// The first line of ours.
const MARK: &str = "# Written by blocklab boot install";

/// A file to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) text: String,
    /// What is not known of it.
    pub(super) note: Option<String>,
    /// The init that the usual entry names.
    pub(super) init: Option<String>,
}

/// An entry's copy with more words.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Copy {
    text: String,
    note: Option<String>,
    init: Option<String>,
}

impl Copy {
    /// Of what is in `file`.
    fn new(file: &Path, text: String, usual: Usual, note: Option<String>) -> Result<Copy, Failure> {
        let (shown, init) = (file.display(), usual.init);
        if text.contains('\u{fffd}') {
            return Err(Failure::input(format!("{shown}: the usual entry is not UTF-8"))
                .expected("an entry that can be copied")
                .help(by_hand()));
        }
        let is_path = |init: &String| init.starts_with('/') && !init.contains(['$', '\'', '"']);
        match init {
            Some(init) if !is_path(&init) => {
                Err(Failure::input(format!("{shown}: the usual entry has init={init}"))
                    .expected("the path of an init, or none")
                    .help("name it as it is, or boot without it once"))
            }
            init => Ok(Copy { text, note, init }),
        }
    }

    fn at(self, path: PathBuf) -> Entry {
        let Copy { text, note, init } = self;
        Entry { path, text: own::ended(&text), note, init }
    }
}

/// What the usual entry tells the kernel.
#[derive(Default)]
struct Usual {
    init: Option<String>,
}

impl Usual {
    /// Read the kernel's words, up to those for the init; whether there are any of these.
    fn read<'w>(&mut self, words: impl IntoIterator<Item = &'w str>) -> bool {
        for word in words {
            match word.strip_prefix("init=") {
                Some(init) => self.init = Some(init.into()),
                None if word == "--" => return true,
                None => {}
            }
        }
        false
    }
}

/// The entry for the loader that starts the system; `None` for none that is known.
pub(super) fn make(root: &Path) -> Result<Option<Entry>, Failure> {
    let mut saved = None;
    for folder in GRUB.map(|name| root.join(name)) {
        saved = saved.or(grub::saved(root, &folder)?);
    }
    // One that cannot be read is told of where it is needed.
    let menus =
        GRUB.map(|name| place::read(root, &root.join(name).join("grub.cfg")).ok().flatten());
    let by_grub = menus.iter().flatten().any(|menu| menu.contains("blscfg"));
    let mut refused = None;
    for folder in ENTRIES.map(|name| root.join(name)).iter().filter(|folder| folder.is_dir()) {
        place::check(root, folder)?;
        match specification::copy(root, folder, saved.as_deref(), by_grub) {
            Ok(Some(copy)) => {
                let path = folder.join(OURS[0]);
                refuse_in_use(root, &path)?;
                return Ok(Some(copy.at(path)));
            }
            Ok(None) => {}
            // The files of another loader may lie there, too.
            Err(why) => refused = refused.or(Some(why)),
        }
    }
    for folder in GRUB.map(|name| root.join(name)) {
        let menu = folder.join("grub.cfg");
        let Some(text) = place::read(root, &menu)? else { continue };
        let path = folder.join(CUSTOM);
        refuse_in_use(root, &path)?;
        if !text.contains(CUSTOM) {
            return Err(Failure::input(format!("{}: it takes in no {CUSTOM}", menu.display()))
                .help("update-grub writes one that does, with /etc/grub.d/41_custom"));
        }
        return grub::copy(root, &folder, &text).map(|copy| Some(copy.at(path)));
    }
    refused.map_or(Ok(None), Err)
}

/// What to do where no entry can be made.
fn by_hand() -> String {
    format!("boot once with `{WORDS}` added to the kernel's command line")
}

fn refuse_in_use(root: &Path, path: &Path) -> Result<(), Failure> {
    place::check(root, path)?;
    if !own::is_ours(path)? && path.exists() {
        return Err(Failure::input(format!("{}: it is in use", path.display()))
            .expected("none: the new entry would go there")
            .help(by_hand()));
    }
    Ok(())
}

/// Files of ours that are there.
///
/// # Errors
/// One of them has something of somebody else's in it, or cannot be read.
pub(super) fn ours(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    let grub = GRUB.map(|name| root.join(name).join(CUSTOM));
    let entries = ENTRIES.iter().flat_map(|name| OURS.map(|ours| root.join(name).join(ours)));
    let mut found = Vec::new();
    for path in grub.into_iter().chain(entries) {
        if own::is_ours(&path)? {
            found.push(path);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

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
        assert_eq!(ours(&folder.path), Ok(Vec::new()));
    }

    #[test]
    fn another_loaders_files_do_not_hide_grub() {
        let folder = attach::PrivateFolder::new().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("efi/loader/entries/windows.conf", "efi /w\n");
        assert!(make(&folder.path).unwrap_err().message.contains("no `linux` line"));
        write("boot/grub/grub.cfg", "# custom.cfg\nmenuentry 'a' {\nlinux /v\n}\n");
        assert!(make(&folder.path).unwrap().unwrap().path.ends_with("boot/grub/custom.cfg"));
        write("boot/loader/entries/a.conf", "linux /v\n");
        let entry = make(&folder.path).unwrap().unwrap();
        assert!(entry.path.ends_with("boot/loader/entries/-blocklab.conf"), "{entry:?}");
        assert!(crate::version::compare(OURS[0], "a.conf").is_lt());
    }

    #[test]
    fn a_link_to_nothing_is_told_as_such() {
        let folder = attach::PrivateFolder::new().unwrap();
        let grub = folder.path.join("boot/grub");
        fs::create_dir_all(&grub).unwrap();
        fs::write(grub.join("grub.cfg"), "# custom.cfg\nmenuentry 'a' {\nlinux /v\n}\n").unwrap();
        std::os::unix::fs::symlink("nothing/x", grub.join("custom.cfg")).unwrap();
        let told = make(&folder.path).unwrap_err().message;
        assert!(told.ends_with("custom.cfg: a link to nothing/x, where nothing is"), "{told}");
    }
}
