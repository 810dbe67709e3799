//! `enter`: become the init of a root file system, as process 1 of a namespace, and let systemd
//! tell a recorder when a unit is reached. What that needs lies in memory: nothing of the root is
//! changed, and nothing is read from it for it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change, mount_move};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// In the root, and in memory.
const FOLDER: &str = "run/blocklab";
const PROGRAM: &str = "blocklab-guest";
const UNITS: &str = "run/systemd/system";
/// Where units of a root are.
const UNIT_FOLDERS: [&str; 3] =
    ["etc/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"];
/// The service that tells.
const SERVICE: &str = "blocklab-reached.service";

/// The service that reads a list of files early, and its program.
const READ_AHEAD: &str = "readahead-list";

/// The verb: ROOT UNIT LIST MASKED INIT ARGUMENT...; LIST and MASKED, names of units with blanks
/// between them, may be empty.
pub(super) fn run(arguments: &[String]) -> Result<u8, String> {
    let [root, unit, list, masked, init, rest @ ..] = arguments else {
        return Err("expected enter ROOT UNIT LIST MASKED INIT ARGUMENT...".into());
    };
    let root = Path::new(root);
    let failed = |what: &str| {
        let what = format!("cannot {what} in {}", root.display());
        move |why: rustix::io::Errno| format!("{what}: {why}")
    };
    // SAFETY: there is one thread, and nobody else has its mounts or its host's name.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::NEWUTS | UnshareFlags::NEWIPC) }
        .map_err(failed("have namespaces"))?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(failed("have mounts of its own"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", root.join("run"), "tmpfs", flags, Some(c"mode=755"))
        .map_err(failed("mount /run"))?;
    let unwritable = |why| format!("cannot write to {}/run: {why}", root.display());
    tell(root, unit).map_err(unwritable)?;
    if !list.is_empty() {
        read_ahead(root, Path::new(list)).map_err(unwritable)?;
    }
    mask(root, masked.split_whitespace())?;
    std::env::set_current_dir(root).map_err(|why| format!("{}: {why}", root.display()))?;
    if root != Path::new("/") {
        mount_move(".", "/").map_err(failed("move the root"))?;
        rustix::process::chroot(".").map_err(failed("change the root"))?;
    }
    let mut command = Command::new(init);
    command.args(rest).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    Err(format!("cannot run {init}: {}", command.exec()))
}

/// A unit that runs this program once `unit` is active; returns where the program is, in the root.
pub(super) fn tell(root: &Path, unit: &str) -> std::io::Result<PathBuf> {
    let (folder, units) = (root.join(FOLDER), root.join(UNITS));
    let wants = units.join(format!("{unit}.wants"));
    fs::create_dir_all(&folder)?;
    fs::create_dir_all(&wants)?;
    fs::copy("/proc/self/exe", folder.join(PROGRAM))?;
    fs::write(units.join(SERVICE), service(unit))?;
    std::os::unix::fs::symlink(Path::new("..").join(SERVICE), wants.join(SERVICE))?;
    Ok(Path::new("/").join(FOLDER).join(PROGRAM))
}

fn service(unit: &str) -> String {
    // In a command, and there alone, systemd takes a backslash for the begin of another letter.
    let word = unit.replace('\\', r"\\");
    format!(
        "[Unit]\nDescription=Tell the recorder\nDefaultDependencies=no\nAfter={unit}\n\n\
         [Service]\nType=oneshot\nExecStart=/{FOLDER}/{PROGRAM} mark {word} units\n"
    )
}

/// Have systemd start none of these units.
pub(super) fn mask<'a>(
    root: &Path,
    mut units: impl Iterator<Item = &'a str>,
) -> Result<(), String> {
    let folder = root.join(UNITS);
    units.try_for_each(|unit| {
        if !is_there(root, unit) {
            return Err(format!("the root has no unit `{unit}` that could be masked"));
        }
        fs::create_dir_all(&folder)
            .and_then(|()| std::os::unix::fs::symlink("/dev/null", folder.join(unit)))
            .map_err(|why| format!("cannot mask {unit}: {why}"))
    })
}

/// Whether a root has a service; units of other kinds are made by generators, of `/etc/fstab` and
/// of what the machine has.
fn is_there(root: &Path, unit: &str) -> bool {
    let Some(name) = unit.strip_suffix(".service") else { return true };
    let template = name.split_once('@').map(|(name, _)| format!("{name}@.service"));
    let files = [Some(unit.to_string()), template].into_iter().flatten();
    let in_folders =
        files.flat_map(|file| UNIT_FOLDERS.map(|folder| Path::new(folder).join(&file)));
    // Systemd makes units of scripts, too.
    let script = Path::new("etc/init.d").join(name);
    // A link may lead to a place of the root's own.
    in_folders.chain([script]).any(|path| root.join(path).symlink_metadata().is_ok())
}

/// A unit that reads the files of a list before anything else runs.
pub(super) fn read_ahead(root: &Path, list: &Path) -> std::io::Result<()> {
    let (folder, units) = (root.join(FOLDER), root.join(UNITS));
    let (service, wants) = (format!("{READ_AHEAD}.service"), units.join("sysinit.target.wants"));
    fs::create_dir_all(&folder)?;
    fs::create_dir_all(&wants)?;
    fs::copy("/proc/self/exe", folder.join(READ_AHEAD))?;
    fs::copy(list, folder.join("list"))?;
    let text = format!(
        "[Unit]\nDescription=Read files that will be wanted\nDefaultDependencies=no\n\n\
         [Service]\nType=simple\nExecStart=/{FOLDER}/{READ_AHEAD} read-ahead /{FOLDER}/list\n"
    );
    fs::write(units.join(&service), text)?;
    std::os::unix::fs::symlink(Path::new("..").join(&service), wants.join(&service))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_units_backslashes_are_kept_from_systemd() {
        let text = service("dev-a\\x2db.device");
        assert!(text.contains("After=dev-a\\x2db.device\n"), "{text}");
        assert!(text.contains("mark dev-a\\\\x2db.device units\n"), "{text}");
    }

    #[test]
    fn a_unit_wants_the_one_that_tells_after_it() {
        let root = std::env::temp_dir().join(format!("blocklab-enter-{}", std::process::id()));
        tell(&root, "multi-user.target").unwrap();
        fs::write(root.join("list"), "/bin/sh\n").unwrap();
        read_ahead(&root, &root.join("list")).unwrap();
        let services = root.join("usr/lib/systemd/system");
        fs::create_dir_all(&services).unwrap();
        for service in ["ssh.service", "getty@.service"] {
            fs::write(services.join(service), "").unwrap();
        }
        mask(&root, ["ssh.service", "getty@tty1.service", "boot.mount"].into_iter()).unwrap();
        let wrong = mask(&root, ["shh.service"].into_iter());
        let masked = fs::read_link(root.join(UNITS).join("ssh.service")).unwrap();
        let early = root.join(UNITS).join("sysinit.target.wants/readahead-list.service");
        let early = fs::read_to_string(early).unwrap();
        let wanted = root.join(UNITS).join("multi-user.target.wants").join(SERVICE);
        let text = fs::read_to_string(wanted).unwrap();
        let same = fs::read(root.join(FOLDER).join(PROGRAM)).unwrap().len();
        fs::remove_dir_all(&root).unwrap();
        assert!(text.contains("\nAfter=multi-user.target\n"), "{text}");
        assert!(text.contains("blocklab-guest mark multi-user.target units\n"), "{text}");
        assert_eq!(masked, Path::new("/dev/null"));
        assert!(wrong.is_err_and(|why| why.contains("no unit `shh.service`")));
        assert!(early.contains("/readahead-list read-ahead /run/blocklab/list\n"), "{early}");
        assert_eq!(same as u64, fs::metadata("/proc/self/exe").unwrap().len());
    }
}
