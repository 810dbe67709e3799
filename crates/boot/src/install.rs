//! The recorder in a system of the user's: put into it beside what is there, and taken out again.
//!
//! Nothing that is there is changed. The program and a script that becomes the init lie in a folder
//! of their own, a service of systemd tells the recorder what is reached, and an entry of the boot
//! loader, a copy of the usual one, starts the script as the init. The usual entry stays the usual.

mod entry;
mod place;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use config::{Failure, quoted};

use crate::GUEST_PROGRAM;

pub use entry::WORDS;

/// The folder of what is installed.
const FOLDER: &str = "usr/local/lib/blocklab";
/// What becomes the init, and the recorder.
const SCRIPT: &str = "init";
const PROGRAM: &str = "blocklab-guest";
/// The service that tells the recorder what is reached.
const SERVICE: &str = "blocklab-mark.service";
/// What the kernel starts where nothing else is said.
const INIT: &str = "/sbin/init";
const UNITS: &str = "etc/systemd/system";
/// Where the recorder writes: in memory, as long as the machine runs.
pub const RECORD: &str = "run/blocklab/boot.record";
/// What each file of ours has in it, and no other.
const OURS: &str = "installed by blocklab boot install";

/// What was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Installed {
    /// New files and links.
    pub files: Vec<PathBuf>,
    /// The loader's file with the entry; `None` where no loader that is known was found.
    pub entry: Option<PathBuf>,
    /// What is not known of the entry.
    pub note: Option<String>,
}

/// Install the recorder into the system below `root`, to record until `unit`.
///
/// # Errors
/// When there is no systemd, something cannot be written, or it is installed already.
pub fn install(root: &Path, unit: &str) -> Result<Installed, Failure> {
    crate::timeline::session::check_unit("--until", unit)?;
    let there = ["lib/systemd/systemd", "usr/lib/systemd/systemd"];
    if !there.iter().any(|path| root.join(path).exists()) {
        return Err(Failure::input(format!("no systemd in {}", root.display()))
            .expected("the root of a system that systemd starts"));
    }
    check_free(root, unit)?;
    // What is wrong with the loader's files is said before anything is written.
    let entry = entry::make(root)?;
    if is_abandoned(&root.join(FOLDER)) {
        remove(root)?;
    }
    let mut made = Made::default();
    let init = entry.as_ref().and_then(|entry| entry.init.as_deref());
    let written =
        write_all(root, unit, init.unwrap_or(INIT), &mut made).and_then(|()| match &entry {
            Some(entry) => made.put(&entry.path, entry.text.as_bytes(), 0o644),
            None => Ok(()),
        });
    if let Err(why) = written {
        // Half of it is of no use.
        let left = match made.take_back() {
            Ok(()) => "nothing was left".to_string(),
            Err(other) => format!("and something was left: {}", other.message),
        };
        let help = why.help.clone().map_or(left.clone(), |help| format!("{left}; {help}"));
        return Err(why.help(help));
    }
    let mut files = made.files;
    let (path, note) = entry.map(|entry| (entry.path, entry.note)).unzip();
    files.retain(|file| Some(file) != path.as_ref());
    Ok(Installed { files, entry: path, note: note.flatten() })
}

/// A command for the same root, as a shell reads it.
pub fn command(words: &str, root: &Path) -> String {
    match root.display().to_string().as_str() {
        "/" => format!("blocklab boot {words}"),
        name => format!("blocklab boot {words} --root {}", quoted(name)),
    }
}

/// Nothing is written over, and the links to a unit count as the unit.
fn check_free(root: &Path, unit: &str) -> Result<(), Failure> {
    let [service, link] = units(root, unit);
    let parent = |path: &Path| path.parent().map(Path::to_path_buf).unwrap_or_default();
    for path in [root.join(FOLDER), parent(&service), parent(&link)] {
        place::check(root, &path)?;
    }
    let there = |path: &Path| Failure::input(format!("{} is there already", path.display()));
    let help = command("install --remove", root);
    if root.join(FOLDER).exists() && !is_abandoned(&root.join(FOLDER)) {
        return Err(there(&root.join(FOLDER)).help(help));
    }
    match [service, link].iter().find(|path| path.symlink_metadata().is_ok()) {
        Some(path) => Err(there(path).help(format!("{help}, if it is blocklab's"))),
        None => Ok(()),
    }
}

/// The service, and the link that has it started.
fn units(root: &Path, unit: &str) -> [PathBuf; 2] {
    let units = root.join(UNITS);
    [units.join(SERVICE), units.join(format!("{unit}.wants")).join(SERVICE)]
}

fn write_all(root: &Path, unit: &str, init: &str, made: &mut Made) -> Result<(), Failure> {
    made.put(&root.join(FOLDER).join(SCRIPT), script(unit, init).as_bytes(), 0o755)?;
    made.put(&root.join(FOLDER).join(PROGRAM), GUEST_PROGRAM, 0o755)?;
    let [path, link] = units(root, unit);
    made.put(&path, service(unit).as_bytes(), 0o644)?;
    made.make_folder(&link)?;
    symlink(Path::new("..").join(SERVICE), &link).map_err(|why| failed("write", &link, &why))?;
    made.files.push(link);
    Ok(())
}

/// What was made, to be taken back where not all of it can be.
#[derive(Default)]
struct Made {
    folders: Vec<PathBuf>,
    files: Vec<PathBuf>,
}

impl Made {
    fn make_folder(&mut self, file: &Path) -> Result<(), Failure> {
        let above: Vec<&Path> = file.ancestors().skip(1).collect();
        for folder in above.into_iter().rev().filter(|path| !path.as_os_str().is_empty()) {
            if !folder.exists() {
                fs::create_dir(folder).map_err(|why| failed("write", folder, &why))?;
                self.folders.push(folder.into());
            }
        }
        Ok(())
    }

    /// Half of it is never seen.
    fn put(&mut self, path: &Path, bytes: &[u8], mode: u32) -> Result<(), Failure> {
        self.make_folder(path)?;
        study::replace_as(path, bytes, Some(fs::Permissions::from_mode(mode)))
            .map_err(|why| failed("write", path, &why))?;
        self.files.push(path.into());
        Ok(())
    }

    fn take_back(&self) -> Result<(), Failure> {
        for file in self.files.iter().rev() {
            fs::remove_file(file).map_err(|why| failed("remove", file, &why))?;
        }
        for folder in self.folders.iter().rev() {
            fs::remove_dir(folder).map_err(|why| failed("remove", folder, &why))?;
        }
        Ok(())
    }
}

fn failed(what: &str, path: &Path, why: &std::io::Error) -> Failure {
    let failure = Failure::machine(format!("cannot {what} {}: {why}", path.display()));
    match why.kind() {
        std::io::ErrorKind::PermissionDenied => failure.help("it needs root's rights"),
        _ => failure,
    }
}

/// A unit's name has no quote, but may have backslashes (`dev-disk-by\\x2dlabel-x.device`), which
/// the shell takes out of what is not quoted.
fn script(unit: &str, init: &str) -> String {
    let init = quoted(init);
    format!(
        "#!/bin/sh\n# {OURS}; remove it with blocklab boot install --remove\n\
         exec /{FOLDER}/{PROGRAM} record --to /{RECORD} --until '{unit}' --slice 20000 \
         -- {init} \"$@\"\n"
    )
}

/// Systemd, too, takes backslashes out of a command line, but not out of names of units.
fn service(unit: &str) -> String {
    let word = unit.replace('\\', "\\\\");
    format!(
        "# {OURS}\n[Unit]\nDescription=Tell blocklab's recorder\nDefaultDependencies=no\n\
         After={unit}\nConditionPathExists=/{RECORD}\n\n[Service]\nType=oneshot\n\
         ExecStart=/{FOLDER}/{PROGRAM} mark {word} units\n"
    )
}

/// Take out what `install` put in; returns what was removed or changed back.
///
/// # Errors
/// When something cannot be removed, is not ours, or is there by a link out of the root.
pub fn remove(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    // The entry first: without the rest it would not boot.
    let mut files = entry::ours(root)?;
    let [service, _] = units(root, "");
    if service.symlink_metadata().is_ok() && !is_ours(&service) {
        return Err(Failure::input(format!("{}: not written by blocklab", service.display()))
            .help("see what it is, and remove it by hand"));
    }
    let links = links(root);
    files.extend(links.iter().cloned());
    files.extend(Some(service).filter(|path| is_ours(path)));
    // The script is what says that the folder is ours, so it goes last.
    let folder = root.join(FOLDER);
    let is_abandoned = is_abandoned(&folder);
    let has_program = is_ours(&folder.join(SCRIPT)) || is_abandoned;
    if has_program {
        files.extend(unfinished(&folder));
        let ours = [PROGRAM, SCRIPT].map(|name| folder.join(name));
        files.extend(ours.into_iter().filter(|path| path.symlink_metadata().is_ok()));
    }
    let mut parents = files.iter().filter_map(|path| path.parent());
    parents.try_for_each(|folder| place::check(root, folder))?;
    for path in &files {
        fs::remove_file(path).map_err(|why| failed("remove", path, &why))?;
    }
    // Those that have more in them stay.
    for made in links.iter().filter_map(|link| link.parent()).chain(has_program.then_some(&*folder))
    {
        let _ = fs::remove_dir(made);
    }
    files.extend(Some(folder).filter(|folder| is_abandoned && !folder.exists()));
    Ok(files)
}

/// Was an `install` cut before there was a script in its folder? Nothing of anybody else is in it.
fn is_abandoned(folder: &Path) -> bool {
    let is_folder = folder.symlink_metadata().is_ok_and(|found| found.is_dir());
    let count = |found: fs::ReadDir| found.count();
    is_folder && fs::read_dir(folder).map(count).is_ok_and(|all| all == unfinished(folder).len())
}

/// Files in our folder that an `install` was writing when it was cut.
fn unfinished(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_ours = |file: &fs::DirEntry| {
        let name = file.file_name().to_string_lossy().into_owned();
        let of = |ours: &str| name.strip_prefix(&format!(".{ours}."));
        let number = [SCRIPT, PROGRAM].into_iter().find_map(of);
        number.and_then(|rest| rest.strip_suffix(".unfinished")).is_some_and(|number| {
            !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
        })
    };
    let mut found: Vec<PathBuf> = files.filter(is_ours).map(|file| file.path()).collect();
    found.sort();
    found
}

fn is_ours(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_file())
        && fs::read_to_string(path).is_ok_and(|text| text.contains(OURS))
}

/// The links that `install` made, whatever unit it was told.
fn links(root: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(root.join(UNITS)).into_iter().flatten().flatten();
    let wants = folders.filter(|it| it.file_name().to_string_lossy().ends_with(".wants"));
    let target = Path::new("..").join(SERVICE);
    let is_link = |path: &PathBuf| fs::read_link(path).is_ok_and(|found| found == target);
    let mut found: Vec<PathBuf> = wants.map(|it| it.path().join(SERVICE)).filter(is_link).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: &Path, text: &[u8], mode: u32) -> Result<(), Failure> {
        Made::default().put(path, text, mode)
    }

    fn make_folder(file: &Path) -> Result<(), Failure> {
        Made::default().make_folder(file)
    }

    /// All files below a folder with what is in them.
    fn all(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let mut out = Vec::new();
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                out.extend(all(&entry.path()))
            } else {
                out.push((entry.path(), fs::read(entry.path()).unwrap_or_default()))
            }
        }
        out.sort();
        out
    }

    #[test]
    fn what_is_installed_is_removed_and_nothing_else() {
        let folder = attach::PrivateFolder::new().unwrap();
        let root = folder.path.as_path();
        let write = |name: &str, text: &str| put(&root.join(name), text.as_bytes(), 0o644).unwrap();
        write("usr/lib/systemd/systemd", "");
        write("etc/systemd/system/multi-user.target.wants/cron.service", "theirs");
        let grub = "if [ -f ${config_directory}/custom.cfg ]; then\nsource x\nfi\n\
                    menuentry 'Debian' --class debian {\n\tsearch x\n\tif a; then b; fi\n\
                    \tlinux /vmlinuz root=UUID=1 ro quiet\n\tinitrd /initrd\n}\n\
                    menuentry 'Other' {\n\tlinux /other\n}\n";
        write("boot/grub/grub.cfg", grub);
        let before = all(root);
        let installed = install(root, "multi-user.target").unwrap();
        assert_eq!(installed.files.len(), 4);
        let entry = fs::read_to_string(installed.entry.unwrap()).unwrap();
        assert!(
            entry.contains("\tlinux /vmlinuz root=UUID=1 ro quiet delayacct init=/usr"),
            "{entry}"
        );
        assert!(entry.contains("\tinitrd /initrd\n}\n") && !entry.contains("Other"), "{entry}");
        let again = install(root, "multi-user.target").unwrap_err();
        assert!(again.message.contains("is there already"), "{again:?}");
        assert_eq!(remove(root).unwrap().len(), 5);
        assert_eq!(all(root), before);
        assert_eq!(remove(root).unwrap(), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_unit_of_somebody_else_stays() {
        for name in [SERVICE.to_string(), format!("a.target.wants/{SERVICE}")] {
            for link in [false, true] {
                let folder = attach::PrivateFolder::new().unwrap();
                let root = folder.path.as_path();
                put(&root.join("usr/lib/systemd/systemd"), b"", 0o644).unwrap();
                let place = root.join(UNITS).join(&name);
                match link {
                    true => {
                        make_folder(&place).unwrap();
                        symlink("/nowhere", &place).unwrap();
                    }
                    false => put(&place, b"theirs", 0o644).unwrap(),
                }
                let before = all(root);
                let refused = install(root, "a.target").unwrap_err();
                assert!(refused.message.ends_with("is there already"), "{refused:?}");
                assert_eq!((all(root), place.is_symlink()), (before, link));
            }
        }
    }

    #[test]
    fn what_is_no_system_is_refused() {
        let folder = attach::PrivateFolder::new().unwrap();
        assert!(install(&folder.path, "a.target").unwrap_err().message.contains("no systemd"));
        assert!(install(&folder.path, "../a").unwrap_err().message.contains("no name of a unit"));
        assert_eq!(all(&folder.path), []);
    }

    /// A root with systemd and, so that there is one to check, no loader.
    fn system() -> attach::PrivateFolder {
        let folder = attach::PrivateFolder::new().unwrap();
        put(&folder.path.join("usr/lib/systemd/systemd"), b"", 0o644).unwrap();
        folder
    }

    #[test]
    fn a_link_out_of_the_root_is_not_followed() {
        let (elsewhere, folder) = (attach::PrivateFolder::new().unwrap(), system());
        let root = folder.path.as_path();
        for place in [UNITS, "usr/local", "boot/grub"] {
            let link = root.join(place);
            make_folder(&link).unwrap();
            put(&elsewhere.path.join("grub.cfg"), b"custom.cfg", 0o644).unwrap();
            symlink(&elsewhere.path, &link).unwrap();
            let before = (all(root), all(&elsewhere.path));
            let refused = install(root, "a.target").unwrap_err();
            assert!(refused.message.contains(&format!("{place}: a link to")), "{refused:?}");
            assert_eq!((all(root), all(&elsewhere.path)), before);
            fs::remove_file(link).unwrap();
        }
        // Nor is anything removed there.
        install(root, "a.target").unwrap();
        fs::rename(root.join(UNITS), elsewhere.path.join("units")).unwrap();
        symlink(elsewhere.path.join("units"), root.join(UNITS)).unwrap();
        let before = (all(root), all(&elsewhere.path));
        // Checked before the first is removed.
        assert!(remove(root).unwrap_err().message.contains("which is not in"));
        assert_eq!((all(root), all(&elsewhere.path)), before);
    }

    #[test]
    fn what_is_not_ours_is_not_removed() {
        let folder = system();
        let root = folder.path.as_path();
        let units = root.join(UNITS);
        fs::create_dir_all(units.join("empty.target.wants")).unwrap();
        put(&units.join("a.target.wants").join(SERVICE), b"theirs", 0o644).unwrap();
        make_folder(&units.join("b.target.wants").join(SERVICE)).unwrap();
        symlink("/theirs", units.join("b.target.wants").join(SERVICE)).unwrap();
        put(&root.join(FOLDER).join(SCRIPT), b"theirs", 0o755).unwrap();
        put(&root.join(FOLDER).join(PROGRAM), b"theirs", 0o755).unwrap();
        let before = all(root);
        assert_eq!(remove(root), Ok(Vec::new()));
        assert_eq!(all(root), before);
        assert!(units.join("empty.target.wants").is_dir());
        fs::remove_dir_all(root.join(FOLDER)).unwrap();
        put(&units.join("c.target.wants/theirs"), b"", 0o644).unwrap();
        for (unit, stays) in [("c.target", true), ("d.target", false)] {
            install(root, unit).unwrap();
            assert_eq!(remove(root).unwrap().len(), 4);
            assert_eq!(units.join(format!("{unit}.wants")).exists(), stays);
        }
        symlink("/theirs", units.join(SERVICE)).unwrap();
        assert!(remove(root).unwrap_err().message.ends_with("not written by blocklab"));
        assert!(units.join(SERVICE).is_symlink());
    }

    #[test]
    fn entries_that_a_user_added_to_ours_are_not_lost() {
        let folder = system();
        let root = folder.path.as_path();
        let menu = b"# custom.cfg\nmenuentry 'a' {\nlinux /v\n}\n";
        put(&root.join("boot/grub/grub.cfg"), menu, 0o644).unwrap();
        let custom = install(root, "a.target").unwrap().entry.unwrap();
        let ours = fs::read(&custom).unwrap();
        let with_theirs = [&*ours, b"menuentry 'theirs' {\nlinux /t\n}\n"].concat();
        put(&custom, &with_theirs, 0o644).unwrap();
        let before = all(root);
        let told = remove(root).unwrap_err();
        assert!(told.message.contains("custom.cfg: more is in it than"), "{told:?}");
        assert_eq!(all(root), before);
        // Nor is it written over.
        put(&custom, &ours, 0o644).unwrap();
        remove(root).unwrap();
        put(&custom, &with_theirs, 0o644).unwrap();
        let before = all(root);
        let told = install(root, "a.target").unwrap_err();
        assert!(told.message.contains("custom.cfg: more is in it than"), "{told:?}");
        assert_eq!(all(root), before);
    }

    #[test]
    fn an_entry_of_another_encoding_goes_with_what_it_starts() {
        let folder = system();
        let root = folder.path.as_path();
        put(&root.join("boot/loader/entries/a.conf"), b"linux /v\n", 0o644).unwrap();
        let before = all(root);
        let entry = install(root, "a.target").unwrap().entry.unwrap();
        put(&entry, &[&fs::read(&entry).unwrap()[..], b"\xe9"].concat(), 0o644).unwrap();
        assert!(remove(root).unwrap_err().message.contains("more is in it than"));
        let ours = String::from_utf8_lossy(&fs::read(&entry).unwrap()).replace('\u{fffd}', "");
        let (first, rest) = ours.split_once('\n').unwrap();
        let text = [first.as_bytes(), b"\n# \xe9\n", rest.as_bytes()].concat();
        put(&entry, &text, 0o644).unwrap();
        assert_eq!(remove(root).unwrap().len(), 5);
        assert_eq!(all(root), before);
    }

    #[test]
    fn a_units_backslashes_arrive() {
        let unit = "dev-disk-by\\x2dlabel-x.device";
        let shown =
            script(unit, INIT).replace(&format!("exec /{FOLDER}/{PROGRAM}"), "printf '%s\\n'");
        let told = std::process::Command::new("sh").args(["-c", &shown]).output().unwrap();
        let told = String::from_utf8(told.stdout).unwrap();
        assert!(told.contains(&format!("\n--until\n{unit}\n--slice\n")), "{told}");
        let service = service(unit);
        assert!(service.contains("\nAfter=dev-disk-by\\x2dlabel-x.device\n"), "{service}");
        assert!(service.contains(" mark dev-disk-by\\\\x2dlabel-x.device units\n"), "{service}");
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing_and_is_told_as_what_it_is() {
        let folder = system();
        let root = folder.path.as_path();
        // The last file's folder cannot be made.
        put(&root.join(UNITS).join("a.target.wants"), b"theirs", 0o644).unwrap();
        let before = all(root);
        let told = install(root, "a.target").unwrap_err();
        assert_eq!(told.help.as_deref(), Some("nothing was left"), "{told:?}");
        assert_eq!(all(root), before);
        assert!(!root.join("usr/local").exists());
        let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let told = failed("write", root, &denied);
        assert_eq!(told.help.as_deref(), Some("it needs root's rights"));

        make_folder(&root.join(FOLDER)).unwrap();
        symlink("nothing", root.join(FOLDER)).unwrap();
        let told = install(root, "b.target").unwrap_err().message;
        assert!(told.ends_with("blocklab: a link to nothing, where nothing is"), "{told}");
    }

    #[test]
    fn an_install_that_was_cut_is_done_again_and_removed() {
        let part = |name: &str, of: &str| (format!(".{name}.{of}.unfinished"), "half");
        let cuts = [vec![], vec![part(SCRIPT, "77")], vec![part(PROGRAM, "1"), part(SCRIPT, "2")]];
        for (is_removed, cut) in cuts.iter().flat_map(|cut| [(true, cut), (false, cut)]) {
            let folder = system();
            let root = folder.path.as_path();
            let before = all(root);
            make_folder(&root.join(FOLDER).join(SCRIPT)).unwrap();
            for (name, text) in cut {
                fs::write(root.join(FOLDER).join(name), text).unwrap();
            }
            if is_removed {
                assert_eq!(remove(root).unwrap().len(), cut.len() + 1);
            } else {
                install(root, "a.target").unwrap();
                assert_eq!(fs::read_dir(root.join(FOLDER)).unwrap().count(), 2);
                remove(root).unwrap();
            }
            assert_eq!((all(root), root.join(FOLDER).exists()), (before, false), "{cut:?}");
        }
        // With the script it is installed, as far as it is.
        let folder = system();
        let root = folder.path.as_path();
        let before = all(root);
        put(&root.join(FOLDER).join(SCRIPT), OURS.as_bytes(), 0o755).unwrap();
        fs::write(root.join(FOLDER).join(part(PROGRAM, "9").0), "half").unwrap();
        assert!(install(root, "a.target").unwrap_err().message.ends_with("is there already"));
        assert_eq!(remove(root).unwrap().len(), 2);
        assert_eq!((all(root), root.join(FOLDER).exists()), (before, false));
        // What is somebody else's stays.
        for name in ["theirs", ".init.unfinished", ".init.7a.unfinished"] {
            put(&root.join(FOLDER).join(name), b"theirs", 0o644).unwrap();
            assert!(install(root, "a.target").is_err(), "{name}");
            assert_eq!(remove(root).unwrap(), Vec::<PathBuf>::new(), "{name}");
            fs::remove_file(root.join(FOLDER).join(name)).unwrap();
        }
    }

    #[test]
    fn commands_are_for_the_same_root() {
        for (root, more) in [
            ("/", ""),
            ("r/x", " --root r/x"),
            ("a b", " --root 'a b'"),
            ("it's", " --root 'it'\\''s'"),
        ] {
            let told = command("install --remove", Path::new(root));
            assert_eq!(told, format!("blocklab boot install --remove{more}"));
        }
        let folder = system();
        install(&folder.path, "a.target").unwrap();
        let again = install(&folder.path, "a.target").unwrap_err();
        let help = again.help.unwrap();
        assert!(help.ends_with(&format!("--root {}", folder.path.display())), "{help}");
    }
}
