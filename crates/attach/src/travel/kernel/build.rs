//! Building: in a folder of its own, which takes its place in the cache when all is done.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, flock};
use study::Failure;

use crate::captive::ends_with_us;
use crate::private_folder::PrivateFolder;

use super::tree::{self, Source, tree_version, which};
use super::{Built, FRAGMENT, KERNEL, OWN, cache, edits, folder_name};

/// What `make` needs beside a shell, and Debian's packages with them.
const TOOLS: [&str; 7] = ["gcc", "make", "flex", "bison", "bc", "tar", "xz"];
const PACKAGES: &str = "build-essential flex bison bc xz-utils";
/// Steps that `make` announces, about.
const STEPS: u64 = 1500;

/// How far it is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Progress<'a> {
    /// It does this.
    Begins(&'a str),
    /// The source does not have the lines that would have to be changed for this option.
    Lacks(&'a str),
    /// So much of the compiling is done.
    Compiled(f64),
}

/// Build the kernel from `source`, or from the distribution's; what is in the cache is not built
/// again, of a `source` as long as its files are the same.
///
/// # Errors
/// When the source or a tool is missing, or the kernel does not build.
pub fn build(
    source: Option<&Path>,
    mut progress: impl FnMut(Progress<'_>),
) -> Result<Built, Failure> {
    // What the user got wrong is said before what the machine lacks.
    let named = source.map(Source::check).transpose()?;
    let fingerprint = named.as_ref().map(Source::fingerprint).transpose()?;
    let cache = cache()?;
    let impossible =
        |why: std::io::Error| Failure::machine(format!("cannot use {}: {why}", cache.display()));
    std::fs::create_dir_all(&cache).map_err(impossible)?;
    let lock = File::create(cache.join("lock")).map_err(impossible)?;
    // Whoever comes second waits, and finds it built.
    flock(&lock, FlockOperation::LockExclusive).map_err(|why| impossible(why.into()))?;
    check_tools()?;
    progress(Progress::Begins("looking for the source"));
    let source = named.map_or_else(Source::of_distribution, Ok)?;
    let version = source.version().unwrap_or_else(|| "unknown".into());
    let version = match fingerprint {
        // The user's own may be another at each call.
        Some(fingerprint) => format!("{version}{OWN}{fingerprint}"),
        None => version,
    };
    let place = cache.join(folder_name(&version));
    let built = Built { version, path: place.join(KERNEL), current: true };
    if built.path.is_file() {
        return Ok(built);
    }
    clear(&place)?;
    let work = PrivateFolder::below(&cache)?;
    let (tree, objects) = (work.path.join("tree"), work.path.join("objects"));
    progress(Progress::Begins("unpacking"));
    source.unpack(&tree)?;
    for lost in edits::make(&tree).map_err(impossible)? {
        progress(Progress::Lacks(lost));
    }
    if tree_version(&tree).is_none() {
        return Err(Failure::input("the kernel's source has no version in its Makefile"));
    }
    progress(Progress::Begins("configuring"));
    std::fs::create_dir(&objects).map_err(impossible)?;
    configure(&tree, &objects)?;
    progress(Progress::Begins("compiling"));
    compile(&tree, &objects, &mut progress)?;
    let done = work.path.join("done");
    std::fs::create_dir(&done).map_err(impossible)?;
    std::fs::copy(objects.join(KERNEL), done.join(KERNEL)).map_err(impossible)?;
    std::fs::copy(objects.join(".config"), done.join("config")).map_err(impossible)?;
    // Half a kernel never has the name of a whole one.
    std::fs::rename(&done, &place).map_err(impossible)?;
    Ok(built)
}

/// What this machine lacks to build a kernel, and the commands that install it and build; `None`
/// when it lacks nothing.
pub fn lacks() -> Option<(String, String)> {
    let mut missing: Vec<&str> = TOOLS.into_iter().filter(|tool| !which(tool)).collect();
    let (lacks_tools, lacks_source) = (!missing.is_empty(), tree::installed().is_none());
    if lacks_source {
        missing.push("the kernel's source");
    }
    let offered = lacks_source && tree::is_offered();
    (!missing.is_empty())
        .then(|| (missing.join(", "), commands(lacks_tools, lacks_source, offered)))
}

/// Only Debian 12 has the source as this package; others get it from where it is made.
fn commands(lacks_tools: bool, lacks_source: bool, offered: bool) -> String {
    let tools = lacks_tools.then_some(PACKAGES);
    let packages: Vec<&str> = tools.into_iter().chain(offered.then_some(tree::PACKAGE)).collect();
    let install = match packages.is_empty() {
        true => String::new(),
        false => format!("sudo apt-get install {} && ", packages.join(" ")),
    };
    match lacks_source && !offered {
        true => format!(
            "{install}blocklab kernel build --source linux-6.1.N.tar.xz, of https://kernel.org"
        ),
        false => format!("{install}blocklab kernel build"),
    }
}

fn check_tools() -> Result<(), Failure> {
    let missing: Vec<&str> = TOOLS.into_iter().filter(|tool| !which(tool)).collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(Failure::machine(format!("a kernel needs {} to build", missing.join(", ")))
            .help(format!("sudo apt-get install {PACKAGES}")))
    }
}

/// Make way for a kernel at `place`: what is left there of one goes, anything else stays.
fn clear(place: &Path) -> Result<(), Failure> {
    for name in [KERNEL, "config"] {
        // There may be none.
        let _ = std::fs::remove_file(place.join(name));
    }
    match std::fs::remove_dir(place) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::input(format!("{} is in the way: {why}", place.display()))
                .expected("a kernel's folder with nothing else in it")
                .help("move it away"))
        }
        _ => Ok(()),
    }
}

fn make(tree: &Path, objects: &Path, target: &str) -> Command {
    // What it has started would go on, for whoever ends us.
    let mut command = ends_with_us("make");
    command.arg("-C").arg(tree).arg("ARCH=um").arg(format!("O={}", objects.display()));
    // What the user's shell says about flags is not part of the configuration.
    command.env_remove("MAKEFLAGS").env_remove("CFLAGS").env_remove("LDFLAGS");
    command.env("LC_ALL", "C").env("KBUILD_BUILD_TIMESTAMP", "2026-01-01");
    command.env("KBUILD_BUILD_USER", "blocklab").env("KBUILD_BUILD_HOST", "blocklab");
    command.arg(target).stdin(Stdio::null());
    command
}

fn unbuilt(what: &str, log: &str) -> Failure {
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    let wrong = lines.iter().position(|line| line.contains("error:") || line.contains("Error "));
    let from = wrong.unwrap_or(lines.len()).min(lines.len().saturating_sub(8));
    let shown: Vec<&str> = lines[from..].iter().take(8).copied().collect();
    Failure::machine(format!("the kernel's {what} failed:\n{}", shown.join("\n")))
        .help("blocklab kernel build --source DIR takes another tree")
}

fn configure(tree: &Path, objects: &Path) -> Result<(), Failure> {
    let run = |target: &str| -> Result<(), Failure> {
        let out = make(tree, objects, target).output();
        let out = out.map_err(|why| Failure::machine(format!("cannot run make: {why}")))?;
        let log = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
        if out.status.success() { Ok(()) } else { Err(unbuilt("configuration", &log)) }
    };
    let path = objects.join(".config");
    run("defconfig")?;
    let append = || -> std::io::Result<()> {
        let mut config = File::options().append(true).open(&path)?;
        config.write_all(b"\n")?;
        config.write_all(FRAGMENT.as_bytes())
    };
    append().map_err(|why| Failure::machine(format!("cannot write the configuration: {why}")))?;
    run("olddefconfig")?;
    let lost = lost(FRAGMENT, &std::fs::read_to_string(&path).unwrap_or_default());
    if lost.is_empty() {
        Ok(())
    } else {
        Err(Failure::machine(format!(
            "this kernel cannot be configured as travel needs it; lost: {}",
            lost.join(", ")
        ))
        .expected("Linux 6.1, or one with the same options")
        .help("blocklab kernel build without --source takes the distribution's"))
    }
}

/// The wanted lines that are not in the configuration. What is to be off may also be unknown.
fn lost<'a>(wanted: &'a str, config: &str) -> Vec<&'a str> {
    let has = |line: &str| config.lines().any(|other| other == line);
    let is_set = |name: &str| config.lines().any(|other| other.starts_with(&format!("{name}=")));
    let kept = |line: &str| match line.strip_prefix("# ") {
        Some(off) => !is_set(off.trim_end_matches(" is not set")),
        None => has(line),
    };
    let options =
        wanted.lines().filter(|line| line.starts_with("CONFIG_") || line.ends_with(" is not set"));
    options.filter(|line| !kept(line)).collect()
}

fn compile(
    tree: &Path,
    objects: &Path,
    progress: &mut impl FnMut(Progress<'_>),
) -> Result<(), Failure> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let log = objects.join("build.log");
    let refused = |why: std::io::Error| Failure::machine(format!("cannot run make: {why}"));
    let mut command = make(tree, objects, KERNEL);
    command.arg(format!("-j{jobs}")).stdout(Stdio::piped());
    command.stderr(File::create(&log).map_err(refused)?);
    let mut child = command.spawn().map_err(refused)?;
    let mut steps = 0;
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
        let Ok(line) = line else { break };
        // "  CC      fs/ext4/super.o"
        steps += u64::from(line.starts_with("  "));
        progress(Progress::Compiled((steps as f64 / STEPS as f64).min(0.99)));
    }
    let status = child.wait().map_err(refused)?;
    if status.success() && objects.join(KERNEL).is_file() {
        Ok(())
    } else {
        let failure = unbuilt("build", &std::fs::read_to_string(&log).unwrap_or_default());
        Err(if crate::has_no_room(objects) { failure.help(tree::ROOM) } else { failure })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_get_a_source_where_the_distribution_has_none() {
        assert_eq!(
            commands(false, true, true),
            "sudo apt-get install linux-source-6.1 && blocklab kernel build"
        );
        assert!(commands(true, false, false).ends_with("bc xz-utils && blocklab kernel build"));
        let elsewhere = commands(true, true, false);
        assert!(elsewhere.contains("--source linux-6.1.N.tar.xz"), "{elsewhere}");
        assert!(!elsewhere.contains("linux-source"), "{elsewhere}");
    }

    #[test]
    fn what_somebody_else_put_into_the_cache_stays() {
        let folder = PrivateFolder::new().unwrap();
        let (place, notes) = (folder.path.join("6.1"), folder.path.join("6.1/notes"));
        clear(&place).unwrap();
        std::fs::create_dir(&place).unwrap();
        std::fs::write(place.join("config"), "").unwrap();
        clear(&place).unwrap();
        assert!(!place.exists());
        std::fs::create_dir(&place).unwrap();
        std::fs::write(&notes, "dear").unwrap();
        assert_eq!(clear(&place).unwrap_err().exit_code(), 2);
        assert_eq!(std::fs::read_to_string(notes).unwrap(), "dear");
    }

    #[test]
    fn lost_options_are_named() {
        let wanted =
            "# Why.\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=y\n# CONFIG_D is not set\n";
        let config = "CONFIG_A=y\nCONFIG_B=y\n# CONFIG_C is not set\n";
        assert_eq!(lost(wanted, config), ["# CONFIG_B is not set", "CONFIG_C=y"]);
        assert!(lost(wanted, "CONFIG_A=y\nCONFIG_C=y\n").is_empty());
    }

    #[test]
    fn a_failed_build_shows_where_it_broke() {
        let log = format!("a\nb.c:1: error: no\n{}", "x\n".repeat(20));
        let failure = unbuilt("build", &log);
        assert!(failure.message.contains("b.c:1: error: no"), "{failure}");
        assert_eq!(failure.exit_code(), 3);
    }
}
