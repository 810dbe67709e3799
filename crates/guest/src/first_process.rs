//! What the first process of an initramfs does before anything else: mounts, a console, modules.

use std::ffi::CString;
use std::fs::{self, File};
use std::path::Path;

use rustix::mount::{MountFlags, mount};

/// Where the guest's modules are, in the order in which they must be loaded.
pub(crate) const MODULES: &str = "/modules";

/// Mount what the tools need, and load the modules.
pub(crate) fn begin() -> Result<(), String> {
    let group = ("cgroup2", "/sys/fs/cgroup");
    for (kind, place) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), group] {
        let _ = fs::create_dir(place);
        mount(kind, place, kind, MountFlags::empty(), None)
            .map_err(|why| format!("{place}: {why}"))?;
    }
    let console = File::options().write(true).open("/dev/console");
    let console = console.map_err(|why| format!("/dev/console: {why}"))?;
    rustix::stdio::dup2_stdout(&console).map_err(|why| format!("/dev/console: {why}"))?;
    let mut modules: Vec<_> = match fs::read_dir(MODULES) {
        Ok(folder) => folder.flatten().map(|entry| entry.path()).collect(),
        Err(_) => Vec::new(),
    };
    modules.sort();
    modules.iter().try_for_each(|module| load(module))
}

fn load(module: &Path) -> Result<(), String> {
    let told = |why: String| format!("{}: {why}", module.display());
    let file = File::open(module).map_err(|why| told(why.to_string()))?;
    match rustix::system::finit_module(&file, &CString::default(), 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(why) => Err(told(why.to_string())),
    }
}
