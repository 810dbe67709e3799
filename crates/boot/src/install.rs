//! The recorder in a system of the user's: put into it beside what is there, and taken out again.
//!
//! Nothing that is there is changed. The program and a script that becomes the init lie in a folder
//! of their own, a service of systemd tells the recorder what is reached, and an entry of the boot
//! loader, a copy of the usual one, starts the script as the init. The usual entry stays the usual.

mod entry;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use config::Failure;

use crate::GUEST_PROGRAM;

pub use entry::WORDS;

/// The folder of what is installed.
const FOLDER: &str = "usr/local/lib/blocklab";
/// The service that tells the recorder what is reached.
const SERVICE: &str = "blocklab-mark.service";
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
    if root.join(FOLDER).exists() {
        return Err(Failure::input(format!("{} is there already", root.join(FOLDER).display()))
            .help("blocklab boot install --remove"));
    }
    // Nothing is written over, and the links to a unit count as the unit.
    for path in units(root, unit) {
        if path.symlink_metadata().is_ok() {
            return Err(Failure::input(format!("{} is there already", path.display()))
                .help("blocklab boot install --remove, if it is blocklab's"));
        }
    }
    // What is wrong with the loader's files is said before anything is written.
    let entry = entry::make(root)?;
    let mut files = Vec::new();
    let written = write_all(root, unit, &mut files).and_then(|()| match &entry {
        Some(entry) => put(&entry.path, entry.text.as_bytes(), 0o644),
        None => Ok(()),
    });
    if let Err(why) = written {
        // Half of it is of no use.
        let taken_back = remove(root);
        let help = match taken_back {
            Ok(_) => "nothing was left; it needs root's rights".to_string(),
            Err(other) => format!("and something was left: {}", other.message),
        };
        return Err(why.help(help));
    }
    Ok(Installed { files, entry: entry.map(|entry| entry.path) })
}

/// The service, and the link that has it started.
fn units(root: &Path, unit: &str) -> [PathBuf; 2] {
    let units = root.join(UNITS);
    [units.join(SERVICE), units.join(format!("{unit}.wants")).join(SERVICE)]
}

fn write_all(root: &Path, unit: &str, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let mut write = |name: &str, bytes: &[u8], mode: u32| {
        let path = root.join(name);
        put(&path, bytes, mode)?;
        files.push(path);
        Ok(())
    };
    write(&format!("{FOLDER}/init"), script(unit).as_bytes(), 0o755)?;
    write(&format!("{FOLDER}/blocklab-guest"), GUEST_PROGRAM, 0o755)?;
    write(&format!("{UNITS}/{SERVICE}"), service(unit).as_bytes(), 0o644)?;
    let [_, link] = units(root, unit);
    make_folder(&link)?;
    symlink(Path::new("..").join(SERVICE), &link).map_err(|why| unwritable(&link, &why))?;
    files.push(link);
    Ok(())
}

fn unwritable(path: &Path, why: &std::io::Error) -> Failure {
    Failure::machine(format!("cannot write {}: {why}", path.display()))
}

fn make_folder(file: &Path) -> Result<(), Failure> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(|why| unwritable(folder, &why))
}

/// Half of it is never seen.
fn put(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Failure> {
    make_folder(path)?;
    study::replace_as(path, bytes, Some(fs::Permissions::from_mode(mode)))
        .map_err(|why| unwritable(path, &why))
}

fn script(unit: &str) -> String {
    format!(
        "#!/bin/sh\n# {OURS}; remove it with blocklab boot install --remove\n\
         exec /{FOLDER}/blocklab-guest record --to /{RECORD} --until {unit} --slice 20000 \
         -- /sbin/init \"$@\"\n"
    )
}

fn service(unit: &str) -> String {
    format!(
        "# {OURS}\n[Unit]\nDescription=Tell blocklab's recorder\nDefaultDependencies=no\n\
         After={unit}\nConditionPathExists=/{RECORD}\n\n[Service]\nType=oneshot\n\
         ExecStart=/{FOLDER}/blocklab-guest mark {unit} units\n"
    )
}

/// Take out what `install` put in; returns what was removed or changed back.
///
/// # Errors
/// When something cannot be removed, or is not ours.
pub fn remove(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut gone = Vec::new();
    let mut drop_file = |path: PathBuf| -> Result<(), Failure> {
        match fs::remove_file(&path) {
            Ok(()) => gone.push(path),
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => {}
            Err(why) => {
                return Err(Failure::machine(format!("cannot remove {}: {why}", path.display()))
                    .help("it needs root's rights"));
            }
        }
        Ok(())
    };
    // The entry first: without the rest it would not boot.
    for path in entry::ours(root) {
        drop_file(path)?;
    }
    let units = root.join(UNITS);
    let service = units.join(SERVICE);
    let is_ours = |path: &Path| fs::read_to_string(path).is_ok_and(|text| text.contains(OURS));
    if service.exists() && !is_ours(&service) {
        return Err(Failure::input(format!("{}: not written by blocklab", service.display())));
    }
    for folder in fs::read_dir(&units).into_iter().flatten().flatten() {
        if folder.file_name().to_string_lossy().ends_with(".wants") {
            drop_file(folder.path().join(SERVICE))?;
            // Where it was made for this link it is empty now; otherwise it stays.
            let _ = fs::remove_dir(folder.path());
        }
    }
    drop_file(service)?;
    for name in ["init", "blocklab-guest"] {
        drop_file(root.join(FOLDER).join(name))?;
    }
    let _ = fs::remove_dir(root.join(FOLDER));
    Ok(gone)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
